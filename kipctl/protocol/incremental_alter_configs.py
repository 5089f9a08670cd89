"""IncrementalAlterConfigs: change some configs of a resource, and no others (API 44, KIP-339).

A broker's logger levels are changed by the broker that is asked, and by no other (KIP-412).
"""

from enum import IntEnum

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Api, Int8, Int16, Int32, Message, Request, Response


class ConfigOperation(IntEnum):
    """APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterConfigsResourceResponse(Message):
    """What came of one resource: all of its configs are changed, or none."""

    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""


class IncrementalAlterConfigsResponse(Response):
    """One answer for each resource; one may have failed and another not."""

    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()


class AlterableConfig(Message):
    """One config; `value` is not looked at by DELETE."""

    name: str = ""
    config_operation: Int8 = ConfigOperation.SET
    value: str | None = ""


class AlterConfigsResource(Message):
    """A resource to change; its type is a `ResourceType`."""

    resource_type: Int8 = 0
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse]):
    """`validate_only` asks what would come of it."""

    api = Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), flexible_since=1)

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False
