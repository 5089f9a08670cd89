"""The consumer on real brokers: every record once and in order, whatever happens to them.

`test_consumer_struck_kafka.py` has what happens to brokers that are stopped, hang and crash.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from fake_reads import Received, ranged, run_read
from fake_run import BASELINE, KIP951, REFRESH
from real_reads import (
    ON_ALL,
    TOPIC,
    Reader,
    assert_read_once_and_in_order,
    make_topic,
    read,
    read_while,
    write,
)

from kipctl.changes.execution.plan_execution import rotate_own_topics
from kipctl.cluster.topics import delete_topics
from kipctl.lab.cluster import Lab
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.run import ConsumeSpec
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import Decision, RangeCase, RangeHandling
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


@pytest.fixture
def on_lab(lab: Lab) -> Iterator[Lab]:
    """The session's lab, whose topic is removed afterwards."""
    yield lab
    delete_topics(lab.bootstrap_server, [TOPIC])


def test_the_replica_of_the_rack_is_read_from_within_one_extra_fetch(
    on_lab: Lab, tmp_path: Path
) -> None:
    make_topic(on_lab.bootstrap_server, ON_ALL * 2)
    for index in range(6):
        write(on_lab.bootstrap_server, [b"%d" % n for n in range(500)], index)
    ran = read(on_lab, tmp_path, 3000, client_rack="rack-2")
    assert ran.outcome.records == 3000
    for index in range(6):
        rows = [row for row in ran.reads if row["partition"] == index]
        before = rows[: [bool(row["records"]) for row in rows].index(True)]
        leads = index % 3 == 1
        assert [
            (r["is_leader"], r["preferred_read_replica"]) for r in before if r["is_leader"]
        ] == ([] if leads else [(1, 2)])
        assert {row["broker"] for row in rows if row["records"]} == {2}
    assert not ran.redirects


def test_rotations_cost_no_record(on_lab: Lab, tmp_path: Path) -> None:
    """Four consumers read at the same time: one of each arm, and one that is near to a follower."""
    server = on_lab.bootstrap_server
    make_topic(server, ON_ALL * 2)
    arms = [(KIP951, ""), (KIP951, "rack-2"), (REFRESH, ""), (BASELINE, "")]
    readers = [Reader(tmp_path / f"{arm}{rack}", arm, {"client_rack": rack}) for arm, rack in arms]

    def act() -> None:
        with Cluster(server) as cluster:
            for _ in range(3):
                for reader in readers:
                    reader.until_read_from(2)
                assert rotate_own_topics(cluster, [TOPIC]).failures == ()
        for reader in readers:
            reader.until_read_from(2)

    all_ran, written = read_while(server, 6, act, *readers)
    for reader, ran in zip(readers, all_ran, strict=True):
        assert_read_once_and_in_order(on_lab, ran, written)
        assert {row["error"] for row in ran.redirects} <= {
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
        }
        fenced = [r for r in ran.redirects if r["error"] == ErrorCode.FENCED_LEADER_EPOCH]
        decisions = {row["decision"] for row in fenced}
        if reader.discovery is KIP951:
            assert Decision.FOLLOWED in decisions
            assert Decision.IGNORED not in decisions
        else:
            assert decisions <= {Decision.IGNORED, Decision.ABSENT}


# --- out of range ---


def delete_records(lab: Lab, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    for deleted in admin.delete_records([TopicPartition(TOPIC, 0, before)]).values():
        deleted.result()


def test_positions_that_the_leader_does_not_have(on_lab: Lab, tmp_path: Path) -> None:
    make_topic(on_lab.bootstrap_server, [[1, 2, 3]])
    write(on_lab.bootstrap_server, [b"%d" % n for n in range(20)])
    delete_records(on_lab, before=7)
    for offset, case in ((3, RangeCase.TOO_SMALL), (99, RangeCase.TOO_LARGE)):
        for reset in ("earliest", "none"):
            folder = tmp_path / f"{case.name}-{reset}"
            ran = read(on_lab, folder, 13, offset, auto_offset_reset=reset)
            (row,) = ranged(ran)
            assert (row["error"], row["is_leader"]) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1)
            if reset == "none":
                assert (row["range_case"], row["range_handling"]) == (case, RangeHandling.FAIL)
                assert ran.outcome.errors == {"OFFSET_OUT_OF_RANGE": 1}
            else:
                assert (row["range_case"], row["range_handling"]) == (case, RangeHandling.RESET)
                assert ran.received.offsets() == list(range(7, 20))


def test_a_position_that_is_deleted_while_the_follower_is_read_from(
    on_lab: Lab, tmp_path: Path
) -> None:
    """The follower refuses it, and the leader says why."""
    make_topic(on_lab.bootstrap_server, [[1, 2, 3]])
    write(on_lab.bootstrap_server, [b"%d" % n for n in range(10)])

    def delete(received: Received) -> None:
        if received.count == 10:
            write(on_lab.bootstrap_server, [b"%d" % n for n in range(10, 50)])
            delete_records(on_lab, before=40)  # answered when all replicas have done it

    config = ConsumerConfig(auto_offset_reset="earliest", client_rack="rack-2")
    spec = ConsumeSpec(on_lab.access, TOPIC, 20, 30_000, config=config)
    ran = run_read(spec, tmp_path, on_records=delete)
    (row,) = ranged(ran)
    assert (row["error"], row["is_leader"]) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    assert (row["range_case"], row["range_handling"]) == (
        RangeCase.TOO_SMALL,
        RangeHandling.RESET,
    )
    assert (row["broker"], row["fetch_offset"], row["next_offset"]) == (2, 10, 40)
    assert ran.received.offsets() == [*range(10), *range(40, 50)]
    assert ran.brokers_read == [2]


# --- transactions ---


def test_what_is_committed_is_what_librdkafka_reads(on_lab: Lab, tmp_path: Path) -> None:
    server = on_lab.bootstrap_server
    make_topic(server, [[1, 2, 3]])
    producer = Producer(
        {"bootstrap.servers": server, "transactional.id": "reads-test", "log_level": 0}
    )
    producer.init_transactions(30)
    for transaction in range(6):
        producer.begin_transaction()
        for n in range(50):
            producer.produce(TOPIC, b"%d:%d" % (transaction, n), partition=0)
        producer.flush(30)
        write(server, [b"%d:no transaction" % transaction])
        if transaction % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    write(server, [b"the end"])
    expected = {}
    for level in ("read_committed", "read_uncommitted"):
        consumer = Consumer(
            {
                "bootstrap.servers": server,
                "group.id": "reads-test",
                "isolation.level": level,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values: list[bytes] = []
        while values[-1:] != [b"the end"]:
            values += [m.value() for m in consumer.consume(1000, timeout=1) if not m.error()]
        consumer.close()
        expected[level] = len(values)
    assert expected == {"read_committed": 157, "read_uncommitted": 307}
    for level, records in expected.items():
        for max_bytes in (1 << 20, 1000):  # in one answer, and in many
            ran = read(
                on_lab,
                tmp_path / f"{level}-{max_bytes}",
                records,
                isolation_level=level,
                max_partition_fetch_bytes=max_bytes,
            )
            assert ran.outcome.records == records
