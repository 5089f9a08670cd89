"""Bytes across racks: how fast logs grow, whom they are charged to, and the gate."""

import pytest

from kipctl.cluster.inspect.cross_rack_traffic import (
    Crossing,
    Sample,
    Samples,
    below,
    bytes_per_s,
    parse_percent,
    rates,
    samples,
    summarize,
    unreported,
)
from kipctl.cluster.inspect.replica_selection import (
    NO_SELECTOR,
    Choice,
    PartitionFacts,
    Reason,
    Replica,
)
from kipctl.cluster.log_dirs import reported_sizes
from kipctl.cluster.snapshot import PartitionId
from kipctl.counts import cost_per_month
from kipctl.errors import TimedOutError, UnreachableError, UsageError
from kipctl.protocol.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

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
IN_RACKS = {0: "ab", 1: "b", 2: "b"}
FACTS = [
    PartitionFacts(
        id=PartitionId("t", number),
        leader=1,
        selector=NO_SELECTOR,
        offset=0,
        replicas=tuple(Replica("abc".index(rack) + 1, rack, True) for rack in racks),
    )
    for number, racks in IN_RACKS.items()
]
HELD = {PartitionId("t", number): size for number, size in enumerate((100, 300, 600))}


def test_bytes_of_each_rack() -> None:
    a, b = summarize(CHOICES, FACTS, HELD)
    assert (a.rack, a.partitions, a.local, a.closest) == ("a", 3, 1, 1)
    assert (a.held_bytes, a.cross_held_bytes, a.cross_percent) == (400, 300, 75.0)
    assert (b.rack, b.local, b.held_bytes, b.cross_held_bytes) == ("b", 1, 1000, 100)
    assert a.bytes_per_s is a.cross_bytes_per_s is None
    assert cost_per_month(a.cross_bytes_per_s, 1.0) is cost_per_month(1e6, None) is None


def test_rates_and_their_price() -> None:
    each = {PartitionId("t", number): rate for number, rate in enumerate((1e6, 3e6, 0.0))}
    a, b = summarize(CHOICES, FACTS, HELD, each)
    assert (a.bytes_per_s, a.cross_bytes_per_s, a.cross_percent) == (4e6, 3e6, 75.0)
    assert (b.cross_bytes_per_s, b.cross_percent) == (1e6, 25.0)
    # Both leaders are in a.
    assert (a.from_leaders, b.from_leaders) == (Crossing(0, 0), Crossing(4e6, 100))
    # In b there is a replica of each, though no selector names it; in a there is none of 1.
    assert (a.from_closest, b.from_closest) == (Crossing(3e6, 75), Crossing(0, 0))
    by_size = summarize(CHOICES, FACTS, HELD)
    assert [rack.from_closest for rack in by_size] == [Crossing(None, 75), Crossing(None, 0)]
    # 1 MB/s for 2,592,000 s are 2,592 GB.
    assert cost_per_month(b.cross_bytes_per_s, 0.02) == pytest.approx(51.84)
    (idle,) = summarize(CHOICES[:1], FACTS, HELD, {PartitionId("t", 0): 0.0})
    assert (idle.bytes_per_s, idle.cross_percent, idle.unreported) == (0, None, ())
    (third,) = summarize(CHOICES[1:2], FACTS, HELD, {PartitionId("t", 1): 1 / 3})
    assert third.cross_percent == 100  # all of it, whatever 100 times a third is


def test_a_sum_that_nobody_told_all_of_is_not_known() -> None:
    first, second = PartitionId("t", 0), PartitionId("t", 1)
    a, b = summarize(CHOICES[:2] + CHOICES[3:5], FACTS, {second: 300})
    assert (a.held_bytes, a.cross_held_bytes, a.cross_percent, a.unreported) == (
        (None, 300, None, (first,))
    )
    assert (b.held_bytes, b.cross_held_bytes) == (None, None)
    # Rates that are not known are not made good by the bytes that are.
    a, b = summarize(CHOICES[:2] + CHOICES[3:5], FACTS, HELD, {first: 1e6})
    assert (a.held_bytes, a.bytes_per_s, a.cross_bytes_per_s) == (400, None, None)
    assert (a.cross_percent, cost_per_month(a.cross_bytes_per_s, 0.02)) == (None, None)
    assert (b.bytes_per_s, b.cross_bytes_per_s, b.unreported) == (None, 1e6, (second,))
    assert unreported([a, b], {second: "why", PartitionId("t", 7): "none reads it"}) == {
        second: "why"
    }


