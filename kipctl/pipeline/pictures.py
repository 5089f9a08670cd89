"""What a report of recorded runs draws: the tables of `analyze`, and their rows by time and length.

Every row is one of those that the tables count (`kipctl.pipeline.tables`); here they are counted by
time bucket or by how long they took, so that the result is small however many batches there were.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain, zip_longest
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kipctl.documents.analysis import AnalysisDocument
from kipctl.documents.pages import (
    DrawnRun,
    LeadersInTime,
    Row,
    Rows,
    RunPictures,
    TablesByArm,
    Timeline,
)
from kipctl.pipeline.analysis import Question, analysed, collected, makes
from kipctl.pipeline.concurrent import all_at_once
from kipctl.pipeline.files import folder_at, literally
from kipctl.pipeline.inputs import Trace, open_runs, rows_in, spark_schema
from kipctl.pipeline.latency import record_counts
from kipctl.pipeline.leader_bands import Change, bands
from kipctl.pipeline.period import ALWAYS, Period
from kipctl.pipeline.recorded_runs import RecordedRun
from kipctl.pipeline.redirects import BATCH, with_episode
from kipctl.pipeline.table import Source
from kipctl.pipeline.tables import TABLES, moves_met, redirected, with_causes
from kipctl.protocol.api import ApiKey
from kipctl.redaction import redacted
from kipctl.trace.codes import PHASES
from kipctl.trace.settings import actions_in_short, end_of, settings

MOST_BUCKETS = 150
"""On the time axis."""
MOST_TIMELINES = 4
"""Runs whose timeline is drawn; the distributions are of all."""
MOST_SLOWEST = 20
"""Redirected batches of which each attempt is shown."""
MOST_CHANGES = 20_000
"""Changes of leaders that are read of a run."""
BINS_A_DECADE = 50
"""Of times, on a logarithmic axis: a bin's upper edge is 4.7 % above the one before it."""
_STEPS_US = [int(factor * 10**power) for power in range(3, 13) for factor in (1, 2, 2.5, 5)]
_EPISODE = (*BATCH, "episode")
_ARM_TABLES = ("records", "latency", "moves", "redirects")


def report_document(
    spark: SparkSession,
    paths: Sequence[str],
    period: Period = ALWAYS,
    arms: Mapping[str, str] | None = None,
) -> RunPictures:
    """What `kipctl.report.html` makes a page of.

    `analysis` is by run and arm; `timelines` are of up to MOST_TIMELINES runs. Period and `arms`
    are as of `analyse_runs` and `open_runs`, and so is what is raised.
    """
    source = Source(open_runs(spark, paths, arms), period)
    analysis = analysed(source, Question())
    runs = source.trace.runs
    shown = shown_runs([(run.name, run.arm) for run in runs], MOST_TIMELINES)
    spans = _spans(source)
    bucket_us = bucket(max((end - begin for begin, end in spans.values()), default=0))
    asked: dict[str, Callable[[], Any]] = {
        "latencies": partial(_latencies, source),
        "waits": partial(_waits, source),
        "slowest": partial(_slowest, source),
        "arms": partial(_by_arm, source, analysis),
        "timelines": partial(_timelines, source, shown, spans, bucket_us),
    }
    answers = all_at_once(asked)
    return {
        "analysis": analysis,
        "bucket_us": bucket_us,
        "runs": [_described(run, spans.get(run.name), source.trace) for run in runs],
        "latencies": answers["latencies"],
        "waits": answers["waits"],
        "slowest": answers["slowest"],
        "arms": answers["arms"],
        "timelines": answers["timelines"],
    }


def shown_runs(runs: Sequence[tuple[str, str]], most: int) -> list[str]:
    """The names of so many of these runs (name, arm) at most: of each arm the first, and so on."""
    by_arm: dict[str, list[str]] = {}
    for name, arm in runs:
        by_arm.setdefault(arm, []).append(name)
    in_turn = chain.from_iterable(zip_longest(*by_arm.values()))
    return [name for name in in_turn if name is not None][:most]


def bucket(lasts_us: int) -> int:
    """The shortest bucket (microseconds) of which MOST_BUCKETS are as long as the run."""
    fitting = (step for step in _STEPS_US if step * MOST_BUCKETS >= lasts_us)
    return next(fitting, _STEPS_US[-1])


def bin_edge_us(number: int) -> float:
    """The longest time (microseconds) that is counted in the bin of this number."""
    return float(round(10.0 ** (number / BINS_A_DECADE), 1))


def _bin(value: str) -> Column:
    """The number of the bin that a time in microseconds is counted in; 0 is up to 1 us."""
    return F.ceil(F.log10(F.greatest(F.col(value), F.lit(1))) * BINS_A_DECADE)


