"""Moves: which epoch an attempt waited for, and for how long."""

import random
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from rows import rows_of

from kipctl.measure.moves import MOVE_COLUMNS, moves, moves_document, wait_ms
from kipctl.protocol.error_codes import LEADER_ERRORS
from kipctl.trace.codes import Decision
from kipctl.trace.columns import COLUMNS
from kipctl.trace.redirect_phases import FailedAttempt, Wait, phases, redirect_columns

NOT_LEADER, FENCED, TIMED_OUT, UNKNOWN_EPOCH = 6, 74, 7, 75
GIVEN_UP = -1


def attempts(
    *failed: tuple[int, int, int, int, int],
    partition: int = 0,
    hint_epochs: Sequence[int] | None = None,
    generations: Sequence[int] | None = None,
) -> list[dict[str, int]]:
    """One batch's failed attempts: (error, from epoch, to epoch, backoff, Metadata), in us.

    They become rows as a client's do; an answer takes 10 us.
    """
    now, noted = 0, []
    for number, (error, from_epoch, to_epoch, backoff_us, metadata_us) in enumerate(failed, 1):
        noted.append(
            FailedAttempt(
                attempt=number,
                sent_us=now,
                error_us=now + 10,
                error=error,
                is_leader_error=error in LEADER_ERRORS,
                broker=1,
                epoch=from_epoch,
                base_offset=-1,
                generation=generations[number - 1] if generations else 0,
                decision=Decision.ABSENT,
                hint_epoch=hint_epochs[number - 1] if hint_epochs else -1,
                to_broker=-1 if to_epoch == GIVEN_UP else 2,
                to_epoch=to_epoch,
                wait=Wait(backoff=backoff_us, metadata=metadata_us),
            )
        )
        now += 10 + backoff_us + metadata_us
    names = COLUMNS["redirects"]
    return [
        {
            "partition": partition,
            **dict(zip(names[names.index("attempt") :], redirect_columns(one, share), strict=True)),
        }
        for one, share in zip(noted, phases(noted, 0, now, now), strict=True)
    ]


def met(*batches: list[dict[str, int]]) -> list[dict[str, int]]:
    found = moves(rows_of("redirects", *(row for batch in batches for row in batch)))
    return [dict(zip(MOVE_COLUMNS, row, strict=True)) for row in found.tolist()]


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        # Refused once, and sent to the new leader.
        ([(NOT_LEADER, 4, 5, 10, 20)], {5: (30, 0)}),
        # Sent again to the old leader before the new one was known: all of it is that move's.
        ([(NOT_LEADER, 4, 4, 100, 0), (NOT_LEADER, 4, 5, 200, 7)], {5: (307, 0)}),
        # The new leader did not know yet that it led.
        ([(NOT_LEADER, 4, 5, 1, 0), (NOT_LEADER, 5, 5, 100, 0)], {5: (101, 1)}),
        # Moved again meanwhile: two moves. Who says that the epoch is old knows a newer one.
        ([(NOT_LEADER, 4, 5, 1, 0), (FENCED, 5, 6, 2, 0)], {5: (1, 0), 6: (2, 0)}),
        # What was lost before the first refusal is none of a move's; what was lost after it is.
        (
            [(TIMED_OUT, 4, 4, 50, 0), (NOT_LEADER, 4, 5, 1, 0), (TIMED_OUT, 5, 5, 9, 0)],
            {5: (10, 0)},
        ),
        # Metadata named the new leader first, which did not know yet, and took it at last.
        ([(NOT_LEADER, 5, 5, 100, 0)], {5: (100, 1)}),
        ([(NOT_LEADER, 5, 5, 100, 0), (NOT_LEADER, 5, 5, 200, 3)], {5: (303, 2)}),
        ([(UNKNOWN_EPOCH, 5, 5, 100, 0), (NOT_LEADER, 5, 5, 200, 0)], {5: (300, 2)}),
        ([(NOT_LEADER, 4, 5, 1, 0), (UNKNOWN_EPOCH, 5, 5, 100, 0)], {5: (101, 1)}),
        # The client never learnt of a newer epoch.
        ([(NOT_LEADER, 4, 4, 100, 0), (NOT_LEADER, 4, GIVEN_UP, 0, 0)], {}),
        ([(TIMED_OUT, 4, 5, 100, 0)], {}),
    ],
)
def test_an_attempt_waits_for_one_epoch(
    failed: list[tuple[int, int, int, int, int]], expected: dict[int, tuple[int, int]]
) -> None:
    found = {one["epoch"]: (one["wait_us"], one["not_ready"]) for one in met(attempts(*failed))}
    assert found == expected


def test_a_leader_that_names_an_older_one_was_not_ready_whatever_came_of_it() -> None:
    given_up = attempts((NOT_LEADER, 5, 5, 100, 0), (NOT_LEADER, 5, -1, 0, 0), hint_epochs=[4, 4])
    assert [(one["epoch"], one["wait_us"], one["not_ready"]) for one in met(given_up)] == [
        (5, 100, 2)
    ]


def test_a_leader_that_names_a_newer_one_leads_no_more_and_was_ready() -> None:
    on = attempts((NOT_LEADER, 54, 55, 7, 0), (NOT_LEADER, 55, 56, 9, 0), hint_epochs=[55, 56])
    assert [(one["epoch"], one["wait_us"], one["not_ready"]) for one in met(on)] == [
        (55, 7, 0),
        (56, 9, 0),
    ]
    # Away and back to the same broker: the client knew the move's epoch only before and after it.
    assert met(attempts((NOT_LEADER, 4, 4, 100, 0), hint_epochs=[5])) == []


