"""`kipctl analyze` as it is used; on a Spark cluster, see test_on_spark_cluster.py."""

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

from kipctl.errors import ExitStatus
from kipctl.trace.schema import SCHEMA_VERSION
from kipctl.trace.store import RUN_FILE
from kipctl.trace.stored_runs import RUNS_VARIABLE

pytestmark = pytest.mark.spark


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


def test_its_help_says_what_may_be_analysed(kipctl_again: OneProcess) -> None:
    told = " ".join(kipctl_again("analyze", "--help").out.split())
    assert "kipctl analyze [OPTIONS] {RUN... | request-log PATH...}" in told
    assert "kipctl analyze RUN..." in told
    assert "kipctl analyze request-log PATH..." in told


def test_tables_json_csv_and_parquet(kipctl_again: OneProcess, tmp_path: Path) -> None:
    store = tmp_path / "store"
    a_run(store / "noon", command="perf produce", started="2026-01-31T12:00:00+00:00")
    saved = tmp_path / "saved"
    asked = ("noon", "--output", "json", "--save", saved, "--by", "run,partition")
    said = kipctl_again("analyze", *asked, **{RUNS_VARIABLE: str(store)})
    assert said.status == ExitStatus.DONE, said.err
    document = said.document
    assert document["_command"] == "analyze"
    assert [run["run"] for run in document["runs"]] == ["noon"]
    of_latency = [row for row in document["latency"] if row["time"] == "latency"]
    assert [row["partition"] for row in of_latency] == [0, 1, 2, 3, 4]
    # Of partition 3: the records 3, 8, ... 998; the 100th of 200 is 498.
    assert (of_latency[3]["time_ms"]["p50"], of_latency[3]["time_ms"]["max"]) == (0.508, 1.008)
    assert document["failures"] == []
    assert "WARN" not in said.err
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
            ([tmp_path / "cut", "--since", "2s", "--before", "1s"], ExitStatus.USAGE, "earlier"),
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
    """By a process that has no JVM yet: the one that it starts ends at once."""
    hadoop = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
    ran = subprocess.run(
        [sys.executable, "-m", "kipctl", "analyze", a_run(tmp_path / "run", 1), "--master", "yarn"],
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name not in hadoop},
        check=False,
    )
    assert ran.returncode == ExitStatus.PIPELINE_FAILED
    assert ran.stdout == ""
    told = [line for line in ran.stderr.splitlines() if not line.startswith("Starting Spark")]
    assert told[0].startswith("kipctl: ")
    assert "HADOOP_CONF_DIR" in ran.stderr
    assert 1 <= len(told) <= 3
