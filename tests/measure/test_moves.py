"""Moves: which epoch an attempt waited for, and for how long."""

import random
from collections import defaultdict

import numpy as np
import pytest
from rows import rows_of

from kipctl.measure.moves import MOVE_COLUMNS, moves, moves_document, wait_ms

NOT_LEADER, FENCED, TIMED_OUT = 6, 74, 7


def attempts(*failed: tuple[int, int, int, int, int], partition: int = 0) -> list[dict[str, int]]:
    """One batch's failed attempts: (error, from epoch, to epoch, backoff, Metadata), in us."""
    return [
        {
            "partition": partition,
            "attempt": number,
            "error": error,
            "from_epoch": from_epoch,
            "to_epoch": to_epoch,
            "backoff_us": backoff_us,
            "metadata_us": metadata_us,
        }
        for number, (error, from_epoch, to_epoch, backoff_us, metadata_us) in enumerate(failed, 1)
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
        # Moved again meanwhile: two moves.
        ([(NOT_LEADER, 4, 5, 1, 0), (FENCED, 5, 6, 2, 0)], {5: (1, 0), 6: (2, 1)}),
        # What was lost before the first refusal is none of a move's; what was lost after it is.
        (
            [(TIMED_OUT, 4, 4, 50, 0), (NOT_LEADER, 4, 5, 1, 0), (TIMED_OUT, 5, 5, 9, 0)],
            {5: (10, 0)},
        ),
        # The client never learnt of a newer epoch.
        ([(NOT_LEADER, 4, 4, 100, 0), (NOT_LEADER, 4, -1, 0, 0)], {}),
        ([(TIMED_OUT, 4, 5, 100, 0)], {}),
    ],
)
def test_an_attempt_waits_for_one_epoch(
    failed: list[tuple[int, int, int, int, int]], expected: dict[int, tuple[int, int]]
) -> None:
    found = {one["epoch"]: (one["wait_us"], one["not_ready"]) for one in met(attempts(*failed))}
    assert found == expected


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
    batches = [
        attempts(
            *(
                (
                    choose.choice([NOT_LEADER, NOT_LEADER, FENCED, TIMED_OUT]),
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
            is_refused = row["error"] in (NOT_LEADER, FENCED)
            lower = [
                earlier["from_epoch"]
                for earlier in batch[:number]
                if earlier["error"] in (NOT_LEADER, FENCED)
                and earlier["from_epoch"] < row["from_epoch"]
            ]
            not_ready.append(is_refused and bool(lower))
            if is_refused and row["to_epoch"] > row["from_epoch"]:
                epochs.append(row["to_epoch"])
            else:
                epochs.append(row["from_epoch"] if not_ready[-1] else -1)
        waits: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        refused_yet = False
        for number, row in enumerate(batch):
            refused_yet |= row["error"] in (NOT_LEADER, FENCED)
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
