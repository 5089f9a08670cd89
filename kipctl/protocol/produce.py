"""Produce: append record batches; the answer may hint at the new leader (API 0, KIP-951)."""

from typing import Annotated
from uuid import UUID

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import (
    ZERO_UUID,
    Api,
    Field,
    Int16,
    Int32,
    Int64,
    Message,
    Request,
    Response,
)


class BatchIndexAndErrorMessage(Message):
    """A record that made the broker refuse its batch, by its index there."""

    batch_index: Annotated[Int32, Field("8+")] = 0
    batch_index_error_message: Annotated[str | None, Field("8+")] = None


class LeaderIdAndEpoch(Message):
    """The hint: the leader that the answering broker knows, or -1."""

    leader_id: Annotated[Int32, Field("10+")] = -1
    leader_epoch: Annotated[Int32, Field("10+")] = -1


class PartitionProduceResponse(Message):
    """What became of one partition's batch; `base_offset` is -1 unless it was appended."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Annotated[Int64, Field("2+", ignorable=True)] = -1
    log_start_offset: Annotated[Int64, Field("5+", ignorable=True)] = -1
    record_errors: Annotated[
        tuple[BatchIndexAndErrorMessage, ...], Field("8+", ignorable=True)
    ] = ()
    error_message: Annotated[str | None, Field("8+", ignorable=True)] = None
    current_leader: Annotated[LeaderIdAndEpoch, Field("10+", tag=0)] = LeaderIdAndEpoch()


class TopicProduceResponse(Message):
    """A topic, by name up to version 12, by id from 13; partitions come in any order."""

    name: Annotated[str, Field("0-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, Field("13+", ignorable=True)] = ZERO_UUID
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


class NodeEndpoint(Message):
    """Where a hinted leader listens, on the listener that was asked. Share groups have it too."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


class ProduceResponse(Response):
    """There is none at all for acks=0."""

    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: Annotated[Int32, Field("1+", ignorable=True)] = 0
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Field("10+", tag=0)] = ()


class PartitionProduceData(Message):
    """One partition's record batch, as bytes (see `records`)."""

    index: Int32 = 0
    records: bytes | None = None


class TopicProduceData(Message):
    name: Annotated[str, Field("0-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, Field("13+", ignorable=True)] = ZERO_UUID
    partition_data: tuple[PartitionProduceData, ...] = ()


class ProduceRequest(Request[ProduceResponse]):
    """`acks` is 0, 1 or -1 (all in sync); `timeout_ms` is how long the broker waits for them."""

    api = Api(ApiKey.PRODUCE, versions=(3, 13), flexible_since=9)

    transactional_id: Annotated[str | None, Field("3+")] = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: tuple[TopicProduceData, ...] = ()
