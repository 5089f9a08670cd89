"""The engine: a message is a frozen dataclass whose annotations say how each version is laid out.

A field is annotated with its type (`Int16`, `str`, `tuple[Int32, ...]`, another message class) and,
where it is not in all versions, a `Field`. `| None` makes it nullable. The default is the
protocol's own. A reader and a writer are compiled once per class and version. This is what the
JSON files of Kafka's message generator express; the names are theirs, in snake case.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from struct import Struct
from struct import error as StructError
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from kipctl.protocol import values
from kipctl.protocol.primitives import EncodeError, MalformedFrame, Reader, write_unsigned_varint
from kipctl.protocol.values import Codec

Int8 = Annotated[int, "b"]
Int16 = Annotated[int, "h"]
UInt16 = Annotated[int, "H"]
Int32 = Annotated[int, "i"]
Int64 = Annotated[int, "q"]
ZERO_UUID = UUID(int=0)


class Field:
    """In which versions a field exists, may be null, or is a tagged field (with which tag).

    Ranges are written as in Kafka's JSON: "3", "3+", "8-10". A field that may be null may be so in
    all its versions unless `nullable` says in which. An `ignorable` field may be left out silently
    when a version lacks it; any other then has to have its default value.
    """

    def __init__(
        self,
        versions: str = "0+",
        *,
        nullable: str = "0+",
        tag: int | None = None,
        ignorable: bool = False,
    ) -> None:
        self.versions = _version_range(versions)
        self.nullable = _version_range(nullable)
        self.tag = tag
        self.ignorable = ignorable


def _version_range(text: str) -> range:
    match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
    assert match, text
    first, open_end, last = match.groups()
    return range(int(first), 1 << 15 if open_end else int(last or first) + 1)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class _MessageClass(type):
    """Makes every class of messages a dataclass, frozen and with slots."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
        created: type[Any] = super().__new__(cls, name, bases, namespace)
        # `dataclass(slots=True)` creates a second class, through this metaclass again.
        if "__slots__" in namespace:
            return created
        return dataclasses.dataclass(frozen=True, slots=True)(created)


class Message(metaclass=_MessageClass):
    """A struct of the protocol: a frozen dataclass, as all that derives from it.

    `unknown_tags` are tagged fields that this version does not name: kept as read, written back.
    """

    unknown_tags: tuple[tuple[int, bytes], ...] = dataclasses.field(default=(), kw_only=True)


class Api(NamedTuple):
    """One API: its key, the lowest and highest version known here, and the first flexible one."""

    key: int
    versions: tuple[int, int]
    flexible_since: int


class Response(Message):
    """A message that answers a request, whose `api` is its own."""

    __slots__ = ()
    api: ClassVar[Api]


R = TypeVar("R", bound=Response)


class Request(Message, Generic[R]):
    """A message of `api` that asks for an `R`, which is also at hand as `response`."""

    __slots__ = ()
    api: ClassVar[Api]
    response: ClassVar[type[Response]]

    def __init_subclass__(cls) -> None:
        (cls.response,) = get_args(cls.__orig_bases__[0])  # type: ignore[attr-defined]
        cls.response.api = cls.api


M = TypeVar("M", bound=Request[Any] | Response)


def encode(body: Request[Any] | Response, version: int) -> bytes:
    """The bytes of `body`, without header, in `version` of its API.

    Raises `EncodeError` when the version cannot carry a value, and `ValueError` when there is no
    such version.
    """
    out = bytearray()
    try:
        _whole(type(body), version).write(out, body)
    except EncodeError as error:
        raise _titled(error, type(body), version) from None
    return bytes(out)


def decode(cls: type[M], buffer: bytes, version: int, base: int = 0) -> M:
    """The message that is the whole of `buffer`, which starts at byte `base` of its frame.

    Raises `MalformedFrame` when the bytes are anything else, and `ValueError` when there is no
    such version.
    """
    body, left_over = decode_beginning(cls, buffer, version, base)
    if left_over:
        raise MalformedFrame(
            f"{cls.__name__} v{version}: {left_over} bytes left over"
            f" (byte {base + len(buffer) - left_over})"
        )
    return body


