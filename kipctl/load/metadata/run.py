"""`perf metadata`: what many topics cost clients in Metadata, side by side (KIP-526)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from kipctl.background import every
from kipctl.changes.execution.plan_execution import rotate_own_topics
from kipctl.cluster.broker_metrics import scrape
from kipctl.documents.runs import MetadataClient, MetadataDocument
from kipctl.errors import KipctlError, UsageError
from kipctl.load.actions import kafka_version
from kipctl.load.metadata import phases
from kipctl.load.metadata.phases import (
    PhaseLoad,
    PhaseResult,
    growth,
    phase_document,
    phase_loads,
)
from kipctl.load.metadata.plan import ClientKind, MetadataPlan, Phase
from kipctl.load.metadata.probe import ProbeClient
from kipctl.load.metadata.tapped import tapped_client
from kipctl.load.own_topic import own_topics
from kipctl.probe.idle_eviction import TopicPolicy
from kipctl.probe.produce.config import producer_properties
from kipctl.protocol.produce_frames import Topic
from kipctl.trace.store import Run
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

REPLICAS = 2
"""Of each topic: as few as let a leader move."""
MOVED_TOPICS = 10
MOVES = 3
_BETWEEN_MOVES_S = 1.5
_ADMIN_TIMEOUT_S = 60.0
_MOST_SCRAPES = 10


def run(plan: MetadataPlan, message: Callable[[str], None]) -> MetadataDocument:
    """Carry it out; returns what `--output json` prints. Raises KipctlError."""
    with Cluster(plan.access, "kipctl", _ADMIN_TIMEOUT_S) as cluster:
        if Phase.LEADER_CHANGES in plan.phases and len(cluster.nodes) < REPLICAS:
            raise UsageError(
                "No leader can move on a cluster of one broker.",
                "Leave that phase out: --phase startup --phase steady --phase idle-return",
            )
        for url in plan.metrics_urls:
            scrape(url)
        with topics_of(plan, cluster, message) as ids:
            arms = [_measure(plan, arm, ids, message) for arm in plan.arms]
            version = kafka_version(cluster)
    return {
        "topic_count": plan.topics,
        "partition_count": plan.partitions,
        "throughput": plan.throughput,
        "kafka_version": version,
        "configuration": producer_properties(plan.config),
        "clients": arms,
    }


def topics_of(
    plan: MetadataPlan, cluster: Cluster, message: Callable[[str], None]
) -> AbstractContextManager[Mapping[str, UUID]]:
    """The run's topics, with their ids; they are removed after the block."""
    replicas = min(REPLICAS, len(cluster.nodes))
    return own_topics(cluster, plan.names, plan.partitions, replicas, message)


def _measure(
    plan: MetadataPlan,
    arm: tuple[ClientKind, TopicPolicy | None],
    ids: Mapping[str, UUID],
    message: Callable[[str], None],
) -> MetadataClient:
    """One client through all phases: kipctl's own by its own account, librdkafka behind a tap."""
    kind, policy = arm
    name = f"{kind} {policy}" if policy else str(kind)
    counts: list[int | None] = []
    moves: list[int] = []
    loads = phase_loads(plan.phases, plan.topics, plan.throughput, plan.seconds)

    def carry_out(send: Callable[[PhaseLoad], object]) -> None:
        for load in loads:
            message(f"{name}: {load.phase}")
            with phase_going_on(load, plan, message) as moved:
                # Moving leaders asks for Metadata too.
                urls = () if load.phase is Phase.LEADER_CHANGES else plan.metrics_urls
                before = _brokers_counted(urls)
                send(load)
                after = _brokers_counted(urls)
            counts.append(after - before if before is not None and after is not None else None)
            moves.append(len(moved))

    results: list[PhaseResult] = []
    if policy:
        with closing(probe_client(plan, policy, ids)) as probe:
            carry_out(lambda load: results.append(probe.run(load)))
            version = probe.version
    else:
        from kipctl.load.metadata.librdkafka import LibrdkafkaSender

        def make(access: Access) -> LibrdkafkaSender:
            return LibrdkafkaSender(
                access, plan.config, plan.names, plan.record_size, phases.RENEWED_MS
            )

        with (
            TemporaryDirectory(prefix="kipctl-") as scratch,
            tapped_client(make, plan.access) as tapped,
        ):
            carry_out(tapped.send)
            _, results = tapped.finish(Run.create(Path(scratch, "run")), plan.config.client_id)
            version = LibrdkafkaSender.version
    return {
        "client": str(kind),
        "policy": str(policy) if policy else None,
        "version": version,
        "phases": [
            {**phase_document(load.phase, result, counted), "move_count": moved}
            for load, result, counted, moved in zip(loads, results, counts, moves, strict=True)
        ],
        "growth": growth(results[0]),
    }


def probe_client(
    plan: MetadataPlan,
    policy: TopicPolicy,
    ids: Mapping[str, UUID],
    access: Access | None = None,
) -> ProbeClient:
    """kipctl's own producer of the plan's topics, at the plan's servers or others."""
    topics = [Topic(name, ids[name]) for name in plan.names]
    return ProbeClient(
        access or plan.access, plan.config, policy, topics, plan.partitions, plan.record_size
    )


def _brokers_counted(urls: Sequence[str]) -> int | None:
    """How many Metadata requests the brokers have answered so far; None without metrics.

    A request is counted a moment after its answer is sent: so they are asked until the count
    stands still, but not for ever, as others may be at work.
    """
    if not urls:
        return None
    now = -1
    for _ in range(_MOST_SCRAPES):
        before, now = now, sum(scrape(url).requests_of("Metadata") for url in urls)
        if now == before:
            break
    return now


@contextmanager
def phase_going_on(
    load: PhaseLoad, plan: MetadataPlan, message: Callable[[str], None]
) -> Iterator[list[int]]:
    """While the block runs leaders of some topics are moved, where the phase is about that; yields
    how many, move by move."""
    moves = list[int]()
    if load.phase is not Phase.LEADER_CHANGES:
        yield moves
        return

    def move() -> None:
        if len(moves) == MOVES:
            return
        try:
            with Cluster(plan.access, "kipctl", _ADMIN_TIMEOUT_S) as cluster:
                moved = rotate_own_topics(cluster, plan.names[:MOVED_TOPICS])
            moves.append(len(moved.election_outcome.outcomes))
        except KipctlError as error:
            message(f"Leaders could not be moved: {error}")

    with every(_BETWEEN_MOVES_S, move):
        yield moves
