"""`perf metadata`: what many topics cost clients in Metadata, side by side (KIP-526)."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any
from uuid import UUID

from kipctl.changes.execution.rotate_own_topics import rotate_own_topics
from kipctl.cluster.broker_metrics import scrape
from kipctl.errors import KipctlError, UsageError
from kipctl.probe.idle_eviction import TopicPolicy
from kipctl.probe.produce.config import producer_properties
from kipctl.protocol.produce_frames import Topic
from kipctl.runs.metadata.phases import Client, growth, phase_document, phase_loads
from kipctl.runs.metadata.plan import ClientKind, MetadataPlan, Phase
from kipctl.runs.metadata.probe import ProbeClient
from kipctl.runs.own_topic import own_topics
from kipctl.runs.produce import kafka_version
from kipctl.transport.request import Cluster

REPLICAS = 2
"""Of each topic: as few as let a leader move."""
MOVED_TOPICS = 10
MOVES = 3
_FIRST_MOVE_S = 0.5
_BETWEEN_MOVES_S = 1.5
_ADMIN_TIMEOUT_S = 60.0
_MOST_SCRAPES = 10


def run(plan: MetadataPlan, message: Callable[[str], None]) -> dict[str, Any]:
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
            arms = [_measure(plan, arm, cluster, ids, message) for arm in plan.arms]
            version = kafka_version(cluster)
    return {
        "topics": plan.topics,
        "partitions": plan.partitions,
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
    cluster: Cluster,
    ids: Mapping[str, UUID],
    message: Callable[[str], None],
) -> dict[str, Any]:
    """One client through all phases."""
    kind, policy = arm
    name = f"{kind} {policy}" if policy else str(kind)
    phases: list[dict[str, Any]] = []
    grown: list[dict[str, Any]] = []
    with closing(_client(plan, policy, cluster, ids)) as client:
        for load in phase_loads(plan.phases, plan.topics, plan.throughput, plan.seconds):
            message(f"{name}: {load.phase}")
            if load.phase is Phase.LEADER_CHANGES:
                with leaders_moving(plan, message) as moves:
                    result = client.run(load)
                counted = None  # moving them asks for Metadata too
            else:
                moves = []
                before = _brokers_counted(plan.metrics_urls)
                result = client.run(load)
                after = _brokers_counted(plan.metrics_urls)
                counted = after - before if before is not None and after is not None else None
            if load.phase is Phase.STARTUP:
                grown = growth(result)
            phases.append(phase_document(load.phase, result, counted) | {"moves": len(moves)})
        version = client.version
    return {
        "client": str(kind),
        "policy": str(policy) if policy else None,
        "version": version,
        "phases": phases,
        "growth": grown,
    }


def _client(
    plan: MetadataPlan, policy: TopicPolicy | None, cluster: Cluster, ids: Mapping[str, UUID]
) -> Client:
    """The probe under a policy, or librdkafka."""
    if policy is None:
        from kipctl.runs.metadata.librdkafka import Librdkafka

        return Librdkafka(plan.access, plan.config, plan.names, plan.record_size)
    topics = [Topic(name, ids[name]) for name in plan.names]
    return ProbeClient(plan.config, policy, topics, plan.partitions, plan.record_size, cluster)


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
def leaders_moving(plan: MetadataPlan, message: Callable[[str], None]) -> Iterator[list[int]]:
    """Move leaders of some topics while the block runs; yields how many, move by move."""
    over, moves = threading.Event(), list[int]()

    def move() -> None:
        try:
            with Cluster(plan.access, "kipctl", _ADMIN_TIMEOUT_S) as cluster:
                while not over.wait(_BETWEEN_MOVES_S if moves else _FIRST_MOVE_S):
                    moved = rotate_own_topics(cluster, plan.names[:MOVED_TOPICS])
                    moves.append(len(moved.election.outcomes))
                    if len(moves) == MOVES:
                        return
        except KipctlError as error:
            message(f"Leaders could not be moved: {error}")

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield moves
    finally:
        over.set()
        thread.join()
