"""The reassignments in progress, as the controller lists them."""

from collections.abc import Iterable
from dataclasses import dataclass

from kipctl.cluster.snapshot import PartitionId, by_topic
from kipctl.errors import RefusedError, UnreachableError
from kipctl.next_step import Command
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode, error_text
from kipctl.protocol.reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kipctl.transport.acl_errors import refusal
from kipctl.transport.request import Cluster

SERVER_SHARE = 0.8
"""Of a request's time; the broker then gives up first, and says so."""


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment in progress; `replicas` are the ones kept, added and removed together."""

    id: PartitionId
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def original(self) -> frozenset[int]:
        """The brokers that held the partition before; the order is not known any more."""
        return frozenset(self.when_cancelled)

    @property
    def when_cancelled(self) -> tuple[int, ...]:
        """The replicas, in their order, that a cancellation leaves: Kafka takes away those added
        (its PartitionReassignmentReplicas.originalReplicas)."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that the partition is to have in the end; Kafka lists them first."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def wanted(self) -> frozenset[int]:
        """The brokers that are to hold the partition in the end."""
        return frozenset(self.target)


def list_reassignments(
    cluster: Cluster, partitions: Iterable[PartitionId] | None = None
) -> tuple[Reassignment, ...]:
    """The reassignments in progress, of all partitions or of these; sorted.

    Raises RefusedError, and UnreachableError while there is no controller to tell.
    """
    topics = None
    if partitions is not None:
        topics = tuple(
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(partitions).items()
        )
    response = cluster.ask_controller(
        ListPartitionReassignmentsRequest(
            timeout_ms=int(cluster.timeout_s * 1000 * SERVER_SHARE), topics=topics
        )
    )
    if ErrorCode(response.error_code).retriable:
        raise UnreachableError(
            f"The controller does not list reassignments now: {error_text(response.error_code)}.",
            "Try again; if it stays: " + Command("inspect brokers"),
        )
    if response.error_code:
        raise refusal(
            "The cluster does not list its reassignments",
            response.error_code,
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            cluster.access,
            broker_message=response.error_message,
        )
    reassignments = (
        Reassignment(
            PartitionId(topic.name, partition.partition_index),
            partition.replicas,
            partition.adding_replicas,
            partition.removing_replicas,
        )
        for topic in response.topics
        for partition in topic.partitions
    )
    return tuple(sorted(reassignments, key=lambda reassignment: reassignment.id))


def adding_of(busy: Iterable[Reassignment]) -> dict[PartitionId, tuple[int, ...]]:
    """The replicas that these reassignments add, by partition."""
    return {reassignment.id: reassignment.adding for reassignment in busy}


def adding_replicas(cluster: Cluster) -> dict[PartitionId, tuple[int, ...]]:
    """The replicas that reassignments add now; none where the cluster does not list them.

    Raises UnreachableError.
    """
    try:
        return adding_of(list_reassignments(cluster))
    except RefusedError:
        return {}


def topics_and_brokers(busy: Iterable[Reassignment]) -> tuple[frozenset[str], frozenset[int]]:
    """The topics and the brokers that these reassignments copy to or from."""
    busy = tuple(busy)
    return (
        frozenset(reassignment.id.topic for reassignment in busy),
        frozenset(
            broker
            for reassignment in busy
            for broker in (*reassignment.replicas, *reassignment.adding)
        ),
    )
