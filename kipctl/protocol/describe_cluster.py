"""DescribeCluster: the cluster's id, controller and brokers, fenced ones too (API 60)."""

from typing import Annotated

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Api, Field, Int8, Int16, Int32, Message, Request, Response
from kipctl.protocol.metadata import OPERATIONS_NOT_ASKED

BROKER_ENDPOINTS = 1
CONTROLLER_ENDPOINTS = 2


class DescribeClusterBroker(Message):
    """A broker (or controller, if those were asked for) and whether it is fenced."""

    broker_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None
    is_fenced: Annotated[bool, Field("2+")] = False


class DescribeClusterResponse(Response):
    """`controller_id` is a random live broker when a KRaft broker answers."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    endpoint_type: Annotated[Int8, Field("1+")] = BROKER_ENDPOINTS
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: Int32 = OPERATIONS_NOT_ASKED


class DescribeClusterRequest(Request[DescribeClusterResponse]):
    """`endpoint_type` says whose endpoints are asked for."""

    api = Api(ApiKey.DESCRIBE_CLUSTER, versions=(0, 2), flexible_since=0)

    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[Int8, Field("1+")] = BROKER_ENDPOINTS
    include_fenced_brokers: Annotated[bool, Field("2+")] = False
