"""Each record's way from producer to consumer, out of the rows of both."""

import random
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
import pytest
from campaigns import as_many, campaign, chance
from rows import rows_of

from kipctl.measure.delivery import Delivery, follow_batches, match_delivery
from kipctl.measure.matching import Source
from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import IntRows

START_US = 5_000_000
INTERVAL_NS = 1_000_000
"""A record each millisecond."""


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
    return match_delivery(
        lambda: [rows_of("batches", *batches)],
        lambda: [rows_of("reads", *reads)],
        START_US,
        INTERVAL_NS,
        skip,
    )


@pytest.mark.parametrize(
    ("batches", "reads", "times_us"),
    [
        # Records 0 and 1 came at 7 ms, record 2 at 4 ms.
        (
            [batch(0, 0, 2, base_offset=10), batch(1, 2, 1, base_offset=0)],
            [read(0, 10, 2, at_ms=7), read(1, 0, 1, at_ms=4)],
            [2000, 6000, 7000],
        ),
        # One answer brings several batches; rows come in any order.
        (
            [batch(0, 0, 1, 0), batch(0, 1, 1, 1), batch(0, 2, 1, 2)],
            [read(0, 2, 1, at_ms=9), read(0, 0, 2, at_ms=5)],
            [4000, 5000, 7000],
        ),
        # Answers without records bring nothing.
        (
            [batch(0, 0, 1, 0)],
            [
                read(0, 0, 0, at_ms=1, preferred_read_replica=2),
                read(0, 0, 0, at_ms=2, error=74, next_offset=-1),
                read(0, 0, 1, at_ms=3),
            ],
            [3000],
        ),
        # A batch that was read twice came when it was read first.
        ([batch(0, 0, 2, 0)], [read(0, 0, 3, at_ms=8), read(0, 0, 2, at_ms=30)], [7000, 8000]),
    ],
)
def test_each_record_is_timed_from_its_own_intended_time_to_the_answer_that_brought_it(
    batches: list[Any], reads: list[Any], times_us: list[int]
) -> None:
    delivery = delivered(batches, reads)
    assert delivery.times.latency.values.tolist() == times_us
    assert (delivery.delivered, delivery.missing) == (len(times_us), 0)


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
    delivery = delivered(batches, reads)
    assert (delivery.delivered, delivery.missing, delivery.extra) == expected
    timed = sum(row["records"] for row in batches if row["base_offset"] >= 0)
    assert delivery.times.latency.total == min(expected[0], timed)


def test_the_warm_up_is_left_out_of_the_times_alone() -> None:
    delivery = delivered([batch(0, 0, 4, 0)], [read(0, 0, 4, at_ms=10)], skip=3)
    assert delivery.times.latency.values.tolist() == [7000]
    assert delivery.delivered == 4


def test_what_the_consumer_read_again_came_twice_and_is_nobody_elses() -> None:
    delivery = delivered(
        [batch(0, 0, 6, 0), batch(0, 6, 4, 6)],
        [read(0, 0, 6, at_ms=20), read(0, 4, 6, at_ms=30), read(0, 2, 1, at_ms=31)],
    )
    assert (delivery.delivered, delivery.missing, delivery.twice, delivery.extra) == (10, 0, 3, 0)


def a_consumer_that_jumps(choose: random.Random) -> tuple[list[Any], list[Any]]:
    """Batches in the order of their acknowledgements, and answers in that of their coming.

    The consumer goes back, or ahead, now and then, and some batches are never read; some offsets
    are nobody's.
    """
    batches, reads = [], []
    at_ms = 10_000.0
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
    return batches, reads


