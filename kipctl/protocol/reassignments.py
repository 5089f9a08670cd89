"""AlterPartitionReassignments and ListPartitionReassignments (APIs 45 and 46, KIP-455).

The topics of an answer may all have failed while its own error code is 0.
"""

from typing import Annotated

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Api, Field, Int16, Int32, Message, Request, Response


class ReassignablePartitionResponse(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""


class ReassignableTopicResponse(Message):
    name: str = ""
    partitions: tuple[ReassignablePartitionResponse, ...] = ()


class AlterPartitionReassignmentsResponse(Response):
    """The controller has accepted or refused; it has moved nothing yet."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[bool, Field("1+", ignorable=True)] = True
    error_code: Int16 = 0
    error_message: str | None = ""
    responses: tuple[ReassignableTopicResponse, ...] = ()


class ReassignablePartition(Message):
    """The replicas a partition shall have, the preferred leader first; None cancels."""

    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] | None = None


class ReassignableTopic(Message):
    name: str = ""
    partitions: tuple[ReassignablePartition, ...] = ()


class AlterPartitionReassignmentsRequest(Request[AlterPartitionReassignmentsResponse]):
    """Version 0 always allows a change of the replication factor.

    To forbid it there is an error in Kafka's schema, and none here: who asks in the newest version
    both know may not know which one that will be.
    """

    api = Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), flexible_since=0)

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[bool, Field("1+", ignorable=True)] = True
    topics: tuple[ReassignableTopic, ...] = ()


class OngoingPartitionReassignment(Message):
    """A partition on its way: `replicas` are the old and the new ones together."""

    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()


class OngoingTopicReassignment(Message):
    name: str = ""
    partitions: tuple[OngoingPartitionReassignment, ...] = ()


class ListPartitionReassignmentsResponse(Response):
    """Partitions that are not being reassigned are left out."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    topics: tuple[OngoingTopicReassignment, ...] = ()


class ListPartitionReassignmentsTopics(Message):
    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


class ListPartitionReassignmentsRequest(Request[ListPartitionReassignmentsResponse]):
    """`topics` None asks for all."""

    api = Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible_since=0)

    timeout_ms: Int32 = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None
