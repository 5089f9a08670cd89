"""How long the news of a new leader takes to each broker's Metadata, on a topic of its own."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kipctl.changes.execution.plan_execution import rotate_own_topics
from kipctl.cluster.metadata_convergence import ClusterEvent, EventKind
from kipctl.errors import UsageError
from kipctl.load.own_topic import own_topics
from kipctl.own_topic_names import OWN_MANY, new_name
from kipctl.transport.request import Cluster

PARTITIONS = 30
_REPLICAS = 3


@dataclass(frozen=True, slots=True)
class Sightings:
    """When one broker's Metadata first showed new leaders, partition by partition, over all moves.

    Microseconds, ascending: after the election was called, and after the first broker that knew.
    """

    broker: int
    after_call_us: tuple[int, ...]
    behind_us: tuple[int, ...]


def sightings(moves: Iterable[Sequence[ClusterEvent]]) -> tuple[Sightings, ...]:
    """What the events of each move come to, by broker."""
    after_call: dict[int, list[int]] = {}
    behind: dict[int, list[int]] = {}
    for events in moves:
        called_us = next(e.time_us for e in events if e.kind is EventKind.ELECTION_CALLED)
        first_us: dict[tuple[int | None, int | None], int] = {}
        seen: dict[tuple[int | None, int | None, int], int] = {}
        for event in events:
            if event.kind is EventKind.LEADER_SEEN and event.seen_by_broker is not None:
                change = (event.partition, event.leader_epoch)
                first_us[change] = min(first_us.get(change, event.time_us), event.time_us)
                key = (*change, event.seen_by_broker)
                seen[key] = min(seen.get(key, event.time_us), event.time_us)
        for (partition, epoch, broker), time_us in seen.items():
            after_call.setdefault(broker, []).append(time_us - called_us)
            behind.setdefault(broker, []).append(time_us - first_us[partition, epoch])
    return tuple(
        Sightings(broker, tuple(sorted(after_call[broker])), tuple(sorted(behind[broker])))
        for broker in sorted(after_call)
    )


def measure_convergence(
    cluster: Cluster, moves: int, progress: Callable[[str], None]
) -> tuple[Sightings, ...]:
    """Move all leaders of a topic of its own so many times, and see when each broker knows.

    How often brokers are asked, and how many, is in `watch`: that is how exact it is. Raises
    KipctlError.
    """
    replicas = min(_REPLICAS, len(cluster.nodes))
    if replicas == 1:
        raise UsageError("No leader can move on a cluster of one broker.")
    happened: list[list[ClusterEvent]] = []
    topic = new_name(OWN_MANY)
    with own_topics(cluster, [topic], PARTITIONS, replicas, progress):
        for number in range(1, moves + 1):
            progress(f"Moving {PARTITIONS} leaders of {topic}: {number} of {moves}.")
            events: list[ClusterEvent] = []
            rotate_own_topics(cluster, [topic], events.append)
            happened.append(events)
    return sightings(happened)
