"""Kafka's primitive types: read with bounds checked, written in their shortest form.

Integers are big-endian. Lengths and counts come in two forms: a signed integer of fixed width with
-1 for null, and ("compact", in flexible versions) an unsigned varint of the length plus one with 0
for null. Varints are groups of 7 bits, lowest first, and zigzag when signed.
Source: the protocol guide, "Protocol Primitive Types", and Kafka's ByteUtils.
"""

from struct import Struct
from typing import Self

from kipctl.errors import ExitStatus, KipctlError

INT16 = Struct(">h")
INT32 = Struct(">i")

MOST_ELEMENTS, MOST_TAGS = 1_000_000, 10_000
"""Of an array, and of one message: Kafka 4.4 reads no more."""
_BYTES_PER_KEPT_TAG = 16
"""Beyond `MOST_TAGS` a frame has at most one tag that is kept for so many bytes: else empty ones
would cost 35 times what they are on the wire."""


class _FieldError(KipctlError):
    """An error that learns where it happened while it passes through the enclosing fields."""

    def within(self, name: str) -> Self:
        """The same error, with the name of the enclosing field in front of what it says."""
        return type(self)(name + self.what, self.next_step)


class MalformedFrame(_FieldError):  # noqa: N818
    """Bytes that are not what the protocol says they should be: which field, what, and where."""

    status = ExitStatus.UNREACHABLE


class EncodeError(_FieldError):
    """A message holds a value that the protocol, or this version of it, cannot carry."""

    status = ExitStatus.USAGE


class Reader:
    """A place in a buffer; every method reads one value there and steps past it.

    `base` is where the buffer starts in the frame, for the offsets in messages. All methods raise
    `MalformedFrame`, and none allocates more than the bytes that are really there.
    """

    __slots__ = ("base", "buffer", "may_keep", "offset")

    def __init__(self, buffer: bytes, base: int = 0) -> None:
        self.buffer = buffer
        self.offset = 0
        self.base = base
        self.may_keep = MOST_TAGS + len(buffer) // _BYTES_PER_KEPT_TAG
        """Tags that nobody knows, of the whole frame."""

    def malformed(self, problem: str) -> MalformedFrame:
        """The error to raise for what is found at this place."""
        return MalformedFrame(f": {problem} (byte {self.base + self.offset})")

    @property
    def remaining(self) -> int:
        return len(self.buffer) - self.offset

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        start = self.offset
        end = start + size
        if size < 0 or end > len(self.buffer):
            raise self.malformed(f"{size} bytes announced, {self.remaining} left")
        self.offset = end
        return self.buffer[start:end]

    def int16(self) -> int:
        return INT16.unpack(self.take(2))[0]  # type: ignore[no-any-return]

    def int32(self) -> int:
        return INT32.unpack(self.take(4))[0]  # type: ignore[no-any-return]

    def unsigned_varint(self, bits: int = 32) -> int:
        """An unsigned varint of at most `bits` bits."""
        if (at := self.offset) < len(self.buffer) and (byte := self.buffer[at]) < 0x80:
            self.offset = at + 1  # nearly always
            return byte
        value = shift = 0
        for at in range(self.offset, len(self.buffer)):
            byte = self.buffer[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    break
                self.offset = at + 1
                return value
            shift += 7
            if shift >= bits:
                break
        else:
            raise self.malformed("varint cut off")
        raise self.malformed(f"varint of more than {bits} bits")

    def varint(self, bits: int = 32) -> int:
        """A zigzag varint of at most `bits` bits."""
        value = self.unsigned_varint(bits)
        return (value >> 1) ^ -(value & 1)

    def tags(self) -> range:
        """How many tagged fields a section begins with, to go through."""
        count = self.unsigned_varint()
        if count > MOST_TAGS:
            raise self.malformed(f"{count} tagged fields; {MOST_TAGS} are the most")
        return range(count)

    def keep_tag(self) -> None:
        """One more is kept of those that nobody knows."""
        self.may_keep -= 1
        if self.may_keep < 0:
            raise self.malformed("more unknown tagged fields than a frame of its length may have")

    def elements(self, count: int) -> range:
        """So many elements of an array, to go through."""
        if count > MOST_ELEMENTS:
            raise self.malformed(f"{count} elements; {MOST_ELEMENTS} are the most")
        return range(count)

    def skip_tags(self) -> None:
        """Step past a section of tagged fields."""
        for _ in self.tags():
            self.unsigned_varint()
            self.take(self.unsigned_varint())

    def text(self, size: int) -> str:
        """The next `size` bytes as UTF-8."""
        raw = self.take(size)
        try:
            return str(raw, "utf-8")  # of a memoryview too
        except UnicodeDecodeError as error:
            self.offset -= size - error.start
            raise self.malformed("not UTF-8") from None


def write_unsigned_varint(out: bytearray, value: int) -> None:
    """Append a non-negative `value`."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_varint(out: bytearray, value: int) -> None:
    """Append `value`, of at most 64 bits, as a zigzag varint."""
    write_unsigned_varint(out, (value << 1) ^ (value >> 63))
