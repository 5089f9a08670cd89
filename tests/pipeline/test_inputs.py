"""Runs as DataFrames: which folders are runs, and what is wrong with those that are not."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from runs import write_run

from benchmarks.plans import plans_of, tree
from kipctl.errors import PipelineError, UsageError
from kipctl.pipeline.failures import error_text
from kipctl.pipeline.inputs import FEW_RUNS, LITTLE, is_little, open_runs
from kipctl.pipeline.period import parse_period
from kipctl.trace.codes import TAP_ARM
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


def test_actions_come_from_the_description(spark: SparkSession, tmp_path: Path) -> None:
    done = {"action": "rotate", "called_ms": 1000.25, "answered_ms": 1010.5, "converged_ms": None}
    action = done | {"partitions": 100, "error": None}
    write_run(tmp_path / "r", {"summary": {"actions": [action, action]}}, batches=[BATCH])
    trace = open_runs(spark, [str(tmp_path / "r")])
    rows = trace.actions.orderBy("number").collect()
    assert [(r["number"], r["called_us"], r["answered_us"], r["converged_us"]) for r in rows] == [
        (1, 1_000_250, 1_010_500, None),
        (2, 1_000_250, 1_010_500, None),
    ]
    # Datasets that the run lacks have no rows.
    assert trace.reads.count() == trace.rpcs.count() == 0


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
    (tmp_path / RUN_FILE).write_text(json.dumps({"schema_version": 1, "interval_ns": None}))
    with pytest.raises(UsageError, match=r"run\.json cannot be used: interval_ns is null"):
        open_runs(spark, [str(tmp_path)])
    (tmp_path / RUN_FILE).write_bytes(b'{"topic": "\xff"}')
    for place in (tmp_path, f"file:{tmp_path}*"):
        with pytest.raises((UsageError, PipelineError), match=RUN_FILE):
            open_runs(spark, [str(place)])


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
    assert is_little([str(tmp_path / "*.log")])
    assert not is_little([str(tmp_path / "*")])
    # What Spark alone can find may hold anything.
    assert not is_little([f"file:{other}"])
    assert not is_little([str(other), "hdfs://there/run"])


def test_a_file_cut_short_is_named(spark: SparkSession, tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", {}, batches=[BATCH])
    part = run.folder / "batches" / "part-0.parquet"
    whole = part.read_bytes()
    part.write_bytes(whole[:-100])
    with pytest.raises(PipelineError) as failed:
        open_runs(spark, [str(tmp_path / "r")])
    assert failed.value.what == f"{part} cannot be read: it is cut short, or it is no Parquet file."
    # Its end is whole, what it says of the rest is not so.
    part.write_bytes(whole[:4] + bytes(300) + whole[304:])
    trace = open_runs(spark, [str(tmp_path / "r")])
    with pytest.raises(Exception, match="FAILED_READ_FILE") as unread:
        trace.batches.collect()
    assert error_text(unread.value).startswith(f"{part} cannot be read: ")


@pytest.mark.parametrize("runs", [1, 2])
def test_a_column_of_another_name_or_type_is_named(
    spark: SparkSession, tmp_path: Path, runs: int
) -> None:
    for number in range(runs):
        run = write_run(tmp_path / f"r{number}", {}, batches=[BATCH])
    part = run.folder / "batches" / "part-0.parquet"
    table = pq.read_table(part)
    renamed = [{"acked_us": "acknowledged_us"}.get(n, n) for n in table.column_names]
    pq.write_table(table.rename_columns(renamed), part)
    for place in (tmp_path, f"file://{tmp_path}/*"):
        with pytest.raises(PipelineError, match="acknowledged_us"):
            open_runs(spark, [str(place)])
    wider = table.set_column(
        table.column_names.index("records"), "records", table["records"].cast(pa.int64())
    )
    pq.write_table(wider, part)
    with pytest.raises(PipelineError, match="another type: records"):
        open_runs(spark, [str(tmp_path)])
    # A column that came later is not in older files.
    pq.write_table(table.drop_columns(["base_offset"]), part)
    rows = open_runs(spark, [str(tmp_path)]).batches.collect()
    assert [row["base_offset"] for row in rows] == [None] * runs
    # Without one that all have had, rows say nothing.
    pq.write_table(table.drop_columns(["error"]), part)
    for place in (tmp_path, f"file://{tmp_path}/*"):
        with pytest.raises(PipelineError, match="no file of batches: it has no error"):
            open_runs(spark, [str(place)])


def test_a_run_that_does_not_say_when_records_were_due_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = write_run(tmp_path / "r", {}, batches=[BATCH])
    description = run.description
    del description["interval_ns"]
    (run.folder / "run.json").write_text(json.dumps(description))
    with pytest.raises(PipelineError, match="does not say interval_ns"):
        open_runs(spark, [str(tmp_path / "r")])


def test_the_arm_of_a_tap_s_rows_is_their_client_unless_it_was_given_a_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    """However runs are told apart: by a value, by choices, by a join."""
    of_tap = {"interval_ns": 0, "arm": TAP_ARM, "summary": {"clients": [], "conditions": {}}}
    for number in range(FEW_RUNS + 1):
        rows = [BATCH | {"client": client} for client in ("shop", f"app-{number}")]
        write_run(tmp_path / "taps" / f"{number}", of_tap, batches=rows)
    write_run(tmp_path / "java", of_tap | {"arm": "java"}, batches=[BATCH | {"client": "shop"}])
    session = spark.newSession()
    for runs in (1, 2, FEW_RUNS + 1):
        paths = [str(tmp_path / "taps" / str(number)) for number in range(runs)]
        batches = open_runs(session, paths).batches
        assert {(row["run"], row["arm"]) for row in batches.collect()} == {
            (str(number), arm) for number in range(runs) for arm in ("shop", f"app-{number}")
        }
    named = open_runs(session, [str(tmp_path / "taps" / "0"), str(tmp_path / "java")]).batches
    assert {row["arm"] for row in named.collect()} == {"shop", "app-0", "java"}


def test_any_number_of_runs_is_read_as_one(spark: SparkSession, tmp_path: Path) -> None:
    """One scan of a dataset, which knows whose its rows are, whatever their folders are called."""
    names = ["a b", "run[1]", "run{1,2} at *", "x=é", "p%20q", "acks=all", "it's"]
    names += ["run1", *(f"run-{number}" for number in range(30))]  # the first looks for run[1]
    arms = ("kip951", "baseline")
    for number, name in enumerate(names):
        described = {"interval_ns": number, "start_wall_us": NOON_US + 1_000_000 * number}
        described |= {"warmup_records": 3 * number, "leader_discovery": arms[number % 2]}
        rows = [BATCH | {"first_seq": number, "intended_us": second * 10**6} for second in (0, 50)]
        write_run(tmp_path / name, described, batches=rows)
    session = spark.newSession()  # it makes texts of whole plans
    for few in (names[:6], names):
        trace = open_runs(session, [str(tmp_path / name) for name in few])
        with plans_of(session) as asked:
            batches = trace.batches.collect()
        columns = ("run", "first_seq", "arm", "interval_ns", "warmup_records")
        assert sorted(tuple(row[name] for name in columns) for row in batches) == sorted(
            (name, number, arms[number % 2], number, 3 * number)
            for number, name in enumerate(few)
            for _ in range(2)
        )
        assert batches[0].__fields__[:2] == ["run", "arm"]
        assert batches[0].__fields__[-2:] == ["interval_ns", "warmup_records"]
        [plan] = asked.plans
        assert tree(plan).count("Scan parquet") == 1
    assert trace.actions.count() == 0
    moment = "2026-01-31T12:00:10"
    late = trace.in_period(trace.batches, "intended_us", parse_period(moment, None)).collect()
    begun_later = {name for number, name in enumerate(names) if number >= 10}
    assert {row["run"] for row in late if row["intended_us"] == 0} == begun_later
    assert {row["run"] for row in late if row["intended_us"]} == set(names)
