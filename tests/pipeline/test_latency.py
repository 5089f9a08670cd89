"""Percentiles from counts: exact against the live summary's, whatever the batches are like."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from rows import rows_of
from runs import write_run

from kipctl.pipeline.inputs import open_runs
from kipctl.pipeline.latency import (
    QUANTILES,
    failures,
    latency,
    percentiles,
    record_counts,
    volumes,
)
from kipctl.probe.produce.summary import record_times
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
    [row] = record_counts(batches, [], "latency_us").collect()
    assert (row["latency_us"], row["records"]) == (9, 1000)


def test_percentiles_of_weighted_values_against_values_written_out(spark: SparkSession) -> None:
    choose = random.Random(5)
    rows = [(choose.choice("xy"), choose.randrange(60), choose.randint(1, 9)) for _ in range(300)]
    counts = spark.createDataFrame(rows, "k string, v bigint, records bigint")
    counts = counts.groupBy("k", "v").agg({"records": "sum"}).toDF("k", "v", "records")
    for row in percentiles(counts, ["k"], "v").collect():
        written_out = np.sort([v for k, v, n in rows for _ in range(n) if k == row["k"]])
        assert row["records"] == len(written_out)
        for name, q in QUANTILES.items():
            rank = max(1, int(np.ceil(round(q * len(written_out), 6))))
            assert row[f"{name}_us"] == written_out[rank - 1]