def in_pieces(choose: random.Random, rows: IntRows) -> Source:
    ends = sorted(choose.choices(range(len(rows) + 1), k=len(rows) // 20))
    return lambda: np.split(rows, ends)


@pytest.mark.parametrize(
    ("batches", "reads", "expected"),
    [
        # Acknowledged by the former leader alone, and truncated: its offsets are another's then.
        ([batch(0, 0, 5, 10), batch(0, 50, 5, 10)], [read(0, 10, 5, 60)], (5, 5, 0, 0)),
        # Read before that, and read again as the other.
        (
            [batch(0, 0, 5, 10), batch(0, 50, 5, 10)],
            [read(0, 10, 5, 8), read(0, 10, 5, 60)],
            (10, 0, 0, 0),
        ),
        # Read before that, but the consumer did not go back: the other was never read.
        (
            [batch(0, 0, 5, 10), batch(0, 50, 5, 10), batch(0, 60, 2, 15)],
            [read(0, 10, 5, 8), read(0, 15, 2, 70)],
            (7, 5, 0, 0),
        ),
        # It took the last offsets of one batch and the first of the next: both are lost.
        (
            [batch(0, 0, 4, 0), batch(0, 1, 4, 4), batch(0, 50, 4, 2), batch(0, 51, 2, 6)],
            [read(0, 0, 8, 60)],
            (6, 8, 0, 2),
        ),
        # Read again before its acknowledgement came: it is the other all the same.
        (
            [batch(0, 0, 5, 10), batch(0, 50, 5, 10, acked_us=START_US + 70_000)],
            [read(0, 10, 5, 8), read(0, 10, 5, 60)],
            (10, 0, 0, 0),
        ),
        # Both acknowledged after two readings: both were brought by the first.
        (
            [
                batch(0, 0, 5, 10, acked_us=START_US + 71_000),
                batch(0, 5, 5, 15, acked_us=START_US + 70_000),
            ],
            [read(0, 10, 10, 12), read(0, 10, 10, 60)],
            (10, 0, 10, 0),
        ),
        # What was read before it was sent was somebody else's.
        ([batch(0, 50, 5, 10)], [read(0, 10, 5, 8)], (0, 5, 0, 5)),
        ([batch(0, 50, 5, 10)], [read(0, 10, 5, 8), read(0, 10, 5, 60)], (5, 0, 0, 5)),
    ],
)
def test_an_offset_that_was_read_is_the_batchs_that_was_acknowledged_there_last(
    batches: list[Any], reads: list[Any], expected: tuple[int, int, int, int]
) -> None:
    delivery = delivered(batches, reads)
    assert (delivery.delivered, delivery.missing, delivery.twice, delivery.extra) == expected
    assert delivery.times.latency.values.min(initial=0) >= 0


@campaign
@pytest.mark.parametrize("number", range(as_many(10, 1000)))
def test_where_no_offset_is_used_again_only_offsets_matter(number: int) -> None:
    choose = chance(f"consumer {number}")
    batches, reads = a_consumer_that_jumps(choose)
    first: dict[tuple[int, int], int] = {}
    twice = 0
    for row in reads:
        for offset in range(row["fetch_offset"], row["next_offset"]):
            twice += (row["partition"], offset) in first
            first.setdefault((row["partition"], offset), row["time_us"])
    read_at = {
        (row["partition"], row["base_offset"]): first[row["partition"], last]
        for row in batches
        if (row["partition"], last := row["base_offset"] + row["records"] - 1) in first
    }
    expected = sum(
        row["records"] for row in batches if (row["partition"], row["base_offset"]) in read_at
    )
    delivery = match_delivery(
        in_pieces(choose, rows_of("batches", *batches)),
        in_pieces(choose, rows_of("reads", *reads)),
        START_US,
        INTERVAL_NS,
    )
    assert (delivery.delivered, delivery.twice) == (expected, twice)
    assert delivery.missing == sum(row["records"] for row in batches) - expected
    assert delivery.extra == sum(row["records"] for row in reads) - twice - expected
    assert delivery.times.last_us == max(read_at.values())
    followed = follow_batches(rows_of("batches", *batches), rows_of("reads", *reads))
    column = {name: followed[:, i] for i, name in enumerate(COLUMNS["batches"])}
    delivered_at = zip(
        column["partition"], column["base_offset"], column["acked_us"], column["error"], strict=True
    )
    assert {(p, o): at for p, o, at, error in delivered_at if not error} == read_at


def test_what_an_answer_has_besides_may_be_acknowledged_later() -> None:
    known = rows_of("batches", batch(0, 0, 2, 0), batch(0, 2, 2, 4), batch(0, 4, 2, 8))
    late_by = {"acked_us": START_US + 30_000}
    others = [batch(0, 6, 2, 2), batch(0, 8, 1, 6), batch(0, 9, 1, 7)]
    late = rows_of("batches", *(row | late_by for row in others))
    reads = rows_of("reads", read(0, 0, 12, at_ms=20))
    delivery = match_delivery(lambda: [known, late], lambda: [reads], START_US, INTERVAL_NS)
    assert (delivery.delivered, delivery.missing, delivery.extra) == (10, 0, 2)


@dataclass
class TruncatedLog:
    """A partition that loses the end of its log now and then, and what became of each batch.

    A batch is sent, appended and acknowledged a moment after the other; a reader goes on where it
    was, goes back, or is put back by a truncation, with or without hearing of it at once.
    """

    choose: random.Random
    partition: int
    now_ms: int = 0
    log: list[int] = field(default_factory=list)
    """Of each offset the number of the batch that has it now, or -1 for a failed one's."""
    batches: list[Any] = field(default_factory=list)
    reads: list[Any] = field(default_factory=list)
    position: int = 0
    acked_end: int = 0
    delivered: dict[int, int] = field(default_factory=dict)
    """When each batch was read first."""
    twice: int = 0
    extra: int = 0
    readings: set[tuple[int, int]] = field(default_factory=set)

    def append(self) -> None:
        first, records = self.now_ms, self.choose.randint(1, 4)
        if self.choose.random() < 0.1 and len(self.log) >= self.acked_end:
            self.log += [-1 - len(self.batches)] * records  # failed, after it was appended
            self.batches.append(batch(self.partition, first, records, -1, error=7))
            self.acked_end = len(self.log)
            return
        self.batches.append(
            batch(self.partition, first, records, len(self.log), acked_us=self.us(self.now_ms + 2))
        )
        self.log += [len(self.batches) - 1] * records
        self.acked_end = max(self.acked_end, len(self.log))
        self.now_ms += 4

    def truncate(self) -> None:
        starts = [at for at in range(len(self.log)) if self.starts_at(at)]
        self.log = self.log[: self.choose.choice(starts[-6:])] if starts else []

    def starts_at(self, offset: int) -> bool:
        return not offset or self.log[offset] != self.log[offset - 1]

    def read(self) -> None:
        if self.choose.random() < 0.1:
            self.position = self.choose.randint(0, len(self.log))
        self.position = min(self.position, len(self.log))
        while 0 < self.position < len(self.log) and not self.starts_at(self.position):
            self.position -= 1  # an answer begins with a whole batch
        end = min(len(self.log), self.position + self.choose.randint(1, 12))
        while end < len(self.log) and not self.starts_at(end):
            end += 1
        if end == self.position:
            return
        self.reads.append(read(self.partition, self.position, end - self.position, self.now_ms))
        for offset in range(self.position, end):
            number = self.log[offset]
            again = (number, offset) in self.readings
            self.twice += again
            self.extra += number < 0 and not again
            self.readings.add((number, offset))
            if number >= 0:
                self.delivered.setdefault(number, self.us(self.now_ms))
        self.position = end

    def us(self, ms: int) -> int:
        return START_US + ms * 1000


def truncated_logs(choose: random.Random) -> list[TruncatedLog]:
    logs = [TruncatedLog(choose, partition) for partition in range(3)]
    for now_ms in range(0, 2000, 10):
        for log in logs:
            log.now_ms = now_ms
            step = choose.choices(["append", "read", "truncate"], [6, 4, 0.2])[0]
            getattr(log, step)()
    return logs


def merged(logs: list[list[Any]], moment: str) -> list[Any]:
    return sorted((row for rows in logs for row in rows), key=itemgetter(moment))


@campaign
@pytest.mark.parametrize("number", range(as_many(12, 1000)))
def test_what_was_read_of_logs_that_were_truncated(number: int) -> None:
    choose = chance(f"truncated logs {number}")
    logs = truncated_logs(choose)
    batches = rows_of("batches", *merged([log.batches for log in logs], "acked_us"))
    reads = rows_of("reads", *merged([log.reads for log in logs], "time_us"))
    delivery = match_delivery(
        in_pieces(choose, batches), in_pieces(choose, reads), START_US, INTERVAL_NS
    )
    was_read = [
        (log.batches[number], at_us) for log in logs for number, at_us in log.delivered.items()
    ]
    acknowledged = sum(
        row["records"] for log in logs for row in log.batches if not row.get("error")
    )
    expected = sum(row["records"] for row, _ in was_read)
    assert (delivery.delivered, delivery.missing) == (expected, acknowledged - expected)
    assert delivery.twice == sum(log.twice for log in logs)
    assert delivery.extra == sum(log.extra for log in logs)
    waits = {
        at_us - row["intended_us"] - 1000 * k
        for row, at_us in was_read
        for k in range(row["records"])
    }
    assert delivery.times.latency.values.tolist() == sorted(waits)
