"""However a tap ends, what it saw is a run, or can be made one."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from raw_peers import EXCHANGE, RawBroker, RawClient

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.runs.repair import repair
from kipctl.tap.recorder import COLUMNS
from kipctl.trace.columns import raw_path
from kipctl.trace.store import ROWS_FOLDER, RUN_FILE, Run


@contextmanager
def recorded_tap(broker: RawBroker, record: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`kipctl tap --record` at work, in a process group of its own, and where clients connect."""
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "kipctl", "tap", "--bootstrap-server", broker.address),
            *("--record", str(record), "--output", "json"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as tap:
        try:
            assert tap.stderr
            yield tap, tap.stderr.readline().split()[3]
        finally:
            if tap.poll() is None:
                os.killpg(tap.pid, signal.SIGKILL)


def exchange(bootstrap_server: str) -> None:
    with RawClient(bootstrap_server) as client:
        for request, version in EXCHANGE:
            client.ask(request, version)


def await_rows(record: Path) -> None:
    """Until all that a client asked is written down."""
    expected, deadline = {"rpcs": len(EXCHANGE), "batches": 1}, time.monotonic() + 30
    while any(row_count(record, dataset) < count for dataset, count in expected.items()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def row_count(record: Path, dataset: str) -> int:
    path = raw_path(record / ROWS_FOLDER / "0", dataset)
    return path.stat().st_size // 8 // len(COLUMNS[dataset]) if path.exists() else 0


def command_lines_of_children(pid: int) -> list[str]:
    lines = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(FileNotFoundError):
            lines.append(Path(f"/proc/{child}/cmdline").read_text())
    return lines


def its_process(tap: subprocess.Popen[str]) -> int:
    """The pid of the process that clients connect to."""
    children = Path(f"/proc/{tap.pid}/task/{tap.pid}/children").read_text().split()
    (pid,) = (
        int(child)
        for child in children
        if "resource_tracker" not in Path(f"/proc/{child}/cmdline").read_text()
    )
    return pid


def await_end(pid: int) -> None:
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def assert_holds_the_exchange(record: Path) -> dict[str, Any]:
    assert not (record / ROWS_FOLDER).exists()
    rows = Run(record).read("rpcs").to_pylist()
    assert [row["api_key"] for row in rows] == [request.api.key for request, _ in EXCHANGE]
    assert {row["client"] for row in rows} == {"raw"}
    (batch,) = Run(record).read("batches").to_pylist()
    assert batch["client"] == "raw"
    return dict(Run(record).description)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_all_of_its_group_ends_it_in_good_order(
    tmp_path: Path, number: signal.Signals
) -> None:
    with RawBroker() as broker, recorded_tap(broker, tmp_path / "run") as (tap, address):
        exchange(address)
        os.killpg(tap.pid, number)
        printed, complaints = tap.communicate(timeout=60)
    assert complaints == ""
    assert json.loads(printed)["clients"][0]["client_id"] == "raw"
    assert "failed" not in assert_holds_the_exchange(tmp_path / "run")


def test_ctrl_c_while_its_process_starts_is_no_fault(tmp_path: Path) -> None:
    with (
        RawBroker() as broker,
        subprocess.Popen(
            [sys.executable, "-m", "kipctl", "tap", "--bootstrap-server", broker.address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as tap,
    ):
        deadline = time.monotonic() + 60
        while not any("spawn_main" in line for line in command_lines_of_children(tap.pid)):
            assert time.monotonic() < deadline
        os.killpg(tap.pid, signal.SIGINT)
        _, complaints = tap.communicate(timeout=60)
    assert "Traceback" not in complaints
    assert tap.returncode == 0


def test_the_record_of_a_tap_that_was_killed_is_kept(tmp_path: Path) -> None:
    with RawBroker() as broker, recorded_tap(broker, tmp_path / "run") as (tap, address):
        exchange(address)
        await_rows(tmp_path / "run")
        time.sleep(1.5)  # the live view has been told of the client
        os.kill(its_process(tap), signal.SIGKILL)
        _, complaints = tap.communicate(timeout=60)
    assert tap.returncode == 1
    assert "The tap's process ended early (exit code -9)." in complaints
    assert "Traceback" not in complaints
    description = assert_holds_the_exchange(tmp_path / "run")
    assert description["failed"] == "The tap's process ended early (exit code -9)."
    (client,) = description["summary"]["clients"]
    assert client["requests"]["total"] == len(EXCHANGE)


def test_a_tap_whose_starter_was_killed_closes_its_rows_and_can_be_repaired(tmp_path: Path) -> None:
    record = tmp_path / "run"
    with RawBroker() as broker, recorded_tap(broker, record) as (tap, address):
        exchange(address)
        child = its_process(tap)
        tap.kill()
        await_end(child)
    assert not (record / RUN_FILE).exists()
    document = repair(record)
    assert document["clients"][0]["requests"]["total"] == len(EXCHANGE)
    description = assert_holds_the_exchange(record)
    assert "killed" in description["failed"]
    assert description["summary"] == document


def test_what_a_power_cut_left_of_a_tap_can_be_repaired(tmp_path: Path) -> None:
    record = tmp_path / "run"
    with RawBroker() as broker, recorded_tap(broker, record) as (tap, address):
        exchange(address)
        await_rows(record)
        child = its_process(tap)
        os.killpg(tap.pid, signal.SIGKILL)
        await_end(child)
    out, err = io.StringIO(), io.StringIO()
    assert run(["runs", "repair", str(record)], Environment(io.StringIO(), out, err, {})) == 0
    assert "run was repaired. It says: " in err.getvalue()
    description = assert_holds_the_exchange(record)
    assert "killed" in description["failed"]
    assert description["summary"]["clients"] == []  # counts were in its memory alone


def test_a_tap_that_was_killed_before_anybody_came_is_a_run_that_failed(tmp_path: Path) -> None:
    with RawBroker() as broker, recorded_tap(broker, tmp_path / "run") as (tap, _):
        os.kill(its_process(tap), signal.SIGKILL)
        tap.communicate(timeout=60)
    assert tap.returncode == 1
    assert Run(tmp_path / "run").description["failed"]
