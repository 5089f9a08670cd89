"""Each record's way from producer to consumer, out of the rows of both."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kipctl.measure.delivery import Delivery, deliver, follow_batches
from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import IntRows

START_US = 5_000_000
INTERVAL_NS = 1_000_000
"""A record each millisecond."""


def rows(dataset: str, *named: dict[str, int]) -> IntRows:
    columns = COLUMNS[dataset]
    return np.array(
        [[one.get(name, 0) for name in columns] for one in named], dtype=np.int64
    ).reshape(len(named), len(columns))


def batch(partition: int, first_seq: int, records: int, base_offset: int, **more: int) -> Any:
    """A batch of neighbouring records, sent on time and acknowledged 2 ms after its first."""
    intended = START_US + first_seq * 1000
    return {
        "partition": partition,
        "first_seq": first_seq,
        "seq_stride": 1,
        "records": records,
        "bytes": records * 100,
        "intended_us": intended,
        "sent_us": intended,
        "acked_us": intended + 2000,
        "base_offset": base_offset,
    } | more


def read(partition: int, fetch_offset: int, records: int, at_ms: float, **more: int) -> Any:
    return {
        "partition": partition,
        "fetch_offset": fetch_offset,
        "next_offset": fetch_offset + records,
        "records": records,
        "time_us": START_US + round(at_ms * 1000),
    } | more


def delivered(batches: list[Any], reads: list[Any], skip: int = 0) -> Delivery:
    return deliver(
        [rows("batches", *batches)], [rows("reads", *reads)], START_US, INTERVAL_NS, skip
    )


def test_each_record_is_timed_from_its_own_intended_time_to_the_answer_that_brought_it() -> None:
    came = delivered(
        [batch(0, 0, 2, base_offset=10), batch(1, 2, 1, base_offset=0)],
        [read(0, 10, 2, at_ms=7), read(1, 0, 1, at_ms=4)],
    )
    # Records 0 and 1 came at 7 ms, record 2 at 4 ms.
    assert came.times.latency.values.tolist() == [2000, 6000, 7000]
    assert (came.delivered, came.missing, came.extra) == (3, 0, 0)


def test_one_answer_may_bring_several_batches_and_come_in_any_order_of_rows() -> None:
    came = delivered(
        [batch(0, 0, 1, 0), batch(0, 1, 1, 1), batch(0, 2, 1, 2)],
        [read(0, 2, 1, at_ms=9), read(0, 0, 2, at_ms=5)],
    )
    assert came.times.latency.values.tolist() == [4000, 5000, 7000]


@pytest.mark.parametrize(
    ("batches", "reads", "expected"),
    [
        ([batch(0, 0, 3, 0)], [], (0, 3, 0)),
        ([batch(0, 0, 3, 0)], [read(1, 0, 3, 5)], (0, 3, 3)),  # of another partition
        ([batch(0, 0, 3, 0), batch(0, 3, 2, 3)], [read(0, 0, 3, 5)], (3, 2, 0)),
        # Written twice: offsets 0 to 2 belong to an attempt that failed afterwards.
        ([batch(0, 0, 3, 3)], [read(0, 0, 6, 5)], (3, 0, 3)),
        # Refused or given up is neither delivered nor missing.
        ([batch(0, 0, 3, -1, error=7)], [], (0, 0, 0)),
        # Without an offset (DUPLICATE_SEQUENCE_NUMBER) it is among what came besides.
        ([batch(0, 0, 3, -1)], [read(0, 0, 3, 5)], (3, 0, 0)),
        ([batch(0, 0, 3, -1)], [read(0, 0, 5, 5)], (3, 0, 2)),
        ([batch(0, 0, 3, -1), batch(0, 3, 2, 3)], [read(0, 0, 5, 5)], (5, 0, 0)),
        ([batch(0, 0, 3, -1), batch(0, 3, 2, 3)], [read(0, 3, 2, 5)], (2, 3, 0)),
        ([batch(0, 0, 3, -1)], [], (0, 3, 0)),
        # A gap in what was read: offsets 3 to 5 were skipped.
        ([batch(0, 0, 3, 0), batch(0, 3, 3, 3)], [read(0, 0, 3, 5), read(0, 6, 3, 6)], (3, 3, 3)),
        ([], [], (0, 0, 0)),
    ],
)
def test_what_did_not_come_and_what_came_besides(
    batches: list[Any], reads: list[Any], expected: tuple[int, int, int]
) -> None:
    came = delivered(batches, reads)
    assert (came.delivered, came.missing, came.extra) == expected
    timed = sum(one["records"] for one in batches if one["base_offset"] >= 0)
    assert came.times.latency.total == min(expected[0], timed)


def test_the_warm_up_is_left_out_of_the_times_alone() -> None:
    came = delivered([batch(0, 0, 4, 0)], [read(0, 0, 4, at_ms=10)], skip=3)
    assert came.times.latency.values.tolist() == [7000]
    assert came.delivered == 4


def test_what_the_consumer_read_again_came_twice_and_is_nobody_elses() -> None:
    came = delivered(
        [batch(0, 0, 10, 0)],
        [read(0, 0, 6, at_ms=20), read(0, 4, 6, at_ms=30), read(0, 2, 1, at_ms=31)],
    )
    assert (came.delivered, came.missing, came.twice, came.extra) == (10, 0, 3, 0)


def test_answers_without_records_bring_nothing() -> None:
    came = delivered(
        [batch(0, 0, 1, 0)],
        [
            read(0, 0, 0, at_ms=1, preferred_read_replica=2),
            read(0, 0, 0, at_ms=2, error=74, next_offset=-1),
            read(0, 0, 1, at_ms=3),
        ],
    )
    assert came.times.latency.values.tolist() == [3000]


def test_a_batch_that_was_read_twice_came_when_it_was_read_first() -> None:
    came = delivered([batch(0, 0, 6, 0)], [read(0, 0, 10, at_ms=8), read(0, 4, 3, at_ms=30)])
    assert came.times.last_us == START_US + 8000
    assert came.twice == 3


def a_consumer_that_jumps(choose: random.Random) -> tuple[list[Any], list[Any]]:
    """Batches in the order of their acknowledgements, and answers in that of their coming.

    The consumer goes back, or ahead, now and then, and some batches are never read; some offsets
    are nobody's.
    """
    batches, reads = [], []
    at_ms = 0.0
    for partition in range(3):
        ends, offset = [0], choose.randrange(3)
        while len(ends) < 60:
            records = choose.randint(1, 4)
            batches.append(batch(partition, len(batches) * 4, records, offset))
            offset += records + choose.choice([0, 0, 0, 2])
            ends.append(offset)
        number = choose.randrange(3)
        while number + 1 < len(ends):
            to = min(len(ends) - 1, number + choose.randint(1, 5))
            at_ms += 1
            reads.append(read(partition, ends[number], ends[to] - ends[number], at_ms))
            number = to if choose.random() < 0.8 else choose.randrange(len(ends))
    choose.shuffle(batches)
    return batches, sorted(reads, key=lambda one: (choose.random() // 0.5, one["time_us"]))


def in_pieces(choose: random.Random, of: IntRows) -> Iterator[IntRows]:
    while len(of):
        size = choose.randint(1, 40)
        yield of[:size]
        of = of[size:]


@pytest.mark.parametrize("seed", range(40))
def test_in_pieces_it_is_what_it_is_record_by_record(seed: int) -> None:
    choose = random.Random(seed)
    batches, reads = a_consumer_that_jumps(choose)
    first: dict[tuple[int, int], int] = {}
    twice = 0
    for one in reads:
        for offset in range(one["fetch_offset"], one["next_offset"]):
            twice += (one["partition"], offset) in first
            first.setdefault((one["partition"], offset), one["time_us"])
    came = {
        (one["partition"], one["base_offset"]): first[one["partition"], last]
        for one in batches
        if (one["partition"], last := one["base_offset"] + one["records"] - 1) in first
    }
    expected = sum(
        one["records"] for one in batches if (one["partition"], one["base_offset"]) in came
    )
    found = deliver(
        in_pieces(choose, rows("batches", *batches)),
        in_pieces(choose, rows("reads", *reads)),
        START_US,
        INTERVAL_NS,
    )
    assert (found.delivered, found.twice) == (expected, twice)
    assert found.missing == sum(one["records"] for one in batches) - expected
    assert found.extra == sum(one["records"] for one in reads) - twice - expected
    assert found.times.last_us == max(came.values())
    followed = follow_batches(rows("batches", *batches), rows("reads", *reads))
    column = {name: followed[:, i] for i, name in enumerate(COLUMNS["batches"])}
    delivered_at = zip(
        column["partition"], column["base_offset"], column["acked_us"], column["error"], strict=True
    )
    assert {(p, o): at for p, o, at, error in delivered_at if not error} == came
