"""Random messages, and their counterparts in kio and kafka-python, to compare bytes with.

A message class of kipctl is described to the others by its name and its fields' names alone, so a
wrong type, order, version or tag shows as different bytes.
"""

import dataclasses
import importlib
import io
import random
import warnings
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from functools import cache
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints
from uuid import UUID

from all_requests import ALL_REQUESTS
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kipctl.protocol.api_versions import ApiVersionsRequest
from kipctl.protocol.group_descriptions import ConsumerGroupDescribeRequest
from kipctl.protocol.message import ZERO_UUID, Field, Message
from kipctl.protocol.share_groups import ShareAcknowledgeRequest, ShareFetchRequest

# What kipctl speaks, written out: lowest and highest version.
REQUESTS = {
    "Produce": (3, 13),
    "Fetch": (4, 18),
    "ListOffsets": (1, 11),
    "Metadata": (0, 13),
    "OffsetCommit": (2, 10),
    "OffsetFetch": (1, 10),
    "FindCoordinator": (0, 6),
    "JoinGroup": (2, 9),
    "Heartbeat": (0, 4),
    "LeaveGroup": (0, 5),
    "SyncGroup": (0, 5),
    "DescribeGroups": (0, 6),
    "ListGroups": (0, 5),
    "ConsumerGroupDescribe": (0, 1),
    "ApiVersions": (0, 5),
    "InitProducerId": (0, 6),
    "OffsetForLeaderEpoch": (2, 4),
    "DescribeConfigs": (1, 4),
    "AlterReplicaLogDirs": (1, 2),
    "DescribeLogDirs": (1, 5),
    "ElectLeaders": (0, 2),
    "IncrementalAlterConfigs": (0, 1),
    "AlterPartitionReassignments": (0, 1),
    "ListPartitionReassignments": (0, 0),
    "DescribeQuorum": (0, 2),
    "DescribeCluster": (0, 2),
    "DescribeProducers": (0, 0),
    "DescribeTransactions": (0, 0),
    "ListTransactions": (0, 2),
    "DescribeTopicPartitions": (0, 0),
    "ShareFetch": (1, 2),
    "ShareAcknowledge": (1, 2),
    "SaslHandshake": (0, 1),
    "SaslAuthenticate": (0, 2),
    "CreateTopics": (2, 7),
    "DeleteTopics": (1, 6),
}
ALL_VERSIONS = [
    (cls, version)
    for request in ALL_REQUESTS
    for cls in (request, request.response)
    for version in range(cls.api.versions[0], cls.api.versions[1] + 1)
]

UNKNOWN_TO_ALL = {(cls, 5) for cls in (ApiVersionsRequest, ApiVersionsRequest.response)}
"""They are of Kafka 4.3."""
KIO = [known for known in ALL_VERSIONS if known not in UNKNOWN_TO_ALL]
UNKNOWN_TO_KAFKA_PYTHON = {
    ShareFetchRequest,
    ShareAcknowledgeRequest,
    ConsumerGroupDescribeRequest,
}
_UNKNOWN_KEYS = {request.api.key for request in UNKNOWN_TO_KAFKA_PYTHON}
KAFKA_PYTHON = [(cls, version) for cls, version in KIO if cls.api.key not in _UNKNOWN_KEYS]

_LIMITS = {
    "b": (-1 << 7, 1 << 7),
    "h": (-1 << 15, 1 << 15),
    "H": (0, 1 << 16),
    "i": (-1 << 31, 1 << 31),
    "q": (-1 << 63, 1 << 63),
}
_ERROR_CODES = list(KioErrorCode)
_LETTERS = "abcdefghij-_.0123456789äß中😀"


@cache
def fields_of(cls: type[Message], version: int) -> list[tuple[str, Any, Field]]:
    """Name, type and Field of the fields that `cls` has in `version`."""
    fields = []
    hints = _hints(cls)
    for declared in dataclasses.fields(cls):
        if declared.kw_only:
            continue
        hint = hints[declared.name]
        metadata = get_args(hint) if get_origin(hint) is Annotated else ()
        field = next((m for m in metadata if isinstance(m, Field)), Field())
        if version in field.versions:
            fields.append((declared.name, hint, field))
    return fields


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