def test_a_topic_that_was_made_anew_has_moves_of_its_own() -> None:
    """Of the same name, partition and epoch; and a batch may meet moves of both."""
    refused = (NOT_LEADER, 0, 1, 10, 0)
    found = met(
        attempts(refused),
        attempts((NOT_LEADER, 0, 1, 70, 0), generations=[1]),
        attempts((NOT_LEADER, 0, 1, 30, 0), generations=[1]),
    )
    seen = [
        (one["topic_generation"], one["epoch"], one["wait_us"], one["batches"]) for one in found
    ]
    assert seen == [(0, 1, 10, 1), (1, 1, 70, 2)]
    both = attempts((NOT_LEADER, 7, 8, 10, 0), refused, generations=[0, 1])
    assert [(one["topic_generation"], one["epoch"]) for one in met(both)] == [(0, 8), (1, 1)]


def test_nobody_waits_for_a_leader_of_a_topic_that_is_gone() -> None:
    """What was refused of the old topic has an epoch to go on to only in the new one, which is no
    newer, and no sign that the new one's leader was not ready."""
    last = (NOT_LEADER, 4, 4, 100, 0)
    anew = attempts((NOT_LEADER, 4, GIVEN_UP, 0, 0), (NOT_LEADER, 4, 5, 9, 0), generations=[0, 1])
    assert [(one["topic_generation"], one["epoch"], one["wait_us"]) for one in met(anew)] == [
        (1, 5, 9)
    ]
    of_both = attempts((NOT_LEADER, 4, GIVEN_UP, 0, 0), last, generations=[0, 1])
    assert [(one["topic_generation"], one["not_ready"]) for one in met(of_both)] == [(1, 1)]


def test_the_longest_of_its_batches_is_a_moves_wait() -> None:
    found = met(
        attempts((NOT_LEADER, 4, 5, 10, 0)),
        attempts((NOT_LEADER, 4, 5, 70, 0)),
        attempts((NOT_LEADER, 4, 5, 30, 0)),
        attempts((NOT_LEADER, 4, 5, 5, 0), partition=1),
    )
    assert [(one["partition"], one["wait_us"], one["batches"]) for one in found] == [
        (0, 70, 3),
        (1, 5, 1),
    ]


def test_the_document_counts_waits_by_their_length() -> None:
    waits = (0, 2_999, 3_000, 29_999, 99_000, 100_000, 150_000, 999_999, 1_000_000)
    batches = [
        attempts((NOT_LEADER, 1, 2, wait, 0), partition=number) for number, wait in enumerate(waits)
    ]
    rows = moves(rows_of("redirects", *(row for batch in batches for row in batch)))
    document = moves_document([rows[:4], rows[4:]])
    assert document["by_wait"] == {
        "below_3_ms": 2,
        "below_30_ms": 2,
        "below_90_ms": 0,
        "below_150_ms": 2,
        "below_1000_ms": 2,
        "longer": 1,
    }
    assert document["met"] == sum(document["by_wait"].values()) == len(waits)
    assert document["wait_ms"] == {"p50": 99.0, "p99": 1000.0, "max": 1000.0}
    assert wait_ms(rows) == 99.0
    nothing = moves(rows_of("redirects"))
    assert wait_ms(nothing) is None
    assert moves_document([nothing])["met"] == moves_document([])["met"] == 0


@pytest.mark.parametrize("seed", range(20))
def test_moves_are_those_of_the_rule_taken_attempt_by_attempt(seed: int) -> None:
    choose = random.Random(seed)
    leader_errors = (NOT_LEADER, FENCED)
    batches = [
        attempts(
            *(
                (
                    choose.choice([NOT_LEADER, NOT_LEADER, FENCED, TIMED_OUT, UNKNOWN_EPOCH]),
                    choose.randint(1, 3),
                    choose.choice([-1, 1, 2, 3, 4]),
                    choose.randint(0, 50),
                    choose.randint(0, 50),
                )
                for _ in range(choose.randint(1, 5))
            ),
            partition=choose.randrange(3),
        )
        for _ in range(60)
    ]
    expected: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for batch in batches:
        epochs: list[int] = []
        not_ready: list[bool] = []
        for number, row in enumerate(batch):
            lower = [
                earlier["from_epoch"]
                for earlier in batch[:number]
                if earlier["error"] in leader_errors and earlier["from_epoch"] < row["from_epoch"]
            ]
            is_last_leader = row["from_epoch"] == batch[-1]["to_epoch"]
            not_ready.append(
                row["error"] == UNKNOWN_EPOCH
                or (row["error"] == NOT_LEADER and (bool(lower) or is_last_leader))
            )
            is_refused = row["error"] in leader_errors or not_ready[-1]
            if is_refused and row["to_epoch"] > row["from_epoch"]:
                epochs.append(row["to_epoch"])
            else:
                epochs.append(row["from_epoch"] if not_ready[-1] else -1)
        waits: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        refused_yet = False
        for number, row in enumerate(batch):
            refused_yet |= row["error"] in leader_errors or not_ready[number]
            known = [epoch for epoch in epochs[number:] if epoch != -1] or [
                epoch for epoch in epochs[:number][::-1] if epoch != -1
            ]
            if refused_yet and known:
                waits[known[0]][0] += row["backoff_us"] + row["metadata_us"]
                waits[known[0]][1] += not_ready[number]
        for epoch, (waited, refusals) in waits.items():
            one = expected[batch[0]["partition"], epoch]
            one[0], one[1], one[2] = max(one[0], waited), one[1] + refusals, one[2] + 1
    found = {
        (one["partition"], one["epoch"]): [one["wait_us"], one["not_ready"], one["batches"]]
        for one in met(*batches)
    }
    assert found == expected
    assert len(found) > 3
    assert np.all(moves(rows_of("redirects")) == np.empty((0, len(MOVE_COLUMNS))))
