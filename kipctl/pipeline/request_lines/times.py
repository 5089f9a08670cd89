"""How long requests took: the seven times of each, packed, and the percentiles of many.

Times are rounded down to ten significant bits, by less than 0.2 %, and percentiles are those of the
rounded times: exact nearest ranks, as rounding changes no order.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kipctl.pipeline.request_lines.contents import REPLICA
from kipctl.pipeline.request_lines.rows import fields
from kipctl.protocol.api import ApiKey

TIMES = ("total", "request_queue", "local", "remote", "throttle", "response_queue", "send")
"""What Kafka's request metrics are called, without TimeMs."""
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
BY_API, BY_BROKER, BY_CLIENT = "by_api", "by_broker", "by_client"

_BITS = 10
_HALF = 1 << (_BITS - 1)
_LONGEST_US = 1e13
_PER = 1000
"""Quantiles are whole numbers of this: ranks are then whole numbers, too."""
_Ints = npt.NDArray[Any]
_Counts = list[tuple[_Ints, _Ints]]
"""Of each of TIMES the codes, ascending, and how often each occurred."""
_TIMED_BY = fields(
    "by string, cluster string, broker int32, client string, api_key int32, is_follower bool"
)
_KEYS = [name for name, _ in _TIMED_BY]
TOOK_COLUMNS = ("file", "address", "client", "api_key", "packed")
Places = Mapping[tuple[str, str], tuple[str | None, int | None]]
"""By file and address the cluster and the broker."""
COUNTED = pa.schema([*_TIMED_BY, ("packed", pa.binary())])
PERCENTILES = pa.schema([*_TIMED_BY, ("requests", pa.int64()), ("us", pa.list_(pa.int64()))])
"""By API (`by_api`), by API and broker, and by API and client id (followers' are left out): how
many requests, and of each of TIMES in turn the QUANTILES, in microseconds. A follower's Fetch waits
for records as a consumer's does, and is told apart, as in Kafka's metrics."""
BY_KEYS = tuple(_KEYS)


def codes_of(us: _Ints) -> _Ints:
    """Microseconds as 16 bits, in the same order."""
    whole = us.astype(np.int64)
    shift = np.maximum(np.frexp(whole.astype(np.float64))[1] - _BITS, 0)
    codes: _Ints = (shift * _HALF + (whole >> shift)).astype(np.uint16)
    return codes


def us_of(codes: _Ints) -> _Ints:
    """The microseconds that codes stand for: the least that are rounded to it."""
    wide = codes.astype(np.int64)
    shift = np.maximum(wide // _HALF - 1, 0)
    us: _Ints = (wide - shift * _HALF) << shift
    return us


def packed(milliseconds: Sequence[float]) -> bytes:
    """The times of requests, TIMES of each in turn."""
    us = np.floor(np.asarray(milliseconds) * 1000 + 0.5)
    return codes_of(np.where((us >= 0) & (us <= _LONGEST_US), us, 0)).tobytes()


def counted(places: Places, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of COUNTED from TOOK_COLUMNS of rows of Kind.TOOK: what a task has of each key."""
    codes_by_key: dict[tuple[Any, ...], list[_Ints]] = defaultdict(list)
    for batch in batches:
        for row in batch.to_pylist():
            client, api_key = row["client"], row["api_key"]
            at, broker = places[row["file"], row["address"]]
            codes = np.frombuffer(row["packed"], np.uint16).reshape(-1, len(TIMES))
            is_reader = api_key == ApiKey.FETCH and bool(client and REPLICA.fullmatch(client))
            codes_by_key[BY_API, at, None, None, api_key, is_reader].append(codes)
            codes_by_key[BY_BROKER, at, broker, None, api_key, is_reader].append(codes)
            if not is_reader:
                codes_by_key[BY_CLIENT, at, None, client, api_key, False].append(codes)
    if codes_by_key:
        told = [_packed_counts(_counts(np.concatenate(arrays))) for arrays in codes_by_key.values()]
        yield _batch(codes_by_key, {"packed": told}, COUNTED)


def percentiles(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of PERCENTILES from all of COUNTED of the keys that there are."""
    counts_by_key: dict[tuple[Any, ...], list[_Counts]] = defaultdict(list)
    for batch in batches:
        for row in batch.to_pylist():
            counts_by_key[tuple(row[name] for name in _KEYS)].append(_unpacked(row["packed"]))
    if counts_by_key:
        told = [_percentiles(counts) for counts in counts_by_key.values()]
        requests, us = zip(*told, strict=True)
        yield _batch(counts_by_key, {"requests": requests, "us": us}, PERCENTILES)


def _batch(
    keys: Iterable[tuple[Any, ...]], more: dict[str, Any], schema: pa.Schema
) -> pa.RecordBatch:
    of_keys = dict(zip(_KEYS, map(list, zip(*keys, strict=True)), strict=True))
    return pa.RecordBatch.from_pydict({**of_keys, **more}, schema=schema)


def _counts(codes: _Ints) -> _Counts:
    return [np.unique(codes[:, time], return_counts=True) for time in range(len(TIMES))]


def _packed_counts(counts: _Counts) -> bytes:
    each = [(codes.tobytes(), often.astype(np.int64).tobytes()) for codes, often in counts]
    return msgspec.msgpack.encode(each)


def _unpacked(told: bytes) -> _Counts:
    return [
        (np.frombuffer(codes, np.uint16), np.frombuffer(often, np.int64))
        for codes, often in msgspec.msgpack.decode(told)
    ]


def _percentiles(counts: Sequence[_Counts]) -> tuple[int, list[int]]:
    """How many requests, and the QUANTILES of each time."""
    total, us = 0, []
    for time in zip(*counts, strict=True):
        codes = np.concatenate([codes for codes, _ in time])
        order = np.argsort(codes, kind="stable")
        upto = np.cumsum(np.concatenate([often for _, often in time])[order])
        total = int(upto[-1])
        ranks = [max(1, -(-total * round(q * _PER) // _PER)) for q in QUANTILES.values()]
        us += us_of(codes[order][np.searchsorted(upto, ranks)]).tolist()
    return total, us
