"""Inputs that are not as they were written: bytes, texts, JSON, frames and batches, changed."""

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from struct import Struct
from typing import Any

from crc32c import crc32c

from kipctl.protocol.records import ATTRIBUTES_AT, BATCH_HEADER_SIZE, CRC_AT

Change = Callable[[bytes, Random], bytes]

_DEEP = 5_000
"""More than Python's stack has frames."""
_NUMBERS = [
    *(b"\0", b"\1", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"\x7f\xff", b"\x80\0"),
    *(b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\xfe", bytes(4)),
    *(b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80\1"),
    *(b"\x7f" + b"\xff" * 7, b"\x80" + bytes(7), b"\xff" * 8, b"\xff" * 9 + b"\1"),
]
"""Lengths, counts, ids and varints at the ends of what they can be, and beyond."""
_LITERALS = [
    *("null", "true", "0", "-1", "1.5", "-0.0", "1e999", "-1e999", "NaN", "Infinity", "1e-400"),
    *("2147483648", "9223372036854775808", "9" * 25, "9" * 5000, "1" + "0" * 400),
    *('""', '" "', '"x"', '"\\ud800"', '"\\u0000"', '"\\u001b[2J"', '"\\u202e"', '"-"', '"1e999"'),
    *('"0001-01-01T00:00:00+14:00"', '"9999-12-31T23:59:59-14:00"', '"2026-11-26"'),
    *("[]", "{}", "[null]", "[[]]", '{"": null}', "[1, 1]", "[-1]", '["x"]', "[1e999]", "[true]"),
    *("[" * _DEEP + "]" * _DEEP, '{"a":' * _DEEP + "1" + "}" * _DEEP),
]
"""Values of JSON, most of them of TOML too."""
_WORDS = [
    *("", "\0", "\\", "\\u", "\\ud800", "\\\n", '"', "'", "=", ":", ",", ";", "#", "{", "}", "["),
    *("]", "\n", "\r", "\r\n", "\x1b[2J", "\u202e", "\u2028", "\ufeff", "\x85", "²", "\u0661", "é"),
    *("-", "%", "${x}", "<x>", "{{ x }}", "../", "/dev/null", "file:///", "http://[::1", "😀"),
    *("x" * 70_000, "[" * _DEEP, '"""', "'''", "1979-05-27T07:32:00Z", "0x", "1_0", "+Inf", "//"),
]


def bytes_changed(content: bytes, choose: Random) -> bytes:
    """Some of its bytes are others, or missing, or there twice; numbers are absurd; it is cut."""
    made = bytearray(content)
    for _ in range(choose.choice([1, 1, 1, 2, 3, 8, 20])):
        at = choose.randrange(len(made) + 1)
        size = choose.choice([1, 1, 2, 4, 8, 16, 50, 300])
        match choose.randrange(8):
            case 0 if at < len(made):
                made[at] ^= 1 << choose.randrange(8)
            case 1:
                made[at : at + 1] = choose.randbytes(1)
            case 2 | 3:
                number = choose.choice(_NUMBERS)
                made[at : at + choose.choice([0, len(number)])] = number
            case 4:
                del made[at : at + size]
            case 5:
                made[at:at] = made[at : at + size] * choose.choice([1, 1, 2, 100])
            case 6:
                made[at:at] = choose.randbytes(size)
            case 7 if not choose.randrange(4):
                del made[at:]
    return bytes(made)


def text_changed(content: bytes, choose: Random) -> bytes:
    """Words of it stand where others were, and values that nobody thought of; at times no UTF-8."""
    if not choose.randrange(5):
        return bytes_changed(content, choose)
    words = re.findall(r"\w+|\s+|[^\w\s]", content.decode("utf-8", "replace"))
    for _ in range(choose.choice([1, 1, 2, 4, 12])):
        at = choose.randrange(len(words) + 1)
        end = at + choose.choice([0, 1, 1, 2, 10])
        match choose.randrange(5):
            case 0:
                words[at:end] = [choose.choice(_WORDS)]
            case 1:
                words[at:end] = [choose.choice(_LITERALS)]
            case 2:
                words[at:end] = choose.sample(words, min(len(words), 1))
            case 3:
                del words[at:end]
            case _:
                words[at:at] = words[at:end] * choose.choice([1, 1, 2, 50])
    return "".join(words).encode("utf-8", "surrogatepass")


_KEPT_PLACE = re.compile(r'"@(\d+)@"')


def json_changed(content: bytes, choose: Random) -> bytes:
    """Values of it are others, missing, or under another name; at times it is no JSON."""
    if not choose.randrange(6):
        return text_changed(content, choose)
    document = {"": json.loads(content)}
    for _ in range(choose.choice([1, 1, 1, 2, 3, 6])):
        _change_a_value(document, choose)
    text = json.dumps(document.get("", []), ensure_ascii=choose.random() < 0.5)
    return _KEPT_PLACE.sub(lambda kept: _LITERALS[int(kept[1])], text).encode()


def _change_a_value(document: dict[str, Any], choose: Random) -> None:
    """Python's JSON cannot write all literals: the place of one has its number."""
    places = [*_places(document)]
    if not places:
        return
    holder, key = choose.choice(places)
    match choose.randrange(6):
        case 0:
            del holder[key]
        case 1:
            other, name = choose.choice(places)
            holder[key] = deepcopy(other[name])
        case 2 if isinstance(holder, dict):
            holder[choose.choice(_WORDS)] = holder.pop(key)
        case 2:
            holder.insert(key, deepcopy(holder[key]))
        case _:
            holder[key] = f"@{choose.randrange(len(_LITERALS))}@"


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Each value, as what holds it and its key there."""
    keys = range(len(document)) if isinstance(document, list) else document
    for key in keys if isinstance(document, dict | list) else ():
        yield document, key
        yield from _places(document[key])


_LENGTH, _CRC = Struct(">i"), Struct(">I")


def frame_changed(content: bytes, choose: Random) -> bytes:
    """A frame of another content, behind the four bytes of its length, which is right."""
    changed = bytes_changed(content[4:], choose)
    return _LENGTH.pack(len(changed)) + changed


def batch_changed(content: bytes, choose: Random) -> bytes:
    """Record batches; mostly the first has the length and the CRC of what it is then."""
    changed = bytearray(bytes_changed(content, choose))
    if len(changed) >= BATCH_HEADER_SIZE and choose.randrange(4):
        _LENGTH.pack_into(changed, 8, len(changed) - 12)
        _CRC.pack_into(changed, CRC_AT, crc32c(changed[ATTRIBUTES_AT:]))
    return bytes(changed)