def decode_beginning(cls: type[M], buffer: bytes, version: int, base: int = 0) -> tuple[M, int]:
    """The message that `buffer` begins with, and how many bytes are left over. Raises as `decode`
    does."""
    reader = Reader(bytes(buffer), base)
    try:
        body: M = _whole(cls, version).read(reader)
    except MalformedFrame as error:
        raise _titled(error, cls, version) from None
    return body, reader.remaining


_E = TypeVar("_E", EncodeError, MalformedFrame)


def _titled(error: _E, cls: type, version: int) -> _E:
    what = " " + error.what[1:] if error.what.startswith(".") else error.what
    return type(error)(f"{cls.__name__} v{version}{what}")


T = TypeVar("T")


def only(answers: Sequence[T]) -> T:
    """What is answered to a question about one thing. Raises MalformedFrame where there is none, or
    more."""
    if len(answers) != 1:
        raise MalformedFrame(
            f"A broker gives {len(answers)} answers where it was asked about one thing.",
            "Check that this is a Kafka broker, and not something in between.",
        )
    return answers[0]


# Compilation. A codec reads one value from a Reader, and appends one to a bytearray.


class _Step(NamedTuple):
    """One or more neighbouring fields of a struct."""

    read: Callable[[Reader, list[Any]], None]
    write: Callable[[bytearray, Any], None]


class _Member(NamedTuple):
    at: int
    name: str
    codec: Codec
    default: Any


def _whole(cls: Any, version: int) -> Codec:
    first, last = cls.api.versions
    if not first <= version <= last:
        raise ValueError(f"{cls.__name__} has versions {first} to {last}, not {version}")
    return _struct(cls, version, version >= cls.api.flexible_since)


@cache
def _struct(cls: Any, version: int, flexible: bool) -> Codec:
    hints = get_type_hints(cls, include_extras=True)
    plain: list[_Member] = []
    tagged: dict[int, _Member] = {}
    absent: list[_Member] = []
    defaults: list[Any] = []
    for index, declared in enumerate(f for f in dataclasses.fields(cls) if not f.kw_only):
        hint = hints[declared.name]
        metadata = get_args(hint) if get_origin(hint) is Annotated else ()
        field = next((m for m in metadata if isinstance(m, Field)), Field())
        optional = NoneType in get_args(metadata[0] if metadata else hint)
        nullable = optional and version in field.nullable
        codec = _codec(hint, version, flexible, nullable)
        member = _Member(index, declared.name, codec, declared.default)
        defaults.append(declared.default)
        if version in field.versions:
            if field.tag is None:
                plain.append(member)
            else:
                tagged[field.tag] = member
        elif not field.ignorable:
            absent.append(member)
    steps = _steps(plain)
    if flexible:
        steps.append(_tag_section(tagged, len(defaults)))

    def read(reader: Reader) -> Any:
        fields = [*defaults, ()]
        for step in steps:
            step.read(reader, fields)
        unknown_tags = fields.pop()
        return cls(*fields, unknown_tags=unknown_tags)

    def write(out: bytearray, value: Any) -> None:
        for _, name, _, default in absent:
            if (field_value := getattr(value, name)) != default:
                raise EncodeError(f".{name}: not in this version, yet it is {field_value!r}")
        if value.unknown_tags and not flexible:
            raise EncodeError(".unknown_tags: this version has no tagged fields")
        for step in steps:
            step.write(out, value)

    return Codec(read, write)


