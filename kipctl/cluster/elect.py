"""Leader elections, preferred and unclean, with what came of each partition."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from kipctl.cluster.snapshot import PartitionId, Snapshot
from kipctl.errors import UsageError
from kipctl.protocol.api import ApiKey
from kipctl.protocol.elect_leaders import ElectionType, ElectLeadersRequest, TopicPartitions
from kipctl.protocol.error_codes import ErrorCode, error_name
from kipctl.transport.request import Cluster
from kipctl.transport.rights import refusal


class Outcome(StrEnum):
    """What came of an election; it is not needed where the right replica leads already."""

    ELECTED = "elected"
    NOT_NEEDED = "not needed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Elected:
    """What came of one partition's election; `code` and `message` are Kafka's."""

    id: PartitionId
    code: int
    message: str = ""

    @property
    def outcome(self) -> Outcome:
        match self.code:
            case ErrorCode.NONE:
                return Outcome.ELECTED
            case ErrorCode.ELECTION_NOT_NEEDED:
                return Outcome.NOT_NEEDED
            case _:
                return Outcome.FAILED

    def __str__(self) -> str:
        return f"{self.id}: {error_name(self.code)}" + (
            f" ({self.message})" if self.message else ""
        )


def elect(
    cluster: Cluster, election: ElectionType, partitions: Iterable[PartitionId]
) -> tuple[Elected, ...]:
    """Hold the election and return each partition's outcome, sorted.

    Brokers, and their Metadata, hear of the new leaders after that. Raises RefusedError when the
    cluster refuses the election as a whole, TimedOutError and UnreachableError.
    """
    response = cluster.ask_controller(
        ElectLeadersRequest(
            election_type=election,
            topic_partitions=tuple(
                TopicPartitions(topic=topic, partitions=tuple(p.partition for p in group))
                for topic, group in groupby(sorted(partitions), key=lambda p: p.topic)
            ),
            timeout_ms=int(cluster.timeout_s * 1000),
        )
    )
    if response.error_code:
        raise refusal(
            "The cluster refused the election",
            response.error_code,
            ApiKey.ELECT_LEADERS,
            cluster.access,
        )
    return tuple(
        Elected(
            PartitionId(topic.topic, result.partition_id),
            result.error_code,
            result.error_message or "",
        )
        for topic in sorted(response.replica_election_results, key=lambda topic: topic.topic)
        for result in sorted(topic.partition_result, key=lambda result: result.partition_id)
    )


def parse_partition(text: str) -> PartitionId:
    """`topic:3` as a partition. Raises UsageError."""
    topic, colon, number = text.rpartition(":")
    if not (topic and colon and number.isascii() and number.isdigit()):
        raise UsageError(f"{text!r} is not a partition.", "Write topic:number, as in orders:3")
    return PartitionId(topic, int(number))


def demand_known(partitions: Iterable[PartitionId], snapshot: Snapshot) -> None:
    """Raise UsageError for a partition that the cluster does not have."""
    known = snapshot.by_id
    for partition_id in partitions:
        if partition_id not in known:
            what = "partition" if partition_id.topic in snapshot.topics else "topic of partition"
            raise UsageError(
                f"There is no {what} {partition_id}.", "List them: kipctl inspect leaders"
            )
