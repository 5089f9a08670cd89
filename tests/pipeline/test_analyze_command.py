"""`kipctl analyze` as it is used, here and on a Spark cluster."""

import csv
import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from one_process import OneProcess
from runs import write_run
from spark_cluster import spark_cluster

from kipctl.errors import ExitStatus
from kipctl.trace.schema import SCHEMA_VERSION
from kipctl.trace.store import RUN_FILE
from kipctl.trace.stored_runs import RUNS_VARIABLE

pytestmark = pytest.mark.spark


def analyze(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "kipctl", "analyze", *arguments, **variables)


def python(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    hadoop = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
    own = {name: value for name, value in os.environ.items() if name not in hadoop}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=own | variables,
        check=False,
    )


def a_run(folder: Path, records: int = 1000, **description: Any) -> Path:
    """Records of partitions 0 to 4, of which record number n took n microseconds and 10 more."""
    rows = [
        {
            "partition": seq % 5,
            "first_seq": seq,
            "bytes": 100,
            "intended_us": 1000 * seq,
            "sent_us": 1000 * seq + 5,
            "acked_us": 1000 * seq + 10 + seq,
            "attempts": 1,
            "broker": 1,
        }
        for seq in range(records)
    ]
    write_run(folder, {"interval_ns": 1_000_000, **description}, batches=rows)
    return folder


def test_its_help_says_what_may_be_analysed() -> None:
    ran = analyze("--help")
    told = " ".join(ran.stdout.split())
    assert "kipctl analyze [OPTIONS] {RUN... | request-log PATH...}" in told
    assert "kipctl analyze RUN..." in told
    assert "kipctl analyze request-log PATH..." in told


def test_tables_json_csv_and_parquet(kipctl_again: OneProcess, tmp_path: Path) -> None:
    store = tmp_path / "store"
    a_run(store / "noon", command="perf produce", started="2026-01-31T12:00:00+00:00")
    saved = tmp_path / "saved"
    ran = analyze(
        *("noon", "--output", "json", "--save", saved, "--by", "run,partition"),
        **{RUNS_VARIABLE: str(store)},
    )
    assert ran.returncode == ExitStatus.DONE, ran.stderr
    document = json.loads(ran.stdout)
    assert document["_command"] == "analyze"
    assert [run["run"] for run in document["runs"]] == ["noon"]
    of_latency = [row for row in document["latency"] if row["time"] == "latency"]
    assert [row["partition"] for row in of_latency] == [0, 1, 2, 3, 4]
    # Of partition 3: the records 3, 8, ... 998; the 100th of 200 is 498.
    assert (of_latency[3]["p50_us"], of_latency[3]["max_us"]) == (508, 1008)
    assert document["failures"] == []
    assert "WARN" not in ran.stderr
    read = pq.read_table(saved / "latency").to_pylist()
    assert sorted(read, key=str) == sorted(document["latency"], key=str)

    again = kipctl_again("analyze", store / "noon", "--save", saved)
    assert again.status == ExitStatus.USAGE
    assert "there already" in again.err.splitlines()[-2]

    shown = kipctl_again(
        "analyze", "runs", store / "noon", "--output", "csv", "--since", "0.5s"
    ).out
    tables = [list(csv.reader(io.StringIO(text))) for text in shown.split("\n\n")]
    assert tables[0][0][:4] == ["table", "run", "arm", "acknowledged"]
    assert tables[0][1][:4] == ["records", "noon", "kip951", "500"]


def test_what_ended_early_is_told_and_analysed(kipctl_again: OneProcess, tmp_path: Path) -> None:
    a_run(tmp_path / "runs" / "cut", 10, failed="Worker 1 of 2 died: its process was killed.")
    a_run(tmp_path / "runs" / "left", 10, stopped=True)
    a_run(tmp_path / "runs" / "whole", 10)
    said = kipctl_again("analyze", tmp_path / "runs", "--output", "json", "--master", "local[1]")
    assert said.status == ExitStatus.DONE, said.err
    assert [row["acknowledged"] for row in said.document["records"]] == [10, 10, 10]
    told = [line for line in said.err.splitlines() if "Spark" not in line]
    assert told == [
        "cut failed, and is analysed as it is: Worker 1 of 2 died: its process was killed.",
        "left was interrupted, and is analysed as it is.",
    ]


