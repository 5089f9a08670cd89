"""Two sides of recorded runs, measure by measure: both values, and whether they really differ.

Spark counts what happened in each window of time; the driver, which then holds no more than counts
by window, asks `kipctl.pipeline.significance` whether chance explains the difference. The values
themselves are exact. For the intervals alone, times are cut to their first 11 binary digits: to
0.1 %, and not at all below 2,048 us.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from kipctl.errors import UsageError
from kipctl.pipeline.at_once import all_at_once
from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.gates import Compared
from kipctl.pipeline.inputs import Trace
from kipctl.pipeline.latency import QUANTILES, TIMES, percentiles, record_counts, volumes
from kipctl.pipeline.partitions import together
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

_ALL_TIMES = (*TIMES, "client_share")
_PLACE = ("side", "run", "window")

Run = tuple[str, str]
"""A side and a run's name."""
Span = tuple[int, int]
"""Microseconds since the run's start, from and to."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that is compared; `unit` is "ms", "records/s", or what is counted in each run.

    A run `may_lack` what is of redirected batches alone: it had none.
    """

    name: str
    title: str
    unit: str
    may_lack: bool = False


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
    Measure("client_share_p50", "client's share of a redirect, p50", "ms", may_lack=True),
    Measure("metadata_rpcs", "Metadata requests", "requests"),
)
OTHER_TIMES = {"service_p99": ("service", "p99"), "client_share_p50": ("client_share", "p50")}
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
    def lacks_value(self) -> bool:
        """Whether a side has none."""
        return self.a is None or self.b is None

    @property
    def for_gates(self) -> Compared:
        return Compared(self.a, self.b, self.difference.is_real, self.measure.may_lack)

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
                f"{side}_by_run": {
                    run: v for (of, run), v in sorted(self.by_run.items()) if of == side
                }
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
    # The plans of these are long, or used twice: only their rows are kept.
    begun: dict[str, Any] = all_at_once(
        {
            "redirected": lambda: _both(a, b, _redirected).transform(checkpointed),
            "of_runs": lambda: _of_runs(batches, reads),
        }
    )
    redirected, of_runs = begun["redirected"], begun["of_runs"]
    window_us = _window_us(of_runs.spans.values())
    ended: dict[str, Any] = all_at_once(
        {
            "spreads": lambda: _spreads(_times(batches, redirected, window_us)),
            "counted": lambda: _counted(batches, reads, redirected, rpcs, window_us),
        }
    )
    spreads, counted = ended["spreads"], ended["counted"]
    found = []
    for measure in MEASURES:
        if measure.name in of_runs.rates:
            rates, spans = of_runs.rates[measure.name]
            compared = _rated(rates, spans, counted[measure.name], window_us)
        elif measure.name in COUNTED:
            compared = _count(runs, counted[measure.name], of_runs.spans, window_us)
        else:
            time, quantile = OTHER_TIMES.get(measure.name, ("latency", measure.name))
            compared = spreads[time].measured(quantile)
        side, by_run, difference = compared
        found.append(ComparedMeasure(measure, side.get("a"), side.get("b"), by_run, difference))
    return Comparison(window_us, tuple(found))


def _both(a: Trace, b: Trace, of: Callable[[Trace], DataFrame]) -> DataFrame:
    """A frame of both traces, every row with its `side`."""
    sides = (
        of(trace).withColumn("side", F.lit(name)) for name, trace in zip(SIDES, (a, b), strict=True)
    )
    return reduce(DataFrame.unionAll, sides)


def _redirected(trace: Trace) -> DataFrame:
    """What was redirected: run, when the first error came, and what the client took."""
    found = episodes(failed_batches(trace.redirects, trace.actions))
    return found.select("run", "first_error_us", "client_share_us")


@dataclass(frozen=True, slots=True)
class _OfRuns:
    """What there is to say of whole runs.

    `spans` are from the earliest intended time (0 of a run that only reads) to the latest
    acknowledgement or read, warm-up and all. `rates` are those of what was acknowledged after the
    warm-up ("throughput") and read, in records per second, and from when to when that was.
    """

    spans: dict[Run, Span]
    rates: dict[str, tuple[dict[Run, float], dict[Run, Span]]]


