"""Plans on a real cluster: by what comes in, from a table, and with something to spare."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from on_lab import Kipctl, MakeTopic, leaders_of, replicas_of

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


def test_a_table_of_leaders_and_one_of_replicas(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic("from-a-table", [[1, 2], [2, 3]])
    plan = tmp_path / "plan.csv"
    plan.write_text(f"topic,partition,leader\n{topic},0,2\n{topic},1,3\n")
    kipctl("reassign --yes --plan", str(plan))
    assert leaders_of(cluster, topic) == [2, 3]
    plan.write_text(f"Topic;Partition;Replicas\n{topic};0;3 1\n")
    kipctl("reassign --yes --plan", str(plan))
    assert replicas_of(cluster, topic) == [(3, 1), (3, 2)]


def test_leaders_leave_only_with_something_to_spare(
    cluster: Cluster, kipctl: Kipctl, lab: Lab
) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    config = {"min.insync.replicas": "2"}
    tight = NewTopic("tight", 1, replica_assignment=[[1, 2, 3]], config=config)
    admin.create_topics([tight])["tight"].result()
    try:
        kipctl("wait --topic tight")
        ran = kipctl("reassign --leaders-off 1 --spare 1 --topic tight --yes", status=4)
        assert "tight-0 has 2 replicas in sync without broker 1" in ran.err
        assert leaders_of(cluster, "tight") == [1]
        ran = kipctl("roll --dry-run --spare 1")
        assert "refused without --force: less than --spare asks for would be left" in ran.out
        ran = kipctl("roll --dry-run -o json")
        assert all(step["at_min_insync_replicas"] >= 1 for step in ran.document["order"])
        kipctl("reassign --leaders-off 1 --topic tight --yes")
        assert leaders_of(cluster, "tight") != [1]
    finally:
        admin.delete_topics(["tight"])["tight"].result()
