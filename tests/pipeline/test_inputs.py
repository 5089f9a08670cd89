"""Runs as DataFrames: which folders are runs, and what is wrong with those that are not."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from runs import write_run

from kipctl.errors import PipelineError, UsageError
from kipctl.pipeline.inputs import LITTLE, is_little, open_runs
from kipctl.pipeline.period import parse_period
from kipctl.pipeline.session import error_text
from kipctl.trace.schema import SCHEMA_VERSION
from kipctl.trace.store import RUN_FILE

pytestmark = pytest.mark.spark

NOON_US = 1_769_860_800_000_000
"""2026-01-31, noon, UTC."""
BATCH = {"first_seq": 0, "intended_us": 0, "sent_us": 1, "acked_us": 9, "bytes": 1}


def names(spark: SparkSession, *paths: Path | str) -> list[str]:
    return [run.name for run in open_runs(spark, list(map(str, paths))).runs]


def test_one_run_several_a_folder_of_them_and_wildcards(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("a", "b", "other/a"):
        write_run(tmp_path / name, {}, batches=[BATCH])
    assert names(spark, tmp_path / "a") == ["a"]
    assert names(spark, tmp_path / "a", tmp_path / "b", tmp_path / "a") == ["a", "b"]
    assert names(spark, tmp_path) == ["a", "b"]
    assert names(spark, f"{tmp_path}/[b]") == ["b"]
    two = names(spark, tmp_path / "a", tmp_path / "other" / "a")
    assert len(set(two)) == 2
    assert all(name.endswith("/a") for name in two)


def test_runs_are_one_frame_and_keep_what_is_theirs(spark: SparkSession, tmp_path: Path) -> None:
    write_run(tmp_path / "slow", {"interval_ns": 500, "warmup_records": 3}, batches=[BATCH])
    write_run(tmp_path / "fast", {"leader_discovery": "baseline"}, batches=[BATCH, BATCH])
    trace = open_runs(spark, [str(tmp_path)])
    rows = trace.batches.orderBy("run").collect()
    assert [(r["run"], r["arm"], r["interval_ns"], r["warmup_records"]) for r in rows] == [
        ("fast", "baseline", 0, 0),
        ("fast", "baseline", 0, 0),
        ("slow", "kip951", 500, 3),
    ]


def test_a_dataset_that_a_run_lacks_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    write_run(tmp_path / "r", {}, batches=[BATCH])
    trace = open_runs(spark, [str(tmp_path / "r")])
    assert trace.reads.count() == trace.rpcs.count() == trace.actions.count() == 0


def test_actions_come_from_the_description(spark: SparkSession, tmp_path: Path) -> None:
    action = {
        "action": "rotate",
        "called_ms": 1000.25,
        "answered_ms": 1010.5,
        "converged_ms": None,
        "partitions": 100,
        "error": None,
    }
    write_run(tmp_path / "r", {"summary": {"actions": [action, action]}}, batches=[BATCH])
    rows = open_runs(spark, [str(tmp_path / "r")]).actions.orderBy("number").collect()
    assert [(r["number"], r["called_us"], r["answered_us"], r["converged_us"]) for r in rows] == [
        (1, 1_000_250, 1_010_500, None),
        (2, 1_000_250, 1_010_500, None),
    ]


def test_a_period_is_cut_by_wall_clock_or_from_the_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [BATCH | {"intended_us": second * 1_000_000} for second in range(5)]
    write_run(tmp_path / "noon", {"start_wall_us": NOON_US}, batches=rows)
    write_run(tmp_path / "later", {"start_wall_us": NOON_US + 2_000_000}, batches=rows)
    trace = open_runs(spark, [str(tmp_path)])

    def kept(since: str, until: str) -> set[tuple[str, int]]:
        cut = trace.in_period(trace.batches, "intended_us", parse_period(since, until))
        return {(row["run"], row["intended_us"] // 1_000_000) for row in cut.collect()}

    assert kept("1s", "3s") == {("noon", 1), ("noon", 2), ("later", 1), ("later", 2)}
    by_date = kept("2026-01-31T12:00:01", "2026-01-31T12:00:03Z")
    assert by_date == {("noon", 1), ("noon", 2), ("later", 0)}


def test_a_folder_whose_name_looks_like_a_wildcard_is_meant_as_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("run[1]", "run1", "run{1,2} at *"):
        write_run(tmp_path / name, {}, batches=[BATCH])
        trace = open_runs(spark, [str(tmp_path / name)])
        assert [row["run"] for row in trace.batches.collect()] == [name]


def test_what_is_no_run_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not exist"):
        open_runs(spark, [str(tmp_path / "nothing")])
    with pytest.raises(UsageError, match=r"holds no run"):
        open_runs(spark, [str(tmp_path)])
    (tmp_path / RUN_FILE).write_text("[]")
    with pytest.raises(UsageError, match="no description"):
        open_runs(spark, [str(tmp_path)])
    (tmp_path / RUN_FILE).write_text("{")
    with pytest.raises(PipelineError, match="not JSON"):
        open_runs(spark, [str(tmp_path)])
    (tmp_path / RUN_FILE).write_text(json.dumps({"schema_version": SCHEMA_VERSION + 1}))
    with pytest.raises(UsageError, match="newer kipctl"):
        open_runs(spark, [str(tmp_path)])


def test_what_is_little(tmp_path: Path) -> None:
    (tmp_path / "run" / "batches").mkdir(parents=True)
    part = tmp_path / "run" / "batches" / "part-0.parquet"
    with part.open("wb") as file:
        file.truncate(LITTLE)
    other = tmp_path / "server.log"
    other.write_bytes(b"")
    assert is_little([str(tmp_path / "run"), str(other)])
    other.write_bytes(b"1")
    assert not is_little([str(tmp_path / "run"), str(other)])
    assert is_little([str(other)])
    # What Spark alone can find may hold anything.
    assert not is_little([f"file:{other}"])
    assert not is_little([str(other), "hdfs://there/run"])


def test_a_file_cut_short_is_named(spark: SparkSession, tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", {}, batches=[BATCH])
    part = run.folder / "batches" / "part-0.parquet"
    part.write_bytes(part.read_bytes()[:-100])
    trace = open_runs(spark, [str(tmp_path / "r")])
    with pytest.raises(Exception, match="FAILED_READ_FILE") as failed:
        trace.batches.collect()
    assert error_text(failed.value) == (
        f"{part} cannot be read: it is cut short, or it is no file of kipctl's."
    )
