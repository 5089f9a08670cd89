"""Bytes across racks: how fast logs grow, whom they are charged to, and the gate."""

import pytest

from kipctl.cluster.replica_selection import Choice, Reason
from kipctl.cluster.replica_traffic import (
    Sample,
    below,
    bytes_per_s,
    parse_percent,
    summarize,
)
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import UsageError

S = 1_000_000


@pytest.mark.parametrize(
    ("before", "after", "rate"),
    [
        (Sample(0, 1000, 0, 10), Sample(2 * S, 5000, 0, 50), 2000.0),
        (Sample(0, 1000, 0, 10), Sample(2 * S, 1000, 0, 10), 0.0),
        # Retention has removed more than was written: 50 records of the mean size, 20 bytes.
        (Sample(0, 4000, 0, 100), Sample(2 * S, 2000, 50, 150), 500.0),
        # The log was compacted, and is shorter though its ends say nothing of it.
        (Sample(0, 4000, 0, 100), Sample(S, 3000, 0, 150), 1000.0),
        (Sample(0, 0, 0, 0), Sample(0, 10, 0, 1), 0.0),
    ],
    ids=["grown", "idle", "retention", "compaction", "no time"],
)
def test_how_fast_a_log_grows(before: Sample, after: Sample, rate: float) -> None:
    assert bytes_per_s(before, after) == rate


def choice(number: int, rack: str, serving: str | None, reason: Reason) -> Choice:
    return Choice(
        id=PartitionId("t", number),
        rack=rack,
        leader=1,
        leader_rack="a",
        reads_from=None if serving is None else "abc".index(serving) + 1,
        reads_from_rack=serving,
        closest=serving == rack,
        reason=reason,
        detail="",
        expected=(),
    )


CHOICES = [
    choice(0, "a", "a", Reason.LEADER_IN_RACK),
    choice(1, "a", "b", Reason.NO_REPLICA),
    choice(2, "a", None, Reason.NO_LEADER),
    choice(0, "b", "a", Reason.NO_SELECTOR),
    choice(1, "b", "b", Reason.FOLLOWER_IN_RACK),
    choice(2, "b", "b", Reason.SILENT),
]
HELD = {PartitionId("t", number): size for number, size in enumerate((100, 300, 600))}


def test_bytes_of_each_rack() -> None:
    a, b = summarize(CHOICES, HELD)
    assert (a.rack, a.partitions, a.local, a.closest) == ("a", 3, 1, 1)
    assert (a.held_bytes, a.cross_held_bytes, a.cross_percent) == (400, 300, 75.0)
    assert (b.rack, b.local, b.held_bytes, b.cross_held_bytes) == ("b", 1, 1000, 100)
    assert a.bytes_per_s is a.cross_bytes_per_s is a.cost_per_month(1.0) is None


def test_rates_and_their_price() -> None:
    rates = {PartitionId("t", number): rate for number, rate in enumerate((1e6, 3e6, 0.0))}
    a, b = summarize(CHOICES, HELD, rates)
    assert (a.bytes_per_s, a.cross_bytes_per_s, a.cross_percent) == (4e6, 3e6, 75.0)
    assert (b.cross_bytes_per_s, b.cross_percent) == (1e6, 25.0)
    # 1 MB/s for 2,592,000 s are 2,592 GB.
    assert b.cost_per_month(0.02) == pytest.approx(51.84)
    (idle,) = summarize(CHOICES[:1], HELD, {})
    assert (idle.bytes_per_s, idle.cross_percent) == (0, None)


@pytest.mark.parametrize(
    ("text", "racks"),
    [("0%", []), ("33.3%", []), ("33.4 %", ["a", "b"]), ("34", ["a", "b"]), ("100%", ["a", "b"])],
)
def test_the_gate_holds_for_every_rack(text: str, racks: list[str]) -> None:
    summaries = summarize(CHOICES, HELD)
    assert [summary.rack for summary in below(summaries, parse_percent(text))] == racks


def test_a_gate_with_nothing_to_hold_for_does_not_pass() -> None:
    with pytest.raises(UsageError, match="no partition that --require-local could hold for"):
        below(summarize([], {}), 0)


@pytest.mark.parametrize("text", ["", "%", "much", "-1%", "101", "nan"])
def test_what_is_no_percentage(text: str) -> None:
    with pytest.raises(UsageError, match="is no percentage"):
        parse_percent(text)
