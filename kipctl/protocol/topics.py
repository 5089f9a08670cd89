"""CreateTopics (API 19) and DeleteTopics (API 20)."""

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
    Message,
    Request,
    Response,
)


class CreatableTopicConfigs(Message):
    name: str = ""
    value: str | None = None
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False


class CreatableTopicResult(Message):
    name: str = ""
    topic_id: Annotated[UUID, Field("7+", ignorable=True)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: str | None = None
    topic_config_error_code: Annotated[Int16, Field("5+", tag=0, ignorable=True)] = 0
    num_partitions: Annotated[Int32, Field("5+", ignorable=True)] = -1
    replication_factor: Annotated[Int16, Field("5+", ignorable=True)] = -1
    configs: Annotated[
        tuple[CreatableTopicConfigs, ...] | None, Field("5+", nullable="5+", ignorable=True)
    ] = ()


class CreateTopicsResponse(Response):
    throttle_time_ms: Annotated[Int32, Field(ignorable=True)] = 0
    topics: tuple[CreatableTopicResult, ...] = ()


class CreatableReplicaAssignment(Message):
    partition_index: Int32 = 0
    broker_ids: tuple[Int32, ...] = ()


class CreatableTopicConfig(Message):
    name: str = ""
    value: str | None = None


class CreatableTopic(Message):
    """A topic to make; numbers are -1 where the assignments say where its replicas are."""

    name: str = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


class CreateTopicsRequest(Request[CreateTopicsResponse]):
    api = Api(ApiKey.CREATE_TOPICS, versions=(2, 7), flexible_since=5)

    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: Int32 = 60000
    validate_only: bool = False


class DeletableTopicResult(Message):
    name: Annotated[str | None, Field(nullable="6+")] = ""
    topic_id: Annotated[UUID, Field("6+", ignorable=True)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, Field("5+", ignorable=True)] = None


class DeleteTopicsResponse(Response):
    throttle_time_ms: Annotated[Int32, Field(ignorable=True)] = 0
    responses: tuple[DeletableTopicResult, ...] = ()


class DeleteTopicState(Message):
    name: str | None = None
    topic_id: UUID = ZERO_UUID


class DeleteTopicsRequest(Request[DeleteTopicsResponse]):
    api = Api(ApiKey.DELETE_TOPICS, versions=(1, 6), flexible_since=4)

    topics: Annotated[tuple[DeleteTopicState, ...], Field("6+")] = ()
    topic_names: Annotated[tuple[str, ...], Field("0-5", ignorable=True)] = ()
    timeout_ms: Int32 = 0
