"""Percentiles from counts: exact against the live summary's, whatever the batches are like."""

import itertools
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from campaigns import as_many, campaign, chance
from frames import part_of, rows_by
from pyspark.sql import SparkSession
from rows import rows_of
from runs import write_run
from trace_rows import random_batches

from benchmarks.plans import plans_of, tree
from benchmarks.synthetic import SyntheticRun
from kipctl.measure.producer_summary import record_times
from kipctl.pipeline.inputs import open_runs
from kipctl.pipeline.latency import (
    QUANTILES,
    failures,
    latency,
    percentiles,
    record_counts,
    volumes,
)
from kipctl.probe.schedule import Schedule

pytestmark = pytest.mark.spark


@campaign
def test_percentiles_are_those_of_the_live_summary(spark: SparkSession, tmp_path: Path) -> None:
    """Of many runs at a time: all rates and warm-ups, each as often as the others."""
    choose = chance("batches")
    live, written = {}, {}
    for number, (rate, warmup) in enumerate(
        list(itertools.product((-1.0, 1000.0, 30_000.0, 1_700_000.0), (0, 250))) * as_many(1, 20)
    ):
        schedule = Schedule(0, 10**9, rate)
        name = f"run-{number}"
        rows = written[name] = random_batches(choose, schedule)
        live[name] = record_times([rows_of("batches", *rows)], 0, schedule.interval_ns, warmup)
        described = {"interval_ns": schedule.interval_ns, "warmup_records": warmup}
        write_run(tmp_path / name, described, batches=rows)
    batches = open_runs(spark, [str(tmp_path)]).batches
    by_time = rows_by(latency(batches, ["run", "arm"]), "run", "arm", "time")
    volume_of = rows_by(volumes(batches, ["run"]), "run")
    failed_of = rows_by(failures(batches, ["run"]), "run")
    assert set(by_time) == {
        (name, "kip951", time) for name in live for time in ("latency", "service")
    }
    for name, of_run in live.items():
        for time, expected in (("latency", of_run.latency), ("service", of_run.service)):
            row = by_time[name, "kip951", time]
            assert row == {
                "records": expected.total,
                "mean_us": pytest.approx(expected.mean()),
                "max_us": expected.values[-1],
                **{f"{quantile}_us": expected.quantile(q) for quantile, q in QUANTILES.items()},
            }, (name, time)
        given_up = sum(row["records"] for row in written[name] if row["error"])
        volume = {
            "bytes": of_run.bytes,
            "first_us": of_run.first_us,
            "last_us": of_run.last_us,
            "records_per_second": round(of_run.latency.total / of_run.seconds, 1),
            "acknowledged": sum(row["records"] for row in written[name]) - given_up,
            "failed": given_up,
        }
        assert part_of(volume_of[name], volume) == volume, name
        failed = {"error": 7, "name": "REQUEST_TIMED_OUT", "records": given_up}
        assert part_of(failed_of[name], failed) == failed, name


def test_each_key_and_each_window_has_its_own_percentiles(
    spark: SparkSession, tmp_path: Path
) -> None:
    def batch(topic: str, due_us: int, took_us: int, records: int) -> dict[str, Any]:
        sent = due_us + 10
        return {
            "topic": topic,
            "first_seq": 0,
            "records": records,
            "bytes": 1,
            "intended_us": due_us,
            "sent_us": sent,
            "acked_us": due_us + took_us,
        }

    rows = [batch("a", 0, 100, 99), batch("a", 999_999, 700, 1), batch("a", 1_000_000, 50, 5)]
    rows.append(batch("b", 5, 30, 1))
    write_run(tmp_path / "r", {}, batches=rows)
    batches = open_runs(spark, [str(tmp_path / "r")]).batches
    table = latency(batches, ["topic"], window_us=1_000_000).filter("time = 'latency'")
    seen = {
        (r["topic"], r["window"]): (r["records"], r["p50_us"], r["p99_us"], r["p999_us"])
        for r in table.collect()
    }
    assert seen == {
        ("a", 0): (100, 100, 100, 700),
        ("a", 1): (5, 50, 50, 50),
        ("b", 0): (1, 30, 30, 30),
    }


def test_the_rate_of_several_runs_is_that_of_all_their_seconds(
    spark: SparkSession, tmp_path: Path
) -> None:
    batch = {"first_seq": 0, "records": 500, "intended_us": 0, "sent_us": 1, "bytes": 1}
    write_run(tmp_path / "fast", {}, batches=[batch | {"acked_us": 500_000}])
    write_run(tmp_path / "slow", {}, batches=[batch | {"acked_us": 1_500_000}])
    write_run(tmp_path / "lost", {}, batches=[batch | {"acked_us": 9_000_000, "error": 7}])
    batches = open_runs(spark, [str(tmp_path)]).batches
    [row] = volumes(batches, ["arm"]).collect()
    assert (row["acknowledged"], row["failed"], row["records_per_second"]) == (1000, 500, 500.0)


