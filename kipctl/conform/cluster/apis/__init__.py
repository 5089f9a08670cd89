"""How a broker answers, a module for each API or for those that belong together."""

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

from kipctl.conform.cluster.apis import fetch, groups, metadata, offsets, produce, start
from kipctl.conform.cluster.call import Exchange
from kipctl.conform.cluster.state import Broker
from kipctl.protocol.api_versions import ApiVersionsRequest
from kipctl.protocol.committed_offsets import OffsetCommitRequest, OffsetFetchRequest
from kipctl.protocol.describe_cluster import DescribeClusterRequest
from kipctl.protocol.fetch import FetchRequest
from kipctl.protocol.find_coordinator import FindCoordinatorRequest
from kipctl.protocol.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kipctl.protocol.init_producer_id import InitProducerIdRequest
from kipctl.protocol.list_offsets import ListOffsetsRequest
from kipctl.protocol.message import Request, Response
from kipctl.protocol.metadata import MetadataRequest
from kipctl.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kipctl.protocol.produce import ProduceRequest

if TYPE_CHECKING:
    from kipctl.conform.cluster.cluster import Cluster

Answering = Generator[None, None, Response | None]
"""An answer that is made: it yields for as long as it has to wait. None is no answer at all."""
Respond = Callable[["Cluster", Broker, Exchange], Answering | Response | None]

RESPOND: Mapping[type[Request[Any]], Respond] = {
    ApiVersionsRequest: start.api_versions,
    DescribeClusterRequest: metadata.describe_cluster,
    FetchRequest: fetch.fetch,
    FindCoordinatorRequest: groups.find_coordinator,
    HeartbeatRequest: groups.heartbeat,
    InitProducerIdRequest: start.init_producer_id,
    JoinGroupRequest: groups.join_group,
    LeaveGroupRequest: groups.leave_group,
    ListOffsetsRequest: offsets.list_offsets,
    MetadataRequest: metadata.metadata,
    OffsetCommitRequest: groups.offset_commit,
    OffsetFetchRequest: groups.offset_fetch,
    OffsetForLeaderEpochRequest: offsets.epoch_ends,
    ProduceRequest: produce.produce,
    SyncGroupRequest: groups.sync_group,
}
REQUESTS = {request.api.key: request for request in RESPOND}
VERSIONS: Mapping[int, tuple[int, int]] = {
    **{key: request.api.versions for key, request in REQUESTS.items()},
    ApiVersionsRequest.api.key: (0, 4),
    ProduceRequest.api.key: (0, ProduceRequest.api.versions[1]),
    InitProducerIdRequest.api.key: (0, 5),
}
"""As Kafka 4.3 announces them. Produce begins at 0 there, though the least that is served is 3:
librdkafka looks for it (KAFKA-18659)."""
