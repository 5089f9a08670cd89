"""Leaders are balanced on a real cluster: by what comes in, and by their numbers."""

import threading
from collections import Counter
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


def leaders_by_topic(admin: AdminClient) -> dict[str, Counter[int]]:
    return {
        name: Counter(partition.leader for partition in topic.partitions.values())
        for name, topic in admin.list_topics(timeout=30).topics.items()
    }


def test_leaders_of_many_topics_are_even_by_broker_and_within_each_topic(
    kipctl: Kipctl, make_topic: MakeTopic, lab: Lab
) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    make_topic("besides", [[2, 3, 1]])  # even is what brokers lead in all, whatever else is there
    names = [f"spread-{number}" for number in range(20)]
    new = [NewTopic(name, 3, replica_assignment=[[1, 2, 3]] * 3) for name in names]
    for made in admin.create_topics(new).values():
        made.result()
    try:
        kipctl("wait --topic spread-*")
        before = leaders_by_topic(admin)
        assert all(before[name] == {1: 3} for name in names)
        ran = kipctl("reassign --balance leaders --topic spread-* --yes -o json")
        after = leaders_by_topic(admin)
        assert {name for name in after if after[name] != before[name]} <= {*names}
        leads = sum(after.values(), Counter[int]())
        assert max(leads.values()) - min(leads.values()) <= 1
        assert leads[1] == max(leads.values()), "more have left broker 1 than had to"
        assert ran.document["leaders_moved"]["by_election"] == sum(3 - after[n][1] for n in names)
        # Two of three have to move in each topic, but where brokers lead more or fewer besides.
        besides = [sum(before[n][broker] for n in before.keys() - {*names}) for broker in (1, 2, 3)]
        uneven = [name for name in names if sorted(after[name].values()) != [1, 1, 1]]
        assert len(uneven) <= max(besides) - min(besides) + 1
        kipctl("undo --yes")
        assert all(leaders_by_topic(admin)[name] == {1: 3} for name in names)
    finally:
        for gone in admin.delete_topics(names).values():
            gone.result()
