"""What came is told while it comes: the same as afterwards, in memory that does not grow."""

import random
from typing import Any

import numpy as np
from campaigns import as_many, campaign
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows_of
from test_delivery import (
    INTERVAL_NS,
    START_US,
    a_consumer_that_jumps,
    batch,
    merged,
    read,
    truncated_logs,
)

from kipctl.measure.delivery import Delivery, match_delivery
from kipctl.measure.live_totals import CONSUMER, PRODUCER, EndToEndTotals
from kipctl.measure.lost_and_late import LiveMatcher, LostOffsets
from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import IntRows

EVER_US = 1 << 61
FEW = settings(max_examples=as_many(20, 2000))
ACKED, TIME = COLUMNS["batches"].index("acked_us"), COLUMNS["reads"].index("time_us")


def totals(lost_after_us: int = EVER_US, late_us: int = EVER_US) -> EndToEndTotals:
    return EndToEndTotals(START_US, INTERVAL_NS, 0, lost_after_us, late_us, EVER_US)


def given_rows(batches: IntRows, reads: IntRows) -> dict[tuple[str, str], IntRows]:
    nothing = {
        (client, dataset): rows_of(dataset)
        for client in (PRODUCER, CONSUMER)
        for dataset in ("redirects", "rpcs")
    }
    return nothing | {(PRODUCER, "batches"): batches, (CONSUMER, "reads"): reads}


def told_live(batches: IntRows, reads: IntRows, looks: list[int]) -> Delivery:
    """Looked at in these moments: all that had happened by then is written, and some of what was
    later, too."""
    live_totals = totals()
    done = [0, 0]
    for at_us in sorted(looks):
        new = []
        for side, (rows, moment) in enumerate(((batches, ACKED), (reads, TIME))):
            latest = np.maximum.accumulate(rows[:, moment])
            end = max(done[side], int(np.searchsorted(latest, at_us + at_us % 7 * 1000, "right")))
            new.append(rows[done[side] : end])
            done[side] = end
        live_totals.add(given_rows(*new), at_us)
    live_totals.add(given_rows(batches[done[0] :], reads[done[1] :]), 0)
    live_totals.finish()
    return live_totals.delivery


def of_whole(delivery: Delivery) -> tuple[int, ...]:
    return delivery.delivered, delivery.missing, delivery.twice, delivery.extra


LOOKS = st.lists(st.integers(START_US, START_US + 12_000_000), max_size=30)


@campaign
@FEW
@given(st.integers(0, 1 << 32), LOOKS)
def test_it_is_what_is_told_afterwards_where_the_consumer_jumps(
    seed: int, looks: list[int]
) -> None:
    batches, reads = a_consumer_that_jumps(random.Random(seed))
    compare(rows_of("batches", *merged([batches], "acked_us")), rows_of("reads", *reads), looks)


@campaign
@FEW
@given(st.integers(0, 1 << 32), st.lists(st.integers(START_US, START_US + 2_100_000), max_size=30))
def test_it_is_what_is_told_afterwards_where_logs_are_truncated(
    seed: int, looks: list[int]
) -> None:
    logs = truncated_logs(random.Random(seed))
    batches = rows_of("batches", *merged([log.batches for log in logs], "acked_us"))
    compare(batches, rows_of("reads", *merged([log.reads for log in logs], "time_us")), looks)


def compare(batches: IntRows, reads: IntRows, looks: list[int]) -> None:
    afterwards = match_delivery(lambda: [batches], lambda: [reads], START_US, INTERVAL_NS)
    live = told_live(batches, reads, looks)
    assert of_whole(live) == of_whole(afterwards)
    assert live.times.latency.total == afterwards.times.latency.total
    assert (live.times.first_us, live.times.last_us) == (
        afterwards.times.first_us,
        afterwards.times.last_us,
    )


@campaign
@FEW
@given(st.integers(0, 1 << 32), LOOKS, st.integers(1, 5_000_000))
def test_each_acknowledged_record_came_or_is_lost_or_waits_and_no_count_falls(
    seed: int, looks: list[int], lost_after_us: int
) -> None:
    some_batches, some_reads = a_consumer_that_jumps(random.Random(seed))
    batches = rows_of("batches", *merged([some_batches], "acked_us"))
    reads = rows_of("reads", *some_reads)
    live = LiveMatcher(lost_after_us, late_us=1_000_000, forget_us=EVER_US)
    before, since_us = (0,) * 6, 0
    for at_us in sorted(looks):
        new = (
            rows[(since_us < rows[:, moment]) & (rows[:, moment] <= at_us)]
            for rows, moment in ((batches, ACKED), (reads, TIME))
        )
        live.add(*new, at_us)
        since_us = at_us
        assert live.acknowledged == live.records + live.lost + live.waiting
        now = (live.acknowledged, live.records, live.lost, live.late, live.twice, live.extra)
        assert all(a <= b for a, b in zip(before, now, strict=True))
        assert live.late <= live.lost
        before = now


