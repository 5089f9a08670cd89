"""ListOffsets and OffsetForLeaderEpoch, which leaders alone answer, but for debuggers."""

from collections.abc import Generator
from typing import TYPE_CHECKING

from kipctl.conform.cluster.apis.hints import refused
from kipctl.conform.cluster.call import Attempt, Exchange
from kipctl.conform.cluster.control import Refusal
from kipctl.conform.cluster.state import Broker, Replica
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.list_offsets import (
    DEBUGGING_REPLICA_ID,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kipctl.protocol.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from kipctl.conform.cluster.apis import Answering
    from kipctl.conform.cluster.cluster import Cluster

_EPOCHS_SINCE = 4
_NOT_AVAILABLE_SINCE = 5


def list_offsets(cluster: "Cluster", broker: Broker, call: Exchange) -> "Answering":
    """Where a log begins and ends, and the first batch that was appended since a time."""
    debugging = call.request.replica_id == DEBUGGING_REPLICA_ID
    topics = []
    for topic in call.request.topics:
        partitions = []
        for p in topic.partitions:
            attempt = call.attempt((topic.name, p.partition_index))
            attempt.epoch, attempt.offset = p.current_leader_epoch, p.timestamp
            replica = yield from _asked(cluster, broker, attempt, not debugging)
            offset = epoch = -1
            if replica is not None:
                offset = _offset(cluster, p.timestamp, replica, debugging)
                if call.version >= _EPOCHS_SINCE:
                    epoch = broker.leaders[attempt.place].epoch
                if p.timestamp == LATEST_TIMESTAMP and offset < replica.branch.begins_at:
                    # What the leader before it had committed may not be committed again (KIP-207).
                    attempt.error, offset = ErrorCode.LEADER_NOT_AVAILABLE, -1
                    if call.version >= _NOT_AVAILABLE_SINCE:
                        attempt.error = ErrorCode.OFFSET_NOT_AVAILABLE
            partitions.append(
                ListOffsetsPartitionResponse(
                    p.partition_index, attempt.error or 0, offset=offset, leader_epoch=epoch
                )
            )
        topics.append(ListOffsetsTopicResponse(topic.name, tuple(partitions)))
    return ListOffsetsResponse(topics=tuple(topics))


def epoch_ends(cluster: "Cluster", broker: Broker, call: Exchange) -> "Answering":
    """Where the log of an epoch ends; that of the leader's own goes on."""
    topics = []
    for topic in call.request.topics:
        partitions = []
        for p in topic.partitions:
            attempt = call.attempt((topic.topic, p.partition))
            attempt.epoch, attempt.offset = p.current_leader_epoch, p.leader_epoch
            replica, ends = (yield from _asked(cluster, broker, attempt)), (-1, -1)
            if replica is not None:
                own = broker.leaders[attempt.place].epoch
                ends = replica.branch.epoch_end(p.leader_epoch, own)
            partitions.append(EpochEndOffset(attempt.error or 0, p.partition, *ends))
        topics.append(OffsetForLeaderTopicResult(topic.topic, tuple(partitions)))
    return OffsetForLeaderEpochResponse(topics=tuple(topics))


def _asked(
    cluster: "Cluster", broker: Broker, attempt: Attempt, must_lead: bool = True
) -> Generator[None, None, Replica | None]:
    """What the broker has of the log; None for an error, which is written down."""
    refusal = yield from cluster.scripted(attempt)
    if not isinstance(refusal, Refusal):
        refusal = refused(cluster, broker, attempt, must_lead)
    attempt.error = refusal.error if refusal else 0
    return None if attempt.error else cluster.replica(broker, attempt.place)


def _offset(cluster: "Cluster", timestamp: int, replica: Replica, debugging: bool) -> int:
    """The offset that is asked for; -1 for none."""
    if timestamp == EARLIEST_TIMESTAMP:
        return replica.start
    if timestamp == LATEST_TIMESTAMP:
        return replica.end if debugging else replica.high_watermark
    since_us, high = timestamp * 1000 - cluster.epoch_us, replica.high_watermark
    written = (b.base for b in replica.branch.batches if b.us >= since_us and b.end <= high)
    return next(written, -1) if timestamp >= 0 else -1
