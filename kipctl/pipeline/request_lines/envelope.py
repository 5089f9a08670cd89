"""What docker, containerd, shippers and layouts put around the lines that brokers write.

An envelope is cut off before a line is read (`opening.opened`). Which one it is, is seen at the
marker: what stands before it (a prefix), and how the quotes after it are escaped. Plain lines are
looked at no further than that.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

MARKER = "Completed request:"
IS_FORWARDED = '{"isForwarded":'
OFFSET = r"(?: ?[+-]\d\d(?::?\d\d)?|Z)\b"
TIME = rf"[12]\d{{3}}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?:{OFFSET})?"
_DIGITS = r"([1-9]\d{9}(?:\d{3}|\d{6}|\d{9}|[.,]\d{1,9})?)(?![\w.-])"
EPOCH = rf"(?:^|[^\w.-]){_DIGITS}"
LAST_EPOCH = rf"(?s)^(?:.*[^\w.-])?{_DIGITS}"
"""Seconds since the epoch, and with or without a point before them milli-, micro-, nanoseconds."""

OLD_TEXT = "text of Kafka before 2.8"
"""Kafka writes JSON from 2.8.0 on (KIP-673); `RequestHeader(apiKey=...` before."""
LINES, PIECES, ENTRIES, DOCUMENTS, INNER_DOCUMENTS = range(5)
"""How a file is opened: line by line; with pieces put together; with lines joined first to the
entries of journald's export, or to JSON documents, or so when a first envelope was cut off. Each
does more than those before it."""

_IDENT = r"\S+ [^\s\[\]:]+\[\d+\]: "
_CRI = rf"{TIME} (?:stdout|stderr) [PF](?::\S*)?(?: |$)"
_LABELS = rf'{TIME} \{{(?!\s*")[^}}]*\}} *'
COLOUR = r"\x1b\[[\d;]*m"
PREFIXES = (
    ("CRI", rf'^(?:{_LABELS})?[^"{{]{{0,300}}?{_CRI}'),
    ("kubectl --prefix", rf"^(?:{COLOUR})*\[(?:pod|container)/[^\]]+\] "),
    ("docker compose", rf"^(?:{COLOUR})*[\w.-]+ *(?:{COLOUR})?\| (?:{COLOUR})?"),
    ("logcli", rf"^{_LABELS}"),
    ("journald", rf"^(?:[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|{TIME}) {_IDENT}"),
    ("syslog", r"^<\d{1,3}>[^\[]*"),
    ("time before the line", rf"^{TIME}[ \t](?:\S+[ \t])??(?=\[?{TIME})"),
    ("colours", rf"^(?:{COLOUR})+"),
)
"""What may stand before a line, by the name it is reported by; all but the first leave the line as
it is, and are cut off only where long lines are in pieces."""

_INNER_FIELD = r':\s*"\s*\\"[\w@.]+\\"\s*:|(?:std(?:out|err) [PF]|\|)\s+"[\w@.]+"\s*:'
"""A field of a document that is printed over several lines, each in an envelope of its own."""
END = "clientInformation"
ESCAPED = rf"{MARKER}\s*(?:\\+u001b\[[\d;]*m)*\{{\s*(\\+)"
"""One backslash before the request's first quote is that of one JSON string around it."""


class Way(NamedTuple):
    """How a file is opened: LINES or one of the others, and how many JSON strings, one in the
    other, lines are in."""

    how: int
    depth: int


_PREFIXES = tuple((name, re.compile(prefix.encode())) for name, prefix in PREFIXES)
_ESCAPED = re.compile(ESCAPED.encode())
_IS_INNER_FIELD = re.compile(_INNER_FIELD.encode())
_IS_PIECE = re.compile(rb'\\*"log\\*"\s*:|std(?:out|err) [PF]')
_IS_INDENTED = re.compile(rb'\s+"')
_ENDS_OPEN = re.compile(MARKER.encode() + rb"\s*\{\s*$")
_OLD_START = f"{MARKER}RequestHeader(".encode()
_DOUBLED = f'{MARKER}{{""'.encode()


def envelope_of(front: bytes, stamp: bytes) -> str | None:
    """How a line that holds the marker is to be opened (as `way_of` reads it), OLD_TEXT, or which
    of PREFIXES it has; None of a plain one.

    `front` is the line up to the correlation id, `stamp` up to the marker.
    """
    if _OLD_START in front:
        return OLD_TEXT
    if escaped := _ESCAPED.search(front):
        return f"{_of_json(front, stamp)} {escaped[1].decode()}"
    if _DOUBLED in front:
        return f"{LINES} "
    if _ENDS_OPEN.search(front):
        return f"{PIECES} "
    if stamp.startswith(b"MESSAGE="):
        return f"{ENTRIES} "
    name = next((name for name, prefix in _PREFIXES if prefix.search(stamp)), None)
    return f"{PIECES} " if name == PREFIXES[0][0] else name


def _of_json(front: bytes, stamp: bytes) -> int:
    if _IS_INDENTED.match(stamp) or (stamp.startswith(b'"') and not front.endswith(b'"')):
        return DOCUMENTS
    if _IS_INNER_FIELD.search(stamp):
        return INNER_DOCUMENTS
    return PIECES if _IS_PIECE.search(stamp) or END.encode() not in front else LINES


def way_of(name: str) -> Way | None:
    """How a line is to be opened, by what `envelope_of` says of it; None if by no way."""
    told = re.fullmatch(r"(\d) (\\*)", name)
    return Way(int(told[1]), len(told[2]).bit_length()) if told else None


def ways(
    seen: Iterable[tuple[str, str, bool]], so_far: Mapping[str, Way] | None = None
) -> dict[str, Way]:
    """How each file is to be opened, of those that have to be, when it was opened as `so_far`.

    `seen`: of lines the file, what `envelope_of` says of them, and whether they could be read.
    """
    how = dict(so_far or {})
    for file, name, is_read in seen:
        way = way_of(name)
        if not way and not is_read and name != OLD_TEXT:
            way = Way(PIECES, 0)  # a prefix stands before each piece
        if way:
            before = how.get(file, way)
            how[file] = Way(max(way.how, before.how), max(way.depth, before.depth))
    return how
