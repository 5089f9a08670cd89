"""Lines into rows, batch by batch: what is alike is counted, what clients are followed by is kept.

`LineReader` is what an executor runs, by `DataFrame.mapInArrow`; its rows are of ROWS.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from kipctl.pipeline.request_lines.contents import (
    REPLICA,
    Answers,
    answers_of,
    ends_of,
    metadata_of,
    software_of,
    times_of,
    took_us,
    written_bytes,
)
from kipctl.pipeline.request_lines.envelope import IS_FORWARDED, MARKER, envelope_of
from kipctl.pipeline.request_lines.followed import chunk_of, encoded
from kipctl.pipeline.request_lines.moment import moment_us, zone_named
from kipctl.pipeline.request_lines.requests import (
    Answer,
    FetchRequest,
    MetadataAnswer,
    MetadataRequest,
    ProduceRequest,
    RecordsRequest,
    Request,
    request_of,
)
from kipctl.pipeline.request_lines.rows import ANSWER, NAMED, ROWS, SLOT_US, TURN_SLOT_US, Kind
from kipctl.pipeline.request_lines.times import packed
from kipctl.protocol.error_codes import LEADER_ERRORS

BROKEN_SHOWN = 20
_EARLIEST_US = 1_600_000_000_000_000
"""In 2020: no Kafka wrote JSON before. A clock that was not set yet would stretch the period over
decades."""
_SHOWN_LENGTH = 120
_SECRET = re.compile(r"""((?:salt|saltedPassword|hmac)\\*"\s*:\s*\\*")[^"\\]*""")
"""Of a SCRAM user or a delegation token, whoever wrapped the line: each suffices to log in."""
_MOST_HELD = 100_000
"""Rows, or requests in them, of one task: then they are handed on."""
_MARKER = MARKER.encode()
_LIKE_KAFKAS = tuple(f"{IS_FORWARDED}{told},".encode() for told in ("false", "true"))
_LONGEST_STAMP = 40
"""`[2026-01-31 12:00:00,000] DEBUG `, and a little more."""
_FRONT_ENDS = (b',"request":', b',"correlationId":')
_REFUSALS = frozenset(int(code) for code in LEADER_ERRORS)
_PARSED_BY = (
    *("kind", "envelope", "slice", "api_key", "api", "api_version", "client"),
    *("connection", "is_forwarded", "software", "rack", "is_deprecated"),
    *("principal", "listener", "security_protocol", "answers"),
)
_FOLLOWED_BY = ("connection", "client", "api_key", "slot", "slice")
_TOOK_BY = ("address", "client", "api_key", "slice")
_TIMED_BY = ("first_us", "last_us", "id", "last_id")

Line = tuple[bytes, int, str | None]
"""Its text, its id, the envelope that it was taken out of."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """How lines are read: the zones of brokers' clocks, by file where one has its own; from when on
    and until when (microseconds since the epoch); and how long the slices of time are that lines
    are counted in, 0 for one of all the time."""

    zone: str = "UTC"
    zones: Mapping[str, str] = field(default_factory=dict)
    since_us: int | None = None
    until_us: int | None = None
    slice_us: int = 0


class LineReader:
    """Reads batches of lines: `value`, `file`, `block`, `id`, and `envelope` if it is there."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files: dict[str, _File] = {}
        for batch in batches:
            for name, block, lines in _runs(batch):
                if name not in files:
                    files[name] = _File(name, self._reading)
                files[name].read(block, lines)
            if sum(file.held for file in files.values()) > _MOST_HELD:
                yield from _taken(files.values())
        yield from _taken(files.values())


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[str, int, list[Line]]]:
    """The lines of a batch by file and block, in their order."""
    values = batch.column("value").cast(pa.binary()).to_pylist()
    ids = batch.column("id").to_pylist()
    has_envelopes = "envelope" in batch.schema.names
    envelopes = batch.column("envelope").to_pylist() if has_envelopes else [None] * len(ids)
    files = batch.column("file").dictionary_encode()
    numbers, blocks = files.indices.to_numpy(), batch.column("block").to_numpy()
    is_next = (np.diff(numbers) != 0) | (np.diff(blocks) != 0)
    ends = [*(np.flatnonzero(is_next) + 1).tolist(), len(ids)] if ids else []
    for start, end in pairwise([0, *ends]):
        lines = zip(values[start:end], ids[start:end], envelopes[start:end], strict=True)
        yield files.dictionary[numbers[start]].as_py(), int(blocks[start]), list(lines)


