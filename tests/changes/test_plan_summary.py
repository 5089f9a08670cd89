"""What a plan comes to in numbers, and option values read into ways to plan."""

from collections.abc import Callable, Mapping

import pytest
from plan_worlds import cluster_of

from kipctl.changes.plans.log_sizes import Disk, LogSizes, disk_of, log_sizes
from kipctl.changes.plans.plan import Move, Plan, SkippedPartition
from kipctl.changes.plans.plan_summary import SkipReason, document, summarize
from kipctl.changes.plans.planners import options
from kipctl.changes.plans.planners.add_brokers import add
from kipctl.changes.plans.planners.drain import drain
from kipctl.changes.plans.planners.placement import NO_INPUTS
from kipctl.changes.plans.planners.preferred_leaders import (
    balance_leaders,
    leaders_off,
    set_preferred,
)
from kipctl.changes.plans.planners.replace_broker import replace
from kipctl.changes.plans.planners.replication_factor import replication_factor
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot
from kipctl.documents.plans import CopyLink, TopicSpread
from kipctl.errors import UsageError
from kipctl.protocol.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kipctl.report.plan_tables import (
    brokers_table,
    copied_lines,
    duration,
    left_alone_table,
    links_table,
    plan_sentence,
)

T = [PartitionId("t", number) for number in range(4)]
NOW = cluster_of((1, 2), (1, 2), (2, 1), (2, 1), brokers=(1, 2, 3))
PLAN = Plan(
    (
        Move(T[0], (1, 2), (3, 2), 1),
        Move(T[1], (1, 2), (2, 1), 1),
        Move(T[2], (2, 1), (2, 1, 3), 2),
    ),
    (SkippedPartition(T[3], "it is so"),),
)
SIZES = {T[0]: 100, T[1]: 10, T[2]: 40}


def told(disks: Mapping[int, Disk] | None = None) -> LogSizes:
    return LogSizes(SIZES, disks or {}, {})


def test_brokers_before_and_after_and_what_is_copied() -> None:
    seen = summarize(NOW, PLAN, told({3: Disk(200, 120), 1: Disk(200, 10)}))
    first, second, third = seen.brokers
    assert (first.leader_count, first.leader_count_after) == (2, 0)
    assert (third.leader_count, third.leader_count_after) == (0, 1)
    assert (second.leader_count, second.leader_count_after) == (2, 3)
    assert (first.replica_count, first.replica_count_after) == (4, 3)
    assert (first.bytes, first.bytes_after, first.bytes_out) == (150, 50, 100)
    assert (third.bytes_in, third.usable, third.fills) == (140, 120, True)
    assert seen.links == (CopyLink(1, 3, 1, 100), CopyLink(2, 3, 1, 40))
    assert (seen.partitions, seen.topics, seen.copied) == (3, 1, 2)
    assert seen.factors == {(2, 3): 1}
    assert seen.skip_reasons == (SkipReason("it is so", 1, T[3]),)
    assert (seen.copied_replicas, seen.copied_bytes, seen.unknown_sizes) == (2, 140, 0)
    assert [broker.broker for broker in seen.filled] == [3]
    assert seen.seconds_at(10) == 14.0


def test_a_rotation_where_a_broker_is_down_and_a_partition_has_no_leader() -> None:
    now = Snapshot(
        "c",
        tuple(Broker(b, "h", 1, None) for b in (1, 2, 3)),
        (
            Partition(T[0], (1, 2), (1, 2), 1, 0),
            Partition(T[1], (1, 2), (1, 2), 1, 0),
            Partition(T[2], (2, 4), (2,), 2, 0),
            Partition(T[3], (4,), (), -1, 0),
        ),
    )
    seen = summarize(now, rotate(now))
    assert (seen.partitions, seen.topics, seen.copied, seen.factors) == (2, 1, 0, {})
    assert [
        (
            b.broker,
            b.alive,
            b.leader_count,
            b.leader_count_after,
            b.replica_count,
            b.replica_count_after,
        )
        for b in seen.brokers
    ] == [
        (1, True, 2, 0, 2, 2),
        (2, True, 1, 3, 3, 3),
        (3, True, 0, 0, 0, 0),
        (4, False, 0, 0, 2, 2),
    ]
    assert seen.skip_reasons == (
        SkipReason("no replica but its leader is in sync", 1, T[2]),
        SkipReason("it has too few replicas to rotate (1)", 1, T[3]),
    )


def test_reasons_are_counted_and_the_first_is_the_example() -> None:
    plan = Plan(
        (), (SkippedPartition(T[1], "a"), SkippedPartition(T[2], "b"), SkippedPartition(T[3], "b"))
    )
    assert summarize(NOW, plan).skip_reasons == (SkipReason("b", 2, T[2]), SkipReason("a", 1, T[1]))


def test_it_is_said_in_how_many_topics_leaders_are_even() -> None:
    """Broker 3 has no replica, and counts in none of them."""
    to_two = Plan((Move(T[0], (1, 2), (2, 1), 1), Move(T[1], (1, 2), (2, 1), 1)))
    seen = document(summarize(NOW, to_two))
    assert seen["topic_spread"] == TopicSpread(topic_count=1, even_count=1, even_count_after=0)
    assert plan_sentence(seen) == "2 partitions of 1 topic change: no data is copied."
    uneven = cluster_of((1, 2), (1, 2), (1, 2), (1, 2), brokers=(1, 2, 3))
    seen = document(summarize(uneven, to_two))
    assert plan_sentence(seen) == (
        "2 partitions of 1 topic change: no data is copied; leaders are even in 1 of 1 topic,"
        " before in 0."
    )