S = 1_000_000


def taken(live: LiveMatcher, at_s: float, batches: list[Any], reads: list[Any]) -> None:
    live.add(rows_of("batches", *batches), rows_of("reads", *reads), START_US + round(at_s * S))


def counts(live: LiveMatcher) -> tuple[int, ...]:
    return live.records, live.waiting, live.lost, live.late, live.extra


def test_what_did_not_come_in_time_is_lost_and_late_if_it_comes_after_all() -> None:
    live = LiveMatcher(lost_after_us=60 * S, late_us=5 * S, forget_us=EVER_US)
    taken(live, 1, [batch(0, 0, 3, 10), batch(0, 3, 2, 13)], [read(0, 10, 3, at_ms=4)])
    assert counts(live) == (3, 2, 0, 0, 0)
    taken(live, 60, [], [])
    assert counts(live) == (3, 2, 0, 0, 0)
    taken(live, 61, [], [])
    assert counts(live) == (3, 0, 2, 0, 0)
    taken(live, 62, [], [read(0, 13, 4, at_ms=61_500)])
    assert counts(live) == (3, 0, 2, 0, 0)  # another batch may still be acknowledged there
    taken(live, 67, [], [])
    assert counts(live) == (3, 0, 2, 2, 2)


def test_a_batch_whose_offset_another_one_got_is_lost_at_once() -> None:
    live = LiveMatcher(lost_after_us=60 * S, late_us=5 * S, forget_us=EVER_US)
    taken(live, 1, [batch(0, 0, 5, 10), batch(0, 50, 5, 10)], [read(0, 10, 5, at_ms=60)])
    assert counts(live) == (5, 0, 5, 0, 0)


def test_rows_are_taken_in_the_order_of_time_however_they_are_read() -> None:
    late = {"acked_us": START_US + 70_000}
    batches = [batch(0, 0, 5, 10), batch(0, 50, 5, 10) | late]
    reads = [read(0, 10, 5, 8), read(0, 10, 5, 60)]
    live = LiveMatcher(60 * S, 5 * S, EVER_US)
    taken(live, 0.065, batches, reads)  # what is acknowledged at 70 ms is not due yet
    assert counts(live) == (5, 0, 0, 0, 0)
    taken(live, 1, [], [])
    assert (counts(live), live.twice) == ((10, 0, 0, 0, 0), 0)


def test_what_was_lost_one_after_the_other_takes_the_room_of_one() -> None:
    lost = LostOffsets()
    lost.add(rows_of("batches", *(batch(0, n, 10, 10 * n) for n in range(1000))))
    lost.add(rows_of("batches", batch(1, 0, 10, 5)))
    assert len(lost._of_partition[0]) == 1
    assert lost.remove(0, 9990, 10_010) == 10
    assert lost.remove(0, 20, 30) == 10
    assert lost.remove(0, 15, 35) == 10  # 20 to 30 have come before
    assert lost.remove(2, 0, 100) == 0
    lost.forget(START_US + 10 * S)
    assert lost.remove(0, 0, 10_000) == 0


def test_days_take_no_more_memory_than_minutes() -> None:
    """Records of which one in a hundred is lost, and one in ten is read again."""
    live = LiveMatcher(lost_after_us=60 * S, late_us=5 * S, forget_us=600 * S)
    sizes = []
    for minute in range(300):
        at_ms, offset = minute * 60_000, minute * 100
        batches = [batch(0, at_ms + n, 1, offset + n) for n in range(100)]
        reads = [read(0, offset, 99, at_ms + 200), read(0, offset, 10, at_ms + 300)]
        taken(live, (at_ms + 30_000) / 1000, batches, reads)
        sizes.append(len(live._waiting) + len(live._spans) + len(live._offsets._of_partition[0]))
    assert max(sizes[20:]) <= max(sizes[:20])
    assert live.acknowledged == 30_000
    assert live.lost + live.waiting == 300
    assert live.twice == 3000


def test_rows_that_come_late_count_all_the_same() -> None:
    """As when a client stood still before it wrote them."""
    live = LiveMatcher(60 * S, 5 * S, EVER_US)
    taken(live, 1, [batch(0, 0, 1, 0)], [read(0, 0, 1, 5)])
    taken(live, 2, [batch(0, 1, 1, 1)], [read(0, 1, 1, 6)])
    assert counts(live) == (2, 0, 0, 0, 0)
