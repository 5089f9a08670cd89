"""The settings of replication throttles, read from brokers and written to them.

A broker's settings are changed by the broker itself, and only while it runs; what is set for all of
them, and topics', by any.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kipctl.at_once import chunks
from kipctl.cluster.throttle_configs import ALL_BROKERS, BROKER, TOPIC, Setting
from kipctl.errors import RefusedError
from kipctl.protocol.describe_configs import (
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
    ResourceType,
)
from kipctl.protocol.error_codes import ErrorCode, error_text
from kipctl.protocol.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)
from kipctl.transport.request import BrokerConnection, Cluster

_TYPES = {BROKER: ResourceType.BROKER, TOPIC: ResourceType.TOPIC}
_TOPICS_A_REQUEST = 500
GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Of a topic that is not there any more."""


def read_settings(cluster: Cluster, settings: Iterable[Setting]) -> dict[Setting, str | None]:
    """Each setting's own value; None where it has none, but only a default or one for all brokers.

    Of topics that do not exist nothing is known. Raises RefusedError, UnreachableError and
    TimedOutError.
    """
    values: dict[Setting, str | None] = {}
    for group in groups(list(settings)):
        values |= read_group(_connection(cluster, group), group)
    return values


def groups(settings: Sequence[Setting]) -> Iterator[list[Setting]]:
    """What goes into one request each: some topics' settings, or those of one broker."""
    topics = list(dict.fromkeys(s.name for s in settings if s.kind == TOPIC))
    for names in map(frozenset, chunks(topics, _TOPICS_A_REQUEST)):
        yield [s for s in settings if s.kind == TOPIC and s.name in names]
    for broker in dict.fromkeys(s.name for s in settings if s.kind == BROKER):
        yield [s for s in settings if s.kind == BROKER and s.name == broker]


def _is_brokers_own(kind: str, name: str) -> bool:
    """Whether that broker has to be asked: what is set for all of them any of them knows."""
    return kind == BROKER and name != ALL_BROKERS


def _source(kind: str, name: str) -> ConfigSource:
    if kind == TOPIC:
        return ConfigSource.TOPIC
    return ConfigSource.BROKER if name != ALL_BROKERS else ConfigSource.ALL_BROKERS


def _by_resource(settings: Iterable[Setting]) -> dict[tuple[str, str], list[Setting]]:
    resources: dict[tuple[str, str], list[Setting]] = {}
    for setting in settings:
        resources.setdefault((setting.kind, setting.name), []).append(setting)
    return resources


def _connection(cluster: Cluster, group: Iterable[Setting]) -> BrokerConnection:
    """To the broker that knows the settings of one of `groups`."""
    kind, name, _ = next(iter(group))
    return cluster.broker(int(name)) if _is_brokers_own(kind, name) else cluster.any_broker()


def read_group(connection: BrokerConnection, group: Sequence[Setting]) -> dict[Setting, str | None]:
    """The own values of the settings of one of `groups`, as that broker shows them."""
    request = DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(
                _TYPES[kind], name, tuple(setting.config for setting in settings)
            )
            for (kind, name), settings in _by_resource(group).items()
        )
    )
    kind, name, _ = group[0]
    values: dict[Setting, str | None] = {}
    for result in connection.request(request).results:
        if result.error_code not in GONE:
            raise_for(result)
            own = {
                c.name: c.value for c in result.configs if c.config_source == _source(kind, name)
            }
            values |= {
                setting: own.get(setting.config)
                for setting in group
                if setting.name == result.resource_name
            }
    return values


def write(
    cluster: Cluster, values: Mapping[Setting, str | None]
) -> tuple[AlterConfigsResourceResponse, ...]:
    """Set, or delete where the value is None, the settings of one group."""
    if not values:
        return ()
    request = IncrementalAlterConfigsRequest(
        resources=tuple(
            AlterConfigsResource(
                _TYPES[kind],
                name,
                tuple(
                    AlterableConfig(
                        setting.config,
                        ConfigOperation.DELETE if values[setting] is None else ConfigOperation.SET,
                        values[setting],
                    )
                    for setting in settings
                ),
            )
            for (kind, name), settings in _by_resource(values).items()
        )
    )
    kind, name, _ = next(iter(values))
    if _is_brokers_own(kind, name):
        return _connection(cluster, values).request(request).responses
    return cluster.ask_controller(request).responses


def raise_for(answer: AlterConfigsResourceResponse | DescribeConfigsResult) -> None:
    """Raise RefusedError where it was refused."""
    if answer.error_code:
        what = "Broker" if answer.resource_type == ResourceType.BROKER else "Topic"
        verb = "set" if isinstance(answer, AlterConfigsResourceResponse) else "shown"
        said = f" ({answer.error_message})" if answer.error_message else ""
        raise RefusedError(
            f"The throttle of {what.lower()} {answer.resource_name} cannot be {verb}:"
            f" {error_text(answer.error_code)}{said}.",
            f"It takes the right to describe and alter configs of the"
            f" {'cluster' if what == 'Broker' else 'topic'}.",
        )