def _of_runs(batches: DataFrame, reads: DataFrame) -> _OfRuns:
    of_run = ("side", "run")
    nothing = F.lit(None).cast("bigint")
    spans = batches.groupBy(*of_run).agg(
        F.lit("batches").alias("what"),
        F.min("intended_us").alias("first_us"),
        F.max("acked_us").alias("last_us"),
        nothing.alias("rated_from_us"),
        nothing.alias("rated_until_us"),
        F.lit(None).cast("double").alias("rate"),
    )
    written = volumes(batches, of_run).select(
        *of_run,
        F.lit("throughput").alias("what"),
        nothing.alias("first_us"),
        nothing.alias("last_us"),
        F.col("first_us").alias("rated_from_us"),
        F.col("last_us").alias("rated_until_us"),
        F.col("records_per_second").alias("rate"),
    )
    # Reads count from the start of the run, their rate to the last that brought records.
    until = F.greatest(F.lit(1), F.max(F.when(F.col("records") > 0, F.col("time_us"))))
    read = reads.groupBy(*of_run).agg(
        F.lit("read").alias("what"),
        F.lit(0).cast("bigint").alias("first_us"),
        F.max("time_us").alias("last_us"),
        F.lit(0).cast("bigint").alias("rated_from_us"),
        until.alias("rated_until_us"),
        F.when(F.sum("records") > 0, 1e6 * F.sum("records") / until).alias("rate"),
    )
    found = _OfRuns({}, {"throughput": ({}, {}), "read": ({}, {})})
    for row in reduce(DataFrame.unionAll, (spans, written, read)).collect():
        run = (row["side"], row["run"])
        if row["first_us"] is not None:
            first, last = found.spans.get(run, (row["first_us"], row["last_us"]))
            found.spans[run] = (min(first, row["first_us"]), max(last, row["last_us"]))
        if row["rate"] is not None:
            rates, rated = found.rates[row["what"]]
            rates[run], rated[run] = row["rate"], (row["rated_from_us"], row["rated_until_us"])
    return found


