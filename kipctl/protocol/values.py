"""Codecs of single values: how one is read from a Reader, and appended to a bytearray."""

from collections.abc import Callable
from functools import cache
from struct import Struct, unpack
from struct import error as StructError
from typing import Any, NamedTuple
from uuid import UUID

from kipctl.protocol.primitives import (
    INT16,
    INT32,
    EncodeError,
    MalformedFrame,
    Reader,
    write_unsigned_varint,
)

_LONGEST_STRING = 0x7FFF  # in bytes; Java refuses longer ones, in compact form too


class Codec(NamedTuple):
    """How a value of one type is read and written in one version of a message."""

    read: Callable[[Reader], Any]
    write: Callable[[bytearray, Any], None]
    format: str = ""
    """The struct character of a number, so that neighbours can be read and written at once."""


@cache
def number(format_: str) -> Codec:
    """An integer or a boolean, given as its struct character."""
    layout = Struct(">" + format_)
    size = layout.size

    def read(reader: Reader) -> Any:
        return layout.unpack(reader.take(size))[0]

    def write(out: bytearray, value: Any) -> None:
        try:
            out += layout.pack(value)
        except StructError:
            raise EncodeError(f": {value!r} is not an integer of {size * 8} bits") from None

    return Codec(read, write, format_)


uuid = Codec(
    read=lambda reader: UUID(bytes=reader.take(16)),
    write=lambda out, value: out.extend(value.bytes),
)


def string(flexible: bool, nullable: bool) -> Codec:
    """A string in UTF-8, or None where that is allowed."""
    length = length_prefix(INT16, flexible, nullable)

    def read(reader: Reader) -> str | None:
        size = length.read(reader)
        return None if size < 0 else reader.text(size)

    def write(out: bytearray, value: str | None) -> None:
        raw = b"" if value is None else value.encode()
        if len(raw) > _LONGEST_STRING:
            raise EncodeError(f": string of {len(raw)} bytes, {_LONGEST_STRING} are allowed")
        length.write(out, -1 if value is None else len(raw))
        out += raw

    return Codec(read, write)


def byte_string(flexible: bool, nullable: bool) -> Codec:
    """Bytes, which may be record batches, or None where that is allowed."""
    length = length_prefix(INT32, flexible, nullable)

    def read(reader: Reader) -> bytes | None:
        size = length.read(reader)
        return None if size < 0 else reader.take(size)

    def write(out: bytearray, value: bytes | None) -> None:
        length.write(out, -1 if value is None else len(value))
        out += value or b""

    return Codec(read, write)


def array(item: Codec, flexible: bool, nullable: bool) -> Codec:
    """A tuple of items, or None where that is allowed."""
    length = length_prefix(INT32, flexible, nullable)
    read_items = _read_numbers(item) if item.format else _read_one_by_one(item)

    def read(reader: Reader) -> tuple[Any, ...] | None:
        count = length.read(reader)
        return None if count < 0 else read_items(reader, count)

    def write(out: bytearray, value: tuple[Any, ...] | None) -> None:
        length.write(out, -1 if value is None else len(value))
        for index, member in enumerate(value or ()):
            try:
                item.write(out, member)
            except EncodeError as error:
                raise error.within(f"[{index}]") from None

    return Codec(read, write)


def optional(struct: Codec) -> Codec:
    """A message in another one, or None: a byte says which, 1 or -1."""
    presence = number("b")

    def read(reader: Reader) -> Any:
        return None if presence.read(reader) < 0 else struct.read(reader)

    def write(out: bytearray, value: Any) -> None:
        presence.write(out, -1 if value is None else 1)
        if value is not None:
            struct.write(out, value)

    return Codec(read, write)


def _read_one_by_one(item: Codec) -> Callable[[Reader, int], tuple[Any, ...]]:
    def read(reader: Reader, count: int) -> tuple[Any, ...]:
        if count > reader.remaining:  # every item has at least one byte
            raise reader.malformed(f"{count} items announced, {reader.remaining} bytes left")
        places = reader.elements(count)
        items: list[Any] = []
        try:
            for _ in places:
                items.append(item.read(reader))  # noqa: PERF401 (counts what was read)
        except MalformedFrame as error:
            raise error.within(f"[{len(items)}]") from None
        return tuple(items)

    return read


def _read_numbers(item: Codec) -> Callable[[Reader, int], tuple[Any, ...]]:
    size = Struct(">" + item.format).size

    def read(reader: Reader, count: int) -> tuple[Any, ...]:
        if count * size > reader.remaining:
            raise reader.malformed(f"{count} integers announced, {reader.remaining} bytes left")
        reader.elements(count)
        return unpack(f">{count}{item.format}", reader.take(count * size))

    return read


class LengthPrefix(NamedTuple):
    read: Callable[[Reader], int]
    write: Callable[[bytearray, int], None]


def length_prefix(layout: Struct, flexible: bool, nullable: bool) -> LengthPrefix:
    """Of fixed width by `layout`, or compact in flexible versions; -1 stands for null."""

    def read(reader: Reader) -> int:
        if flexible:
            length = reader.unsigned_varint() - 1
        else:
            (length,) = layout.unpack(reader.take(layout.size))
        if length < 0 and not (nullable and length == -1):
            problem = "null, which is not allowed here" if length == -1 else f"length {length}"
            raise reader.malformed(problem)
        return length

    def write(out: bytearray, length: int) -> None:
        if length < 0 and not nullable:
            raise EncodeError(": None, which this version does not allow")
        if flexible:
            write_unsigned_varint(out, length + 1)
        else:
            out += layout.pack(length)

    return LengthPrefix(read, write)
