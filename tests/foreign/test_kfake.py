"""A broker that is not Kafka: franz-go's fake cluster, which refuses with hints as Kafka does.

It is built by Go at first use, into the user's cache.
"""

import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from commands import Commands

from kipctl.load.presets.build import in_cache, run, tool
from kipctl.process import wait_until
from kipctl.tap.process import running_tap
from kipctl.tap.spec import TapSpec
from kipctl.transport.access import Access

SOURCE = Path(__file__).parent / "kfake"
TIMEOUT_S = 60
LOAD = "--topic orders --throughput 300 --command-property linger.ms=0 --output json"


@dataclass
class Kfake(Commands):
    """Three brokers, and six partitions of `orders`."""

    bootstrap_server: str
    process: "subprocess.Popen[str]"
    state: Path

    def move_leaders(self) -> None:
        """All leaders move on by one broker."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "moved\n"


@pytest.fixture(scope="module")
def program() -> Path:
    def build(into: Path) -> None:
        run([tool("go"), "build", "-trimpath", "-mod=readonly", "-o", f"{into / 'kfake'}"], SOURCE)

    sources = [SOURCE / "main.go", SOURCE / "go.mod", SOURCE / "go.sum"]
    return in_cache("kfake", sources, build, print) / "kfake"


@pytest.fixture
def kfake(program: Path, tmp_path: Path) -> Iterator[Kfake]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([program], text=True, **pipes) as process:
        assert process.stdout
        yield Kfake(process.stdout.readline().strip(), process, tmp_path)
        process.kill()


def test_it_is_recognised_and_looked_at(kfake: Kfake) -> None:
    brokers = kfake.kipctl("inspect brokers --look-again 0s --output json").document
    assert brokers["product"] == "kfake (franz-go's fake cluster)"
    tested = kfake.kipctl("clusters test")
    assert "3 brokers of kfake" in tested.out
    assert "a reassignment is accepted and not carried out" in tested.out
    assert "6 partitions are led" in kfake.kipctl("inspect leaders").out
    assert "3 of 3 brokers named a leader" in kfake.kipctl("inspect hints").out


def test_a_reassignment_that_is_not_carried_out_is_told(kfake: Kfake) -> None:
    ran = kfake.kipctl("reassign --rotate --topic orders --yes", status=5)
    limit, ended = "kfake (franz-go's fake cluster): a reassignment is accepted", "ended elsewhere"
    assert 0 <= ran.err.index(limit) < ran.err.index(ended)


def test_hints_are_followed_there_which_a_tap_sees_too(kfake: Kfake) -> None:
    with running_tap(TapSpec(access=Access(kfake.bootstrap_server)), None) as tap:
        over = threading.Event()

        def move() -> None:
            """Each second, once the producer has begun."""
            wait_until(lambda: bool(tap.show().clients), TIMEOUT_S)
            while not over.wait(1):
                kfake.move_leaders()

        moving = threading.Thread(target=move)
        moving.start()
        try:
            through = replace(kfake, bootstrap_server=tap.bootstrap_server)
            ran = through.kipctl(f"perf produce {LOAD} --num-records 1500")
        finally:
            over.set()
            moving.join()
        (client,) = [client for client in tap.stop().clients if client.seen.leader_errors]
    produced = json.loads(ran.out)
    assert produced["records"]["acknowledged"] == 1500
    assert produced["redirects"]["errors"] == client.seen.leader_errors > 0
    assert client.seen.hints == client.seen.leader_errors
    assert client.moves > 0
