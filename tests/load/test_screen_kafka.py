"""A run, and a tap, on a terminal of 80 columns: the screen, the result as ever, Ctrl-C."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kipctl.lab.cluster import Lab
from kipctl.load.execute import Listeners
from kipctl.load.measure import run
from kipctl.load.plan import OWN_TOPIC
from kipctl.load.produce import PerfPlan, ProduceLoad
from kipctl.probe.produce.run import ProduceSpec
from kipctl.trace.stored_runs import read_stored_run
from kipctl.transport.access import Access

pytestmark = pytest.mark.kafka

PRODUCE = "perf produce --throughput 200 --record-size 100 --partitions 6"
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
HIDE_CURSOR, SHOW_CURSOR = b"\x1b[?25l", b"\x1b[?25h"


@dataclass
class OnTerminal:
    """A command whose stdin and stderr are a terminal; stdout is a pipe."""

    process: subprocess.Popen[bytes]
    terminal: int
    seen: bytes = b""

    def read(self) -> bool:
        """Read what is drawn; False when nobody has the terminal any more."""
        assert select.select([self.terminal], [], [], 300)[0], self.seen
        try:
            new = os.read(self.terminal, 1 << 16)
        except OSError:
            return False
        self.seen += new
        return bool(new)

    @property
    def text(self) -> str:
        """What is drawn, without how."""
        return ESCAPES.sub(b"", self.seen).decode(errors="replace")

    def read_until(self, drawn: str) -> None:
        """Until what this regular expression finds is drawn."""
        while not re.search(drawn, self.text):
            assert self.read(), self.seen

    def end(self) -> tuple[int, str]:
        """Its status and its result."""
        while self.read():
            pass
        assert self.process.stdout
        return self.process.wait(), self.process.stdout.read().decode()


@contextmanager
def on_terminal(arguments: str, lab: Lab) -> Iterator[OnTerminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "kipctl", *arguments.split()],
        env=os.environ
        | {
            "KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server,
            "TERM": "xterm-256color",
            "PYTHONUTF8": "1",
        },
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        preexec_fn=_its_own_terminal(theirs),
    )
    os.close(theirs)
    try:
        yield OnTerminal(process, ours)
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
        os.close(ours)


def _its_own_terminal(descriptor: int) -> Callable[[], None]:
    def take() -> None:
        os.setsid()
        fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)

    return take


def test_the_screen_is_drawn_and_the_result_is_as_ever(lab: Lab) -> None:
    with on_terminal(f"{PRODUCE} --num-records 400", lab) as command:
        status, result = command.end()
    assert status == 0, command.seen
    assert result.splitlines()[-1].endswith("ms 99.9th.")
    assert "latency p99" in command.text
    assert "records sent" not in command.text
    drawn = [line for line in re.split(r"[\r\n]+", command.text) if line.startswith("records/s")]
    assert drawn
    assert max(map(len, drawn)) <= 80
    assert command.seen.rindex(SHOW_CURSOR) > command.seen.rindex(HIDE_CURSOR)


def test_ctrl_c_leaves_the_terminal_in_order_and_a_run_that_is_kept(
    lab: Lab, tmp_path: Path
) -> None:
    """It shows what it does to leaders, and what is met of that."""
    run, rotating = tmp_path / "run", f"{PRODUCE} --during rotate --every 1s --yes"
    with on_terminal(f"{rotating} --num-records 1000000 --record {run}", lab) as command:
        command.read_until(r"rotate 1: 6 partitions in \d+ ms, all brokers knew")
        command.read_until(r"[1-9]\d* moved leaders met, waits p50")
        os.write(command.terminal, b"\x03")
        status, _ = command.end()
    assert status == 130, command.seen
    assert command.seen.rindex(SHOW_CURSOR) > command.seen.rindex(HIDE_CURSOR)
    last_words = ESCAPES.sub(b"", command.seen[command.seen.rindex(SHOW_CURSOR) :]).decode()
    assert "Interrupted: of 1,000,000 records" in last_words
    assert "moved leaders met" not in last_words
    assert "interrupted: " in read_stored_run(run).flaw


def test_a_tap_shows_its_clients_until_ctrl_c(lab: Lab) -> None:
    with on_terminal("tap", lab) as command:
        command.read_until("instead")  # the line may end before or after it
        address = command.text.split("Clients connect to ")[1].split()[0]
        spec = ProduceSpec(Access(address), OWN_TOPIC, num_records=200, throughput=200)
        run(ProduceLoad(PerfPlan(probe=spec, partitions=3)), Listeners())
        command.read_until("kipctl-perf kipctl")
        os.write(command.terminal, b"\x03")
        status, result = command.end()
    assert status == 0, command.seen
    assert "kipctl-perf" in result
    assert re.search(r"Produce [1-9]\d*, Fetch 0", command.text)
    assert command.seen.rindex(SHOW_CURSOR) > command.seen.rindex(HIDE_CURSOR)