class Fill(Enum):
    """How much there is in a random message."""

    ANY = auto()
    FULL = auto()
    """No array is empty, nothing is null, and nothing is long."""
    NULLS = auto()
    """As FULL, with null in place of all that may be null."""


def random_message(
    cls: type[Message], version: int, choose: random.Random, fill: Fill = Fill.ANY
) -> Any:
    """A message with random values in all fields of the version, the others at their default."""
    return cls(
        **{
            name: _random_value(name, hint, field, version, choose, fill)
            for name, hint, field in fields_of(cls, version)
        }
    )


def _random_value(
    name: str, hint: Any, field: Field, version: int, choose: random.Random, fill: Fill
) -> Any:
    def size(full: int, *others: int) -> int:
        return choose.choice((full, *others)) if fill is Fill.ANY else full

    base, arguments = hint, get_args(hint)
    number = ""
    if get_origin(hint) is Annotated:
        base = arguments[0]
        number = next((m for m in arguments[1:] if isinstance(m, str)), "")
    if NoneType in get_args(base):
        is_null = choose.random() < 0.2 if fill is Fill.ANY else fill is Fill.NULLS
        if version in field.nullable and is_null:
            return None
        base = get_args(base)[0]
    if name == "error_code":
        return int(choose.choice(_ERROR_CODES))
    if name in (
        "session_lifetime_ms",
        "retention_time_ms",
    ):  # kio makes it a timedelta, which has no room for all
        return choose.randrange(-(1 << 40), 1 << 40)
    if name == "transaction_start_time_ms":  # kio makes it a datetime, and never None
        return choose.choice([0, choose.randrange(1 << 42)])
    if name == "log_append_time_ms":  # kio makes it a datetime, or None
        return choose.choice([-1, 0, choose.randrange(1 << 42)])
    if number:
        bottom, top = _LIMITS[number]
        return choose.choice(
            [0, 1, -1 if bottom else 2, top - 1, bottom, choose.randrange(bottom, top)]
        )
    if base is bool:
        return choose.random() < 0.5
    if base is str:
        return "".join(choose.choices(_LETTERS, k=size(9, 0, 1, 130)))
    if base is bytes:
        return choose.randbytes(size(5, 0, 1, 127, 128, 20000))
    if base is UUID:
        return UUID(int=choose.choice([0, choose.getrandbits(128)]))
    if get_origin(base) is tuple:
        item = get_args(base)[0]
        count = size(2, 0, 1, 3) if isinstance(item, type) else size(3, 0, 127, 200)
        return tuple(_random_value("", item, field, version, choose, fill) for _ in range(count))
    return random_message(base, version, choose, fill)


# kio: a class per version, with times, enums and None for the zero id


@cache
def kio_class(cls: type[Any], version: int) -> Any:
    kind = EntityType.request if hasattr(cls, "response") else EntityType.response
    return getattr(load_payload_module(cls.api.key, version, kind), cls.__name__)


def to_kio(ours: Any, version: int, cls: Any = None) -> Any:
    """The message as one of kio's."""
    cls = cls or kio_class(type(ours), version)
    hints = _hints(cls)
    values = {}
    for name, _, _ in fields_of(type(ours), version):
        value = getattr(ours, name)
        theirs = name if name in hints else name.removesuffix("_ms")
        kind = cls.__dataclass_fields__[theirs].metadata.get("kafka_type")
        if kind in ("timedelta_i32", "timedelta_i64"):
            value = timedelta(milliseconds=value)
        elif kind == "datetime_i64":
            value = None if value == -1 else _EPOCH + timedelta(milliseconds=value)
        elif kind == "error_code":
            value = KioErrorCode(value)
        elif kind == "uuid":
            value = value if value.int else None
        elif isinstance(value, Message):
            value = to_kio(value, version, _item_class(hints[theirs]))
        elif isinstance(value, tuple) and value and isinstance(value[0], Message):
            item = _item_class(hints[theirs])
            value = tuple(to_kio(member, version, item) for member in value)
        values[theirs] = value
    return cls(**values)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _item_class(hint: Any) -> Any:
    arguments = [a for a in get_args(hint) if a is not NoneType and a is not Ellipsis]
    return _item_class(arguments[0]) if arguments else hint


