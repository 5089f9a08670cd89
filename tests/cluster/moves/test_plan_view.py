"""What a plan comes to in numbers, and option values read into ways to plan."""

import pytest
from plan_worlds import after, cluster_of, reasons

from kipctl.cluster.moves.log_sizes import disk_of, log_sizes
from kipctl.cluster.moves.plan import Move, Plan, Skipped
from kipctl.cluster.moves.plan_view import Disk, document, seconds_at, view
from kipctl.cluster.moves.planners import ways
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import UsageError
from kipctl.protocol.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kipctl.report.plan_tables import duration, plan_tables

T = [PartitionId("t", number) for number in range(4)]
NOW = cluster_of((1, 2), (1, 2), (2, 1), (2, 1), brokers=(1, 2, 3))
PLAN = Plan(
    (
        Move(T[0], (1, 2), (3, 2), 1),
        Move(T[1], (1, 2), (2, 1), 1),
        Move(T[2], (2, 1), (2, 1, 3), 2),
    ),
    (Skipped(T[3], "it is so"),),
)
SIZES = {T[0]: 100, T[1]: 10, T[2]: 40}


def test_brokers_before_and_after_and_what_is_copied() -> None:
    seen = view(NOW, PLAN, SIZES, {3: Disk(200, 120), 1: Disk(200, 10)})
    one, two, three = seen.brokers
    assert (one.leaders_before, one.leaders_after) == (2, 0)
    assert (three.leaders_before, three.leaders_after) == (0, 1)
    assert (two.leaders_before, two.leaders_after) == (2, 3)
    assert (one.replicas_before, one.replicas_after) == (4, 3)
    assert (one.bytes_before, one.bytes_after, one.bytes_out) == (150, 50, 100)
    assert (three.bytes_in, three.usable, three.fills) == (140, 120, True)
    assert [(x.source, x.target, x.replicas, x.bytes) for x in seen.links] == [
        (1, 3, 1, 100),
        (2, 3, 1, 40),
    ]
    assert seen.changes == {
        "copied to other brokers": 1,
        "another order": 1,
        "more replicas": 1,
    }
    assert seen.left_alone == {"it is so": 1}
    assert (seen.copied_replicas, seen.copied_bytes, seen.unknown_sizes) == (2, 140, 0)
    assert [broker.broker for broker in seen.filled] == [3]
    assert seconds_at(seen, 10) == 14.0


def test_the_tables_say_what_copying_takes_and_whose_disk_fills() -> None:
    shown = plan_tables(document(view(NOW, PLAN, SIZES, {3: Disk(200, 120)}), 1.0))
    assert [table.name for table in shown] == ["changes", "brokers", "links"]
    notes = " ".join(note for table in shown for note in table.notes)
    assert "it takes 2 min at least" in notes
    assert "Broker 3 has too little room" in notes
    (changes, brokers) = plan_tables(document(view(NOW, Plan(()), {})))
    assert changes.notes == ("No data is copied.",)
    assert len(brokers.rows) == 3


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(45, "45 s"), (600, "10 min"), (9000, "2.5 h"), (259200, "3.0 days")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def answer(*dirs: DescribeLogDirsResult) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(results=dirs)


def log_dir(name: str, size: int, total: int = -1, usable: int = -1) -> DescribeLogDirsResult:
    logs = (DescribeLogDirsPartition(0, size),)
    return DescribeLogDirsResult(0, name, (DescribeLogDirsTopic("t", logs),), total, usable)


def test_the_leaders_size_counts_and_volumes_count_once() -> None:
    told = log_sizes(NOW, {1: answer(log_dir("a", 5)), 2: answer(log_dir("a", 9))}, {3: "away"})
    assert told.sizes == {T[0]: 5}
    assert told.missing == {3: "away"}
    assert told.disks == {}
    assert log_sizes(NOW, {2: answer(log_dir("a", 9))}, {}).sizes == {T[0]: 9}
    same = answer(log_dir("a", 1, 10, 4), log_dir("b", 1, 10, 4), log_dir("c", 1, 20, 5))
    assert disk_of(same) == Disk(30, 9)


def test_option_values_are_read() -> None:
    assert ways.parse_brokers("--drain", ["3,1", "2"]) == (1, 2, 3)
    assert ways.parse_leader("my-topic-3=2") == (PartitionId("my-topic", 3), 2)
    assert ways.parse_replace("1=4") == (1, 4)
    racked = cluster_of((1, 2), racks="ab2", brokers=(1, 2, 3))
    assert ways.brokers_of(racked, "a") == {1}
    assert ways.brokers_of(racked, "3") == {3}
    assert ways.brokers_of(racked, "rack:2") == {3}
    assert ways.brokers_of(racked, "broker:2") == {2}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ways.drain_way(["x"]),
        lambda: ways.add_way(["1,"]),
        lambda: ways.add_way(["99999999999"]),
        lambda: ways.leader_way(["t=1"]),
        lambda: ways.leader_way(["t-0"]),
        lambda: ways.leader_way(["t-0=1", "t-0=2"]),
        lambda: ways.replace_way(["1"]),
        lambda: ways.replace_way(["1=1"]),
        lambda: ways.replace_way(["1=2", "1=3"]),
        lambda: ways.balance_way("bytes"),
        lambda: ways.replication_factor_way(0),
        lambda: ways.brokers_of(cluster_of((1,), racks="ab2d"), "2"),
        lambda: ways.brokers_of(cluster_of((1,), racks="abcd"), "z"),
        lambda: ways.brokers_of(cluster_of((1,)), "7"),
    ],
)
def test_what_is_wrong_is_said(wrong: object) -> None:
    with pytest.raises(UsageError):
        wrong()  # type: ignore[operator]


def test_ways_plan_one_after_the_other() -> None:
    plan = ways.planned([ways.drain_way(["1"]), ways.balance_way("leaders")], NOW)
    assert set(after(plan)) == {0, 1, 2, 3}
    assert all(1 not in replicas for replicas in after(plan).values())
    assert reasons(plan) == {}
    every = [
        ways.rotate_way(),
        ways.leaders_off_way(["1"]),
        ways.leader_way(["t-0=1"]),
        ways.add_way(["3"]),
        ways.replace_way(["1=3"]),
        ways.replication_factor_way(3),
    ]
    assert [way.option for way in every][1:4] == ["--leaders-off 1", "--leader t-0=1", "--add 3"]
    for way in every:
        assert ways.planned([way], NOW).moves == way.plan(NOW, ways.NOTHING_KNOWN).moves
    with pytest.raises(UsageError):
        ways.planned([ways.rack_aware_way()], NOW)
