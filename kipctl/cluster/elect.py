"""Leader elections, preferred and unclean, with what came of each partition."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kipctl.cluster.snapshot import NO_LEADER, Partition, PartitionId, Snapshot
from kipctl.errors import RefusedError, TimedOutError, UnreachableError, UsageError
from kipctl.protocol.error_codes import ErrorCode, error_name
from kipctl.transport.request import Address, Cluster


class Election(StrEnum):
    """Preferred: the first replica, if in sync. Unclean: any live replica, at the cost of data."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


class Outcome(StrEnum):
    ELECTED = "elected"
    NOT_NEEDED = "not needed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Elected:
    """What came of one partition's election; `code` and `reason` are Kafka's."""

    id: PartitionId
    outcome: Outcome
    code: int = ErrorCode.NONE
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.id}: {error_name(self.code)}" + (f" ({self.reason})" if self.reason else "")


class Elections:
    """A librdkafka admin client that is kept, so that an election is not held up by connecting."""

    def __init__(self, cluster: Cluster) -> None:
        nodes = cluster.nodes.values()
        self._admin = AdminClient(
            {
                "bootstrap.servers": ",".join(str(Address(node.host, node.port)) for node in nodes),
                "client.id": cluster.client_id,
                "log_level": 0,
            }
        )

    def elect(
        self, election: Election, partitions: Iterable[PartitionId], timeout_s: float
    ) -> tuple[Elected, ...]:
        """Hold the election and return each partition's outcome, sorted.

        Raises RefusedError, TimedOutError or UnreachableError when the election as a whole failed.
        """
        wanted = [TopicPartition(topic, partition) for topic, partition in sorted(partitions)]
        kind = ElectionType.PREFERRED if election is Election.PREFERRED else ElectionType.UNCLEAN
        future = self._admin.elect_leaders(
            kind, wanted, request_timeout=timeout_s, operation_timeout=timeout_s
        )
        try:
            results = future.result()
        except KafkaException as failure:
            raise _as_whole(failure.args[0]) from None
        return tuple(
            _elected(PartitionId(found.topic, found.partition), error)
            for found, error in sorted(results.items(), key=lambda r: (r[0].topic, r[0].partition))
        )


def _elected(partition_id: PartitionId, failure: KafkaException | None) -> Elected:
    error: KafkaError | None = failure.args[0] if failure else None
    if error is None or error.code() == ErrorCode.NONE:
        return Elected(partition_id, Outcome.ELECTED)
    not_needed = error.code() == ErrorCode.ELECTION_NOT_NEEDED
    outcome = Outcome.NOT_NEEDED if not_needed else Outcome.FAILED
    return Elected(partition_id, outcome, error.code(), error.str())


def _as_whole(error: KafkaError) -> RefusedError | TimedOutError | UnreachableError:
    if error.code() == KafkaError._TIMED_OUT:
        return TimedOutError(f"The election was not answered: {error.str()}.")
    if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
        return UnreachableError(f"No broker answered the election: {error.str()}.")
    return RefusedError(f"The cluster refused the election: {error.name()} ({error.str()}).")


def parse_partition(text: str) -> PartitionId:
    """`topic:3` as a partition. Raises UsageError."""
    topic, colon, number = text.rpartition(":")
    if not (topic and colon and number.isascii() and number.isdigit()):
        raise UsageError(f"{text!r} is not a partition.", "Write topic:number, as in orders:3")
    return PartitionId(topic, int(number))


def candidates(election: Election, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    """The partitions that such an election would change.

    Preferred: those led by another than their preferred replica. Unclean: those without a leader.
    """
    if election is Election.PREFERRED:
        return tuple(p for p in partitions if not p.is_led_by_preferred)
    return tuple(p for p in partitions if p.leader == NO_LEADER)


def demand_known(partitions: Iterable[PartitionId], snapshot: Snapshot) -> None:
    """Raise UsageError for a partition that the cluster does not have."""
    known = snapshot.by_id
    for partition_id in partitions:
        if partition_id not in known:
            what = "partition" if partition_id.topic in snapshot.topics else "topic of partition"
            raise UsageError(
                f"There is no {what} {partition_id}.", "List them: kipctl inspect leaders"
            )