def test_whom_nobody_says_who_serves_may_cross_racks_or_not() -> None:
    first, second = PartitionId("t", 0), PartitionId("t", 1)
    chosen = [CHOICES[0], choice(1, "a", None, Reason.NOT_ANSWERED), CHOICES[2]]
    (a,) = summarize(chosen, FACTS, HELD, {first: 1e6, second: 3e6})
    assert (a.held_bytes, a.cross_held_bytes, a.bytes_per_s) == (400, None, 4e6)
    assert (a.cross_bytes_per_s, a.cross_percent) == (None, None)
    assert unreported([a], {}) == {second: "its leader did not say who serves it"}
    (alone,) = summarize(chosen[1:2], FACTS, {}, {})
    assert (alone.held_bytes, alone.bytes_per_s, alone.cross_bytes_per_s) == (None, None, None)


def told(*results: DescribeLogDirsResult, error_code: int = 0) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=error_code, results=results)


HEALTHY = DescribeLogDirsResult(
    log_dir="/a",
    topics=(
        DescribeLogDirsTopic(
            "t",
            (
                DescribeLogDirsPartition(0, 100),
                DescribeLogDirsPartition(1, 300, is_future_key=True),
            ),
        ),
    ),
)


@pytest.mark.parametrize(
    ("answer", "sizes", "why"),
    [
        (told(HEALTHY), {0: 100}, "broker 2 has no log of it any more"),
        (told(error_code=31), {}, "broker 2: CLUSTER_AUTHORIZATION_FAILED"),
        # Before version 3 there is no error of the whole.
        (told(), {}, "broker 2 shows no log directory: DESCRIBE on the cluster is needed"),
        (
            told(HEALTHY, DescribeLogDirsResult(error_code=56, log_dir="/b")),
            {0: 100},
            "broker 2, directory /b: KAFKA_STORAGE_ERROR",
        ),
    ],
    ids=["no log", "refused", "refused by an old broker", "a failed directory"],
)
def test_sizes_that_a_broker_does_not_tell(
    answer: DescribeLogDirsResponse, sizes: dict[int, int], why: str
) -> None:
    assert reported_sizes(2, answer) == (
        {PartitionId("t", n): size for n, size in sizes.items()},
        why,
    )


def facts(number: int, leader: int, log_end: int | None = 10) -> PartitionFacts:
    log = Replica(leader, "a", True, log_start=0, log_end=log_end)
    return PartitionFacts(PartitionId("t", number), leader, "", 0, (log,))


class OneBrokerLeft:
    """A cluster whose broker 1 answers; 2 is gone since it was last seen."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def broker(self, id: int) -> "OneBrokerLeft":
        self.asked.append(id)
        if id == 2:
            raise UnreachableError("Broker 2 is not in the cluster's Metadata.")
        return self

    def request(self, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        return told(HEALTHY)


def test_a_leader_that_is_lost_leaves_its_partitions_unknown_and_the_others_are_told() -> None:
    cluster = OneBrokerLeft()
    all_facts = [facts(0, 1), facts(1, 2), facts(2, 3), facts(3, -1), facts(4, 1)]
    seen = samples(cluster, all_facts, {3: TimedOutError("Broker 3 is silent.")})
    assert {partition.partition: size for partition, size in seen.held.items()} == {0: 100}
    assert {partition.partition: why for partition, why in seen.missing.items()} == {
        1: "Broker 2 is not in the cluster's Metadata.",
        2: "Broker 3 is silent.",
        3: "no leader",
        4: "broker 1 has no log of it any more",
    }
    assert cluster.asked == [1, 2]
    (unfinished_roll,) = samples(cluster, [facts(0, 1, None)], {}).missing.values()
    assert unfinished_roll == "broker 1 did not report where the log starts and ends"


def test_a_rate_takes_two_looks() -> None:
    first, second, last = (PartitionId("t", number) for number in range(3))
    early, late = Sample(0, 0, 0, 0), Sample(S, 500, 0, 5)
    before = Samples({first: early, second: early}, {last: "no leader"})
    after = Samples({first: late, last: late}, {second: "broker 1 is gone"})
    assert rates(before, after) == ({first: 500.0}, {second: "broker 1 is gone", last: "no leader"})


@pytest.mark.parametrize(
    ("text", "racks"),
    [("0%", []), ("33.3%", []), ("33.4 %", ["a", "b"]), ("34", ["a", "b"]), ("100%", ["a", "b"])],
)
def test_the_gate_holds_for_every_rack(text: str, racks: list[str]) -> None:
    summaries = summarize(CHOICES, FACTS, HELD)
    assert [summary.rack for summary in below(summaries, parse_percent(text))] == racks


def test_a_gate_with_nothing_to_hold_for_does_not_pass() -> None:
    with pytest.raises(UsageError, match="no partition that --require-local could hold for"):
        below(summarize([], [], {}), 0)


@pytest.mark.parametrize("text", ["", "%", "much", "-1%", "101", "nan"])
def test_what_is_no_percentage(text: str) -> None:
    with pytest.raises(UsageError, match="is no percentage"):
        parse_percent(text)
