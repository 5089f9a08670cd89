"""Leaders are balanced on a real cluster: by what comes in, and by their numbers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from on_lab import Kipctl, MakeTopic, leaders_of

from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


@contextmanager
def written(lab: Lab, topic: str, partitions: int) -> Iterator[None]:
    """Some 200 kB a second come in, as much in each partition."""
    over = threading.Event()
    producer = Producer({"bootstrap.servers": lab.bootstrap_server, "linger.ms": 0})

    def produce() -> None:
        number = 0
        while not over.wait(0.05):
            producer.produce(topic, bytes(10_000), partition=number % partitions)
            producer.poll(0)
            number += 1
        producer.flush(30)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_leaders_are_balanced_by_what_comes_in(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, lab: Lab
) -> None:
    topic = make_topic("coming-in", [[1, 2, 3]] * 6)
    with written(lab, topic, 6):
        ran = kipctl("reassign --balance bytes --topic", topic, "--yes")
    assert "MB/s in, by preferred leader: broker 1 0." in ran.err
    leaders = leaders_of(cluster, topic)
    assert sorted(leaders.count(broker) for broker in (1, 2, 3)) == [2, 2, 2]


def test_leaders_of_many_topics_are_even_by_broker_and_within_each_topic(
    kipctl: Kipctl, lab: Lab
) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    names = [f"spread-{number}" for number in range(20)]
    new = [NewTopic(name, 3, replica_assignment=[[1, 2, 3]] * 3) for name in names]
    for made in admin.create_topics(new).values():
        made.result()
    try:
        kipctl("wait --topic spread-*")
        ran = kipctl("reassign --balance leaders --topic spread-* --yes -o json")
        # Two in each topic have to move, and no more do. Every five minutes the controller elects
        # preferred leaders too, and may be the first.
        moved = ran.document["leaders_moved"]
        assert moved["by_election"] + moved["by_others"] == 40
        shown = admin.list_topics(timeout=30).topics
        leaders = [sorted(p.leader for p in shown[name].partitions.values()) for name in names]
        assert leaders == [[1, 2, 3]] * 20
        kipctl("undo --yes")
        shown = admin.list_topics(timeout=30).topics
        assert {p.leader for name in names for p in shown[name].partitions.values()} == {1}
    finally:
        for gone in admin.delete_topics(names).values():
            gone.result()
