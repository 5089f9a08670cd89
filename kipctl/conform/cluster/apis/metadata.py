"""Metadata and DescribeCluster, as the broker that is asked believes them."""

from typing import TYPE_CHECKING

from kipctl.conform.cluster.call import Exchange
from kipctl.conform.cluster.state import Broker
from kipctl.protocol.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import ZERO_UUID, Response
from kipctl.protocol.metadata import (
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from kipctl.conform.cluster.cluster import Cluster

_IDS_SINCE = 10


def metadata(cluster: "Cluster", broker: Broker, call: Exchange) -> Response:
    """Topics by name or id; all of them for null, and for none in version 0."""
    asked = call.request.topics
    if asked is None or (call.version == 0 and not asked):
        asked = tuple(MetadataRequestTopic(name=name) for name in broker.topics)
    nodes = broker.shown_nodes()
    return MetadataResponse(
        brokers=tuple(MetadataResponseBroker(n.id, n.host, n.port, n.rack) for n in nodes.values()),
        cluster_id=cluster.id,
        controller_id=min(nodes, default=-1),
        topics=tuple(_topic(cluster, broker, topic, call.version) for topic in asked),
    )


def _topic(
    cluster: "Cluster", broker: Broker, asked: MetadataRequestTopic, version: int
) -> MetadataResponseTopic:
    name = asked.name
    if name is None:
        name = cluster.names.get(asked.topic_id)
        if name is None or broker.topics.get(name) != asked.topic_id:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
    if name not in broker.topics:
        return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    nodes, partitions = broker.shown_nodes(), []
    for index in sorted(index for topic, index in broker.shown if topic == name):
        leader = broker.shown[name, index]
        is_there = leader.id in nodes
        replicas = tuple(
            id for id in cluster.brokers if id == leader.id or cluster.holds(id, (name, index))
        )
        partitions.append(
            MetadataResponsePartition(
                ErrorCode.NONE if is_there else ErrorCode.LEADER_NOT_AVAILABLE,
                index,
                leader.id if is_there else -1,
                leader.epoch,
                replicas,
                replicas,
            )
        )
    id = broker.topics[name] if version >= _IDS_SINCE else ZERO_UUID
    return MetadataResponseTopic(0, name, id, partitions=tuple(partitions))


def describe_cluster(cluster: "Cluster", broker: Broker, call: Exchange) -> Response:
    """The same brokers."""
    nodes = broker.shown_nodes()
    return DescribeClusterResponse(
        cluster_id=cluster.id,
        controller_id=min(nodes, default=-1),
        brokers=tuple(DescribeClusterBroker(n.id, n.host, n.port, n.rack) for n in nodes.values()),
    )