def _steps(members: list[_Member]) -> list[_Step]:
    """The steps through `members`, numbers that stand side by side taken together."""
    steps: list[_Step] = []
    run: list[_Member] = []
    for member in members:
        if run and (not member.codec.format or member.at != run[-1].at + 1):
            steps.append(_run(run))
            run = []
        if member.codec.format:
            run.append(member)
        else:
            steps.append(_single(member))
    return [*steps, _run(run)] if run else steps


def _single(member: _Member) -> _Step:
    index, name, codec, _ = member

    def read(reader: Reader, fields: list[Any]) -> None:
        try:
            fields[index] = codec.read(reader)
        except MalformedFrame as error:
            raise error.within(f".{name}") from None

    def write(out: bytearray, value: Any) -> None:
        try:
            codec.write(out, getattr(value, name))
        except EncodeError as error:
            raise error.within(f".{name}") from None

    return _Step(read, write)


def _run(members: list[_Member]) -> _Step:
    layout = Struct(">" + "".join(member.codec.format for member in members))
    size = layout.size
    start, stop = members[0].at, members[-1].at + 1
    names = [member.name for member in members]
    one_by_one = [_single(member) for member in members]

    def read(reader: Reader, fields: list[Any]) -> None:
        try:
            fields[start:stop] = layout.unpack_from(reader.buffer, reader.offset)
        except StructError:
            for step in one_by_one:  # the first that does not fit says so
                step.read(reader, fields)
        else:
            reader.offset += size

    def write(out: bytearray, value: Any) -> None:
        try:
            out += layout.pack(*[getattr(value, name) for name in names])
        except StructError:
            for step in one_by_one:
                step.write(out, value)

    return _Step(read, write)


def _tag_section(known: dict[int, _Member], unknown_at: int) -> _Step:
    def read(reader: Reader, fields: list[Any]) -> None:
        unknown = []
        name = "tagged_fields"
        try:
            for _ in reader.tags():
                tag = reader.unsigned_varint()
                size = reader.unsigned_varint()
                base = reader.base + reader.offset
                content = reader.take(size)
                if tag not in known:
                    reader.keep_tag()
                    unknown.append((tag, content))
                    continue
                index, name, codec, _ = known[tag]
                inner = Reader(content, base)
                inner.may_keep = reader.may_keep
                fields[index] = codec.read(inner)
                reader.may_keep = inner.may_keep
                if inner.remaining:
                    raise inner.malformed(f"{inner.remaining} bytes left over in tag {tag}")
                name = "tagged_fields"
        except MalformedFrame as error:
            raise error.within(f".{name}") from None
        fields[unknown_at] = tuple(unknown)

    def write(out: bytearray, value: Any) -> None:
        contents = list(value.unknown_tags)
        for tag, (_, name, codec, default) in known.items():
            if (member := getattr(value, name)) != default:
                content = bytearray()
                try:
                    codec.write(content, member)
                except EncodeError as error:
                    raise error.within(f".{name}") from None
                contents.append((tag, content))
        write_unsigned_varint(out, len(contents))
        for tag, content in sorted(contents, key=itemgetter(0)):
            write_unsigned_varint(out, tag)
            write_unsigned_varint(out, len(content))
            out += content

    return _Step(read, write)


def _codec(hint: Any, version: int, flexible: bool, nullable: bool) -> Codec:
    """The codec of an annotation; `nullable` says whether this version may have null there."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        for format_ in arguments[1:]:
            if isinstance(format_, str):
                return values.number(format_)
        return _codec(arguments[0], version, flexible, nullable)
    if origin in (UnionType, Union):
        return _codec(arguments[0], version, flexible, nullable)
    if origin is tuple:
        item = _codec(arguments[0], version, flexible, False)
        return values.array(item, flexible, nullable)
    if hint is str:
        return values.string(flexible, nullable)
    if hint is bytes:
        return values.byte_string(flexible, nullable)
    if hint is bool:
        return values.number("?")
    if hint is UUID:
        return values.uuid
    struct = _struct(hint, version, flexible)
    return values.optional(struct) if nullable else struct
