"""Moves: which epoch an attempt waited for, and for how long."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from campaigns import as_many, campaign, chance
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
    names = names[names.index("attempt") :]
    return [
        {"partition": partition, **dict(zip(names, redirect_columns(attempt, share), strict=True))}
        for attempt, share in zip(noted, phases(noted, 0, now, now), strict=True)
    ]


def met(columns: str, *batches: list[dict[str, int]]) -> list[tuple[int, ...]]:
    """These columns of the moves that batches met."""
    rows = moves(rows_of("redirects", *(row for batch in batches for row in batch)))
    chosen = [MOVE_COLUMNS.index(name) for name in columns.split()]
    return [tuple(row) for row in rows[:, chosen].tolist()]


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
    rows = met("epoch wait_us not_ready", attempts(*failed))
    assert {epoch: (wait_us, not_ready) for epoch, wait_us, not_ready in rows} == expected


def test_a_leader_that_names_an_older_one_was_not_ready_whatever_came_of_it() -> None:
    given_up = attempts((NOT_LEADER, 5, 5, 100, 0), (NOT_LEADER, 5, -1, 0, 0), hint_epochs=[4, 4])
    assert met("epoch wait_us not_ready", given_up) == [(5, 100, 2)]


def test_a_leader_that_names_a_newer_one_leads_no_more_and_was_ready() -> None:
    on = attempts((NOT_LEADER, 54, 55, 7, 0), (NOT_LEADER, 55, 56, 9, 0), hint_epochs=[55, 56])
    assert met("epoch wait_us not_ready", on) == [(55, 7, 0), (56, 9, 0)]
    # Away and back to the same broker: the client knew the move's epoch only before and after it.
    assert met("epoch", attempts((NOT_LEADER, 4, 4, 100, 0), hint_epochs=[5])) == []


def test_a_topic_that_was_made_anew_has_moves_of_its_own() -> None:
    """Of the same name, partition and epoch; and a batch may meet moves of both."""
    refused = (NOT_LEADER, 0, 1, 10, 0)
    anew = (attempts((NOT_LEADER, 0, 1, wait, 0), generations=[1]) for wait in (70, 30))
    rows = met("topic_generation epoch wait_us batches", attempts(refused), *anew)
    assert rows == [(0, 1, 10, 1), (1, 1, 70, 2)]
    both = attempts((NOT_LEADER, 7, 8, 10, 0), refused, generations=[0, 1])
    assert met("topic_generation epoch", both) == [(0, 8), (1, 1)]


def test_nobody_waits_for_a_leader_of_a_topic_that_is_gone() -> None:
    """What was refused of the old topic has an epoch to go on to only in the new one, which is no
    newer, and no sign that the new one's leader was not ready."""
    gone = (NOT_LEADER, 4, GIVEN_UP, 0, 0)
    anew = attempts(gone, (NOT_LEADER, 4, 5, 9, 0), generations=[0, 1])
    assert met("topic_generation epoch wait_us", anew) == [(1, 5, 9)]
    of_both = attempts(gone, (NOT_LEADER, 4, 4, 100, 0), generations=[0, 1])
    assert met("topic_generation not_ready", of_both) == [(1, 1)]


def test_the_longest_of_its_batches_is_a_moves_wait() -> None:
    batches = [attempts((NOT_LEADER, 4, 5, wait, 0)) for wait in (10, 70, 30)]
    batches.append(attempts((NOT_LEADER, 4, 5, 5, 0), partition=1))
    assert met("partition wait_us batches", *batches) == [(0, 70, 3), (1, 5, 1)]


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


@campaign
@pytest.mark.parametrize("number", range(as_many(5, 1000)))
def test_moves_are_those_of_the_rule_taken_attempt_by_attempt(number: int) -> None:
    choose = chance(f"moves {number}")
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
            move = expected[batch[0]["partition"], epoch]
            move[0], move[1], move[2] = max(move[0], waited), move[1] + refusals, move[2] + 1
    columns = "partition epoch wait_us not_ready batches"
    met_moves = {(partition, epoch): rest for partition, epoch, *rest in met(columns, *batches)}
    assert met_moves == expected
    assert len(met_moves) > 3
    assert np.all(moves(rows_of("redirects")) == np.empty((0, len(MOVE_COLUMNS))))
