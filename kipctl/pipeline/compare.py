"""Two sides of recorded runs, measure by measure: both values, and whether they really differ.

Spark counts what happened in each window of time; the driver, which then holds no more than counts
by window, asks `kipctl.pipeline.significance` whether chance explains the difference. The values
themselves are exact. For the intervals alone, times are cut to their first 11 binary digits: to
0.1 %, and not at all below 2,048 us.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from kipctl.errors import UsageError
from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.gates import Compared
from kipctl.pipeline.inputs import Trace
from kipctl.pipeline.latency import QUANTILES, VALUES, percentiles, record_counts, volumes
from kipctl.pipeline.redirects import episodes, failed_batches
from kipctl.pipeline.significance import (
    Difference,
    Ints,
    Windows,
    bootstrapped,
    mann_whitney,
    windows,
)
from kipctl.protocol.api import ApiKey

SIDES = ("a", "b")
_LEAST_WINDOW_US = 1_000_000
_MOST_WINDOWS = 300
"""Of a run: a longer one has longer windows."""

_AT_ONCE = 4
"""Questions to Spark at the same time."""
_PLACE = ("side", "run", "window")

Run = tuple[str, str]
"""A side and a run's name."""
Span = tuple[int, int]
"""Microseconds since the run's start, from and to."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that is compared; `unit` is "ms", "records/s", or what is counted in each run."""

    name: str
    title: str
    unit: str


MEASURES = (
    Measure("mean", "latency, mean", "ms"),
    Measure("p50", "latency, p50", "ms"),
    Measure("p95", "latency, p95", "ms"),
    Measure("p99", "latency, p99", "ms"),
    Measure("p999", "latency, p99.9", "ms"),
    Measure("max", "latency, max", "ms"),
    Measure("service_p99", "service time, p99", "ms"),
    Measure("throughput", "acknowledged", "records/s"),
    Measure("read", "read", "records/s"),
    Measure("failed", "failed", "records"),
    Measure("redirected", "redirected", "batches and fetches"),
    Measure("client_share_p50", "client's share of a redirect, p50", "ms"),
    Measure("metadata_rpcs", "Metadata requests", "requests"),
)
TIMES = {"service_p99": ("service_us", "p99"), "client_share_p50": ("client_share_us", "p50")}
"""Measures that are quantiles of another time than the latency."""
COUNTED = ("failed", "redirected", "metadata_rpcs")
UNITS: Mapping[str, str] = {measure.name: measure.unit for measure in MEASURES}


