"""Folders that Spark is to write to: made before the analysis, or refused; scratch is removed."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kipctl.errors import UsageError
from kipctl.pipeline.checkpoint import Scratch, intermediate_results, scratch_removed
from kipctl.pipeline.preflight import check_save
from kipctl.pipeline.saving import make_new, written


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    for free in (tmp_path, tmp_path / "new", tmp_path / "several" / "levels"):
        check_save(str(free))
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="it is no folder"):
        check_save(str(tmp_path / "file" / "below"))


@pytest.mark.spark
def test_where_nothing_can_be_made(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in ("/proc/nothing", f"{tmp_path}/file/below", "nowhere://host/folder"):
        with pytest.raises(UsageError, match=r"--save .* cannot be made: "):
            make_new(spark, place)
        with (
            pytest.raises(UsageError, match=r"--scratch .* cannot be made: "),
            intermediate_results(spark, place, Scratch()),
        ):
            pass
    make_new(spark, str(tmp_path / "a b%20c" / "new"))
    assert (tmp_path / "a b%20c" / "new").is_dir()


@pytest.mark.spark
def test_tables_of_a_cluster_come_to_a_folder_of_this_machine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kipctl.pipeline.saving.runs_here", lambda session: False)
    table = spark.sql(
        "SELECT 1L AS run, named_struct('p50', 2.5D, 'p99', CAST(NULL AS DOUBLE)) AS wait_ms"
    )
    written(table.selectExpr("run", "wait_ms.p50", "wait_ms"), str(tmp_path / "new"))
    (row,) = pq.read_table(tmp_path / "new").to_pylist()
    assert row == {"run": 1, "p50": 2.5, "wait_ms": {"p50": 2.5, "p99": None}}


@pytest.mark.spark
def test_scratch_is_there_in_the_meantime(spark: SparkSession, tmp_path: Path) -> None:
    scratch = Scratch()
    with intermediate_results(spark, str(tmp_path), scratch):
        assert scratch.uri
        assert list(tmp_path.iterdir())
    assert not scratch.uri
    assert not list(tmp_path.iterdir())


def test_what_a_jvm_has_left(tmp_path: Path) -> None:
    left = tmp_path / "a b"
    left.mkdir()
    (left / "part").touch()
    notes = []

    def interrupted(uri: str) -> None:
        with scratch_removed() as scratch:
            scratch.uri = uri
            raise KeyboardInterrupt

    for uri in (left.as_uri(), "hdfs://host/tmp/kipctl-1", ""):
        with pytest.raises(KeyboardInterrupt) as ended:
            interrupted(uri)
        notes.append(getattr(ended.value, "__notes__", []))
    assert not left.exists()
    assert [len(entry) for entry in notes] == [0, 1, 0]
    assert "hdfs://host/tmp/kipctl-1" in notes[1][0]
