"""`kipctl inspect` on a real cluster: what it shows is so, and nothing is written."""

from collections.abc import Callable

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from on_lab import Kipctl, MakeTopic

from kipctl.changes.execution.plan_execution import reassign
from kipctl.changes.plans.plan import plan_to
from kipctl.cluster.snapshot import PartitionId, take_snapshot
from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
MakeLab = Callable[..., Lab]


def test_leaders_and_their_imbalance(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    topic = make_topic("skewed", [[1, 2], [1, 3], [1, 2], [2, 3]])
    reassign(cluster, plan_to(take_snapshot(cluster, [topic]), {PartitionId(topic, 0): (2, 1)}))
    ran = kipctl("inspect leaders --topic", topic, "-o json")
    shown = ran.document
    assert [(p["leader"], p["preferred_leader"]) for p in shown["partitions"]] == [
        (1, 2),
        (1, 1),
        (1, 1),
        (2, 2),
    ]
    assert [(b["broker"], b["leader_count"], b["preferred"]) for b in shown["brokers"]] == [
        (1, 3, 2),
        (2, 1, 2),
        (3, 0, 0),
    ]
    assert shown["imbalance_percent"] == 25.0
    assert shown["leader_skew"] == 3 / (4 / 3)
    assert shown["without_leader"] == 0
    plain = kipctl("inspect leaders --topic", topic).out
    assert "1 of 4 partitions (25.0 %) is not led by the preferred replica." in plain
    assert "The broker that leads most leads 2.25 times the mean." in plain


def test_hints_agree_with_metadata_and_nothing_is_written(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, lab: Lab
) -> None:
    topic = make_topic("hinted", [[1, 2, 3], [2, 3, 1]])
    producer = Producer({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    for partition in (0, 1):
        producer.produce(topic, b"kept", partition=partition)
    assert producer.flush(30) == 0
    before, offsets = take_snapshot(cluster, [topic]), log_end_offsets(lab, topic)
    assert offsets == [1, 1]

    ran = kipctl("inspect hints --topic", topic, "-o json")
    shown = ran.document
    assert shown["hinting"] == 3
    ports = {broker.id: broker.port for broker in before.brokers}
    assert [
        (b["broker"], b["asked_partition"], b["hint_leader"], b["hint_epoch"], b["hint_endpoint"])
        for b in shown["brokers"]
    ] == [
        (1, "hinted-1", 2, 0, f"127.0.0.1:{ports[2]}"),
        (2, "hinted-0", 1, 0, f"127.0.0.1:{ports[1]}"),
        (3, "hinted-0", 1, 0, f"127.0.0.1:{ports[1]}"),
    ]
    assert {b["verdict"] for b in shown["brokers"]} == {"hint agrees with Metadata"}
    assert all(b["produce_versions"].startswith("0-") for b in shown["brokers"])

    # All replicate both partitions, and neither has moved: a Fetch is refused by nobody.
    assert {b["fetch_verdict"] for b in shown["brokers"]} == {
        "it has a replica of each partition, and none has moved: not asked"
    }

    assert take_snapshot(cluster, [topic]) == before
    assert log_end_offsets(lab, topic) == offsets


def test_a_fetch_is_refused_with_a_hint_by_those_without_a_replica_and_for_an_old_epoch(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    topic = make_topic("fetched", [[1, 2]])
    shown = kipctl("inspect hints --topic", topic, "-o json").document
    answers = [(b["broker"], b["fetch_error"], b["fetch_hint_leader"]) for b in shown["brokers"]]
    assert answers == [(1, None, None), (2, None, None), (3, "NOT_LEADER_OR_FOLLOWER", 1)]
    assert shown["hinting_in_fetch"] == 1

    kipctl("reassign --rotate --topic", topic, "--yes")
    shown = kipctl("inspect hints --topic", topic, "-o json").document
    answers = [(b["broker"], b["fetch_error"], b["fetch_hint_leader"]) for b in shown["brokers"]]
    assert answers == [
        (1, "FENCED_LEADER_EPOCH", 2),
        (2, "FENCED_LEADER_EPOCH", 2),
        (3, "NOT_LEADER_OR_FOLLOWER", 2),
    ]
    assert {b["fetch_verdict"] for b in shown["brokers"]} == {"hint agrees with Metadata"}


def test_a_broker_that_leads_all_is_not_asked(kipctl: Kipctl, make_topic: MakeTopic) -> None:
    topic = make_topic("all-on-one", [[1, 2]])
    ran = kipctl("inspect hints --topic", topic, "-o json")
    first, *others = ran.document["brokers"]
    assert (first["verdict"], first["asked_partition"]) == (
        "no partition is led elsewhere: not asked",
        None,
    )
    assert {b["hint_leader"] for b in others} == {1}
    assert ran.document["not_asked"] == 1
    ran = kipctl("inspect hints --topic", topic)
    assert "2 of 2 brokers that were asked named a leader, all as Metadata has it." in ran.out


def log_end_offsets(lab: Lab, topic: str) -> list[int]:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    asked = {TopicPartition(topic, n): OffsetSpec.latest() for n in (0, 1)}
    return [future.result().offset for future in admin.list_offsets(asked).values()]
