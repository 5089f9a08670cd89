"""How much Spark is asked for small analyses: time goes into plans and jobs, not into rows.

Each limit is what there was when it was set. One that has to grow is a command that is slower.
"""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.plans import Plans, plans_of, tree
from benchmarks.sample_runs import experiment_run, plain_run
from kipctl.pipeline.analysis import analyse_runs
from kipctl.pipeline.compare import compare
from kipctl.pipeline.inputs import open_runs
from kipctl.pipeline.partitions import is_in_one_partition

pytestmark = pytest.mark.spark

RECORDS = 2000


def scans(asked: Plans) -> int:
    return sum(tree(plan).count("Scan parquet") for plan in asked.plans)


def within(asked: Plans, *, frames: int, executions: int, jobs: int, exchanges: int) -> None:
    counts = (asked.frames, asked.executions, asked.jobs, asked.exchanges)
    most = (frames, executions, jobs, exchanges)
    assert all(count <= limit for count, limit in zip(counts, most, strict=True)), (counts, most)


def test_a_plain_run_is_one_job_for_each_table(spark: SparkSession, tmp_path: Path) -> None:
    assert is_in_one_partition(spark)
    plain_run(tmp_path / "run", RECORDS)
    with plans_of(spark) as asked:
        document = analyse_runs(spark, [str(tmp_path / "run")])
    shown = [name for name, about in document["tables"].items() if about["rows"]]
    assert shown == ["records", "latency", "rpcs", "metadata"]
    within(asked, frames=81, executions=5, jobs=5, exchanges=0)
    assert scans(asked) <= 6  # and the metadata's three: of its requests, and of all others


def test_a_run_with_all_tables(spark: SparkSession, tmp_path: Path) -> None:
    experiment_run(tmp_path / "run", records=RECORDS)
    with plans_of(spark) as asked:
        document = analyse_runs(spark, [str(tmp_path / "run")])
    assert all(about["rows"] for about in document["tables"].values())
    within(asked, frames=220, executions=14, jobs=17, exchanges=4)


def test_a_comparison_of_three_runs_with_three(spark: SparkSession, tmp_path: Path) -> None:
    sides = [
        [str(experiment_run(tmp_path / f"{side}{n}", n, RECORDS).folder) for n in range(3)]
        for side in "ab"
    ]
    with plans_of(spark) as asked:
        compare(*(open_runs(spark, paths) for paths in sides))
    within(asked, frames=150, executions=6, jobs=8, exchanges=2)


def test_the_jvm_is_asked_for_a_class_and_its_method_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    F.lit(1)
    client = spark.sparkContext._gateway._gateway_client
    send, sent = client.send_command, list[str]()

    def heard(command: str, *options: Any) -> str:
        sent.append(command)
        return str(send(command, *options))

    monkeypatch.setattr(client, "send_command", heard)
    F.lit(2)
    assert [command for command in sent if command.startswith("r\n")] == []
    assert [command for command in sent if "lit" in command]
