"""Frames that are not as they were written, and readers that have to agree about them."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from campaigns import as_many

from kipctl.protocol.primitives import MalformedFrame

Read = Callable[[int, bytes], Any]
"""A frame of a version; raises MalformedFrame."""

_COMPACT_COUNTS = (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f")
_COUNTS = (b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xfe")


def flipped(frame: bytes, choose: Random, most: int = 3) -> bytes:
    """Some of its bytes are others."""
    broken = bytearray(frame)
    for _ in range(choose.randint(1, most)):
        at = choose.randrange(len(broken))
        broken[at] = choose.choice([0, 1, 0x7F, 0x80, 0xFF, choose.randrange(256)])
    return bytes(broken)


def with_absurd_counts(frame: bytes, is_flexible: bool, choose: Random) -> Iterator[bytes]:
    """Wherever a count may stand one of two thousand million, or one below null; or it ends there.

    A few times more in soak, as there is a choice among these.
    """
    for at in range(4, len(frame)):
        for _ in range(as_many(1, 20)):
            count = choose.choice(_COMPACT_COUNTS if is_flexible else _COUNTS)
            rest = choose.choice([b"", frame[at + len(count) :]])
            yield frame[:at] + count + rest


def read_alike(
    read: Read,
    codec: Read,
    version: int,
    frame: bytes,
    seen: Callable[[Any], Any] = lambda answer: answer,
    stepped_over: str = "",
) -> bool:
    """Whether it can be read; both readers find the same in it, or that it is malformed.

    `seen` takes from an answer what makes no difference; `stepped_over` is a field into which only
    the codec looks.
    """
    try:
        expected = codec(version, frame)
    except MalformedFrame as error:
        if not stepped_over or stepped_over not in error.what:
            with pytest.raises(MalformedFrame):
                read(version, frame)
        return False
    assert seen(read(version, frame)) == seen(expected)
    return True
