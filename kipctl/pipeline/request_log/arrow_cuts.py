"""Lines of a request log cut in Python, over the bytes of Arrow's batches, and counted there.

What is cut, and why, is said in `kipctl.pipeline.request_log.cuts`, whose rows these are. Cutting a
line takes a few searches within its ends; lines that are alike are counted before they leave the
task, so that nothing has to be shuffled.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from kipctl.pipeline.arrow import map_in_arrow
from kipctl.pipeline.request_log import cuts

_MARKER = cuts.MARKER.encode()
_BEGIN = (cuts.MARKER + cuts.IS_FORWARDED).encode()
_HEAD_END = cuts.HEAD_END.encode()
_FRONT_END = cuts.FRONT_END.encode()
_CLIENT = cuts.CLIENT.encode()
_CONNECTION = cuts.CONNECTION.encode()
_CONNECTION_END = cuts.CONNECTION_END.encode()
_SOFTWARE = cuts.SOFTWARE.encode()
_METADATA_FOLLOWER = cuts.METADATA_FOLLOWER.encode()
_ERROR = re.compile(cuts.ERROR.encode(), re.DOTALL)
_REPLICA = cuts.NAMED_REPLICA.partition("[")[0].encode()
_RACK_START = b'"rackId":"'
_RACK = re.compile(cuts.RACK.encode())
_READ_BYTES = re.compile(cuts.READ_BYTES.encode())
_ANNOUNCED = re.compile(cuts.ANNOUNCED.encode())
_FETCHER = re.compile(cuts.FETCHER.encode())
_SOFTWARE_START = cuts.SOFTWARE_START.encode()
_SOFTWARE_END, _SOFTWARE_AMONG = (end.encode() for end in cuts.SOFTWARE_ENDS)
_TIME = re.compile(cuts.TIME.encode())
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUS = ord("-")
_GROUPS_HELD = 100_000
_BYTES_HELD = 32 << 20
"""Groups, and bytes of whole lines, that a task counts before it hands them on."""

_Key = tuple[bytes | None, ...]
_Measures = list[Any]


def cut(lines: DataFrame) -> DataFrame:
    """Cut lines (`value`, `file`) into rows of `cuts.CUT`, one for lines that are alike."""
    return map_in_arrow(lines.select("value", "file"), _cut_batches, cuts.CUT)


def _cut_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    groups = _Groups()
    for batch in batches:
        groups.add(batch)
        if groups.are_many:
            yield groups.taken()
    yield groups.taken()


class _Groups:
    """Lines counted where they are alike; those that are kept whole are kept apart."""

    def __init__(self) -> None:
        self._plain: dict[_Key, _Measures] = {}
        self._whole: list[tuple[bytes, bytes, int | None]] = []
        self._whole_bytes = 0
        self._apis = _Apis()
        self._replicas = _Replicas()
        self._software = _Software()
        self._minutes = _Minutes()
        self._seconds = _Seconds()

    @property
    def are_many(self) -> bool:
        return len(self._plain) > _GROUPS_HELD or self._whole_bytes > _BYTES_HELD

    def taken(self) -> pa.RecordBatch:
        """All rows counted so far (`cuts.CUT`); none of them is left behind."""
        plain, whole = self._plain, self._whole
        self._plain, self._whole, self._whole_bytes = {}, [], 0
        is_request = [key[1] is not None for key in plain] + [True] * len(whole)
        none = [None] * len(whole)
        texts = [[*(key[0] for key in plain), *(file for file, _, _ in whole)]]
        texts += [[*(key[place] for key in plain), *none] for place in range(1, 7)]
        texts.append([*([None] * len(plain)), *(line for _, line, _ in whole)])
        numbers = [[*(of[place] for of in plain.values())] for place in range(4)]
        numbers[0] += [1] * len(whole)
        numbers[1] += [us for _, _, us in whole]
        numbers[2] += [us for _, _, us in whole]
        numbers[3] += none
        file, *pieces = (pa.array(text, pa.binary()).view(pa.string()) for text in texts)
        counted = (pa.array(of, pa.int64()) for of in numbers)
        columns = [file, pa.array(is_request, pa.bool_()), *pieces, *counted]
        return pa.RecordBatch.from_arrays(columns, names=cuts.CUT.names)

    def add(self, batch: pa.RecordBatch) -> None:
        """Cut the lines (`value`) of a batch and count them by their `file`."""
        lines, files = batch.column(0), batch.column(1).dictionary_encode()
        names = [str(name).encode() for name in files.dictionary.to_pylist()]
        data, ends = _bytes_of(lines)
        errors = _ERROR.finditer(data, ends[0], ends[-1])
        error = next(errors, None)
        find, rfind = data.find, data.rfind
        plain, apis, replicas, known = self._plain, self._apis, self._replicas, self._software
        minutes, seconds = self._minutes, self._seconds
        start = ends[0]
        for number, end in zip(files.indices.to_pylist(), ends[1:], strict=True):
            line_start, start = start, end
            has_error = False
            while error and error.start() < end:
                has_error |= error.end() <= end
                error = next(errors, None)
            head_end = find(_HEAD_END, line_start, end)
            if head_end < 0:
                head_end = end
            front_end = find(_FRONT_END, line_start, head_end)
            if front_end < 0:
                front_end = head_end
            marker = find(_MARKER, line_start, front_end)
            if marker < 0:
                self._count((names[number], None, None, None, None, None, None), None, None)
                continue
            minute = minutes[data[line_start : line_start + 17]]
            second = seconds[data[line_start + 17 : line_start + 25]]
            us: int | None
            if minute is not None and second is not None and line_start + 25 <= marker:
                us = minute + second
            else:
                us = _wall_clock_us(data, line_start, marker)
            origin = data[marker + len(_BEGIN) : front_end]
            api = apis[origin]
            client_start = rfind(_CLIENT, line_start, head_end)
            client = data[client_start + len(_CLIENT) : head_end] if client_start >= 0 else b""
            tail = rfind(_CONNECTION, line_start, end)
            tail = tail + len(_CONNECTION) if tail >= 0 else line_start
            connection_end = find(_CONNECTION_END, tail, end)
            connection = data[tail : connection_end if connection_end >= 0 else end]
            software_start = rfind(_SOFTWARE, tail, end)
            software = data[software_start + len(_SOFTWARE) : end] if software_start >= 0 else b""
            is_replica = replicas[client]
            is_like = (
                api >= _LIKE_KAFKAS
                and is_replica is not None
                and known[software]
                and connection[:1] == b'"'
                # The marker twice: the line was cut, and the next one follows it.
                and rfind(_BEGIN, line_start, front_end) == marker
            )
            is_read = api == _FETCH and not is_replica
            if (
                has_error
                or not is_like
                or api == _METADATA
                or (is_read and _names_replica(data, line_start, end))
            ):
                self._whole.append((names[number], data[line_start:end], us))
                self._whole_bytes += end - line_start
                continue
            rack = announced = read_bytes = None
            if is_read and (rack := _rack(data, line_start, end)):
                read_bytes = sum(map(int, _READ_BYTES.findall(data, line_start, end)))
            elif api == _API_VERSIONS and (found := _ANNOUNCED.search(data, line_start, end)):
                announced = found[1]
            key = (names[number], origin, client, connection, software, announced, rack)
            group = plain.get(key)
            if group is None:
                plain[key] = [1, us, us, read_bytes]
                continue
            group[0] += 1
            if us is not None:
                if group[1] is None:
                    group[1] = group[2] = us
                elif us > group[2]:
                    group[2] = us
                elif us < group[1]:
                    group[1] = us
            if read_bytes:
                group[3] += read_bytes

    def _count(self, key: _Key, us: int | None, read_bytes: int | None) -> None:
        group = self._plain.setdefault(key, [0, us, us, read_bytes])
        group[0] += 1


def _wall_clock_us(data: bytes, start: int, end: int) -> int | None:
    """The time before the marker, where it is not as log4j writes it in Kafka's own
    configuration."""
    found = _TIME.search(data, start, end)
    return _microseconds(found[0]) if found else None


def _names_replica(data: bytes, start: int, end: int) -> bool:
    """Whether there is what the pattern NAMED_REPLICA takes: to look for text is much quicker."""
    at = data.find(_REPLICA, start, end)
    while at >= 0:
        at += len(_REPLICA)
        if at < end and data[at] != _MINUS:
            return True
        at = data.find(_REPLICA, at, end)
    return False


def _rack(data: bytes, start: int, end: int) -> bytes | None:
    """What the pattern RACK takes."""
    at = data.find(_RACK_START, start, end)
    found = _RACK.search(data, at, end) if at >= 0 else None
    return found[1] if found else None


def _bytes_of(column: pa.Array) -> tuple[bytes, list[int]]:
    """The bytes of a column of texts, and where each begins, and the last one ends."""
    _, offsets, data = column.buffers()
    ends = pa.Array.from_buffers(
        pa.int64() if pa.types.is_large_string(column.type) else pa.int32(),
        len(column) + 1,
        [None, offsets],
        offset=column.offset,
    )
    return data.to_pybytes() if data else b"", ends.to_pylist()


def _microseconds(written: bytes) -> int | None:
    """A time that the pattern TIME takes, in microseconds since the epoch as if it were UTC."""
    text = written.decode().replace(",", ".")
    seconds, _, fraction = text.partition(".")
    try:
        moment = datetime.fromisoformat(f"{seconds}+00:00")
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(seconds=1) * 1_000_000 + int(fraction.ljust(6, "0"))


_UNLIKE_KAFKAS, _LIKE_KAFKAS, _FETCH, _METADATA, _API_VERSIONS = range(5)


class _Apis(dict[bytes, int]):
    """What the piece `origin` of a line tells of the API."""

    def __missing__(self, origin: bytes) -> int:
        api = _LIKE_KAFKAS
        for key, number in ((b"18", _API_VERSIONS), (b"1", _FETCH), (b"3", _METADATA)):
            if b'"requestApiKey":' + key + b"," in origin:
                api = number
        if not origin.startswith((b"false,", b"true,")):
            api = _UNLIKE_KAFKAS
        self[origin] = api
        return api


class _Replicas(dict[bytes, bool | None]):
    """Whether the piece `client` is a broker's that follows; None when it is not like Kafka's."""

    def __missing__(self, client: bytes) -> bool | None:
        is_like = client.startswith(b'"') and client.endswith(b'"}')
        is_replica = bool(_FETCHER.match(client)) or client.startswith(_METADATA_FOLLOWER)
        self[client] = found = is_replica if is_like else None
        return found


class _Software(dict[bytes, bool]):
    """Whether the piece `software` is like Kafka's."""

    def __missing__(self, software: bytes) -> bool:
        is_like = software.startswith(_SOFTWARE_START) and (
            _SOFTWARE_END in software or bool(re.search(_SOFTWARE_AMONG, software))
        )
        self[software] = is_like
        return is_like


class _Minutes(dict[bytes, int | None]):
    """Microseconds of `[2026-11-21 11:13`; None when that is no minute."""

    def __missing__(self, written: bytes) -> int | None:
        whole = written[1:] + b":00"
        is_minute = written[:1] == b"[" and _TIME.fullmatch(whole)
        self[written] = us = _microseconds(whole) if is_minute else None
        return us


class _Seconds(dict[bytes, int | None]):
    """Microseconds of `:09,119]`; None when those are no seconds."""

    _SECONDS = re.compile(rb":([0-5]\d)[,.](\d{3})\]")

    def __missing__(self, written: bytes) -> int | None:
        found = self._SECONDS.fullmatch(written)
        us = int(found[1]) * 1_000_000 + int(found[2]) * 1000 if found else None
        self[written] = us
        return us
