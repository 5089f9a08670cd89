"""What clients ask when they start: ApiVersions and InitProducerId."""

from typing import TYPE_CHECKING

from kipctl.conform.cluster.call import Exchange
from kipctl.conform.cluster.state import Broker
from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import ApiVersion, ApiVersionsResponse
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.init_producer_id import InitProducerIdResponse
from kipctl.protocol.message import Response

if TYPE_CHECKING:
    from kipctl.conform.cluster.cluster import Cluster


def api_versions(cluster: "Cluster", broker: Broker, call: Exchange) -> Response:
    """All that the cluster serves; to a version that it does not know an error, and its own
    (KIP-511)."""
    keys = (ApiVersion(key, *span) for key, span in sorted(cluster.versions.items()))
    if call.request is None:
        own = tuple(key for key in keys if key.api_key == ApiKey.API_VERSIONS)
        return ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, own)
    return ApiVersionsResponse(ErrorCode.NONE, tuple(keys))


def init_producer_id(cluster: "Cluster", broker: Broker, call: Exchange) -> Response:
    """A new id, or the next epoch of the one that is asked for."""
    asked = call.request
    if asked.producer_id >= 0:
        return InitProducerIdResponse(
            producer_id=asked.producer_id, producer_epoch=asked.producer_epoch + 1
        )
    return InitProducerIdResponse(producer_id=cluster.new_producer_id(), producer_epoch=0)
