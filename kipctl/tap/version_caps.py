"""The API versions that clients get to see: capped as asked, and none that the tap cannot read."""

from collections.abc import Mapping
from dataclasses import replace

from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import (
    NEWEST_API,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import encode
from kipctl.protocol.primitives import INT32
from kipctl.tap.rewrite import REQUESTS, WITH_ENDPOINTS


def unsupported_api_versions(correlation_id: int) -> bytes:
    """The answer to an ApiVersions newer than is known here: ask again with one that is (KIP-511).

    The broker's own would name versions of answers whose endpoints cannot be found here.
    """
    first, last = ApiVersionsRequest.api.versions
    body = ApiVersionsResponse(
        error_code=int(ErrorCode.UNSUPPORTED_VERSION),
        api_keys=(ApiVersion(int(ApiKey.API_VERSIONS), first, last),),
    )
    content = INT32.pack(correlation_id) + encode(body, 0)
    return INT32.pack(len(content)) + content


def capped(body: ApiVersionsResponse, caps: Mapping[int, int]) -> ApiVersionsResponse:
    """The versions a client is told of: no higher than the caps, nor than is known here.

    A cap below what the broker speaks at least leaves that lowest version. Of APIs that are newer
    than those known here clients are not told: their answers may carry endpoints.
    """
    keys = tuple(
        replace(key, max_version=_highest(key.api_key, key.min_version, key.max_version, caps))
        for key in body.api_keys
        if key.api_key <= NEWEST_API
    )
    return replace(body, api_keys=keys)


def _highest(api_key: int, lowest: int, highest: int, caps: Mapping[int, int]) -> int:
    limit = min(highest, caps.get(api_key, highest))
    if api_key in WITH_ENDPOINTS:
        limit = min(limit, REQUESTS[api_key].api.versions[1])
    return max(lowest, limit)
