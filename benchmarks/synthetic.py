"""Recorded runs of any size whose percentiles are known without computing any over the rows.

How the answers are known
-------------------------
The records that count (acknowledged, after the warm-up) are made in *units* of 160. Unit number
`u` of the `U` units of a topic has the level

    level(u) = D * U // (D * U - (D - 1) * u),        D = 10,000

so that a share of about 1/x of the units lies above level x: a long tail over four decades, as
pauses have. The levels up to x belong to the units

    u < x * D * U / ((x + 1) * (D - 1)),              at most U                               (1)

(solve `level(u) <= x` for u). Topic number `t` lies in *band* `level(u) + t`, so topics differ.

Latency: the 160 records of a unit in band `l` have the latencies 160 l, 160 l + 1, ... 160 l + 159
us, each once. For that the unit is cut into batches whose records follow one another at 10 us
(`interval_ns` 10,000), so the records of a batch of 16 have the latencies `last`, `last + 10`, ...
`last + 150`, where `last` is that of its last record. Ten batches with `last` = 160 l + d, d = 0
to 9, meet every microsecond of the band once. In every eighth unit it is twenty batches of 8, with
`last` = 160 l + 80 h + d, h = 0 and 1.

Service time: each batch with that d is sent (100 l + d) us before it is acknowledged; so the 160
records of a unit have the service times 100 l, ... 100 l + 9 us, each sixteen times.

So the number of records of at most v us is a formula: with l = v // 160 and C(l) from (1), it is
160 C(l - 1) + (v % 160 + 1) (C(l) - C(l - 1)) for the latency of a topic, and likewise for service;
topics add up. The nearest-rank quantile q of n records is the least v at which that number reaches
ceil(q n): found by bisection. Mean and maximum follow from (1) in the same way.

What must not count
-------------------
Before these records come 16,008 of warm-up, with latencies of 30 s: 1,000 batches, and the first 8
records of the first batch that counts, whose other 8 are one of the twenty batches above. After
every 999 batches that count comes one that failed after 120 s.

The batches that count are dealt in the order of an affine permutation, so neighbouring rows have
levels and topics that look unrelated. Everything is deterministic.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kipctl import __version__
from kipctl.trace.clock import wall_time
from kipctl.trace.schema import BATCHES, DATASETS
from kipctl.trace.store import ROWS_A_GROUP, Run

QUANTILES = {
    "p50": Fraction(1, 2),
    "p75": Fraction(3, 4),
    "p90": Fraction(9, 10),
    "p95": Fraction(95, 100),
    "p99": Fraction(99, 100),
    "p999": Fraction(999, 1000),
    "p9999": Fraction(9999, 10000),
}

INTERVAL_NS = 10_000
_INTERVAL_US = INTERVAL_NS // 1000
RECORD_SIZE = 1000

_DECADES = 10_000  # D
_UNIT = 160  # records, and the width of a band of latency in microseconds
_GROUP_UNITS = 8
_GROUP_RECORDS = _UNIT * _GROUP_UNITS
_LARGE, _SMALL = 16, 8  # records of a batch
_LARGE_BATCHES = (_GROUP_UNITS - 1) * _UNIT // _LARGE  # of a group: its first 70 batches
_GROUP_BATCHES = _LARGE_BATCHES + _UNIT // _SMALL

WARMUP_BATCHES = 1000
WARMUP_RECORDS = WARMUP_BATCHES * _LARGE + _SMALL
_WARMUP_US = 30_000_000
_FAILED_US = 120_000_000
_FAILED_EVERY = 1000  # rows after the warm-up
_REQUEST_TIMED_OUT = 7

_ROWS_A_FILE = 1 << 20
_START_WALL_US = 1_767_225_600_000_000

_Ints = npt.NDArray[np.int64]
_IntOrInts = TypeVar("_IntOrInts", int, _Ints)


@dataclass(frozen=True, slots=True)
class _Grid:
    """How a unit of 160 records lies in its band: `width` values, each `each` times.

    The band starts at `step` us times its number.
    """

    step: int
    width: int
    each: int


_GRIDS = {"latency": _Grid(_UNIT, _UNIT, 1), "service": _Grid(100, 10, 16)}


@dataclass(frozen=True, slots=True)
class SyntheticRun:
    """A run of `records` records that count, dealt over topics and partitions.

    `records` is a multiple of 1,280 (else ValueError), at least that for each topic.
    """

    records: int
    topics: int = 3
    partitions: int = 4

    def __post_init__(self) -> None:
        if self.records % _GROUP_RECORDS or self.records < _GROUP_RECORDS * self.topics:
            raise ValueError(
                f"{self.records} records: not a multiple of {_GROUP_RECORDS}, "
                f"or fewer than {_GROUP_RECORDS} for each topic"
            )

    @property
    def topic_names(self) -> list[str]:
        return [f"topic-{number}" for number in range(self.topics)]

    @property
    def failed_records(self) -> int:
        return _LARGE * (self._measured_batches // (_FAILED_EVERY - 1))

    @property
    def batches(self) -> int:
        """All rows: warm-up, measured and failed."""
        return WARMUP_BATCHES + self._measured_batches + self.failed_records // _LARGE

    @property
    def _measured_batches(self) -> int:
        return self.records // _GROUP_RECORDS * _GROUP_BATCHES

    def _units(self, topic: int) -> int:
        groups = self.records // _GROUP_RECORDS
        return _GROUP_UNITS * len(range(topic, groups, self.topics))

    # The answers

    def answer(self, measure: str, topic: int | None = None) -> dict[str, float]:
        """The truth about `latency` or `service`, of one topic (by number) or of all.

        As a row of `kipctl.pipeline.latency.percentiles`: records, mean_us, p50_us, ... max_us.
        """
        chosen = range(self.topics) if topic is None else [topic]
        grid = _GRIDS[measure]
        total = sum(_UNIT * self._units(number) for number in chosen)
        summed = greatest = 0
        for number in chosen:
            units = self._units(number)
            highest = _level(units - 1, units)
            greatest = max(greatest, grid.step * (highest + number) + grid.width - 1)
            below = 0
            for level in range(1, highest + 1):
                upto = _units_up_to(level, units)
                first = grid.step * (level + number)
                summed += (upto - below) * (_UNIT * first + _UNIT * (grid.width - 1) // 2)
                below = upto
        quantiles = {
            f"{name}_us": self._least(measure, chosen, math.ceil(q * total), greatest)
            for name, q in QUANTILES.items()
        }
        return {"records": total, "mean_us": summed / total, **quantiles, "max_us": greatest}

    def records_up_to(self, measure: str, value: int, topic: int) -> int:
        """How many records of the topic have at most that many microseconds."""
        grid = _GRIDS[measure]
        band, offset = divmod(value, grid.step)
        units = self._units(topic)
        below = _units_up_to(band - topic - 1, units)
        within = _units_up_to(band - topic, units) - below
        return _UNIT * below + within * grid.each * min(offset + 1, grid.width)

    def _least(self, measure: str, topics: Iterable[int], rank: int, greatest: int) -> int:
        """The least value that at least `rank` records do not exceed."""
        low, high = 0, greatest
        while low < high:
            middle = (low + high) // 2
            if sum(self.records_up_to(measure, middle, number) for number in topics) >= rank:
                high = middle
            else:
                low = middle + 1
        return low

    # The rows

    def write(self, folder: Path) -> Run:
        """Write the run: `batches` in files of about a million rows, the other datasets empty.

        Memory does not grow with the number of records: 131,072 rows are held at a time. Raises
        UsageError when the folder is not empty.
        """
        run = Run.create(folder)
        for dataset in DATASETS.keys() - {"batches"}:
            run.write(dataset, [])
        (folder / "batches").mkdir()
        writer = None
        for number, rows in enumerate(self._record_batches()):
            if number * ROWS_A_GROUP % _ROWS_A_FILE == 0:
                if writer:
                    writer.close()
                path = folder / "batches" / f"part-{number * ROWS_A_GROUP // _ROWS_A_FILE}.parquet"
                writer = pq.ParquetWriter(path, BATCHES, compression="zstd")
            assert writer
            writer.write_batch(rows)
        if writer:
            writer.close()
        run.describe(self._description())
        return run

    def _description(self) -> dict[str, object]:
        return {
            "kipctl_version": __version__,
            "command": "benchmark",
            "started": wall_time(_START_WALL_US),
            "start_wall_us": _START_WALL_US,
            "interval_ns": INTERVAL_NS,
            "num_records": WARMUP_RECORDS + self.records + self.failed_records,
            "throughput": 1e9 / INTERVAL_NS,
            "record_size": RECORD_SIZE,
            "warmup_records": WARMUP_RECORDS,
            "leader_discovery": "kip951",
            "bootstrap_server": "",
            "producer": {},
            "summary": {},
        }

    def _record_batches(self) -> Iterator[pa.RecordBatch]:
        first_seq = 0
        for start in range(0, self.batches, ROWS_A_GROUP):
            rows = np.arange(start, min(start + ROWS_A_GROUP, self.batches))
            columns = self._columns(rows, first_seq)
            yield self._arrow(columns)
            first_seq = int(columns["first_seq"][-1] + columns["records"][-1])

    def _columns(self, rows: _Ints, first_seq: int) -> dict[str, _Ints]:
        """The numbers of those rows of the run, the first of which starts at `first_seq`."""
        after = rows - WARMUP_BATCHES
        warmup = after < 0
        failed = ~warmup & (after % _FAILED_EVERY == _FAILED_EVERY - 1)
        dealt = self._dealt(np.maximum(after - after // _FAILED_EVERY, 0))
        group, place = np.divmod(dealt, _GROUP_BATCHES)
        topic = group % self.topics

        large = place < _LARGE_BATCHES
        small_place = place - _LARGE_BATCHES
        unit = np.where(large, place // 10, _GROUP_UNITS - 1) + _GROUP_UNITS * (
            group // self.topics
        )
        digit = place % 10  # d; the small batches' places start at a multiple of ten, too
        half = np.where(large, 0, small_place // 10)  # h
        units = np.array([self._units(number) for number in range(self.topics)])[topic]
        band = _level(unit, units) + topic

        counted = ~warmup & ~failed
        records = np.where(counted & ~large & (after > 0), _SMALL, _LARGE)
        seq = first_seq + np.cumsum(records) - records
        last_intended = (seq + records - 1) * _INTERVAL_US
        latency = _UNIT * band + _SMALL * _INTERVAL_US * half + digit  # of the last record
        service = _GRIDS["service"].step * band + digit
        latency = np.where(warmup, _WARMUP_US, np.where(failed, _FAILED_US, latency))
        service = np.where(counted, service, latency - 50)
        return {
            "topic": topic,
            "partition": rows % self.partitions,
            "first_seq": seq,
            "records": records,
            "intended_us": seq * _INTERVAL_US,
            "sent_us": last_intended + latency - service,
            "acked_us": last_intended + latency,
            "error": np.where(failed, _REQUEST_TIMED_OUT, 0),
        }

    def _dealt(self, batch: _Ints) -> _Ints:
        """A permutation of the measured batches; the first is dealt to the first small one."""
        total = self._measured_batches
        step = round(total * 0.618)
        while math.gcd(step, total) != 1:
            step += 1
        dealt: _Ints = (batch * step + _LARGE_BATCHES) % total
        return dealt

    def _arrow(self, columns: dict[str, _Ints]) -> pa.RecordBatch:
        size = len(columns["records"])
        failed = columns["error"] != 0
        names = pa.array(self.topic_names, pa.string())
        topics = pa.DictionaryArray.from_arrays(pa.array(columns["topic"], pa.int32()), names)
        broker = columns["partition"] % 3 + 1
        arrays = {
            "source": pa.repeat("probe", size),
            "client": pa.repeat("synthetic", size),
            "topic": topics,
            "seq_stride": pa.repeat(1, size),
            "bytes": pa.array(columns["records"] * RECORD_SIZE),
            "sent_us": pa.array(columns["sent_us"], mask=failed),  # given up unsent
            "attempts": pa.array(np.where(failed, 0, 1)),
            "broker": pa.array(broker),
            "leader_epoch": pa.repeat(0, size),
            "base_offset": pa.array(columns["first_seq"] // self.partitions, mask=failed),
        }
        return pa.RecordBatch.from_arrays(
            [
                (arrays[f.name] if f.name in arrays else pa.array(columns[f.name])).cast(f.type)
                for f in BATCHES
            ],
            schema=BATCHES,
        )


def _level(unit: _IntOrInts, units: _IntOrInts) -> _IntOrInts:
    """The level of the unit of that number, 1 to 10,000."""
    return _DECADES * units // (_DECADES * units - (_DECADES - 1) * unit)


def _units_up_to(level: int, units: int) -> int:
    """C: how many of a topic's units have at most that level."""
    if level < 1:
        return 0
    return min(units, -(-level * _DECADES * units // ((level + 1) * (_DECADES - 1))))
