"""Two sides of recorded runs, measure by measure: both values, and whether they really differ.

Spark gives each measure one exact value of each run. The common value of a side's runs, and
whether the sides differ, is said by `kipctl.verdict` from these values alone.

A record that failed would have come later than when it was given up, if ever: it counts in the
latency with the time until then, a lower bound.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kipctl.documents.analysis import ComparedMeasure as ComparedMeasureDocument
from kipctl.errors import UsageError
from kipctl.pipeline.columns import count_if, is_leader_error, nearest_rank
from kipctl.pipeline.concurrent import all_at_once
from kipctl.pipeline.gates import Compared
from kipctl.pipeline.inputs import Trace
from kipctl.pipeline.latency import percentiles, record_counts, volumes
from kipctl.pipeline.moves import met_moves
from kipctl.pipeline.partitions import coalesced
from kipctl.pipeline.redirects import BATCH, with_episode
from kipctl.protocol.api import ApiKey
from kipctl.verdict import Scale, Verdict, adjusted, middle
from kipctl.verdict import compare as verdict_of

SIDES = ("a", "b")
_OF_RUN = ("side", "run")
_RESOLUTION_MS = 0.1
_LONGER = 1.05

Run = tuple[str, str]
"""A side and a run's name."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that is compared, one value a run.

    `unit` is "ms", "records/s", or what is counted. What only moved leaders bring about, a run
    whose client was there may lack; `lacked_with` is a value that every run with such a client has
    (of `Values`), and "" where none may be lacked. Of what is judged `by_size` a gate asks nothing
    else: one failed record is one too many.
    """

    name: str
    title: str
    unit: str
    scale: Scale = Scale.RATIO
    lacked_with: str = ""
    by_size: bool = False

    @property
    def resolution(self) -> float:
        """See `kipctl.verdict.compare`: differences far below it are none."""
        return _RESOLUTION_MS if self.unit == "ms" else 0.0


_SECONDS, _READ = "seconds", "read"
"""Values that a run has in which a producer, or a consumer, did anything."""
_MOVES_OF = {"produce": ("", "producer", _SECONDS), "fetch": ("read_", "consumer", _READ)}
"""By api: what the names of its measures begin with, whose they are, and what tells that it was
there. A leader that both clients met has moved once, and each of them waited for itself."""


def _of_moves(api: str) -> tuple[Measure, ...]:
    prefix, client, there = _MOVES_OF[api]
    wait = f"{client}'s wait for a moved leader"
    return (
        Measure(f"{prefix}move_wait_p50", f"{wait}, p50", "ms", lacked_with=there),
        Measure(f"{prefix}move_wait_p99", f"{wait}, p99", "ms", lacked_with=there),
        Measure(f"{prefix}moves_met", f"moved leaders that the {client} met", "moves", Scale.COUNT),
    )


MEASURES = (
    *_of_moves("produce"),
    *_of_moves("fetch"),
    Measure("mean", "latency, mean", "ms"),
    Measure("p50", "latency, p50", "ms"),
    Measure("p95", "latency, p95", "ms"),
    Measure("p99", "latency, p99", "ms"),
    Measure("p999", "latency, p99.9", "ms"),
    Measure("max", "latency, max", "ms"),
    Measure("service_p99", "service time, p99", "ms"),
    Measure("throughput", "acknowledged", "records/s"),
    Measure(_READ, "read", "records/s"),
    Measure("failed", "failed", "records", Scale.COUNT, by_size=True),
    Measure("redirected", "redirected", "batches and fetches", Scale.COUNT),
    Measure("metadata_rpcs", "Metadata requests", "requests", Scale.COUNT),
)
UNITS: Mapping[str, str] = {measure.name: measure.unit for measure in MEASURES}
_LATENCIES = ("mean", "p50", "p95", "p99", "p999", "max")


@dataclass(frozen=True, slots=True)
class ComparedMeasure:
    """A measure on both sides: the geometric mean of a side's runs, of counts their mean; None
    where a run has none. `by_run` has it of each run, for both sides.
    """

    measure: Measure
    by_run: Mapping[Run, float | None]
    verdict: Verdict
    may_lack: bool = False
    """Whether a run that has no value has none without a fault."""

    def of_side(self, side: str) -> list[float | None]:
        """The values of a side's runs."""
        return [value for (run_side, _), value in sorted(self.by_run.items()) if run_side == side]

    def _middle(self, side: str) -> float | None:
        values = [value for value in self.of_side(side) if value is not None]
        if len(values) < len(self.of_side(side)):
            return None
        return middle(values, self.measure.scale, self.measure.resolution)

    @property
    def a(self) -> float | None:
        return self._middle("a")

    @property
    def b(self) -> float | None:
        return self._middle("b")

    @property
    def absolute(self) -> float | None:
        """B less A, in the measure's unit."""
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def percent(self) -> float | None:
        """B less A, of A; None where A is 0."""
        return 100 * self.absolute / self.a if self.absolute is not None and self.a else None

    @property
    def lacks_value(self) -> bool:
        """Whether a run has none."""
        return self.a is None or self.b is None

    @property
    def for_gates(self) -> Compared:
        """A gate names its measure beforehand: what else was compared does not matter to it."""
        is_different = None if self.measure.by_size else self.verdict.is_different_alone
        return Compared(self.a, self.b, is_different, self.may_lack)

    def as_document(self) -> ComparedMeasureDocument:
        """For JSON."""

        def by_run(name: str) -> dict[str, float | None]:
            return {run: v for (side, run), v in sorted(self.by_run.items()) if side == name}

        return {
            "measure": self.measure.name,
            "title": self.measure.title,
            "unit": self.measure.unit,
            "a": self.a,
            "b": self.b,
            "difference": self.absolute,
            "difference_percent": self.percent,
            **self.verdict.as_document(),
            "a_by_run": by_run("a"),
            "b_by_run": by_run("b"),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every measure of two sides. `seconds` is how long each run took, warm-up and all."""

    measures: tuple[ComparedMeasure, ...]
    seconds: Mapping[Run, float]

    @property
    def lengths_differ(self) -> bool:
        """Whether some runs took longer than others, so that their counts cannot be compared."""
        lasted = [seconds for seconds in self.seconds.values() if seconds]
        return bool(lasted) and max(lasted) > _LONGER * min(lasted)


Values = dict[str, dict[Run, float]]
"""By measure: the value of each run that has one."""


def compare(a: Trace, b: Trace) -> Comparison:
    """Compare the runs of one trace with those of another. Raises UsageError for a run in both."""
    if both := {run.path for run in a.runs} & {run.path for run in b.runs}:
        raise UsageError(f"{min(both)} is on both sides of the comparison.")
    runs = [
        (side, run.name) for side, trace in zip(SIDES, (a, b), strict=True) for run in trace.runs
    ]
    parts: dict[str, Values] = all_at_once(
        {
            "latencies": lambda: _latencies(a, b),
            "rates": lambda: _rates(a, b),
            "counts": lambda: _counts(a, b),
            "moves": lambda: _moves(a, b),
        }
    )
    values = {name: run_values for part in parts.values() for name, run_values in part.items()}
    nothing = {
        measure.name: 0.0
        for measure in MEASURES
        if measure.scale is Scale.COUNT and measure.name != "metadata_rpcs"
    }
    by_run = {
        measure.name: {
            run: values.get(measure.name, {}).get(run, nothing.get(measure.name)) for run in runs
        }
        for measure in MEASURES
    }
    verdicts = adjusted(
        {
            measure.name: verdict_of(
                [value for (side, _), value in by_run[measure.name].items() if side == "a"],
                [value for (side, _), value in by_run[measure.name].items() if side == "b"],
                measure.scale,
                measure.resolution,
            )
            for measure in MEASURES
            if _is_there(measure, by_run[measure.name].values())
        }
    )
    return Comparison(
        tuple(
            ComparedMeasure(
                measure,
                by_run[measure.name],
                verdicts.get(measure.name, Verdict(reason=_NOTHING[measure.scale])),
                bool(measure.lacked_with) and values.get(measure.lacked_with, {}).keys() >= {*runs},
            )
            for measure in MEASURES
        ),
        {run: values.get(_SECONDS, {}).get(run, 0.0) for run in runs},
    )


_NOTHING = {
    Scale.RATIO: "no run has what is shown as -",
    Scale.COUNT: "what is 0 on both sides is 0 in every run",
}


def _is_there(measure: Measure, values: Iterable[float | None]) -> bool:
    """Whether there is anything to compare: else it is not one of the questions asked at once."""
    if measure.scale is Scale.COUNT:
        return any(values)
    return any(value is not None for value in values)


def _both(a: Trace, b: Trace, frame_of: Callable[[Trace], DataFrame]) -> DataFrame:
    """A frame of both traces, every row with its `side`."""
    named = zip(SIDES, (a, b), strict=True)
    sides = (frame_of(trace).withColumn("side", F.lit(name)) for name, trace in named)
    return reduce(DataFrame.unionAll, sides)


def _latencies(a: Trace, b: Trace) -> Values:
    """In milliseconds, exact."""
    batches = _both(a, b, lambda trace: trace.batches)
    counts = record_counts(batches, _OF_RUN, with_failed=True).transform(coalesced)
    by_measure: Values = {name: {} for name in (*_LATENCIES, "service_p99")}
    for row in percentiles(counts, ("time", *_OF_RUN)).collect():
        run = (row["side"], row["run"])
        if row["time"] == "service":
            by_measure["service_p99"][run] = row["p99_us"] / 1000
        else:
            for name in _LATENCIES:
                by_measure[name][run] = row[f"{name}_us"] / 1000
    return by_measure


def _rates(a: Trace, b: Trace) -> Values:
    """Records per second: acknowledged after the warm-up, and read; and how long each run took."""
    batches = _both(a, b, lambda trace: trace.batches)
    reads = _both(a, b, lambda trace: trace.reads)
    seconds = batches.groupBy(*_OF_RUN).agg(
        F.lit(_SECONDS).alias("what"),
        F.expr("(max(acked_us) - min(intended_us)) / 1e6").cast("double").alias("value"),
    )
    written = volumes(batches, _OF_RUN).select(
        *_OF_RUN, F.lit("throughput").alias("what"), F.col("records_per_second").alias("value")
    )
    # Reads count from the start of the run, their rate to the last that brought records.
    until = F.greatest(F.lit(1), F.max(F.when(F.col("records") > 0, F.col("time_us"))))
    read = reads.groupBy(*_OF_RUN).agg(
        F.lit(_READ).alias("what"),
        F.when(F.sum("records") > 0, 1e6 * F.sum("records") / until).alias("value"),
    )
    return _collected(reduce(DataFrame.unionAll, (seconds, written, read)))


def _counts(a: Trace, b: Trace) -> Values:
    """Over whole runs, warm-up and all."""
    batches = _both(a, b, lambda trace: trace.batches)
    redirects = _both(a, b, lambda trace: trace.redirects)
    rpcs = _both(a, b, lambda trace: trace.rpcs)
    episode = F.struct(*(name for name in (*BATCH, "episode") if name != "run"))
    redirected = redirects.transform(with_episode).filter(is_leader_error())
    counted = (
        ("failed", batches.filter("error != 0"), F.sum("records")),
        ("redirected", redirected, F.count_distinct(episode)),
        # A run that has none at all did not record them.
        ("metadata_rpcs", rpcs, count_if(F.col("api_key") == int(ApiKey.METADATA))),
    )
    return _collected(
        reduce(
            DataFrame.unionAll,
            (
                rows.groupBy(*_OF_RUN).agg(
                    F.lit(name).alias("what"), count.cast("double").alias("value")
                )
                for name, rows, count in counted
            ),
        )
    )


def _moves(a: Trace, b: Trace) -> Values:
    """How many moved leaders the producer and the consumer of a run met, and how long these made
    each wait, in milliseconds."""
    waits = {"p50": 0.5, "p99": 0.99}
    by_client = _both(
        a,
        b,
        lambda trace: (
            met_moves(trace)
            .groupBy("run", "api")
            .agg(
                F.count("*").alias("met"),
                *(nearest_rank("wait_us", q).alias(name) for name, q in waits.items()),
            )
        ),
    )
    by_measure: Values = {}
    for row in by_client.collect():
        run, (prefix, *_) = (row["side"], row["run"]), _MOVES_OF[row["api"] or "produce"]
        by_measure.setdefault(f"{prefix}moves_met", {})[run] = float(row["met"])
        for name in waits:
            if row[name] is not None:
                by_measure.setdefault(f"{prefix}move_wait_{name}", {})[run] = row[name] / 1000
    return by_measure


def _collected(values: DataFrame) -> Values:
    """From rows side, run, what, value."""
    by_measure: Values = {}
    for row in values.collect():
        if row["value"] is not None:
            by_measure.setdefault(row["what"], {})[row["side"], row["run"]] = row["value"]
    return by_measure
