"""`kipctl reassign` by a way to plan: what each leaves on a cluster, says, and asks."""

from pathlib import Path

import pytest
from reassigning import Held, Reassigning

from kipctl.cluster.snapshot import PartitionId

T = [PartitionId("t", n) for n in range(6)]
OFFSETS = PartitionId("__consumer_offsets", 0)
REPLICAS = {**dict.fromkeys(T, (1, 2, 3)), OFFSETS: (1, 2, 3)}


def test_leaders_off_leaves_every_replica_where_it_is(fake: Reassigning) -> None:
    ran = fake.kipctl("reassign --leaders-off 1 --yes")
    assert {frozenset(held) for held in fake.replicas().values()} == {frozenset((1, 2, 3))}
    assert sorted(fake.leaders().values()) in ([2, 2, 2, 2, 3, 3, 3], [2, 2, 2, 3, 3, 3, 3])
    assert "no data is copied" in ran.err
    fake.kipctl("undo --yes")
    assert set(fake.leaders().values()) == {1}


def test_what_an_election_alone_moves_is_elected(fake: Reassigning) -> None:
    fake.partitions = {T[0]: Held((2, 1, 3), leader=1), T[1]: Held((2, 1, 3), leader=2)}
    fake.kipctl("reassign --leaders-off 1 --yes")
    assert fake.elected == [{T[0]}]
    assert fake.leaders() == {T[0]: 2, T[1]: 2}


def test_drain_moves_everything_internal_topics_too(fake: Reassigning) -> None:
    ran = fake.kipctl("reassign --drain 3 --yes")
    assert set(map(frozenset, fake.replicas().values())) == {frozenset((1, 2, 4))}
    assert "7 replicas, 7.0 kB, are copied, not throttled." in ran.err


def test_leaders_that_move_with_their_data_are_counted_and_the_broker_is_said_to_be_empty(
    fake: Reassigning,
) -> None:
    fake.partitions[T[5]] = Held((1, 2, 3), leader=2)
    ran = fake.kipctl("reassign --drain 1 --yes -o json")
    outcomes = [partition["outcome"] for partition in ran.document["partitions"]]
    assert outcomes.count("moved with its data") == 6
    moved = ran.document["leaders_moved"]
    assert moved == {"by_election": outcomes.count("elected"), "with_data": 6, "by_others": 0}
    assert ran.document["emptied_brokers"] == [1]
    fake.kipctl("undo --yes")
    out = fake.kipctl("reassign --drain 1 --yes").out
    assert out.startswith("Broker 1 has no replica left.\n")
    assert "leaders moved (" in out
    assert " with the data, " in out
    # With a partition of another topic left it is not empty.
    fake.kipctl("undo --yes")
    out = fake.kipctl("reassign --drain 1 --topic t --yes").out
    assert "no replica left" not in out


def test_a_broker_that_cannot_be_emptied_is_not_said_to_be_drained(fake: Reassigning) -> None:
    """A script goes on by the status, and may remove the broker."""
    fake.brokers = (1, 2, 3)
    fake.partitions = {T[0]: Held((1, 2, 3), leader=1), T[1]: Held((3,), leader=3)}
    ran = fake.kipctl("reassign --drain 3 --yes -o json", status=5)
    assert [at["partition"] for at in ran.document["partitions"]] == [1]
    assert (
        "kipctl: 1 replica stays on broker 3, such as one of t-0: "
        "too few other brokers are alive.\n"
        "Start another broker, or add one, and repeat the command.\n"
    ) in ran.err
    assert fake.states() == ["done"]
    again = fake.kipctl("reassign --drain 3 --yes", status=5)  # with nothing left to move
    assert "1 replica stays on broker 3" in again.err


def test_topics_choose_whose_partitions_change(fake: Reassigning) -> None:
    fake.kipctl("reassign --drain 3 --topic __consumer_offsets --yes")
    moved = {p for p, replicas in fake.replicas().items() if 3 not in replicas}
    assert moved == {OFFSETS}


@pytest.mark.parametrize(
    ("words", "replicas", "leader"),
    [
        ("--leader t-4=3", (3, 1, 2), 3),
        ("--replace 1=4 --topic t", (4, 2, 3), 4),
        ("--replication-factor 2 --topic t", (1, 2), 1),
        ("--replication-factor 4 --topic t", (1, 2, 3, 4), 1),
    ],
)
def test_what_a_way_leaves_of_a_partition(
    fake: Reassigning, words: str, replicas: tuple[int, ...], leader: int
) -> None:
    fake.kipctl("reassign", words, "--yes")
    assert fake.replicas()[T[4]] == replicas
    assert fake.leaders()[T[4]] == leader


