"""The brokers that the controller knows, those that are down too (KIP-1073, Kafka 4.0)."""

from kipctl.errors import RefusedError
from kipctl.protocol.describe_cluster import DescribeClusterBroker, DescribeClusterRequest
from kipctl.protocol.error_codes import error_text
from kipctl.transport.request import Cluster

_FENCED_SINCE = 2
"""The version of DescribeCluster that lists brokers that are down."""


def registered_brokers(cluster: Cluster) -> tuple[DescribeClusterBroker, ...]:
    """Raises KipctlError: RefusedError where the cluster does not tell."""
    asked = DescribeClusterRequest(include_fenced_brokers=True)
    answer = cluster.any_broker().request(asked, _FENCED_SINCE)
    if answer.error_code:
        raise RefusedError(f"{error_text(answer.error_code)}.")
    return answer.brokers