def _described(run: RecordedRun, span: tuple[int, int] | None, trace: Trace) -> DrawnRun:
    description = redacted(run.description)
    return {
        "run": run.name,
        "arm": run.arm,
        "started": description.get("started"),
        "command": description.get("command"),
        "doubts": list(run.summary.get("doubts") or ()),
        "clients": run.summary["clients"] if run.is_of_tap else [],
        "tells_moves": run.name in trace.told_moves,
        "failed": description.get("failed"),
        "stopped": bool(description.get("stopped")),
        "end_of": end_of(description),
        "actions": actions_in_short(description),
        "settings": settings(description),
        "span_us": span,
    }


def _spans(source: Source) -> dict[str, tuple[int, int]]:
    """Of each run that has any rows: its first moment and its last, of those in the period."""
    moments = (
        (source.batches, "intended_us", "acked_us"),
        (source.rpcs, "sent_us", "received_us"),
        (source.reads, "time_us", "time_us"),
        (source.within(source.trace.actions, "called_us"), "called_us", "converged_us"),
    )
    both = reduce(
        DataFrame.unionAll,
        (
            frame.select("run", F.col(first).alias("first"), F.coalesce(last, first).alias("last"))
            for frame, first, last in moments
        ),
    )
    rows = both.groupBy("run").agg(F.min("first").alias("first"), F.max("last").alias("last"))
    return {row["run"]: (row["first"], row["last"]) for row in rows.collect()}


def _collected(frame: DataFrame, *order: str) -> Rows:
    return [row.asDict(recursive=True) for row in frame.orderBy(*order).collect()]


def _by_arm(source: Source, analysis: AnalysisDocument) -> TablesByArm:
    tables = tuple(table for table in TABLES if table.name in _ARM_TABLES)
    if len(source.trace.runs) == 1:  # by run and arm is by arm
        by_table = {name: rows for name, rows in analysis.items() if name in _ARM_TABLES}
    else:
        answers = collected(makes(source, Question(("arm",), tables=tables)))
        by_table = {name: answers[name].rows if name in answers else [] for name in _ARM_TABLES}
    return cast(TablesByArm, by_table)


def _latencies(source: Source) -> Rows:
    """By run and arm how many records took up to so long: `bins` of number and records."""
    counts = record_counts(source.batches, ("run", "arm"), times=["latency"])
    return _binned(counts.withColumn("bin", _bin("value_us")), ("run", "arm"), F.sum("records"))


def _waits(source: Source) -> Rows:
    """By run, arm and api how many moved leaders made a client wait up to so long."""
    moves = moves_met(source).filter("wait_us is not null").withColumn("bin", _bin("wait_us"))
    return _binned(moves, ("run", "arm", "api"), F.count("*"))


def _binned(frame: DataFrame, keys: tuple[str, ...], count: Column) -> Rows:
    by_key: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in _collected(frame.groupBy(*keys, "bin").agg(count.alias("count")), *keys, "bin"):
        key = tuple(row[name] for name in keys)
        of_key = by_key.setdefault(key, {**dict(zip(keys, key, strict=True)), "bins": []})
        of_key["bins"].append((bin_edge_us(row["bin"]), row["count"]))
    return list(by_key.values())


def _slowest(source: Source) -> Rows:
    """The redirected batches and Fetches that took longest, each with its `failed_attempts`, and of
    a batch when it was to be sent (`intended_us`)."""
    slowest = redirected(source).orderBy(F.desc("latency_us"), *_EPISODE).limit(MOST_SLOWEST)
    episodes = [row.asDict() for row in slowest.collect()]
    named = slowest.select(*(F.col(name).alias(f"_{name}") for name in _EPISODE))
    same = reduce(Column.__and__, (F.col(name).eqNullSafe(F.col(f"_{name}")) for name in _EPISODE))
    columns = (
        "attempt",
        "error",
        "error_us",
        "from_broker",
        "decision",
        "hint_leader",
        "to_broker",
    )
    attempts = (
        source.trace.redirects.transform(with_episode)
        .join(F.broadcast(named), same)
        .select(*_EPISODE, *columns, *(f"{phase}_us" for phase in PHASES))
    )
    by_batch: dict[tuple[Any, ...], list[Row]] = {}
    for row in _collected(attempts, "attempt"):
        by_batch.setdefault(tuple(row[name] for name in _EPISODE), []).append(row)
    of_batches = source.trace.batches.withColumn("api", F.lit("produce"))
    same = reduce(Column.__and__, (F.col(name) == F.col(f"_{name}") for name in BATCH))
    intended = of_batches.join(F.broadcast(named), same, "left_semi").groupBy(*BATCH)
    rows = intended.agg(F.min("intended_us").alias("intended_us")).collect()
    intended_us = {tuple(row)[:-1]: row["intended_us"] for row in rows}
    return [
        episode
        | {
            "failed_attempts": by_batch[tuple(episode[name] for name in _EPISODE)],
            "intended_us": intended_us.get(tuple(episode[name] for name in BATCH)),
        }
        for episode in episodes
    ]


