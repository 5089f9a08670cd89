"""A stream of bytes, cut into frames, and where in a frame things are."""

from struct import Struct

from kipctl.protocol.api import LARGEST_FETCH
from kipctl.protocol.primitives import MalformedFrame, Reader

_LENGTH = Struct(">i")
_SHORT = Struct(">h")
_TLS_HANDSHAKE = b"\x16\x03"


class Frames:
    """Cuts what comes into frames, each with its length in front."""

    __slots__ = ("_missing", "_parts", "waiting")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._missing = 0
        """How many bytes the frame begun still needs; 0 while its length is not known."""
        self.waiting = 0
        """Bytes of a frame that is not whole yet."""

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are whole by now. Raises MalformedFrame for an absurd length."""
        if not self.waiting:
            # Nearly always: what comes is one whole frame.
            size = len(data)
            if size >= 4 and _LENGTH.unpack_from(data)[0] == size - 4:
                return [data]
        elif len(data) < self._missing:
            self._parts.append(data)
            self.waiting += len(data)
            self._missing -= len(data)
            return []
        else:
            self._parts.append(data)
            data = b"".join(self._parts)
            self._parts = []
        frames = []
        at, end = 0, len(data)
        while end - at >= 4:
            (length,) = _LENGTH.unpack_from(data, at)
            if not 0 <= length <= LARGEST_FETCH:
                raise MalformedFrame(_not_kafka(data[at : at + 5], length))
            after = at + 4 + length
            if after > end:
                break
            frames.append(data[at:after])
            at = after
        self.waiting = end - at
        self._missing = 0
        if self.waiting:
            self._parts.append(data[at:])
            if self.waiting >= 4:
                self._missing = 4 + _LENGTH.unpack_from(data, at)[0] - self.waiting
        return frames


def _not_kafka(start: bytes, length: int) -> str:
    if start.startswith(_TLS_HANDSHAKE):
        return (
            "it speaks TLS, and this side of the tap is plain:"
            " set its security.protocol to PLAINTEXT or SASL_PLAINTEXT"
        )
    if start[:4].isalpha() or start[:4] == b"GET ":
        return f"no frame of Kafka's: it begins with {start[:4].decode('ascii', 'replace')!r}"
    return f"a frame of {length} bytes was announced"


def body_at(frame: bytes, flexible: bool) -> int:
    """Where the body of a request begins. Raises MalformedFrame."""
    length: int = _SHORT.unpack_from(frame, 12)[0]
    at = 14 + max(length, 0)
    if not flexible:
        return at
    reader = Reader(frame)
    reader.offset = at
    reader.skip_tags()
    return reader.offset


def client_id_of(frame: bytes) -> str:
    """What a client calls itself in a request, of which the beginning is there; "" if it does not
    say."""
    if len(frame) < 14:
        return ""
    length: int = _SHORT.unpack_from(frame, 12)[0]
    return frame[14 : 14 + max(length, 0)].decode("utf-8", "replace")