def test_on_a_cluster_of_two_workers_as_here(
    kipctl_again: OneProcess, spark_master: str, tmp_path: Path
) -> None:
    folder = a_run(tmp_path / "run", 5000)
    here, there = (
        kipctl_again("analyze", folder, "--output", "json", "--master", master)
        for master in ("local[2]", spark_master)
    )
    assert there.status == ExitStatus.DONE, there.err
    assert there.document == here.document
    assert there.document["records"][0]["acknowledged"] == 5000


def test_what_is_wrong_with_the_input_is_told_in_three_lines(
    kipctl_again: OneProcess, tmp_path: Path
) -> None:
    a_run(tmp_path / "cut")
    part = tmp_path / "cut" / "batches" / "part-0.parquet"
    part.write_bytes(part.read_bytes()[:-50])
    (tmp_path / "newer").mkdir()
    description = json.dumps({"schema_version": SCHEMA_VERSION + 1})
    (tmp_path / "newer" / RUN_FILE).write_text(description)
    (tmp_path / "empty").mkdir()
    (tmp_path / "server.log").write_text("[2026-01-31 12:00:00,000] INFO started (kafka.Server)\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        nowhere = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        wrong: list[tuple[list[str | Path], ExitStatus, str]] = [
            ([tmp_path / "cut"], ExitStatus.PIPELINE_FAILED, str(part)),
            ([tmp_path / "newer"], ExitStatus.USAGE, "newer kipctl"),
            ([tmp_path / "empty"], ExitStatus.USAGE, "holds no run"),
            ([tmp_path / "cut", "--master", nowhere], ExitStatus.PIPELINE_FAILED, "be reached"),
            ([tmp_path / "cut", "--master", "here"], ExitStatus.USAGE, "no Spark master"),
            ([tmp_path / "cut", "--by", "moon"], ExitStatus.USAGE, "by that"),
            ([tmp_path / "cut", "--since", "noon"], ExitStatus.USAGE, "--since"),
            ([tmp_path / "cut", "--since", "99999999999999999d"], ExitStatus.USAGE, "a century"),
            ([tmp_path / "cut", "--since", "2s", "--until", "1s"], ExitStatus.USAGE, "not before"),
            (
                ["request-log", tmp_path / "server.log"],
                ExitStatus.PIPELINE_FAILED,
                "holds no request lines",
            ),
            (["request-log", tmp_path / "no.log"], ExitStatus.USAGE, "no.log"),
            (["nowhere-at-all"], ExitStatus.USAGE, "nowhere-at-all"),
        ]
        for arguments, status, words in wrong:
            said = kipctl_again("analyze", *arguments)
            assert said.status == status, said.err
            assert said.out == ""
            lines = said.err.splitlines()
            told = [line for line in lines if not line.startswith(("Starting Spark", "Spark: "))]
            assert told[0].startswith("kipctl: "), said.err
            assert words in "\n".join(told)
            assert 1 <= len(told) <= 3, said.err


def test_yarn_without_its_configuration_is_told_in_three_lines(tmp_path: Path) -> None:
    ran = analyze(a_run(tmp_path / "run", 1), "--master", "yarn")
    assert ran.returncode == ExitStatus.PIPELINE_FAILED
    assert ran.stdout == ""
    told = [line for line in ran.stderr.splitlines() if not line.startswith("Starting Spark")]
    assert told[0].startswith("kipctl: ")
    assert "HADOOP_CONF_DIR" in ran.stderr
    assert 1 <= len(told) <= 3


def test_a_master_without_workers_is_told_in_time(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "run", 1)
    (tmp_path / "spark").mkdir()
    with spark_cluster(tmp_path / "spark", workers=0) as cluster:
        ran = analyze(folder, "--master", cluster.master, "--start-timeout", "20s")
    assert ran.returncode == ExitStatus.PIPELINE_FAILED
    assert "did not give an executor within 20 s" in ran.stderr
