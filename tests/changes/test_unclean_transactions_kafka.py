"""An unclean election under transactions, on brokers: what is said before and after is what is so.

The state is read by another client: a consumer of librdkafka, and Kafka's own tool.
"""

import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import OnLab
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from on_lab import Ran

from kipctl.cluster.snapshot import Snapshot, refresh_snapshot
from kipctl.lab.cluster import Lab
from kipctl.process import wait_until
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

OPEN, LOST = "tx", "tx2"
"""A transaction is open; and the marker of one that was committed is lost."""
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


def seen(cluster: Cluster) -> Snapshot:
    return refresh_snapshot(cluster, [OPEN, LOST])


def without_a_leader(lab: Lab, cluster: Cluster) -> Producer:
    """Two partitions whose leader is down; the other replica lacks a commit that was acknowledged.

    Returns the producer whose transaction is open.
    """
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    for made in admin.create_topics(
        [NewTopic(name, 1, replica_assignment=[[1, 2]]) for name in (OPEN, LOST)]
    ).values():
        made.result()
    assert wait_until(lambda: [p.isr for p in seen(cluster).partitions] == [(1, 2)] * 2, _TIMEOUT_S)
    committing, opened = transactional(lab, "app-committed"), transactional(lab, "app-open")
    committing.begin_transaction()
    write(committing, LOST, 10)
    committing.commit_transaction(_TIMEOUT_S)
    opened.begin_transaction()
    write(opened, OPEN, 4)
    committing.begin_transaction()
    write(committing, LOST, 5)
    lab.stop(2)
    assert wait_until(lambda: all(p.isr == (1,) for p in seen(cluster).partitions), _TIMEOUT_S)
    committing.commit_transaction(_TIMEOUT_S)
    assert read_committed(lab, LOST) == 15
    lab.stop(1)
    lab.start(2)
    assert wait_until(
        lambda: 2 in seen(cluster).broker_ids and len(seen(cluster).leaderless) == 2, _TIMEOUT_S
    )
    return opened


def by_topic(ran: Ran) -> dict[str, Any]:
    return {one["topic"]: one for one in ran.document["transactions"]}


def findings(ran: Ran) -> dict[str, Any]:
    return {one["id"]: one for one in ran.document["findings"]}


def kafka_transactions(lab: Lab, command: str) -> str:
    """Kafka's own tool, as the command printed calls it."""
    words = shlex.split(command)
    assert words[0] == "kafka-transactions.sh"
    java = [lab.java.path, "-XX:TieredStopAtLevel=1", "-cp", ":".join(map(str, lab.jars.paths))]
    return subprocess.run(
        [*java, "org.apache.kafka.tools.TransactionsCommand", *words[1:]],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_what_readers_of_committed_records_meet_is_said_before_and_after(
    make_lab: Callable[..., Lab], tmp_path: Path
) -> None:
    lab = make_lab(
        config=(
            ("transaction.state.log.min.isr", "1"),
            ("offsets.topic.replication.factor", "1"),
        ),
    )
    kipctl = OnLab(lab.bootstrap_server, tmp_path / "state").kipctl
    with Cluster(lab.bootstrap_server, timeout_s=20) as cluster:
        opened = without_a_leader(lab, cluster)
        chosen = f"elect unclean --partition {OPEN}:0 --partition {LOST}:0"

        before = kipctl(chosen, "--dry-run -o json")
        assert [one["may_come_back"] for one in before.document["partitions"]] == [[1], [1]]
        found = by_topic(before)
        assert (found[OPEN]["transactional_id"], found[OPEN]["state"]) == ("app-open", "Ongoing")
        assert (found[OPEN]["hanging"], found[OPEN]["start_offset"]) == (False, 0)
        assert (found[LOST]["hanging"], found[LOST]["start_offset"]) == (True, 11)
        assert found[LOST]["state"] == "CompleteCommit"

        refused = kipctl(chosen, "--yes", status=4)
        assert "Broker 1 was in sync last with tx-0 and 1 more" in refused.err
        assert len(seen(cluster).leaderless) == 2

        elected = kipctl(chosen, "--force --yes -o json", status=5)
        assert "Readers with read_committed stop at offset 11 of tx2-0 for good" in elected.err
        assert [one["from_leader"] for one in elected.document["partitions"]] == [None, None]
        assert {one["topic"]: one["last_stable_offset"] for one in elected.document["held_up"]} == {
            OPEN: 0,
            LOST: 11,
        }
        assert by_topic(elected)[OPEN]["hanging"] is False
        assert read_committed(lab, LOST) == 10

        opened.commit_transaction(_TIMEOUT_S)
        assert read_committed(lab, OPEN) == 4

        found = findings(kipctl("inspect brokers -o json"))
        assert "tx2-0. In tx2-0 it is of producer" in found["hanging-transaction"]["what"]
        command = by_topic(elected)[LOST]["abort"]
        assert found["hanging-transaction"]["change"].endswith(command)
        kafka_transactions(lab, command)
        assert "hanging-transaction" not in findings(kipctl("inspect brokers -o json"))
        later = transactional(lab, "app-later")
        later.begin_transaction()
        write(later, LOST, 3)
        later.commit_transaction(_TIMEOUT_S)
        assert read_committed(lab, LOST) == 13
