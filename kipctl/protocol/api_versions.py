"""ApiVersions: which APIs a broker knows, in which versions (API 18)."""

from functools import cache
from typing import Annotated

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Api, Field, Int16, Int32, Int64, Message, Request, Response

NEWEST_API = 94
"""The highest key of an API that Kafka 4.4 has: what newer ones carry is not known here."""

_ACLS, _TOKENS = range(29, 32), range(38, 42)
LEAST_OF_KAFKA_4: dict[int, int] = {
    ApiKey.PRODUCE: 3,
    ApiKey.FETCH: 4,
    **dict.fromkeys(
        (ApiKey.OFFSET_COMMIT, ApiKey.CREATE_TOPICS, ApiKey.OFFSET_FOR_LEADER_EPOCH), 2
    ),
    **dict.fromkeys((ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH, ApiKey.DELETE_TOPICS), 1),
    **dict.fromkeys((ApiKey.DESCRIBE_CONFIGS, *_ACLS, *_TOKENS), 1),
    **dict.fromkeys((ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.DESCRIBE_LOG_DIRS), 1),
}
"""The least version that Kafka 4 takes of clients, of APIs of which it refuses some (KIP-896).
Brokers say of Produce that they take 0, for librdkafka's sake, and refuse it (KAFKA-18659).
JoinGroup 0 and 1, which the KIP names too, are refused by 4.0.0 alone (KAFKA-19444)."""


class ApiVersion(Message):
    """The versions of one API, both ends included."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Message):
    name: str = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeatureKey(Message):
    """The versions of a feature that the cluster has agreed on."""

    name: str = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


class ApiVersionsResponse(Response):
    """The body is in version 0 when `error_code` is 35; see `api.decode_response`."""

    error_code: Int16 = 0
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: Annotated[Int32, Field("1+", ignorable=True)] = 0
    supported_features: Annotated[
        tuple[SupportedFeatureKey, ...], Field("3+", tag=0, ignorable=True)
    ] = ()
    finalized_features_epoch: Annotated[Int64, Field("3+", tag=1, ignorable=True)] = -1
    finalized_features: Annotated[
        tuple[FinalizedFeatureKey, ...], Field("3+", tag=2, ignorable=True)
    ] = ()
    zk_migration_ready: Annotated[bool, Field("3+", tag=3, ignorable=True)] = False


class ApiVersionsRequest(Request[ApiVersionsResponse]):
    """A broker's request log shows the software's name and version for the connection.

    One of Kafka 4.4 refuses a client that means another cluster or node (KIP-1242).
    """

    api = Api(ApiKey.API_VERSIONS, versions=(0, 5), flexible_since=3)

    client_software_name: Annotated[str, Field("3+", ignorable=True)] = ""
    client_software_version: Annotated[str, Field("3+", ignorable=True)] = ""
    cluster_id: Annotated[str | None, Field("5+", nullable="5+", ignorable=True)] = None
    node_id: Annotated[Int32, Field("5+", ignorable=True)] = -1


OWN_SOFTWARE = "kipctl"
"""The software that kipctl's own connections tell."""


@cache
def own_api_versions_request() -> ApiVersionsRequest:
    """kipctl's own, with its name and version."""
    from kipctl import __version__

    return ApiVersionsRequest(
        client_software_name=OWN_SOFTWARE, client_software_version=__version__
    )


def version_to_fall_back_to(refusal: ApiVersionsResponse, highest: int) -> int:
    """The version in which to ask a broker again that answered UNSUPPORTED_VERSION.

    Brokers since 2.4 say which versions they know (KIP-511), older ones know 0.
    """
    theirs = {api.api_key: api.max_version for api in refusal.api_keys}
    return min(highest, theirs.get(ApiVersionsRequest.api.key, 0))
