"""However a tap ends, what it saw is a run, or can be made one."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from raw_peers import EXCHANGE, RawBroker, RawClient

from kipctl.child_process import ChildDiedError
from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.load.repair import repair
from kipctl.load.tap import TapPlan, tap
from kipctl.process import wait_until
from kipctl.tap.process import RunningTap
from kipctl.tap.recorder import COLUMNS
from kipctl.tap.spec import TapSpec
from kipctl.trace.columns import raw_path
from kipctl.trace.store import ROWS_FOLDER, RUN_FILE, Run
from kipctl.transport.access import Access

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[RawBroker]:
    with RawBroker() as broker:
        yield broker


@contextmanager
def tap_command(broker: RawBroker, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`kipctl tap` at work, in a process group of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "kipctl", "tap", "--bootstrap-server", broker.address, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def used_tap(broker: RawBroker, record: Path) -> Iterator[tuple[subprocess.Popen[str], RawClient]]:
    """One that records, after an exchange with the only client, which is still there."""
    with tap_command(broker, "--record", str(record), "--output", "json") as process:
        assert process.stderr
        with RawClient(process.stderr.readline().split()[3]) as client:
            client.exchange()
            yield process, client


def await_rows(record: Path) -> None:
    """Until all that a client asked is written down."""

    def rows(dataset: str) -> int:
        path = raw_path(record / ROWS_FOLDER / "0", dataset)
        return path.stat().st_size // 8 // len(COLUMNS[dataset]) if path.exists() else 0

    assert wait_until(lambda: (rows("rpcs"), rows("batches")) == (len(EXCHANGE), 1), TIMEOUT_S)


def processes_of(tap: subprocess.Popen[str]) -> list[int]:
    """The pid of the process that clients connect to, as soon as there is one."""
    children = Path(f"/proc/{tap.pid}/task/{tap.pid}/children").read_text().split()
    pids = []
    for child in children:
        with suppress(FileNotFoundError):
            if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                pids.append(int(child))
    return pids


def await_end(pid: int) -> None:
    assert wait_until(lambda: not Path(f"/proc/{pid}").exists(), TIMEOUT_S)


def assert_holds_the_exchange(record: Path) -> dict[str, Any]:
    assert not (record / ROWS_FOLDER).exists()
    rows = Run(record).read("rpcs").to_pylist()
    assert [row["api_key"] for row in rows] == [request.api.key for request, _ in EXCHANGE]
    assert {row["client"] for row in rows} == {"raw"}
    (batch,) = Run(record).read("batches").to_pylist()
    assert batch["client"] == "raw"
    return dict(Run(record).description)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_all_of_its_group_ends_it_in_good_order(
    broker: RawBroker, tmp_path: Path, number: signal.Signals
) -> None:
    with used_tap(broker, tmp_path / "run") as (tap, _):
        os.killpg(tap.pid, number)
        printed, complaints = tap.communicate(timeout=TIMEOUT_S)
    assert complaints == ""
    assert json.loads(printed)["clients"][0]["client_id"] == "raw"
    assert "failed" not in assert_holds_the_exchange(tmp_path / "run")


def test_ctrl_c_while_its_process_starts_is_no_fault(broker: RawBroker) -> None:
    with tap_command(broker) as tap:
        assert wait_until(lambda: processes_of(tap), TIMEOUT_S)
        os.killpg(tap.pid, signal.SIGINT)
        _, complaints = tap.communicate(timeout=TIMEOUT_S)
    assert "Traceback" not in complaints
    assert tap.returncode == 0


def test_the_record_of_a_tap_that_was_killed_is_kept(broker: RawBroker, tmp_path: Path) -> None:
    with used_tap(broker, tmp_path / "run") as (tap, client):
        await_rows(tmp_path / "run")
        client.socket.sendall(b"no request")
        assert tap.stderr
        assert "from the client" in tap.stderr.readline()  # what it did until then was shown
        (child,) = processes_of(tap)
        os.kill(child, signal.SIGKILL)
        _, complaints = tap.communicate(timeout=TIMEOUT_S)
    assert tap.returncode == 1
    assert "The tap's process ended early (exit code -9)." in complaints
    assert "Traceback" not in complaints
    description = assert_holds_the_exchange(tmp_path / "run")
    assert description["failed"] == "The tap's process ended early (exit code -9)."
    (seen,) = description["summary"]["clients"]
    assert seen["requests"]["total"] == len(EXCHANGE)


def test_a_tap_that_was_killed_before_anybody_came_is_a_run_that_failed(
    broker: RawBroker, tmp_path: Path
) -> None:
    def kill(running: RunningTap) -> None:
        assert running.pid
        os.kill(running.pid, signal.SIGKILL)

    with pytest.raises(ChildDiedError):
        tap(TapPlan(TapSpec(access=Access(broker.address)), tmp_path / "run"), kill)
    assert Run(tmp_path / "run").description["failed"]


def test_a_tap_whose_starter_was_killed_closes_its_rows_and_can_be_repaired(
    broker: RawBroker, tmp_path: Path
) -> None:
    record = tmp_path / "run"
    with used_tap(broker, record) as (tap, _):
        (child,) = processes_of(tap)
        tap.kill()
        await_end(child)
    assert not (record / RUN_FILE).exists()
    document = repair(record)
    assert document["clients"][0]["requests"]["total"] == len(EXCHANGE)
    description = assert_holds_the_exchange(record)
    assert "killed" in description["failed"]
    assert description["summary"] == document


def test_a_tap_whose_starter_goes_with_an_unread_answer_ends_too(broker: RawBroker) -> None:
    """The pipe then ends with a reset, and not in good order."""
    running = RunningTap(TapSpec(access=Access(broker.address)), None)
    child = running._child
    child.send("show")
    assert child.has_sent(TIMEOUT_S)
    child._pipe.close()
    child.join()
    assert child._process.exitcode == 0


def test_what_a_power_cut_left_of_a_tap_can_be_repaired(broker: RawBroker, tmp_path: Path) -> None:
    record = tmp_path / "run"
    with used_tap(broker, record) as (tap, _):
        await_rows(record)
        (child,) = processes_of(tap)
        os.killpg(tap.pid, signal.SIGKILL)
        await_end(child)
    out, err = io.StringIO(), io.StringIO()
    assert run(["runs", "repair", str(record)], Environment(io.StringIO(), out, err, {})) == 0
    assert "run was repaired. It says: " in err.getvalue()
    description = assert_holds_the_exchange(record)
    assert "killed" in description["failed"]
    assert description["summary"]["clients"] == []  # counts were in its memory alone