def _timelines(
    source: Source,
    shown: Sequence[str],
    spans: Mapping[str, tuple[int, int]],
    bucket_us: int,
) -> list[Timeline]:
    part = Source(_of_runs(source.trace, shown), source.period, bucket_us)
    latency = tuple(table for table in TABLES if table.name == "latency")
    question = Question(("run", "window"), bucket_us, tables=latency)
    asked: dict[str, Callable[[], Any]] = {
        "latency": lambda: collected(makes(part, question)),
        "refused": lambda: _by_bucket(
            redirected(part), "first_error_us", bucket_us, ("run", "api")
        ),
        "metadata": lambda: _by_bucket(
            with_causes(part).filter(F.col("api_key") == int(ApiKey.METADATA)),
            "sent_us",
            bucket_us,
            ("run", "cause"),
        ),
    }
    answers = all_at_once(asked)
    by_window = answers["latency"]["latency"].rows if answers["latency"] else []
    of_run = {run.name: run for run in part.trace.runs}
    return [
        {
            "run": name,
            "arm": of_run[name].arm,
            "from_us": spans[name][0],
            "until_us": spans[name][1],
            "latency": [
                row for row in by_window if row["run"] == name and row["time"] == "latency"
            ],
            "refused": [row for row in answers["refused"] if row["run"] == name],
            "metadata": [row for row in answers["metadata"] if row["run"] == name],
            "leaders": _leaders(source, of_run[name], spans[name]),
        }
        for name in shown
        if name in spans
    ]


def _of_runs(trace: Trace, names: Iterable[str]) -> Trace:
    kept = set(names)
    if kept == {run.name for run in trace.runs}:
        return trace

    def narrowed(frame: DataFrame) -> DataFrame:
        return frame.filter(F.col("run").isin(sorted(kept)))

    return replace(
        trace,
        runs=tuple(run for run in trace.runs if run.name in kept),
        batches=narrowed(trace.batches),
        rpcs=narrowed(trace.rpcs),
        redirects=narrowed(trace.redirects),
        reads=narrowed(trace.reads),
        moves=narrowed(trace.moves) if trace.moves is not None else None,
        actions=narrowed(trace.actions),
    )


def _by_bucket(frame: DataFrame, moment: str, bucket_us: int, keys: tuple[str, ...]) -> Rows:
    """How many rows there are of each of the keys in each bucket."""
    number = F.floor(F.col(moment) / bucket_us).alias("bucket")
    return _collected(
        frame.select(*keys, number).groupBy(*keys, "bucket").agg(F.count("*").alias("count")),
        *keys,
        "bucket",
    )


def _leaders(source: Source, run: RecordedRun, span: tuple[int, int]) -> LeadersInTime:
    """Who led which partitions, as far as brokers' Metadata was looked at (`events`): without any
    change seen, whether leaders stayed is not known."""
    changes = _changes(source, run)
    before = _leaders_before(run) if changes else {}
    return {
        **bands(before, changes[:MOST_CHANGES], span),
        "has_more_changes": len(changes) > MOST_CHANGES,
    }


def _leaders_before(run: RecordedRun) -> dict[tuple[str, int], int]:
    """By topic and partition, as the run's snapshot of the cluster has it, if that can be read."""
    try:
        partitions = (run.description.get("cluster_before") or {}).get("partitions", ())
        return {
            (str(topic), int(number)): int(partition["leader"])
            for partition in partitions
            for topic, number in [partition["id"]]
        }
    except (AttributeError, KeyError, TypeError, ValueError):  # other hands wrote it
        return {}


def _changes(source: Source, run: RecordedRun) -> list[Change]:
    """Each new leader, when the first broker showed it, in that order."""
    spark = source.trace.batches.sparkSession
    if folder := run.local_folder:
        if not rows_in(folder / "events", "events"):
            return []
    elif "events" not in folder_at(spark, run.path).names():
        return []
    events = spark.read.schema(spark_schema("events")).parquet(f"{literally(run.path)}/events")
    seen = (
        events.filter("topic is not null and to_broker is not null")
        .groupBy("topic", "partition", "epoch")
        .agg(
            F.min("time_us").alias("time_us"),
            F.first("from_broker", ignorenulls=True).alias("from_broker"),
            F.first("to_broker").alias("to_broker"),
        )
        .orderBy("time_us", "topic", "partition")
        .limit(MOST_CHANGES + 1)
    )
    return [
        Change(row["time_us"], row["topic"], row["partition"], row["from_broker"], row["to_broker"])
        for row in seen.collect()
    ]