def test_what_copying_takes_and_whose_disk_fills() -> None:
    seen = document(summarize(NOW, PLAN, told({3: Disk(200, 120)})), 1.0)
    lines = list(copied_lines(seen))
    assert lines[0].startswith("2 replicas, 140 B, are copied, at most 1 B/s in and out")
    assert "about 2 min, longer while clients write" in lines[0]
    assert lines[1:] == ["Broker 3 has too little room: 140 B come, 120 B are free."]
    assert "In" in brokers_table(seen).titles
    assert [row[:3] for row in links_table(seen).rows] == [("1", "3", 1), ("2", "3", 1)]
    assert left_alone_table(seen).rows == (("it is so", 1, "t-3"),)
    assert plan_sentence(seen) == (
        "3 partitions of 1 topic change: data of 2 is copied; 1 gets 3 replicas instead of 2;"
        " 1 is left alone."
    )


def test_sizes_that_brokers_do_not_tell_are_said_to_be_unknown() -> None:
    silent = dict.fromkeys(range(1, 6), "no right")
    first, *others = copied_lines(document(summarize(NOW, PLAN, LogSizes({}, {}, silent))))
    assert first == ("2 replicas, 0 B, are copied, not throttled; of 2 the size is not known.")
    assert others == [
        *(f"Broker {number} does not report sizes: no right" for number in (1, 2, 3)),
        "Nor do 2 more brokers.",
    ]


def test_a_plan_that_copies_nothing_has_no_bytes() -> None:
    seen = document(summarize(NOW, Plan(PLAN.moves[1:2])))
    assert "copied" not in seen
    assert list(copied_lines(seen)) == []
    assert brokers_table(seen).titles == ("Broker", "Leaders", "After", "Replicas", "After")
    assert plan_sentence(document(summarize(NOW, Plan(())))) == "Nothing is to be reassigned."


@pytest.mark.parametrize(
    ("seconds", "text"), [(45, "45 s"), (600, "10 min"), (9000, "2.5 h"), (259200, "3.0 days")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def answer(*dirs: DescribeLogDirsResult) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(results=dirs)


def log_dir(name: str, size: int, total: int = -1, usable: int = -1) -> DescribeLogDirsResult:
    logs = (DescribeLogDirsPartition(0, size),)
    return DescribeLogDirsResult(0, name, (DescribeLogDirsTopic("t", logs),), total, usable)


def test_the_leaders_size_counts_and_volumes_count_once() -> None:
    logs = log_sizes(NOW, {1: answer(log_dir("a", 5)), 2: answer(log_dir("a", 9))}, {3: "away"})
    assert logs.sizes == {T[0]: 5}
    assert logs.missing == {3: "away"}
    assert logs.disks == {}
    assert log_sizes(NOW, {2: answer(log_dir("a", 9))}, {}).sizes == {T[0]: 9}
    same = answer(log_dir("a", 1, 10, 4), log_dir("b", 1, 10, 4), log_dir("c", 1, 20, 5))
    assert disk_of(same) == Disk(30, 9)


def test_option_values_are_read() -> None:
    assert options.parse_brokers("--drain", ["3,1", "2"]) == (1, 2, 3)
    assert options.parse_leader("my-topic-3=2") == (PartitionId("my-topic", 3), 2)
    assert options.parse_replace("1=4") == (1, 4)
    racked = cluster_of((1, 2), racks="ab2", brokers=(1, 2, 3))
    assert options.brokers_of(racked, "a") == {1}
    assert options.brokers_of(racked, "3") == {3}
    assert options.brokers_of(racked, "rack:2") == {3}
    assert options.brokers_of(racked, "broker:2") == {2}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: options.drain_option(["x"]),
        lambda: options.add_option(["1,"]),
        lambda: options.add_option(["99999999999"]),
        lambda: options.leader_option(["t=1"]),
        lambda: options.leader_option(["t-0"]),
        lambda: options.leader_option(["t-0=1", "t-0=2"]),
        lambda: options.replace_option(["1"]),
        lambda: options.replace_option(["1=1"]),
        lambda: options.replace_option(["1=2", "1=3"]),
        lambda: options.balance_option("replicas"),
        lambda: options.replication_factor_option(0),
        lambda: options.brokers_of(cluster_of((1,), racks="ab2d"), "2"),
        lambda: options.brokers_of(cluster_of((1,), racks="abcd"), "z"),
        lambda: options.brokers_of(cluster_of((1,)), "7"),
    ],
)
def test_what_is_wrong_is_said(wrong: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        wrong()


def test_each_way_is_its_planner_with_what_the_option_says() -> None:
    ways = [
        (options.drain_option(["1"]), drain(NOW, [1])),
        (options.leaders_off_option(["1"]), leaders_off(NOW, [1])),
        (options.leader_option(["t-0=1"]), set_preferred(NOW, {T[0]: 1})),
        (options.balance_option("leaders"), balance_leaders(NOW)),
        (options.add_option(["3"]), add(NOW, [3])),
        (options.replace_option(["1=3"]), replace(NOW, {1: 3})),
        (options.replication_factor_option(3), replication_factor(NOW, 3)),
    ]
    assert [way.option for way, _ in ways][:3] == ["--drain 1", "--leaders-off 1", "--leader t-0=1"]
    for way, plan in ways:
        assert way.plan(NOW, NO_INPUTS) == plan
    with pytest.raises(UsageError):
        options.rack_aware_option().plan(NOW, NO_INPUTS)