def kio_bytes(theirs: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(theirs))(out, theirs)
    return out.getvalue()


def kio_reads(cls: type[Any], version: int, encoded: bytes) -> Any:
    message, size = entity_reader(kio_class(cls, version))(encoded, 0)
    assert size == len(encoded)
    return message


# kafka-python: a class for all versions. It has its own view of three things: the authorized
# operations are sets of bits under a shorter name, the zero id is None, and an ApiVersions answer
# with any error (not only 35) is read as version 0, which brokers do not do.

_OPERATIONS = {"cluster_authorized_operations", "topic_authorized_operations"}
_SET = "authorized_operations"


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how it loads its schemas
    _KAFKA_PYTHON_MODULES = [
        importlib.import_module(f"kafka.protocol.{name}")
        for name in ("admin", "consumer", "metadata", "producer", "sasl")
    ]


@cache
def kafka_python_class(cls: type[Any]) -> Any:
    return next(
        getattr(module, cls.__name__)
        for module in _KAFKA_PYTHON_MODULES
        if hasattr(module, cls.__name__)
    )


def to_kafka_python(ours: Any, version: int, cls: Any = None) -> Any:
    """The message as one of kafka-python's."""
    cls = cls or kafka_python_class(type(ours))
    values = {}
    for name, _, field in fields_of(type(ours), version):
        value = getattr(ours, name)
        if name == _SET or (name in _OPERATIONS and name not in cls._struct.fields):
            values["authorized_operations"] = {bit for bit in range(32) if value >> bit & 1}
            continue
        theirs = cls._struct.fields[name]
        if field.tag is not None and value == type(ours).__dataclass_fields__[name].default:
            continue  # it would write a tag that is set to its default
        if isinstance(value, Message):
            value = to_kafka_python(value, version, theirs.data_class)
        elif isinstance(value, tuple):
            value = [
                to_kafka_python(member, version, theirs.data_class)
                if isinstance(member, Message)
                else member
                for member in value
            ]
        values[name] = value
    return cls(version=version, **values)


def kafka_python_bytes(ours: Any, version: int) -> bytes:
    return bytes(to_kafka_python(ours, version).encode(version=version))


def kafka_python_reads(cls: type[Message], version: int, encoded: bytes) -> Any:
    """What it reads, as a message of ours."""
    return from_kafka_python(kafka_python_class(cls).decode(encoded, version=version), cls, version)


def from_kafka_python(theirs: Any, cls: type[Message], version: int) -> Any:
    values = {}
    for name, hint, field in fields_of(cls, version):
        item = _message_class(hint)
        if name == _SET or (name in _OPERATIONS and not hasattr(theirs, name)):
            bits = {31} if theirs.authorized_operations is None else theirs.authorized_operations
            value = sum(1 << bit for bit in bits)
            values[name] = value - (value >> 31 << 32)
            continue
        value = getattr(theirs, name)
        if value is None and field.tag is not None:
            continue  # it was left out, so it has its default
        if value is None and name in {"topic_id", "replica_directory_id"}:
            value = ZERO_UUID
        elif isinstance(value, list):
            value = tuple(
                from_kafka_python(member, item, version) if item else member for member in value
            )
        elif item and value is not None:
            value = from_kafka_python(value, item, version)
        elif isinstance(value, memoryview):
            value = bytes(value)
        values[name] = value
    return cls(**values)


def _message_class(hint: Any) -> type[Message] | None:
    if isinstance(hint, type) and issubclass(hint, Message):
        return hint
    classes = (_message_class(argument) for argument in get_args(hint))
    return next((cls for cls in classes if cls), None)
