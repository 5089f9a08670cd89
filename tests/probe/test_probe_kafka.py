"""The probe on real brokers: nothing lost, nothing twice, and each arm waits for what it says."""

import statistics
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from fake_run import BASELINE, KIP951, REFRESH, read_ran
from real_writes import (
    PARTITIONS,
    TOPICS,
    assert_all_in_the_log_once,
    measured_during,
    spec_for,
    topics,
)

from kipctl.changes.execution.plan_execution import rotate_own_topics
from kipctl.lab.cluster import Lab
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceSpec
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import Decision

pytestmark = pytest.mark.kafka
BACKOFF_MS = 3000


def test_idempotent_records_are_in_the_log_exactly_once_through_rotations(
    lab: Lab, tmp_path: Path
) -> None:
    with topics(lab, *TOPICS.values()) as cluster:

        def rotate() -> None:
            for _ in range(3):
                assert rotate_own_topics(cluster, [*TOPICS.values()]).failures == ()

        specs = [spec_for(lab, discovery) for discovery in LeaderDiscovery]
        for ran in measured_during(cluster, tmp_path, rotate, *specs):
            assert_all_in_the_log_once(cluster, ran)
            assert ran.summary["redirects"]["batches"] > 0


def test_each_arm_waits_for_what_it_says(lab: Lab, tmp_path: Path) -> None:
    """acks=1, so that an old leader's refusal is all that a batch meets. The backoff is longer than
    what a busy machine lets a client wait that need not: that counts as backoff, too.
    """
    backoff = {"retry_backoff_ms": BACKOFF_MS, "retry_backoff_max_ms": BACKOFF_MS}
    with topics(lab, *TOPICS.values()) as cluster:
        specs = [
            spec_for(lab, discovery, acks=1, enable_idempotence=False, **backoff)
            for discovery in LeaderDiscovery
        ]
        all_ran = measured_during(
            cluster, tmp_path, lambda: rotate_own_topics(cluster, [*TOPICS.values()]), *specs
        )
    leader_errors = {}
    for discovery, ran in zip(LeaderDiscovery, all_ran, strict=True):
        assert ran.outcome.failed == 0
        leader_errors[discovery] = [
            row for row in ran.redirects if row["error"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        ]
        assert leader_errors[discovery]
    led_on = [
        row
        for row in leader_errors[KIP951]
        if row["decision"] in (Decision.FOLLOWED, Decision.KNOWN)
    ]
    assert led_on
    for row in led_on:
        assert row["metadata_us"] == 0
        assert (row["to_broker"], row["to_epoch"]) == (row["hint_leader"], row["hint_epoch"])
    hurried, waited = (
        statistics.median(row["backoff_us"] for row in rows)
        for rows in (led_on, leader_errors[BASELINE])
    )
    assert hurried < waited
    # A broker may, now and then, have no hint to give.
    critical = all_ran[0].summary["metadata_rpcs"]["on_critical_path"]
    assert critical <= len(leader_errors[KIP951]) - len(led_on)
    for row in leader_errors[BASELINE]:
        assert row["decision"] in (Decision.IGNORED, Decision.ABSENT)
        assert row["backoff_us"] >= BACKOFF_MS * 1000
    for row in leader_errors[REFRESH]:
        assert row["decision"] in (Decision.IGNORED, Decision.ABSENT)
    assert any(row["metadata_us"] for row in leader_errors[REFRESH])


def test_every_compression_and_acks_is_accepted_and_what_is_written_can_be_read(
    lab: Lab, tmp_path: Path
) -> None:
    """In batches of many records, and of one."""
    topic, records = TOPICS[KIP951], 40
    runs = [
        ("none", 0, 16384),
        ("gzip", 1, 16384),
        ("snappy", -1, 16384),
        ("lz4", 1, 0),
        ("zstd", -1, 16384),
        ("none", -1, 0),
    ]
    expected = Counter[bytes]()
    with topics(lab, topic):
        for compression, acks, batch_size in runs:
            folder = tmp_path / f"{compression}{acks}"
            folder.mkdir()
            value = f"{compression} with acks {acks}: ".encode() + b"x" * 300
            (folder / "payload").write_bytes(value)
            spec = ProduceSpec(
                lab.access,
                topic,
                records,
                payload_file=folder / "payload",
                config=ProducerConfig(
                    acks=acks,
                    enable_idempotence=acks == -1,
                    compression_type=compression,
                    batch_size=batch_size,
                    partitioner="round-robin",
                ),
            )
            outcome = spec.run(folder, lambda schedule: None, lambda: False)
            assert outcome.acknowledged == records
            assert not read_ran(outcome, folder).redirects
            expected[value] = records
        consumer = Consumer({"bootstrap.servers": lab.bootstrap_server, "group.id": "probe-test"})
        consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        messages = consumer.consume(records * len(runs), timeout=60)
        consumer.close()
    assert Counter(message.value() for message in messages) == expected
