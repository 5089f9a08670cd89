"""Two partitions without a leader, after transactions: one is open, of the other a commit is lost.

What is staged of librdkafka's producers, and read by its consumer, on a lab of two or more brokers.
"""

import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kipctl.cluster.snapshot import Snapshot, refresh_snapshot
from kipctl.lab.cluster import Lab
from kipctl.process import wait_until
from kipctl.transport.request import Cluster

_TIMEOUT_S = 120


def transactional(lab: Lab, id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": lab.bootstrap_server,
            "transactional.id": id,
            "transaction.timeout.ms": 600_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(_TIMEOUT_S)
    return producer


def write(producer: Producer, topic: str, records: int) -> None:
    for number in range(records):
        producer.produce(topic, f"record {number}")
    assert producer.flush(_TIMEOUT_S) == 0


def read_committed(lab: Lab, topic: str) -> int:
    """The records that a consumer of committed ones is given, up to the end that it sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": lab.bootstrap_server,
            "group.id": "look",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    records, deadline = 0, time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error and error.code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return records
        records += error is None
    raise AssertionError(f"no end of {topic}")


def await_committed(lab: Lab, topic: str, records: int) -> None:
    """A commit is answered before its markers are in the partitions: until then readers of what is
    committed are not given its records."""
    assert wait_until(lambda: read_committed(lab, topic) == records, _TIMEOUT_S), topic


def without_a_leader(lab: Lab, cluster: Cluster, open_topic: str, *lost_topics: str) -> Producer:
    """Their partitions 0 are made, and their leader 1 is stopped.

    Broker 2 has the open transaction of the first topic, but lacks the commit of the others that
    was acknowledged. Returns the producer whose transaction is open.
    """
    topics = [open_topic, *lost_topics]

    def seen() -> Snapshot:
        return refresh_snapshot(cluster, topics)

    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    for made in admin.create_topics(
        [NewTopic(name, 1, replica_assignment=[[1, 2]]) for name in topics]
    ).values():
        made.result()
    assert wait_until(
        lambda: [p.isr for p in seen().partitions] == [(1, 2)] * len(topics), _TIMEOUT_S
    )
    committing, opened = transactional(lab, "app-committed"), transactional(lab, "app-open")
    committing.begin_transaction()
    for topic in lost_topics:
        write(committing, topic, 10)
    committing.commit_transaction(_TIMEOUT_S)
    opened.begin_transaction()
    write(opened, open_topic, 4)
    committing.begin_transaction()
    for topic in lost_topics:
        write(committing, topic, 5)
    lab.stop(2)
    assert wait_until(lambda: all(p.isr == (1,) for p in seen().partitions), _TIMEOUT_S)
    committing.commit_transaction(_TIMEOUT_S)
    for topic in lost_topics:
        await_committed(lab, topic, 15)
    lab.stop(1)
    lab.start(2)
    assert wait_until(
        lambda: 2 in seen().broker_ids and len(seen().leaderless) == len(topics), _TIMEOUT_S
    )
    return opened
