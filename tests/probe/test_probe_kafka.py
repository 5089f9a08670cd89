"""The probe on real brokers: nothing lost, nothing twice, and each arm waits for what it says."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from fake_run import BASELINE, KIP951, REFRESH, Ran, read_ran

from kipctl.cluster.moves.rotate_own_topics import rotate_own_topics
from kipctl.cluster.snapshot import take_snapshot
from kipctl.cluster.topics import (
    LATEST,
    await_no_topics,
    await_topic,
    create_topics,
    delete_topics,
    offsets,
)
from kipctl.lab.cluster import Lab
from kipctl.measure.running_probe import running_probe
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceSpec
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.clock import now_us
from kipctl.trace.codes import Decision
from kipctl.trace.columns import BATCH_COLUMNS
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

TOPIC = "probe-test"
PARTITIONS = 12
BACKOFF_MS = 50
UNTIL_STOPPED = 10**7


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    """The session's cluster, with the topic that the tests write to."""
    with Cluster(lab.bootstrap_server) as connected:
        create_topics(lab.bootstrap_server, [TOPIC], PARTITIONS, 3)
        await_topic(connected, TOPIC, PARTITIONS)
        yield connected
        delete_topics(lab.bootstrap_server, [TOPIC])
        await_no_topics(connected, [TOPIC])


def spec_for(
    lab: Lab,
    discovery: LeaderDiscovery = KIP951,
    num_records: int = UNTIL_STOPPED,
    throughput: float = 3000,
    **config: Any,
) -> ProduceSpec:
    return ProduceSpec(
        lab.access,
        TOPIC,
        num_records,
        throughput,
        record_size=100,
        discovery=discovery,
        config=ProducerConfig(retry_backoff_ms=BACKOFF_MS, **config),
    )


def measured_during(
    spec: ProduceSpec, directory: Path, cluster: Cluster, act: Callable[[], object]
) -> Ran:
    """Probe while something is done to the cluster, and until every new leader has a batch."""
    epoch_column, partition_column = map(BATCH_COLUMNS.index, ("leader_epoch", "partition"))
    with running_probe(spec, directory) as probe:
        assert not probe.is_done_by(probe.schedule.start_us + 100_000)
        act()
        to_be_seen = {
            (p.id.partition, p.leader_epoch) for p in take_snapshot(cluster, [TOPIC]).partitions
        }
        while to_be_seen:
            for row in probe.new_rows("batches").tolist():
                partition, epoch = row[partition_column], row[epoch_column]
                to_be_seen = {(p, e) for p, e in to_be_seen if p != partition or e > epoch}
            assert not probe.is_done_by(now_us() + 20_000)
        probe.stop()
        return read_ran(probe.outcome(), directory)


def records_in_log(cluster: Cluster) -> int:
    return sum(offsets(cluster, TOPIC, LATEST).values())


@pytest.mark.parametrize("discovery", list(LeaderDiscovery))
def test_idempotent_records_are_in_the_log_exactly_once_through_rotations(
    lab: Lab, cluster: Cluster, tmp_path: Path, discovery: LeaderDiscovery
) -> None:
    def rotate() -> None:
        for _ in range(3):
            assert rotate_own_topics(cluster, [TOPIC]).failures == ()

    ran = measured_during(spec_for(lab, discovery), tmp_path, cluster, rotate)
    assert ran.outcome.failed == 0
    assert ran.outcome.acknowledged == ran.outcome.generated == records_in_log(cluster)
    assert ran.summary["redirects"]["batches"] > 0


def test_each_arm_waits_for_what_it_says(lab: Lab, cluster: Cluster, tmp_path: Path) -> None:
    """acks=1, so that an old leader's refusal is all that a batch meets."""
    leader_errors = {}
    for discovery in LeaderDiscovery:
        folder = tmp_path / discovery
        folder.mkdir()
        spec = spec_for(lab, discovery, acks=1, enable_idempotence=False)
        ran = measured_during(spec, folder, cluster, lambda: rotate_own_topics(cluster, [TOPIC]))
        assert ran.outcome.failed == 0
        leader_errors[discovery] = [
            row for row in ran.redirects if row["error"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        ]
        assert leader_errors[discovery]
        if discovery is KIP951:
            critical = ran.summary["metadata_rpcs"]["on_critical_path"]
    led_on = [
        row
        for row in leader_errors[KIP951]
        if row["decision"] in (Decision.FOLLOWED, Decision.KNOWN)
    ]
    assert led_on
    for row in led_on:
        assert row["metadata_us"] == 0
        assert (row["to_broker"], row["to_epoch"]) == (row["hint_leader"], row["hint_epoch"])
    # The client's own slowness counts as backoff.
    assert statistics.median(row["backoff_us"] for row in led_on) < BACKOFF_MS * 1000
    # A broker may, now and then, have no hint to give.
    assert critical <= len(leader_errors[KIP951]) - len(led_on)
    for row in leader_errors[BASELINE]:
        assert row["decision"] in (Decision.IGNORED, Decision.ABSENT)
        assert row["backoff_us"] >= BACKOFF_MS * 1000
    for row in leader_errors[REFRESH]:
        assert row["decision"] in (Decision.IGNORED, Decision.ABSENT)
    assert any(row["metadata_us"] for row in leader_errors[REFRESH])


def test_idempotent_records_are_in_the_log_exactly_once_through_a_broker_killed(
    make_lab: Callable[..., Lab], tmp_path: Path
) -> None:
    lab = make_lab()

    def kill_and_start() -> None:
        lab.kill(2)
        lab.start(2)

    with Cluster(lab.bootstrap_server) as cluster:
        create_topics(lab.bootstrap_server, [TOPIC], PARTITIONS, 3)
        await_topic(cluster, TOPIC, PARTITIONS)
        ran = measured_during(spec_for(lab, throughput=1000), tmp_path, cluster, kill_and_start)
        assert ran.outcome.failed == 0
        assert ran.outcome.acknowledged == ran.outcome.generated == records_in_log(cluster)
        # Its partitions were led by others meanwhile.
        assert len({row["leader_epoch"] for row in ran.batches}) > 1


@pytest.mark.parametrize("batch_size", [0, 16384])
def test_every_compression_and_acks_is_accepted_and_what_is_written_can_be_read(
    lab: Lab, cluster: Cluster, tmp_path: Path, batch_size: int
) -> None:
    runs = [("none", 0), ("gzip", 1), ("snappy", -1), ("lz4", 1), ("zstd", -1), ("none", -1)]
    expected = Counter[bytes]()
    for compression, acks in runs:
        folder = tmp_path / f"{compression}{acks}"
        folder.mkdir()
        value = f"{compression} with acks {acks}: ".encode() + b"x" * 300
        (folder / "payload").write_bytes(value)
        spec = ProduceSpec(
            lab.access,
            TOPIC,
            num_records=200,
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
        assert outcome.acknowledged == 200
        assert not read_ran(outcome, folder).redirects
        expected[value] = 200
    consumer = Consumer({"bootstrap.servers": lab.bootstrap_server, "group.id": "probe-test"})
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    messages = consumer.consume(200 * len(runs), timeout=60)
    consumer.close()
    assert Counter(message.value() for message in messages) == expected
