"""`elect unclean --longest` on brokers: the live replica with the most records leads."""

import pytest
from confluent_kafka import Producer
from on_lab import Kipctl, MakeTopic, in_sync, replicas_of, wait_until_everywhere

from kipctl.cluster.snapshot import Snapshot
from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


@pytest.fixture
def lab(struck_lab: Lab) -> Lab:
    return struck_lab


def test_the_longest_log_leads_where_another_would(
    lab: Lab, cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    """3 has two records, 2 has five, and 1, which is down, has more."""
    topic = make_topic("lost", [[1, 3, 2]])
    producer = Producer({"bootstrap.servers": lab.bootstrap_server, "acks": "all", "log_level": 0})

    def write(records: int, *brokers: int) -> None:
        """With these in sync."""

        def are_in_sync(seen: Snapshot) -> bool:
            return set(seen.partitions[0].isr) == {*brokers}

        wait_until_everywhere(cluster, topic, are_in_sync)
        for number in range(records):
            producer.produce(topic, f"record {number}")
        assert producer.flush(120) == 0

    try:
        write(2, 1, 2, 3)
        lab.stop(3)
        write(3, 1, 2)
        lab.stop(2)
        write(4, 1)
        lab.stop(1)
        lab.start(2, 3)
        wait_until_everywhere(cluster, topic, lambda seen: {2, 3} == {*seen.broker_ids})

        shown = kipctl(f"elect unclean --topic {topic} --dry-run")
        assert "Another live replica has more records than the one that would lead" in shown.out
        better = kipctl(f"elect unclean --topic {topic} --longest --dry-run -o json").document
        (row,) = better["partitions"]
        assert (row["log_ends"], row["would_lead"]) == ({"3": 2, "2": 5}, 2)

        ran = kipctl(f"elect unclean --topic {topic} --longest --force --yes -o json")
        (row,) = ran.document["partitions"]
        assert (row["outcome"], row["leader"], row["replicas"]) == ("elected", 2, [2, 1, 3])
    finally:
        lab.start(1, 2, 3)
    wait_until_everywhere(cluster, topic, in_sync)
    kipctl("undo --yes")
    assert replicas_of(cluster, topic) == [(1, 3, 2)]
