"""`kipctl elect` on a real cluster: each partition's outcome, and what stays as it was."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from on_lab import Kipctl, MakeTopic, in_sync, leaders_of, wait_until_everywhere

from kipctl.cluster.moves.plan import plan_to
from kipctl.cluster.moves.plan_execution import reassign
from kipctl.cluster.moves.reassign import submit
from kipctl.cluster.snapshot import NO_LEADER, PartitionId, take_snapshot
from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


def reorder(cluster: Cluster, topic: str, *replicas: tuple[int, ...]) -> None:
    """Change the preferred leaders, and leave the leaders where they are."""
    target = {PartitionId(topic, number): ids for number, ids in enumerate(replicas)}
    reassign(cluster, plan_to(take_snapshot(cluster, [topic]), target))


def outcomes(out: str) -> list[tuple[int, str, int]]:
    return [(p["partition"], p["outcome"], p["leader"]) for p in json.loads(out)["partitions"]]


def test_only_what_is_not_led_by_its_preferred_replica_is_elected(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    topic = make_topic("elected", [[1, 2], [2, 3], [3, 1]])
    reorder(cluster, topic, (2, 1), (2, 3), (1, 3))
    ran = kipctl("elect", "preferred", "--topic", topic, "--dry-run", "-o", "json")
    assert [p["partition"] for p in json.loads(ran.out)["partitions"]] == [0, 2]
    assert leaders_of(cluster, topic) == [1, 2, 3]
    waits = ("wait", "--topic", topic, "--until")
    ran = kipctl(*waits, "preferred", "--timeout", "0.5")
    assert ran.status == 6
    assert "2 partitions are not led by the preferred replica, such as elected-0" in ran.err

    ran = kipctl("elect", "preferred", "--topic", topic, "--batch", "1", "--yes", "-o", "json")
    assert ran.status == 0, ran.err
    assert outcomes(ran.out) == [(0, "elected", 2), (2, "elected", 1)]
    assert leaders_of(cluster, topic) == [2, 2, 1]

    again = kipctl("elect", "preferred", "--topic", topic, "--yes", "-o", "json")
    assert again.status == 0
    assert json.loads(again.out)["partitions"] == []
    assert kipctl(*waits, "in-sync,preferred,converged,no-reassignment").status == 0


def test_partitions_can_be_named_one_by_one_or_in_kafkas_file(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic("named", [[1, 2], [1, 2], [1, 2]])
    reorder(cluster, topic, (2, 1), (2, 1), (2, 1))
    assert kipctl("elect", "preferred", "--partition", f"{topic}:1", "--yes").status == 0
    assert leaders_of(cluster, topic) == [1, 2, 1]
    file = tmp_path / "election.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 2}]}))
    assert kipctl("elect", "preferred", "--json-file", str(file), "--yes").status == 0
    assert leaders_of(cluster, topic) == [1, 2, 2]


def test_partitions_that_do_not_exist_are_wrong_usage(
    kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    topic = make_topic("unknown", [[1, 2]])
    ran = kipctl("elect", "preferred", "--partition", f"{topic}:7")
    assert ran.status == 2
    assert "There is no partition unknown-7" in ran.err
    ran = kipctl("elect", "preferred", "--partition", "nowhere:0")
    assert ran.status == 2
    assert "There is no topic of partition nowhere-0" in ran.err


def test_a_stopped_broker_fails_its_partitions_alone_and_unclean_elections_help(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, lab: Lab
) -> None:
    topic = make_topic("half", [[1, 3], [1, 2]])
    lost = make_topic("lost", [[3], [3]])
    reorder(cluster, topic, (3, 1), (2, 1))
    lab.stop(3)
    try:
        wait_until_everywhere(
            cluster, lost, lambda seen: all(p.leader == NO_LEADER for p in seen.partitions)
        )
        ran = kipctl("elect", "preferred", "--topic", topic, "--yes", "-o", "json")
        assert ran.status == 5
        assert outcomes(ran.out) == [(0, "failed", 1), (1, "elected", 2)]
        assert "1 partition is done, 1 is not: half-0: PREFERRED_LEADER_NOT_AVAILABLE" in ran.err
        ran = kipctl("elect", "preferred", "--partition", f"{topic}:0", "--yes")
        assert ran.status == 4

        # The only broker that has the data is away: nobody can lead, not even uncleanly.
        ran = kipctl("elect", "unclean", "--topic", lost, "--yes")
        assert ran.status == 4
        assert "lost-0: ELIGIBLE_LEADERS_NOT_AVAILABLE" in ran.err

        # With a new, empty replica there is one to elect; but only after a clear question.
        submit(cluster, {PartitionId(lost, 0): (2,)}, may_change_replication_factor=True)
        ran = kipctl("elect", "unclean", "--topic", lost)
        assert ran.status == 2
        assert "2 of 2 partitions have no leader" in ran.err
        assert "loses for good" in ran.err
        ran = kipctl("elect", "unclean", "--topic", lost, "--yes", "-o", "json")
        assert ran.status == 5
        assert outcomes(ran.out) == [(0, "elected", 2), (1, "failed", NO_LEADER)]
    finally:
        lab.start(3)


def test_a_restarted_broker_gets_its_leaders_back_as_soon_as_it_is_in_sync(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, lab: Lab
) -> None:
    topic = make_topic("restarted", [[3, 1], [3, 2], [1, 3], [3, 1]])
    lab.stop(3)
    try:
        wait_until_everywhere(
            cluster, topic, lambda seen: all(p.leader in (1, 2) for p in seen.partitions)
        )
        ran = kipctl(
            "elect", "preferred", "--broker", "3", "--until", "balanced", "--timeout", "1", "--yes"
        )
        assert ran.status == 6, ran.err
        assert "wait for their preferred replica to be in sync" in ran.err
    finally:
        lab.start(3)
    ran = kipctl(
        *("elect", "preferred", "--broker", "3", "--until", "balanced", "--yes"),
        *("--batch", "2", "--timeout", "300"),
    )
    assert ran.status == 0, ran.err
    assert leaders_of(cluster, topic) == [3, 3, 1, 3]


def test_an_unclean_election_says_before_what_it_will_lose(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, lab: Lab
) -> None:
    """Broker 1 is away while 100 records are written; then broker 3, which has them."""
    topic = make_topic("stale", [[1, 3], [2, 1]])

    def produce(count: int) -> None:
        producer = Producer({"bootstrap.servers": lab.bootstrap_server, "acks": "all"})
        for _ in range(count):
            producer.produce(topic, b"x", partition=0)
        assert producer.flush(30) == 0

    try:
        produce(20)
        lab.stop(1)
        wait_until_everywhere(cluster, topic, lambda seen: seen.partitions[0].leader == 3)
        produce(100)
        lab.stop(3)
        lab.start(1)
        wait_until_everywhere(
            cluster,
            topic,
            lambda seen: 1 in seen.broker_ids and seen.partitions[0].leader == NO_LEADER,
        )
        ran = kipctl("elect", "unclean", "--topic", topic, "--dry-run", "-o", "json")
        (shown,) = json.loads(ran.out)["partitions"]
        assert (shown["partition"], shown["live"], shown["would_lead"]) == (0, [1], 1)
        assert (shown["last_in_sync"], shown["log_ends"]) == ([3], {"1": 20})
        assert shown["loss"] == "no record of a live replica; and what 3 (down) has beyond"

        ran = kipctl("elect", "unclean", "--topic", topic, "--yes", "-o", "json")
        assert ran.status == 0, ran.err
        assert outcomes(ran.out) == [(0, "elected", 1)]
    finally:
        lab.start(3)
        lab.start(1)
    wait_until_everywhere(cluster, topic, in_sync)