def test_alike_batches_are_counted_not_kept(spark: SparkSession, tmp_path: Path) -> None:
    batch = {"first_seq": 0, "intended_us": 0, "sent_us": 1, "acked_us": 9, "bytes": 1}
    write_run(tmp_path / "r", {}, batches=[batch] * 1000)
    batches = open_runs(spark, [str(tmp_path / "r")]).batches
    rows = record_counts(batches, []).collect()
    assert sorted(map(tuple, rows)) == [("latency", 9, 1000), ("service", 8, 1000)]


SHARES = {name: round(10_000 * q) for name, q in QUANTILES.items()}


def nearest_ranks(values: list[int]) -> dict[str, float]:
    """The plain definition, over every value written out."""
    ordered = sorted(values)
    ranks = {
        f"{name}_us": ordered[max(1, -(-len(ordered) * share // 10_000)) - 1]
        for name, share in SHARES.items()
    }
    mean = sum(ordered) / len(ordered)
    return {"records": len(ordered), "mean_us": mean, **ranks, "max_us": ordered[-1]}


Counts = dict[tuple[str | None, int], int]
"""How often a key had a value (microseconds)."""


def counted_values(choose: random.Random) -> Counts:
    """Values in one bucket and in several, at their edges, alone and often, by key or by none."""
    keys = choose.choice([["x"], ["x", "y"], ["x", None]])
    greatest = choose.choice([0, 60, 3000, 10**9])

    def value() -> int:
        edge = choose.choice([0, 1, 1023, 1024, 2047, 2048, 3_600_000_000])
        return choose.choice([edge, choose.randint(0, greatest)])

    weights = choose.choice([[1], [1, 2, 3], [1, 9, 99, 100], [9_999, 10_000, 10_001]])
    return {
        (choose.choice(keys), value()): choose.choice(weights)
        for _ in range(choose.choice([1, 2, 30]))
    }


@campaign
@pytest.mark.parametrize("partitions", ["1", "4"])
def test_percentiles_of_weighted_values_against_values_written_out(
    spark: SparkSession, partitions: str
) -> None:
    choose = chance(f"weighted values in {partitions}")
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", partitions)
    rows = [
        (number, key, value, records)
        for number in range(as_many(100, 2000))
        for (key, value), records in counted_values(choose).items()
    ]
    columns = "n int, k string, value_us bigint, records bigint"
    counts = session.createDataFrame(rows, columns).repartition(3)
    by_key = {(row["n"], row["k"]): row for row in percentiles(counts, ["n", "k"]).collect()}
    assert set(by_key) == {(n, k) for n, k, _, _ in rows}
    written_out: dict[tuple[int, str | None], list[int]] = defaultdict(list)
    for n, k, value, times in rows:
        written_out[n, k] += [value] * times
    for (n, k), row in by_key.items():
        whole = row.asDict()
        for name, value in nearest_ranks(written_out[n, k]).items():
            assert whole[name] == pytest.approx(value, rel=1e-12), (n, k, name)


def test_no_task_sorts_all_values(spark: SparkSession, tmp_path: Path) -> None:
    """Where work is shared out, what is ordered as a whole are buckets, and values within one."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "4")
    synthetic = SyntheticRun(128_000)
    synthetic.write(tmp_path / "run")
    batches = open_runs(session, [str(tmp_path / "run")]).batches
    table = latency(batches, [])
    with plans_of(session) as asked:
        by_time = rows_by(table, "time")
    for measure in ("latency", "service"):
        assert by_time[measure] == pytest.approx(synthetic.answer(measure), rel=1e-12)
    of_topics = rows_by(latency(batches, ["topic"]), "time", "topic")
    assert len(of_topics) == 2 * synthetic.topics
    for (measure, topic), row in of_topics.items():
        answer = synthetic.answer(measure, synthetic.topic_names.index(topic))
        assert row == pytest.approx(answer, rel=1e-12)
    [plan] = asked.plans
    sorts = re.findall(r"^Arguments: \[(.*?)\], false, 0$", final(plan), re.MULTILINE)
    assert sorts
    assert "SinglePartition" not in final(plan)
    for sort in sorts:
        assert "_bucket" in sort, sort
    assert tree(plan).count("Scan parquet") == 1


def final(plan: str) -> str:
    """A plan as it was executed: without the one that it began as."""
    return plan.partition("+- == Initial Plan ==")[0] + plan.partition("\n\n")[2]
