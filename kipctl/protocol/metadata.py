"""Metadata: brokers, topics, and who leads and holds each partition (API 3)."""

from collections.abc import Iterable
from typing import Annotated
from uuid import UUID

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import ZERO_UUID, Api, Field, Int16, Int32, Message, Request, Response

OPERATIONS_NOT_ASKED = -(1 << 31)
"""The value of the authorized operations bit fields when they were not asked for."""


class MetadataResponseBroker(Message):
    """A broker that is alive, at its endpoint on the listener that was asked."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, Field("1+", ignorable=True)] = None


class MetadataResponsePartition(Message):
    """A partition; `leader_id` is -1 while it has no leader."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, Field("7+", ignorable=True)] = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    offline_replicas: Annotated[tuple[Int32, ...], Field("5+", ignorable=True)] = ()


class MetadataResponseTopic(Message):
    """A topic; of name and id, the one that was not asked for may be missing on error."""

    error_code: Int16 = 0
    name: Annotated[str | None, Field(nullable="12+")] = ""
    topic_id: Annotated[UUID, Field("10+", ignorable=True)] = ZERO_UUID
    is_internal: Annotated[bool, Field("1+", ignorable=True)] = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: Annotated[Int32, Field("8+")] = OPERATIONS_NOT_ASKED


class MetadataResponse(Response):
    """What the asked broker knows; it may be behind the controller."""

    throttle_time_ms: Annotated[Int32, Field("3+", ignorable=True)] = 0
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: Annotated[str | None, Field("2+", ignorable=True)] = None
    controller_id: Annotated[Int32, Field("1+", ignorable=True)] = -1
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: Annotated[Int32, Field("8-10")] = OPERATIONS_NOT_ASKED
    error_code: Annotated[Int16, Field("13+", ignorable=True)] = 0


class MetadataRequestTopic(Message):
    """A topic by name or, from version 12, by id (`name` null)."""

    topic_id: Annotated[UUID, Field("10+", ignorable=True)] = ZERO_UUID
    name: Annotated[str | None, Field(nullable="10+")] = ""


class MetadataRequest(Request[MetadataResponse]):
    """`topics`: None asks for all topics, () for none (in version 0, () asks for all)."""

    api = Api(ApiKey.METADATA, versions=(0, 13), flexible_since=9)

    topics: Annotated[tuple[MetadataRequestTopic, ...] | None, Field(nullable="1+")] = ()
    allow_auto_topic_creation: Annotated[bool, Field("4+")] = True
    include_cluster_authorized_operations: Annotated[bool, Field("8-10")] = False
    include_topic_authorized_operations: Annotated[bool, Field("8+")] = False


def metadata_request(topics: Iterable[str] | None) -> MetadataRequest:
    """For Metadata of these topics, or of all (None); it creates none."""
    named = None if topics is None else tuple(MetadataRequestTopic(name=topic) for topic in topics)
    return MetadataRequest(topics=named, allow_auto_topic_creation=False)
