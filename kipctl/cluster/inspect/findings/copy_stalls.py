"""Whether the reassignments in progress go on: what their new replicas hold, asked twice."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kipctl.cluster.log_dirs import reported_sizes, sizes_request
from kipctl.cluster.reassignments import Reassignment, adding_of, list_reassignments
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import KipctlError
from kipctl.protocol.describe_log_dirs import DescribeLogDirsResponse
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import BrokerConnection, Cluster

_DEADLINE_S = 30.0
"""For all brokers together."""


@dataclass(frozen=True, slots=True)
class SizesSeen:
    """The reassignments at one moment; bytes of their new replicas by broker, where reported."""

    busy: tuple[Reassignment, ...]
    held: Mapping[int, Mapping[PartitionId, int]]


@dataclass(frozen=True)
class Reassignments:
    """The reassignments in progress; `error` says why they are not known.

    `stalled` are, by broker, the new replicas of which nothing came in `looked_s` seconds; with 0
    nobody looked.
    """

    busy: tuple[Reassignment, ...] = ()
    error: str | None = None
    stalled: Mapping[int, tuple[PartitionId, ...]] = field(default_factory=dict)
    looked_s: float = 0.0

    @cached_property
    def adding(self) -> Mapping[PartitionId, tuple[int, ...]]:
        """The brokers that are about to hold a partition."""
        return adding_of(self.busy)


def ask_reassignments(cluster: Cluster, look_again_s: float) -> Reassignments:
    """Ask what is being reassigned; if data is being copied, look again after so many seconds."""
    try:
        busy = list_reassignments(cluster)
        adding = _adding(busy)
        if not adding or not look_again_s:
            return Reassignments(busy)
        first = SizesSeen(busy, _held(cluster, adding))
        time.sleep(look_again_s)
        busy = list_reassignments(cluster)
        second = SizesSeen(busy, _held(cluster, adding))
    except KipctlError as error:
        return Reassignments(error=error.what)
    return Reassignments(busy, stalled=stalled(first, second), looked_s=look_again_s)


def stalled(first: SizesSeen, second: SizesSeen) -> dict[int, tuple[PartitionId, ...]]:
    """The new replicas, by broker, that stood still from one look to the next.

    It is judged by broker: one fetches some partitions before others, and a throttle holds all of
    its replicas together. So it stands still if none of its new replicas was finished meanwhile
    and none changed its size. Of a broker that did not report twice nothing is said.
    """
    before, after = _adding(first.busy), _adding(second.busy)
    by_broker = {}
    for broker, partitions in before.items():
        is_known = broker in first.held and broker in second.held
        if is_known and partitions <= after.get(broker, frozenset()):
            then, now = first.held[broker], second.held[broker]
            if all(then.get(partition) == now.get(partition) for partition in partitions):
                by_broker[broker] = tuple(sorted(partitions))
    return by_broker


def _adding(busy: Iterable[Reassignment]) -> dict[int, frozenset[PartitionId]]:
    """The partitions that are on their way to each broker."""
    by_broker: dict[int, set[PartitionId]] = {}
    for reassignment in busy:
        for broker in reassignment.adding:
            by_broker.setdefault(broker, set()).add(reassignment.id)
    return {broker: frozenset(partitions) for broker, partitions in sorted(by_broker.items())}


def _held(
    cluster: Cluster, adding: Mapping[int, frozenset[PartitionId]]
) -> dict[int, dict[PartitionId, int]]:
    """The bytes of these replicas; brokers that do not report are left out."""
    alive = [broker for broker in adding if broker in cluster.nodes]

    def ask(broker: int, connection: BrokerConnection) -> DescribeLogDirsResponse:
        return connection.request(sizes_request(adding[broker]))

    sizes = {}
    for broker, answer in ask_each(cluster, alive, ask, _DEADLINE_S).items():
        if not isinstance(answer, KipctlError) and not answer.error_code and answer.results:
            sizes[broker] = reported_sizes(broker, answer)[0]
    return sizes
