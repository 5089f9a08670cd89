"""The properties of Java's clients in librdkafka's words."""

from collections.abc import Mapping
from typing import Any

from kipctl.errors import UsageError
from kipctl.transport.access import Access

_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
_KIBIBYTES = {"buffer.memory": "queue.buffering.max.kbytes"}
_ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
_NO_COUNTERPART = frozenset(
    {
        "max.block.ms",
        "max.poll.records",
        "metadata.max.idle.ms",
        "partitioner.class",
        "sasl.jaas.config",
        "ssl.keystore.type",
        "ssl.truststore.location",
        "ssl.truststore.type",
    }
)
"""Java's properties that have a meaning there which librdkafka cannot be given."""
_FETCH_MAX_BYTES = 52_428_800
_BROKERS_LIMIT = 100_000_000
"""Most that librdkafka takes from one answer, unless it is told otherwise."""
_RECEIVE_HEADROOM = 512


def producer_properties(properties: Mapping[str, str], access: Access) -> dict[str, Any]:
    """What to give a librdkafka producer.

    Names that both use are passed on, and so is everything that only librdkafka knows: it refuses
    what it does not. What is not given keeps librdkafka's own default: `retry.backoff.ms` 100,
    `linger.ms` 5, `batch.size` 1,000,000, no idempotence. Raises UsageError for properties that
    librdkafka has nothing for.
    """
    return {**access.librdkafka(), "log_level": "3", **_translated(properties)}


def consumer_properties(
    properties: Mapping[str, str], group: str, access: Access
) -> dict[str, Any]:
    """What to give a librdkafka consumer of a group, from the beginning if nothing else is said.

    Raises UsageError for properties that librdkafka has nothing for.
    """
    given = {"auto.offset.reset": "earliest", **_translated(properties)}
    # In Java request.timeout.ms is for all requests; librdkafka's is the producer's alone.
    if timeout := given.pop("request.timeout.ms", None):
        given["socket.timeout.ms"] = timeout
    fetch_max = int(given.get("fetch.max.bytes", _FETCH_MAX_BYTES))
    if fetch_max + _RECEIVE_HEADROOM > _BROKERS_LIMIT:
        given.setdefault("receive.message.max.bytes", str(fetch_max + _RECEIVE_HEADROOM))
    return {**access.librdkafka(), "group.id": group, "log_level": "3", **given}


def _translated(properties: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, text in properties.items():
        if name in _NO_COUNTERPART:
            raise UsageError(
                f"librdkafka has nothing that is {name}.", "Leave it out for this client."
            )
        if name.endswith((".serializer", ".deserializer")):
            continue  # it deals in bytes
        if name in _KIBIBYTES:
            given[_KIBIBYTES[name]] = str(max(1, int(text) // 1024))
        elif name == "partition.assignment.strategy":
            given[name] = ",".join(_ASSIGNORS.get(part.strip(), part) for part in text.split(","))
        else:
            given[_RENAMED.get(name, name)] = text
    return given