def _taken(files: Iterable["_File"]) -> Iterator[pa.RecordBatch]:
    """All that was counted so far, a batch for each file."""
    for file in files:
        if rows := file.taken():
            columns = {name: [row.get(name) for row in rows] for name in ROWS.names}
            yield pa.RecordBatch.from_pydict(columns, schema=ROWS)


@dataclass(slots=True)
class _Counted:
    requests: int
    first_us: int | None
    last_us: int | None
    record_bytes: int

    @classmethod
    def of(cls, us: int | None, record_bytes: int) -> "_Counted":
        at = us if us is not None and us >= _EARLIEST_US else None
        return cls(1, at, at, record_bytes)

    def add(self, us: int | None, record_bytes: int) -> None:
        self.requests += 1
        self.record_bytes += record_bytes
        if us is not None and us >= _EARLIEST_US:
            if self.first_us is None or us < self.first_us:
                self.first_us = us
            if self.last_us is None or us > self.last_us:
                self.last_us = us

    def row(self) -> Row:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class _Block:
    """A block: its lines, the first of them, and what tells the first one with the marker."""

    first_id: int
    lines: int = 0
    first: str | None = None


class _File:
    """What is counted of a file's lines within one task."""

    def __init__(self, name: str, reading: Reading) -> None:
        self._name = name
        self._reading = reading
        self._zone = zone_named(reading.zones.get(name, reading.zone))
        self._has_period = reading.since_us is not None or reading.until_us is not None
        self._seconds: dict[bytes, int | None] = {}
        self._shown: Counter[int | None] = Counter()
        self._begin()

    def _begin(self) -> None:
        self._blocks: dict[int, _Block] = {}
        self._times: dict[tuple[int, int], list[int]] = {}
        self._counts: dict[tuple[Any, ...], _Counted] = {}
        self._rows: list[Row] = []
        self._named: dict[tuple[Any, ...], list[list[int]]] = {}
        self._followed: dict[tuple[Any, ...], list[bytes]] = {}
        self._took: dict[tuple[Any, ...], array[float]] = {}
        self._ends: dict[str, tuple[str, str]] = {}
        self._replicas: dict[str | None, bool] = {}
        self.held = 0

    def read(self, block: int, lines: Sequence[Line]) -> None:
        of_block = self._blocks.setdefault(block, _Block(lines[0][1]))
        of_block.lines += len(lines)
        slice_us = self._reading.slice_us
        for value, id, envelope in lines:
            at = value.find(_MARKER)
            if at < 0:
                us = self._us(_stamp_of(value)) if self._has_period or slice_us else None
                if not self._has_period or self._is_inside(us):
                    self._count((Kind.OTHER, None, self._slice(us)), None)
                continue
            if of_block.first is None:
                of_block.first = blake2b(value, digest_size=16).hexdigest()
            text = value[at + len(_MARKER) :]
            is_plain = text.startswith(_LIKE_KAFKAS) and value.startswith(b"[")
            stamp = value[:at] if is_plain and at <= _LONGEST_STAMP else _stamp_of(value)
            us = self._us(stamp)
            if envelope is None and not (is_plain and at <= _LONGEST_STAMP):
                envelope = envelope_of(_front_of(value), stamp)
            if self._has_period and not self._is_inside(us):
                if envelope:
                    self._count((Kind.OUTSIDE, envelope, None), None)
                continue
            at_slice = self._slice(us)
            # The marker of another line, where one was cut and the next follows it.
            request = None if _MARKER in text else request_of(text)
            if request is None:
                self._count((Kind.BROKEN, envelope, at_slice), us)
                self._show(value, block, id, at_slice)
                continue
            self._parsed(request, envelope, us, at_slice)
            if us is not None:
                self._note_time(us, block, id)

    def _slice(self, us: int | None) -> int | None:
        slice_us = self._reading.slice_us
        return us // slice_us if slice_us and us is not None else None

    def _us(self, stamp: bytes) -> int | None:
        """When it was answered. Lines of one second are looked at once."""
        thousandths = stamp[21:24]
        if stamp[20:21] == b"," and stamp[24:25] == b"]" and len(stamp) <= _LONGEST_STAMP:
            if (second := stamp[:20]) not in self._seconds:
                self._seconds[second] = moment_us(second + stamp[24:], self._zone)
            us = self._seconds[second]
            if us is not None and thousandths.isdigit():
                return us + 1000 * int(thousandths)
        return moment_us(stamp, self._zone)

    def _is_inside(self, us: int | None) -> bool:
        since, until = self._reading.since_us, self._reading.until_us
        return us is not None and (since is None or us >= since) and (until is None or us < until)

    def _count(self, key: tuple[Any, ...], us: int | None, record_bytes: int = 0) -> None:
        counted = self._counts.get(key)
        if counted is not None:
            counted.add(us, record_bytes)
        else:
            self._counts[key] = _Counted.of(us, record_bytes)
            self.held += 1

    def _show(self, value: bytes, block: int, id: int, at_slice: int | None) -> None:
        if self._shown[at_slice] < BROKEN_SHOWN:
            self._shown[at_slice] += 1
            start = value[: 4 * _SHOWN_LENGTH].decode(errors="replace")[:_SHOWN_LENGTH]
            told = _SECRET.sub(r"\1...", start.replace("\r", " ").replace("\n", " "))
            row = {"block": block, "id": id, "text": told, "slice": at_slice}
            self._rows.append(row | {"kind": Kind.SHOWN})

    def _note_time(self, us: int, block: int, id: int) -> None:
        # A clock that is turned is not seen in longer slots.
        slot = us // min(self._reading.slice_us or TURN_SLOT_US, TURN_SLOT_US)
        times = self._times.get((block, slot))
        if times is None:
            self._times[block, slot] = [us, us, id, id]
            return
        times[3] = id
        if us > times[1]:
            times[1] = us
        elif us < times[0]:
            times[0] = us

    def _parsed(
        self, request: Request, envelope: str | None, us: int | None, at_slice: int | None
    ) -> None:
        header = request.request_header
        client, connection = header.client_id, request.connection
        if client not in self._replicas:
            self._replicas[client] = bool(client and REPLICA.fullmatch(client))
        is_replica = self._replicas[client]
        answers: Answers = ()
        rack, record_bytes, metadata = None, 0, None
        is_followed = True
        if isinstance(request, RecordsRequest):
            if isinstance(request.response, Answer):
                answers, record_bytes = answers_of(request.response)
            if isinstance(request, FetchRequest):
                rack = (request.request and request.request.rack_id) or None
            elif isinstance(request, ProduceRequest):
                record_bytes = written_bytes(request)
        elif isinstance(request, MetadataRequest):
            metadata = metadata_of(request, header.request_api_version)
            self._name_all(request.response, connection, at_slice)
        else:
            is_followed = False
        key = (
            *(Kind.PARSED, envelope, at_slice, header.request_api_key, header.request_api_key_name),
            *(header.request_api_version, client, connection, bool(request.is_forwarded)),
            *(software_of(request), rack, bool(header.request_api_version_deprecated)),
            *(request.principal, request.listener, request.security_protocol, answers),
        )
        is_refused = not is_replica and any(answer[0] in _REFUSALS for answer in answers)
        if metadata or is_refused:
            took, correlation = took_us(request), header.correlation_id
            single = {"us": us, "took_us": took, "correlation": correlation}
            row = self._row(key, _Counted.of(us, record_bytes))
            self._rows.append(row | {"metadata": metadata, "single": single})
            self.held += 1
        else:
            self._count(key, us, record_bytes)
        if is_followed and not is_replica and not request.is_forwarded:
            slot = None if us is None else us // SLOT_US
            followed_by = (connection, client, header.request_api_key, slot, at_slice)
            self._followed.setdefault(followed_by, []).append(
                encoded(us, took_us(request), request)
            )
        took_by = (self._address(connection), client, header.request_api_key, at_slice)
        if took_by not in self._took:
            self._took[took_by] = array("d")
        self._took[took_by].extend(times_of(request))
        self.held += 1

    def _name_all(
        self, answer: MetadataAnswer | None, connection: str, at_slice: int | None
    ) -> None:
        """The brokers and topics that a Metadata answer names."""
        if answer is None or answer.cluster_id is None:
            return
        at = (self._address(connection), answer.cluster_id)
        for node in answer.brokers or ():
            key = (Kind.NODE, *at, node.node_id, node.host, node.port, node.rack)
            self._note_named(key, at_slice)
        for topic in answer.topics or ():
            if topic.topic_id is not None and topic.name is not None:
                self._note_named((Kind.TOPIC, *at, topic.topic_id, topic.name), at_slice)

    def _note_named(self, key: tuple[Any, ...], at_slice: int | None) -> None:
        slices = self._named.setdefault(key, [])
        if at_slice is None or (slices and slices[-1][0] <= at_slice <= slices[-1][1]):
            return
        if slices and at_slice == slices[-1][1] + 1:
            slices[-1][1] = at_slice
        else:
            slices.append([at_slice, at_slice])

    def _address(self, connection: str) -> str:
        if connection not in self._ends:
            self._ends[connection] = ends_of(connection)
        return self._ends[connection][0]

    def _ends_of(self, connection: str) -> Row:
        return {"address": self._address(connection), "host": self._ends[connection][1]}

    def _row(self, key: tuple[Any, ...], counted: _Counted) -> Row:
        row = dict(zip(_PARSED_BY, key, strict=False)) | counted.row()
        if key[0] == Kind.PARSED:
            software, answers = row["software"], row["answers"]
            row |= self._ends_of(row["connection"])
            row["software"] = software and {"name": software[0], "version": software[1]}
            row["answers"] = [_named_by(ANSWER, answer) for answer in answers] or None
        return row

    def taken(self) -> list[Row]:
        """The rows of what was counted since the last time."""
        rows = self._rows + [self._row(*counted) for counted in self._counts.items()]
        for block, of_block in self._blocks.items():
            row = {"id": of_block.first_id, "requests": of_block.lines, "text": of_block.first}
            rows.append(row | {"kind": Kind.BLOCK, "block": block})
        for (block, _), times in self._times.items():
            row = dict(zip(_TIMED_BY, times, strict=True))
            at_slice = self._slice(times[0])
            rows.append(row | {"kind": Kind.TIMES, "block": block, "slice": at_slice})
        for (kind, address, cluster, *named), slices in self._named.items():
            entry = {"kind": kind, "address": address, "cluster": cluster}
            runs = [{"first": first, "last": last} for first, last in slices]
            rows.append(entry | {kind: _named_by(NAMED[kind], named), "slices": runs})
        for key, requests in self._followed.items():
            row = dict(zip(_FOLLOWED_BY, key, strict=True)) | self._ends_of(key[0])
            rows.append(row | {"kind": Kind.FOLLOWED, "packed": chunk_of(requests)})
        for key, milliseconds in self._took.items():
            row = dict(zip(_TOOK_BY, key, strict=True))
            rows.append(row | {"kind": Kind.TOOK, "packed": packed(milliseconds)})
        self._begin()
        return [row | {"file": self._name} for row in rows]


def _named_by(fields: Sequence[tuple[str, pa.DataType]], values: Iterable[Any]) -> Row:
    return {name: value for (name, _), value in zip(fields, values, strict=True)}


def _front_of(value: bytes) -> bytes:
    """The line up to the correlation id, or to the body."""
    for end in _FRONT_ENDS:
        value = value.partition(end)[0]
    return value


def _stamp_of(value: bytes) -> bytes:
    """What stands before the marker."""
    return value.partition(_FRONT_ENDS[0])[0].partition(_MARKER)[0]