@dataclass(frozen=True, slots=True)
class ComparedMeasure:
    """A measure on both sides; of counts the mean of a side's runs. None where there is none.

    `by_run` has it of each run by itself, for both sides.
    """

    measure: Measure
    a: float | None
    b: float | None
    by_run: Mapping[Run, float]
    difference: Difference

    @property
    def absolute(self) -> float | None:
        """B less A, in the measure's unit."""
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def percent(self) -> float | None:
        """B less A, of A; None where A is 0."""
        return 100 * self.absolute / self.a if self.absolute is not None and self.a else None

    @property
    def runs_overlap(self) -> bool | None:
        """Whether a single run of one side lies among those of the other; None for one run each."""
        a, b = ([v for (side, _), v in self.by_run.items() if side == of] for of in SIDES)
        if min(len(a), len(b)) < 2:
            return None
        return min(a) <= max(b) and min(b) <= max(a)

    @property
    def for_gates(self) -> Compared:
        return Compared(self.a, self.b, self.difference.is_real)

    def as_document(self) -> dict[str, Any]:
        """For JSON. The effect is a relative difference, or for counts a chance (superiority)."""
        by_ranks = self.difference.superiority is not None
        return {
            "measure": self.measure.name,
            "title": self.measure.title,
            "unit": self.measure.unit,
            "a": self.a,
            "b": self.b,
            "difference": self.absolute,
            "difference_percent": self.percent,
            "interval": None
            if self.difference.low is None
            else [self.difference.low, self.difference.high],
            "p_value": self.difference.p_value,
            "real": self.difference.is_real,
            "runs_overlap": self.runs_overlap,
            "effect": self.difference.superiority
            if by_ranks
            else (None if self.percent is None else self.percent / 100),
            "effect_is": "probability of superiority" if by_ranks else "relative difference",
            **{
                f"{side}_by_run": {run: v for (of, run), v in self.by_run.items() if of == side}
                for side in SIDES
            },
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every measure of two sides. `window_us` is the width of the windows, in microseconds."""

    window_us: int
    measures: tuple[ComparedMeasure, ...]


Measured = tuple[Mapping[str, float], Mapping[Run, float], Difference]
"""A measure by side, by run, and how its sides differ."""


def compare(a: Trace, b: Trace) -> Comparison:
    """Compare the runs of one trace with those of another. Raises UsageError for a run in both."""
    if both := {run.path for run in a.runs} & {run.path for run in b.runs}:
        raise UsageError(f"{min(both)} is on both sides of the comparison.")
    runs = [
        (side, run.name) for side, trace in zip(SIDES, (a, b), strict=True) for run in trace.runs
    ]
    batches = _both(a, b, lambda trace: trace.batches)
    reads = _both(a, b, lambda trace: trace.reads)
    rpcs = _both(a, b, lambda trace: trace.rpcs)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        # The plans of these two are long: only their rows are kept.
        asked_redirected = threads.submit(lambda: _both(a, b, _redirected).transform(checkpointed))
        spans = _spans(batches, reads)
        window_us = _window_us(spans.values())
        redirected = asked_redirected.result()
        times = _times(batches, redirected, window_us).transform(checkpointed)
        asked_spreads = threads.submit(_spreads, times, several_runs=len(runs) > len(SIDES))
        asked_seen = threads.submit(_seen, batches, reads, redirected, rpcs, window_us)
        asked_written = threads.submit(_written, batches)
        asked_read = threads.submit(_read, reads)
    spreads, seen = asked_spreads.result(), asked_seen.result()
    rated = {"throughput": asked_written.result(), "read": asked_read.result()}
    found = []
    for measure in MEASURES:
        if measure.name in rated:
            compared = _rated(*rated[measure.name], seen[measure.name], window_us)
        elif measure.name in COUNTED:
            compared = _count(runs, seen[measure.name], spans, window_us)
        else:
            time, quantile = TIMES.get(measure.name, ("latency_us", measure.name))
            compared = spreads[time].measured(quantile)
        side, by_run, difference = compared
        found.append(ComparedMeasure(measure, side.get("a"), side.get("b"), by_run, difference))
    return Comparison(window_us, tuple(found))


def _both(a: Trace, b: Trace, of: Callable[[Trace], DataFrame]) -> DataFrame:
    """A frame of both traces, every row with its `side`."""
    sides = (
        of(trace).withColumn("side", F.lit(name)) for name, trace in zip(SIDES, (a, b), strict=True)
    )
    return reduce(DataFrame.unionByName, sides)


def _redirected(trace: Trace) -> DataFrame:
    """What was redirected: run, when the first error came, and what the client took."""
    found = episodes(failed_batches(trace.redirects, trace.actions))
    return found.select("run", "first_error_us", "client_share_us")


def _spans(batches: DataFrame, reads: DataFrame) -> dict[Run, Span]:
    """The earliest intended time and the latest acknowledgement of each run, warm-up and all.

    Reads count too, from the start of the run.
    """
    moments = batches.select("side", "run", "intended_us", "acked_us")
    moments = moments.unionByName(
        reads.select(
            "side",
            "run",
            F.lit(0).cast("bigint").alias("intended_us"),
            F.col("time_us").alias("acked_us"),
        )
    )
    spans = moments.groupBy("side", "run").agg(F.min("intended_us"), F.max("acked_us"))
    return {(side, run): (first, last) for side, run, first, last in spans.collect()}


def _window_us(spans: Iterable[Span]) -> int:
    longest = max((last - first for first, last in spans), default=0)
    seconds = -(-longest // (_MOST_WINDOWS * _LEAST_WINDOW_US))
    return max(1, seconds) * _LEAST_WINDOW_US


def _times(batches: DataFrame, redirected: DataFrame, window_us: int) -> DataFrame:
    """How often each time was taken: `time` (of what), side, run, window, `value` and `records`."""
    of_records = [
        record_counts(batches, ("side", "run"), value, window_us).select(
            F.lit(value).alias("time"), *_PLACE, F.col(value).alias("value"), "records"
        )
        for value in VALUES
    ]
    of_redirects = (
        redirected.withColumn("window", _window_of("first_error_us", window_us))
        .groupBy(*_PLACE, F.col("client_share_us").alias("value"))
        .agg(F.count("*").alias("records"))
        .select(F.lit("client_share_us").alias("time"), *_PLACE, "value", "records")
    )
    return reduce(DataFrame.unionByName, [*of_records, of_redirects])


def _seen(
    batches: DataFrame, reads: DataFrame, redirected: DataFrame, rpcs: DataFrame, window_us: int
) -> dict[str, dict[Run, dict[int, int]]]:
    """What is counted, by what it is, by run and by window; windows without any are left out."""

    def counted(name: str, rows: DataFrame, time: str, what: str) -> DataFrame:
        placed = rows.withColumn("window", _window_of(time, window_us))
        totals = placed.groupBy(*_PLACE).agg(F.expr(what).cast("bigint").alias("records"))
        return totals.select(F.lit(name).alias("name"), *_PLACE, "records")

    acknowledged = batches.filter("error = 0 and first_seq >= warmup_records")
    metadata = rpcs.filter(F.col("api_key") == int(ApiKey.METADATA))
    by_window = [
        counted("throughput", acknowledged, "acked_us", "sum(records)"),
        counted("read", reads.filter("records > 0"), "time_us", "sum(records)"),
        counted("failed", batches.filter("error != 0"), "acked_us", "sum(records)"),
        counted("redirected", redirected, "first_error_us", "count(*)"),
        counted("metadata_rpcs", metadata, "sent_us", "count(*)"),
    ]
    seen: dict[str, dict[Run, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in reduce(DataFrame.unionByName, by_window).collect():
        seen[row["name"]][row["side"], row["run"]][row["window"]] = row["records"]
    return seen


def _written(batches: DataFrame) -> tuple[dict[Run, float], dict[Run, Span]]:
    """Acknowledged records per second of each run, after the warm-up, and from when to when."""
    rates: dict[Run, float] = {}
    spans: dict[Run, Span] = {}
    for row in volumes(batches, ("side", "run")).filter("last_us is not null").collect():
        run = (row["side"], row["run"])
        rates[run] = float(row["records_per_second"])
        spans[run] = (row["first_us"], row["last_us"])
    return rates, spans


def _read(reads: DataFrame) -> tuple[dict[Run, float], dict[Run, Span]]:
    """Records read per second by each run, from its start to the last of them."""
    with_records = reads.filter("records > 0").groupBy("side", "run")
    rates: dict[Run, float] = {}
    spans: dict[Run, Span] = {}
    for side, run, records, last_us in with_records.agg(
        F.sum("records"), F.greatest(F.lit(1), F.max("time_us"))
    ).collect():
        rates[side, run] = 1e6 * records / last_us
        spans[side, run] = (0, last_us)
    return rates, spans


def _rated(
    rates: Mapping[Run, float],
    spans: Mapping[Run, Span],
    seen: Mapping[Run, Mapping[int, int]],
    window_us: int,
) -> Measured:
    """Rates by side, each run's by how long it took, and how their whole windows differ."""
    samples = {
        run: _filled(seen.get(run, {}), -(-first // window_us), last // window_us)
        for run, (first, last) in spans.items()
    }
    by_side = {}
    for side, mine in _by_side(rates).items():
        lasted = {run: max(1, spans[run][1] - spans[run][0]) for run in mine}
        by_side[side] = sum(rates[run] * lasted[run] for run in mine) / sum(lasted.values())
    return by_side, rates, _ranked(samples)


def _count(
    runs: Sequence[Run],
    seen: Mapping[Run, Mapping[int, int]],
    spans: Mapping[Run, Span],
    window_us: int,
) -> Measured:
    """A count over whole runs, warm-up and all; every window is compared, the empty ones too."""
    totals = {run: float(sum(seen.get(run, {}).values())) for run in runs}
    samples = {
        run: _filled(seen.get(run, {}), first // window_us, last // window_us + 1)
        for run, (first, last) in spans.items()
    }
    by_side = {
        side: sum(totals[run] for run in mine) / len(mine)
        for side, mine in _by_side(totals).items()
    }
    return by_side, totals, _ranked(samples)


@dataclass(frozen=True, slots=True)
class _Spread:
    """A time on both sides: exact percentiles by side and by run, and its windows by side."""

    by_side: dict[str, Row]
    by_run: dict[Run, Row]
    windows: dict[str, Windows]

    def measured(self, name: str) -> Measured:
        """`name` is mean, max or one of QUANTILES; in milliseconds. Nothing bounds a maximum."""
        by_side = {side: row[f"{name}_us"] / 1000 for side, row in self.by_side.items()}
        by_run = {run: row[f"{name}_us"] / 1000 for run, row in self.by_run.items()}
        if name == "max" or len(self.windows) < len(SIDES):
            return by_side, by_run, Difference()
        found = bootstrapped(self.windows["a"], self.windows["b"], QUANTILES.get(name))
        if found.low is None or found.high is None:
            return by_side, by_run, found
        return by_side, by_run, Difference(found.p_value, found.low / 1000, found.high / 1000)


def _spreads(times: DataFrame, several_runs: bool) -> dict[str, _Spread]:
    """Every time's spread, by its name."""
    totals = times.groupBy("time", "side", "run", "value").agg(F.sum("records").alias("records"))
    of_runs = percentiles(totals, ("time", "side", "run"), "value").collect()
    of_sides = of_runs
    if several_runs:
        of_sides = percentiles(totals, ("time", "side"), "value").collect()
    windows_of = _windows(times)
    return {
        time: _Spread(
            {row["side"]: row for row in of_sides if row["time"] == time},
            {(row["side"], row["run"]): row for row in of_runs if row["time"] == time},
            {side: found for (of, side), found in windows_of.items() if of == time},
        )
        for time in (*VALUES, "client_share_us")
    }


def _windows(times: DataFrame) -> dict[tuple[str, str], Windows]:
    """The windows of each time and side; values are cut to their first 11 binary digits."""
    cut = "greatest(0, length(bin(value)) - 11)"
    binned = (
        times.groupBy(
            "time", *_PLACE, F.expr(f"shiftleft(shiftright(value, {cut}), {cut})").alias("value")
        )
        .agg(F.sum("records").alias("records"))
        .toArrow()
    )
    found = {}
    for time in (*VALUES, "client_share_us"):
        for side in SIDES:
            rows = binned.filter((pc.field("time") == time) & (pc.field("side") == side))
            if rows.num_rows:
                run = rows["run"].combine_chunks().dictionary_encode()
                # By name: the draws of a resample are not to depend on how Spark divided this.
                number = np.argsort(np.argsort(run.dictionary.to_pylist()))
                counted = (rows[name].to_numpy() for name in ("window", "value", "records"))
                found[time, side] = windows(number[run.indices.to_numpy()], *counted)
    return found


def _window_of(time: str, window_us: int) -> Column:
    return F.expr(f"{time} div {window_us}")


def _by_side(of_runs: Iterable[Run]) -> dict[str, list[Run]]:
    sides: dict[str, list[Run]] = {}
    for run in of_runs:
        sides.setdefault(run[0], []).append(run)
    return sides


def _filled(seen: Mapping[int, int], first: int, end: int) -> Ints:
    """What each window from `first` to before `end` holds, 0 where nothing was seen."""
    return np.array([seen.get(window, 0) for window in range(first, end)], dtype=np.int64)


def _ranked(samples: Mapping[Run, Ints]) -> Difference:
    sides = _by_side(samples)
    if len(sides) < len(SIDES):
        return Difference()
    a, b = (np.concatenate([samples[run] for run in sides[side]]) for side in SIDES)
    return mann_whitney(a, b)
