"""The probe's producer on real brokers, while something is done to them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from fake_run import KIP951, Ran, read_ran

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
from kipctl.measure.running_probe import RunningProbe, running_probe
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.trace.clock import now_us
from kipctl.trace.columns import BATCH_COLUMNS
from kipctl.transport.request import Cluster

PARTITIONS = 4
UNTIL_STOPPED = 10**7
TOPICS = {arm: f"probe-test-{arm}" for arm in LeaderDiscovery}
"""One for each arm: they are measured at the same time."""


@contextmanager
def topics(lab: Lab, *names: str) -> Iterator[Cluster]:
    with Cluster(lab.bootstrap_server) as cluster:
        create_topics(lab.bootstrap_server, names, PARTITIONS, 3)
        for name in names:
            await_topic(cluster, name, PARTITIONS)
        yield cluster
        delete_topics(lab.bootstrap_server, names)
        await_no_topics(cluster, names)


def spec_for(lab: Lab, discovery: LeaderDiscovery = KIP951, **config: Any) -> ProduceSpec:
    return ProduceSpec(
        lab.access,
        TOPICS[discovery],
        UNTIL_STOPPED,
        throughput=60,
        record_size=100,
        discovery=discovery,
        config=ProducerConfig(
            **{"retry_backoff_ms": 50, "partitioner": "round-robin", "linger_ms": 0, **config}
        ),
    )


def measured_during(
    cluster: Cluster, directory: Path, act: Callable[[], object], *specs: ProduceSpec
) -> list[Ran]:
    """Probe while something is done to the cluster, and until every new leader has a batch."""
    folders = [directory / spec.topic for spec in specs]
    with ExitStack() as stack:
        probes = []
        for spec, folder in zip(specs, folders, strict=True):
            folder.mkdir()
            probes.append(stack.enter_context(running_probe(spec, folder)))
        for probe in probes:
            assert not probe.is_done_by(probe.schedule.start_us + 100_000)
        act()
        for spec, probe in zip(specs, probes, strict=True):
            await_new_leaders(cluster, spec.topic, probe)
            probe.stop()
        return [
            read_ran(probe.outcome(), folder) for probe, folder in zip(probes, folders, strict=True)
        ]


def await_new_leaders(cluster: Cluster, topic: str, probe: RunningProbe[ProduceOutcome]) -> None:
    """Until each leader that there is now has taken a batch."""
    epoch_column, partition_column = map(BATCH_COLUMNS.index, ("leader_epoch", "partition"))
    left = {(p.id.partition, p.leader_epoch) for p in take_snapshot(cluster, [topic]).partitions}
    while left:
        for row in probe.new_rows("batches").tolist():
            partition, epoch = row[partition_column], row[epoch_column]
            left = {(p, e) for p, e in left if p != partition or e > epoch}
        assert not probe.is_done_by(now_us() + 20_000)


def assert_all_in_the_log_once(cluster: Cluster, ran: Ran) -> None:
    in_log = sum(offsets(cluster, ran.outcome.spec.topic, LATEST).values())
    assert ran.outcome.failed == 0
    assert ran.outcome.acknowledged == ran.outcome.generated == in_log
