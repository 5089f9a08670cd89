"""Percentiles from counts: exact against the live summary's, whatever the batches are like."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rows import rows_of
from runs import write_run

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


def random_batches(choose: random.Random, schedule: Schedule) -> list[dict[str, int]]:
    """Batches with strides of 1 and more; each record is in one; some failed."""
    batches: list[dict[str, int]] = []
    seq = 0
    while len(batches) < 300:
        stride = choose.choice([1, 1, 3, 10])
        for lane, count in enumerate([choose.randint(1, 20)] * stride):
            first = seq + lane
            intended = schedule.intended_us(first) if schedule.throttled else choose.randrange(9999)
            due = max(intended, schedule.intended_us(first + (count - 1) * stride))
            sent = due + choose.randrange(1, 40)
            batches.append(
                {
                    "first_seq": first,
                    "seq_stride": stride,
                    "records": count,
                    "bytes": 100 * count,
                    "intended_us": intended,
                    "sent_us": sent,
                    "acked_us": sent + choose.choice([7, 7, 500, choose.randrange(1, 50_000)]),
                    "error": choose.choice([0] * 9 + [7]),
                }
            )
        seq += stride * batches[-1]["records"]
    return batches


@pytest.mark.parametrize("rate", [-1.0, 1000.0, 30_000.0, 1_700_000.0])
@pytest.mark.parametrize("warmup", [0, 250])
def test_percentiles_are_those_of_the_live_summary(
    spark: SparkSession, tmp_path: Path, rate: float, warmup: int
) -> None:
    schedule = Schedule(0, 10**9, rate)
    rows = random_batches(random.Random(warmup + int(rate)), schedule)
    live = record_times([rows_of("batches", *rows)], 0, schedule.interval_ns, warmup)
    write_run(
        tmp_path / "a-run",
        {"interval_ns": schedule.interval_ns, "warmup_records": warmup},
        batches=rows,
    )
    batches = open_runs(spark, [str(tmp_path / "a-run")]).batches
    by_time = {row["time"]: row for row in latency(batches, ["run", "arm"]).collect()}
    for name, expected in (("latency", live.latency), ("service", live.service)):
        row = by_time[name]
        assert (row["run"], row["arm"]) == ("a-run", "kip951")
        assert row["records"] == expected.total
        assert row["mean_us"] == pytest.approx(expected.mean())
        assert row["max_us"] == expected.values[-1]
        for quantile, q in QUANTILES.items():
            assert row[f"{quantile}_us"] == expected.quantile(q), quantile
    [volume] = volumes(batches, ["run"]).collect()
    assert volume["bytes"] == live.bytes
    assert (volume["first_us"], volume["last_us"]) == (live.first_us, live.last_us)
    assert volume["records_per_second"] == round(live.latency.total / live.seconds, 1)
    assert volume["acknowledged"] == sum(r["records"] for r in rows if not r["error"])
    assert volume["failed"] == sum(r["records"] for r in rows if r["error"])
    [failed] = failures(batches, ["run"]).collect()
    assert (failed["error"], failed["name"]) == (7, "REQUEST_TIMED_OUT")
    assert failed["records"] == volume["failed"]


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
    one = {"first_seq": 0, "records": 500, "intended_us": 0, "sent_us": 1, "bytes": 1}
    write_run(tmp_path / "fast", {}, batches=[one | {"acked_us": 500_000}])
    write_run(tmp_path / "slow", {}, batches=[one | {"acked_us": 1_500_000}])
    write_run(tmp_path / "lost", {}, batches=[one | {"acked_us": 9_000_000, "error": 7}])
    batches = open_runs(spark, [str(tmp_path)]).batches
    [row] = volumes(batches, ["arm"]).collect()
    assert (row["acknowledged"], row["failed"], row["records_per_second"]) == (1000, 500, 500.0)


def test_alike_batches_are_counted_not_kept(spark: SparkSession, tmp_path: Path) -> None:
    one = {"first_seq": 0, "intended_us": 0, "sent_us": 1, "acked_us": 9, "bytes": 1}
    write_run(tmp_path / "r", {}, batches=[one] * 1000)
    batches = open_runs(spark, [str(tmp_path / "r")]).batches
    rows = record_counts(batches, []).collect()
    assert sorted(map(tuple, rows)) == [("latency", 9, 1000), ("service", 8, 1000)]


SHARES = {name: round(10_000 * q) for name, q in QUANTILES.items()}


def nearest_ranks(values: list[int]) -> dict[str, float]:
    """The plain definition, over every value written out."""
    ordered = sorted(values)
    of = {
        f"{name}_us": ordered[max(1, -(-len(ordered) * share // 10_000)) - 1]
        for name, share in SHARES.items()
    }
    mean = sum(ordered) / len(ordered)
    return {"records": len(ordered), "mean_us": mean, **of, "max_us": ordered[-1]}


Counts = dict[tuple[str | None, int], int]
"""How often a key had a value (microseconds)."""


def counted_values(chance: random.Random) -> Counts:
    """Values in one bucket and in several, at their edges, alone and often, by key or by none."""
    keys = chance.choice([["x"], ["x", "y"], ["x", None]])
    greatest = chance.choice([0, 60, 3000, 10**9])

    def value() -> int:
        edge = chance.choice([0, 1, 1023, 1024, 2047, 2048, 3_600_000_000])
        return chance.choice([edge, chance.randint(0, greatest)])

    weights = chance.choice([[1], [1, 2, 3], [1, 9, 99, 100], [9_999, 10_000, 10_001]])
    return {
        (chance.choice(keys), value()): chance.choice(weights)
        for _ in range(chance.choice([1, 2, 30]))
    }


@pytest.mark.parametrize("partitions", ["1", "4"])
def test_percentiles_of_weighted_values_against_values_written_out(
    spark: SparkSession, partitions: str
) -> None:
    chance = random.Random(5)
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", partitions)
    rows = [
        (number, key, value, records)
        for number in range(200)
        for (key, value), records in counted_values(chance).items()
    ]
    columns = "n int, k string, value_us bigint, records bigint"
    counts = session.createDataFrame(rows, columns).repartition(3)
    found = {(row["n"], row["k"]): row for row in percentiles(counts, ["n", "k"]).collect()}
    assert set(found) == {(n, k) for n, k, _, _ in rows}
    for (n, k), row in found.items():
        written_out = [v for m, j, v, times in rows if (m, j) == (n, k) for _ in range(times)]
        whole = row.asDict()
        for name, value in nearest_ranks(written_out).items():
            assert whole[name] == pytest.approx(value, rel=1e-12), (n, k, name)


def test_no_task_sorts_all_values(spark: SparkSession, tmp_path: Path) -> None:
    """Where work is shared out, what is ordered as a whole are buckets, and values within one."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "4")
    SyntheticRun(128_000, topics=1).write(tmp_path / "run")
    batches = open_runs(session, [str(tmp_path / "run")]).batches
    table = latency(batches, [])
    with plans_of(session) as asked:
        rows = table.collect()
    assert {row["time"]: row["records"] for row in rows} == {"latency": 128_000, "service": 128_000}
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
