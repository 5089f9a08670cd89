"""DescribeConfigs: the configs of topics, brokers and brokers' loggers (API 32, KIP-133)."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Annotated

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Api, Field, Int8, Int16, Int32, Message, Request, Response

UNKNOWN_SOURCE = -1


class ResourceType(IntEnum):
    """What has configs (Kafka's `ConfigResource.Type`), as far as kipctl asks for it."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class ConfigSource(IntEnum):
    """Where a value comes from (Kafka's `DescribeConfigsResponse.ConfigSource`), as far as needed.

    TOPIC and BROKER are set on that very topic or broker while it runs, ALL_BROKERS on all brokers
    at once (`--entity-default`), FILE is the broker's own file.
    """

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4


class DescribeConfigsSynonym(Message):
    """Where else the value may come from, the strongest first."""

    name: str = ""
    value: str | None = ""
    source: Int8 = 0


class DescribeConfigsResourceResult(Message):
    """One config. The level of a logger that has none of its own is the one that it inherits."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: Int8 = UNKNOWN_SOURCE
    is_sensitive: bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: Annotated[Int8, Field("3+", ignorable=True)] = 0
    documentation: Annotated[str | None, Field("3+", ignorable=True)] = ""


class DescribeConfigsResult(Message):
    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()

    @property
    def values(self) -> dict[str, str | None]:
        """The configs' values by name."""
        return {config.name: config.value for config in self.configs}

    @property
    def sources(self) -> dict[str, tuple[int, ...]]:
        """Where a value of each config is set, the one that holds first; empty without synonyms."""
        return {
            config.name: tuple(synonym.source for synonym in config.synonyms)
            for config in self.configs
        }


class DescribeConfigsResponse(Response):
    throttle_time_ms: Int32 = 0
    results: tuple[DescribeConfigsResult, ...] = ()


class DescribeConfigsResource(Message):
    """A resource to describe; `configuration_keys` None asks for all of its configs."""

    resource_type: Int8 = 0
    resource_name: str = ""
    configuration_keys: tuple[str, ...] | None = ()


class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    """Brokers and their loggers are asked of the broker itself. Kafka 4.0 took version 0 away."""

    api = Api(ApiKey.DESCRIBE_CONFIGS, versions=(1, 4), flexible_since=4)

    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: bool = False
    include_documentation: Annotated[bool, Field("3+")] = False


def configs_request(
    kind: ResourceType,
    names: Iterable[str],
    configs: Iterable[str],
    *,
    include_synonyms: bool = False,
) -> DescribeConfigsRequest:
    """For these configs of each of these topics or brokers."""
    keys = tuple(configs)
    resources = tuple(DescribeConfigsResource(kind, n, keys) for n in names)
    return DescribeConfigsRequest(resources, include_synonyms)
