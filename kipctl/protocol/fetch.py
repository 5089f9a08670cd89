"""Fetch: read record batches; the leader may name a replica nearer by (API 1, KIP-392)."""

from typing import Annotated
from uuid import UUID

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import (
    ZERO_UUID,
    Api,
    Field,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Request,
    Response,
)
from kipctl.protocol.produce import LeaderIdAndEpoch, NodeEndpoint

CONSUMER_REPLICA_ID = -1
NO_PREFERRED_READ_REPLICA = -1
UNKNOWN_HIGH_WATERMARK = (1 << 63) - 1
"""The high watermark of a follower that does not send its own."""


class EpochEndOffset(Message):
    """Where the reader's log left the leader's: the epoch before, and its end (KIP-595)."""

    epoch: Annotated[Int32, Field("12+")] = -1
    end_offset: Annotated[Int64, Field("12+")] = -1


class SnapshotId(Message):
    """The snapshot to fetch instead; of the metadata log only."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Message):
    """Records of `producer_id` from `first_offset` on were aborted."""

    producer_id: Annotated[Int64, Field("4+")] = 0
    first_offset: Annotated[Int64, Field("4+")] = 0


class PartitionData(Message):
    """What was read of one partition.

    Where `preferred_read_replica` is not -1 there are no records: read from that broker instead.
    `records` are whole batches, of which the last may be cut off (see `records`).
    `current_leader` comes with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH (KIP-951).
    """

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Annotated[Int64, Field("4+", ignorable=True)] = -1
    log_start_offset: Annotated[Int64, Field("5+", ignorable=True)] = -1
    diverging_epoch: Annotated[EpochEndOffset, Field("12+", tag=0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, Field("12+", tag=1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, Field("12+", tag=2)] = SnapshotId()
    aborted_transactions: Annotated[
        tuple[AbortedTransaction, ...] | None, Field("4+", ignorable=True)
    ] = ()
    preferred_read_replica: Annotated[Int32, Field("11+")] = NO_PREFERRED_READ_REPLICA
    records: bytes | None = None


class FetchableTopicResponse(Message):
    """A topic, by name up to version 12, by id from 13; partitions come in any order."""

    topic: Annotated[str, Field("0-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, Field("13+", ignorable=True)] = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class FetchResponse(Response):
    """In a fetch session, only partitions with news are in `responses` (KIP-227)."""

    throttle_time_ms: Annotated[Int32, Field("1+", ignorable=True)] = 0
    error_code: Annotated[Int16, Field("7+", ignorable=True)] = 0
    session_id: Annotated[Int32, Field("7+")] = 0
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Field("16+", tag=0)] = ()


class ReplicaState(Message):
    """The follower that asks, or -1 for a consumer."""

    replica_id: Annotated[Int32, Field("15+")] = CONSUMER_REPLICA_ID
    replica_epoch: Annotated[Int64, Field("15+")] = -1


class FetchPartition(Message):
    """A partition to read from `fetch_offset` on.

    With `current_leader_epoch` other than -1 the broker checks whether the reader's view of the
    leadership is old; with `last_fetched_epoch`, whether its log is another.
    """

    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, Field("9+", ignorable=True)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, Field("12+")] = -1
    log_start_offset: Annotated[Int64, Field("5+", ignorable=True)] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[UUID, Field("17+", tag=0, ignorable=True)] = ZERO_UUID
    high_watermark: Annotated[Int64, Field("18+", tag=1, ignorable=True)] = UNKNOWN_HIGH_WATERMARK


class FetchTopic(Message):
    topic: Annotated[str, Field("0-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, Field("13+", ignorable=True)] = ZERO_UUID
    partitions: tuple[FetchPartition, ...] = ()


class ForgottenTopic(Message):
    topic: Annotated[str, Field("7-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, Field("13+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[tuple[Int32, ...], Field("7+")] = ()


class FetchRequest(Request[FetchResponse]):
    """Wait up to `max_wait_ms` for `min_bytes`; read at most about `max_bytes`.

    `session_id` 0 with `session_epoch` -1 asks without a session; epoch 0 opens one. `rack_id` is
    the reader's rack. `isolation_level` 1 reads committed records only. A first batch that is
    longer than the limits comes whole.
    """

    api = Api(ApiKey.FETCH, versions=(4, 18), flexible_since=12)

    cluster_id: Annotated[str | None, Field("12+", tag=0, ignorable=True)] = None
    replica_id: Annotated[Int32, Field("0-14")] = CONSUMER_REPLICA_ID
    replica_state: Annotated[ReplicaState, Field("15+", tag=1)] = ReplicaState()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Annotated[Int32, Field("3+", ignorable=True)] = 0x7FFFFFFF
    isolation_level: Annotated[Int8, Field("4+", ignorable=True)] = 0
    session_id: Annotated[Int32, Field("7+", ignorable=True)] = 0
    session_epoch: Annotated[Int32, Field("7+", ignorable=True)] = -1
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], Field("7+")] = ()
    rack_id: Annotated[str, Field("11+", ignorable=True)] = ""