def _window_us(spans: Iterable[Span]) -> int:
    longest = max((last - first for first, last in spans), default=0)
    seconds = -(-longest // (_MOST_WINDOWS * _LEAST_WINDOW_US))
    return max(1, seconds) * _LEAST_WINDOW_US


def _times(batches: DataFrame, redirected: DataFrame, window_us: int) -> DataFrame:
    """How often each time was taken: `time` (of what), side, run, window, `value_us`, `records`."""
    counts = record_counts(batches, ("side", "run"), window_us)
    of_records = counts.select("time", *_PLACE, "value_us", "records")
    of_redirects = redirected.groupBy(
        F.lit("client_share").alias("time"),
        *("side", "run"),
        _window_of("first_error_us", window_us).alias("window"),
        F.col("client_share_us").alias("value_us"),
    ).agg(F.count("*").alias("records"))
    return of_records.unionAll(of_redirects)


def _counted(
    batches: DataFrame, reads: DataFrame, redirected: DataFrame, rpcs: DataFrame, window_us: int
) -> dict[str, dict[Run, dict[int, int]]]:
    """What is counted, by what it is, by run and by window; windows without any are left out."""

    def counted(name: str, rows: DataFrame, time: str, what: str) -> DataFrame:
        return rows.groupBy(
            F.lit(name).alias("name"),
            *("side", "run"),
            _window_of(time, window_us).alias("window"),
        ).agg(F.expr(what).cast("bigint").alias("records"))

    acknowledged = batches.filter("error = 0 and first_seq >= warmup_records")
    metadata = rpcs.filter(F.col("api_key") == int(ApiKey.METADATA))
    by_window = [
        counted("throughput", acknowledged, "acked_us", "sum(records)"),
        counted("read", reads.filter("records > 0"), "time_us", "sum(records)"),
        counted("failed", batches.filter("error != 0"), "acked_us", "sum(records)"),
        counted("redirected", redirected, "first_error_us", "count(*)"),
        counted("metadata_rpcs", metadata, "sent_us", "count(*)"),
    ]
    found: dict[str, dict[Run, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in reduce(DataFrame.unionAll, by_window).collect():
        found[row["name"]][row["side"], row["run"]][row["window"]] = row["records"]
    return found


def _rated(
    rates: Mapping[Run, float],
    spans: Mapping[Run, Span],
    counted: Mapping[Run, Mapping[int, int]],
    window_us: int,
) -> Measured:
    """Rates by side, each run's by how long it took, and how their whole windows differ."""
    samples = {
        run: _filled(counted.get(run, {}), -(-first // window_us), last // window_us)
        for run, (first, last) in spans.items()
    }
    by_side = {}
    for side, own in _by_side(rates).items():
        lasted = {run: max(1, spans[run][1] - spans[run][0]) for run in own}
        by_side[side] = sum(rates[run] * lasted[run] for run in own) / sum(lasted.values())
    return by_side, rates, _ranked(samples)


def _count(
    runs: Sequence[Run],
    counted: Mapping[Run, Mapping[int, int]],
    spans: Mapping[Run, Span],
    window_us: int,
) -> Measured:
    """A count over whole runs, warm-up and all; every window is compared, the empty ones too."""
    totals = {run: float(sum(counted.get(run, {}).values())) for run in runs}
    samples = {
        run: _filled(counted.get(run, {}), first // window_us, last // window_us + 1)
        for run, (first, last) in spans.items()
    }
    by_side = {
        side: sum(totals[run] for run in own) / len(own) for side, own in _by_side(totals).items()
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


def _spreads(times: DataFrame) -> dict[str, _Spread]:
    """Every time's spread, by its name."""
    times = times.transform(checkpointed)
    totals = times.groupBy("time", "side", "run", "value_us").agg(F.sum("records").alias("records"))
    # A side is all of its runs: a row for it too, without a run.
    of_sides = totals.groupBy(
        "time", "side", F.lit(None).cast("string").alias("run"), "value_us"
    ).agg(F.sum("records").alias("records"))
    both = totals.unionAll(of_sides.select(*totals.columns)).transform(together)
    answers: dict[str, Any] = all_at_once(
        {
            "percentiles": lambda: percentiles(both, ("time", "side", "run")).collect(),
            "windows": lambda: _windows(times),
        }
    )
    rows, windows_of = answers["percentiles"], answers["windows"]
    return {
        time: _Spread(
            {r["side"]: r for r in rows if r["time"] == time and r["run"] is None},
            {(r["side"], r["run"]): r for r in rows if r["time"] == time and r["run"] is not None},
            {side: found for (of, side), found in windows_of.items() if of == time},
        )
        for time in _ALL_TIMES
    }


def _windows(times: DataFrame) -> dict[tuple[str, str], Windows]:
    """The windows of each time and side; values are cut to their first 11 binary digits."""
    cut = "greatest(0, length(bin(value_us)) - 11)"
    value = F.expr(f"shiftleft(shiftright(value_us, {cut}), {cut})")
    binned = (
        times.groupBy("time", *_PLACE, value.alias("value"))
        .agg(F.sum("records").alias("records"))
        .toArrow()
    )
    found = {}
    for time in _ALL_TIMES:
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


def _filled(counted: Mapping[int, int], first: int, end: int) -> Ints:
    """What each window from `first` to before `end` holds, 0 where there is nothing."""
    return np.array([counted.get(window, 0) for window in range(first, end)], dtype=np.int64)


def _ranked(samples: Mapping[Run, Ints]) -> Difference:
    sides = _by_side(samples)
    if len(sides) < len(SIDES):
        return Difference()
    a, b = (np.concatenate([samples[run] for run in sides[side]]) for side in SIDES)
    return mann_whitney(a, b)