def test_leaders_are_balanced_by_what_comes_in(fake: Reassigning) -> None:
    """Nothing does here."""
    ran = fake.kipctl("reassign --balance bytes --yes")
    assert "Looking for 10 s at what comes in." in ran.err
    assert "MB/s in, by preferred leader: broker 1 0.0 and then 0.0, broker 2" in ran.err
    assert fake.altered == []


def test_leaders_leave_a_broker_only_with_something_to_spare(fake: Reassigning) -> None:
    ran = fake.kipctl("reassign --leaders-off 1 --spare 2 --yes", status=4)
    assert "to spare" in ran.err
    assert fake.altered == []
    ran = fake.kipctl("reassign --balance leaders --spare 1 --yes", status=2)
    assert "--spare goes only with --leaders-off" in ran.err


def test_balance_and_add_even_out_what_brokers_have(fake: Reassigning) -> None:
    fake.kipctl("reassign --balance leaders --yes")
    led = list(fake.leaders().values())
    assert sorted(led.count(broker) for broker in (1, 2, 3)) == [2, 2, 3]
    fake.kipctl("reassign --add 4 --yes")
    held = [broker for replicas in fake.replicas().values() for broker in replicas]
    assert held.count(4) in (5, 6)


def test_a_dry_run_tells_what_is_copied_from_where(fake: Reassigning) -> None:
    fake.bytes_each = 10**9
    seen = fake.kipctl("reassign --drain 3 --dry-run -o json").document["copied"]
    assert (seen["replica_count"], seen["bytes"]) == (7, 7 * 10**9)
    assert seen["links"] == [
        {"from_broker": 1, "to_broker": 4, "replica_count": 7, "bytes": 7 * 10**9}
    ]
    assert fake.altered == []
    shown = fake.kipctl("reassign --drain 3 --dry-run --throttle 100MB/s").out
    assert shown.count("Brokers") == 1
    assert "7 replicas, 7.0 GB, are copied, at most 100.0 MB/s in and out of each" in shown
    assert "broker: about 70 s" in shown.replace("\n", " ")


def test_a_disk_that_would_fill_is_refused_unless_forced(fake: Reassigning) -> None:
    fake.bytes_each, fake.usable_bytes = 10**9, 6 * 10**9
    ran = fake.kipctl("reassign --drain 3 --yes", status=4)
    assert "Broker 4 has too little room: 7.0 GB come, 6.0 GB are free." in ran.err
    assert fake.altered == []
    fake.kipctl("reassign --drain 3 --yes --force")


def test_where_nothing_is_to_be_done_nothing_is_asked(fake: Reassigning) -> None:
    fake.kipctl("reassign --drain 4")
    assert fake.altered == []


def test_a_factor_below_min_insync_replicas_is_left_alone(fake: Reassigning) -> None:
    fake.min_insync = {"t": "2"}
    words = "reassign --replication-factor 1 --topic t --yes"
    fake.kipctl(words)
    assert fake.altered == []
    fake.kipctl(words, "--force")
    assert set(map(len, (fake.replicas()[p] for p in T))) == {1}


def test_one_way_at_a_time(fake: Reassigning) -> None:
    ran = fake.kipctl("reassign --drain 3 --rack-aware --yes", status=2)
    assert "--drain and --rack-aware exclude one another" in ran.err


def test_topics_that_cannot_rotate(fake: Reassigning) -> None:
    fake.partitions = {
        PartitionId("solo", 0): Held((1,), 1),
        PartitionId("pair", 0): Held((1, 2), 1),
    }
    ran = fake.kipctl("reassign --rotate --topic solo --yes", status=4)
    assert "solo-0: it has too few replicas to rotate (1)" in ran.err
    ran = fake.kipctl("reassign --rotate --topic '*o*' --topic pair --yes")
    assert "1 is left alone" in ran.err
    assert list(fake.leaders().values()) == [1, 2]


def test_wrong_topics_and_plans_change_nothing(fake: Reassigning) -> None:
    fake.kipctl("reassign --rotate --topic nowhere --yes", status=2)
    file = Path(fake.plan_file({T[0]: (1, 9)}))
    wrong = {
        file.read_text(): "partitions[0]: t-0: broker 9 is not alive",
        '{"partitions": [': "line 1 column 17: this is not JSON",
        file.read_text().replace('"t"', '"nowhere"'): "partitions[0]: there is no topic 'nowhere'",
    }
    for content, problem in wrong.items():
        file.write_text(content)
        assert problem in fake.kipctl(f"reassign --plan {file} --yes", status=2).err
    assert fake.altered == []
