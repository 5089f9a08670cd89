"""Any program as a client under test: what it is given, and how it ends."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scripted_broker import Asked, ScriptedBroker

from kipctl.errors import RefusedError, UsageError
from kipctl.experiments.arms.tapped import began_us
from kipctl.load.clients.client import ProducerLoad
from kipctl.load.clients.command import CommandClient, RunningCommand, filled
from kipctl.process import wait_until
from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataResponse, MetadataResponseBroker
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access


def answered(asked: Asked) -> Response | None:
    brokers = (MetadataResponseBroker(1, "127.0.0.1", 1),)
    return MetadataResponse(brokers=brokers) if asked.request.api.key == 3 else None


@contextmanager
def running(*words: str, records: int = 100, rate: int = 100) -> Iterator[RunningCommand]:
    load = ProducerLoad(
        topic="t",
        num_records=records,
        throughput=rate,
        record_size=7,
        partitions=4,
        properties={"acks": "1"},
    )
    with (
        ScriptedBroker(answered) as broker,
        CommandClient(words).producer(load, Access(broker.address)) as client,
    ):
        yield client


def test_words_are_filled_and_other_braces_stay() -> None:
    given = {"bootstrap": "127.0.0.1:1", "topic": "t"}
    assert filled("--to={bootstrap}/{topic}", given) == "--to=127.0.0.1:1/t"
    assert filled('{"topic": {}}', given) == '{"topic": {}}'


def test_one_that_goes_on_is_ended_when_its_load_is_over(tmp_path: Path) -> None:
    code = "import os, pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); "
    code += "time.sleep(600)"  # it does not end by itself
    pid = tmp_path / "pid"
    with running(sys.executable, "-c", code, str(pid), records=200) as client:
        assert wait_until(pid.exists, 60.0)
        began_us = now_us()
        client.sends_since(began_us)
        assert client.is_done_by(began_us + 600_000_000)
        assert now_us() >= began_us + 2_000_000, "from its first record, not from its start"
        done = client.outcome()
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)
    assert (done.records, done.failed) == (None, None)


def test_an_experiment_gives_it_its_time_from_its_first_record_on() -> None:
    counts = SimpleNamespace(requests=Counter({ApiKey.PRODUCE: 1}))
    tap: Any = SimpleNamespace(
        show=lambda: SimpleNamespace(clients=[SimpleNamespace(counts=counts)])
    )
    with running("sh", "-c", "while :; do sleep 1; done", records=50) as client:
        began = began_us(client, tap)
        assert client.is_done_by(began + 30_000_000), "it has as long as its load, not to start"


def test_what_it_has_started_is_ended_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with running("sh", "-c", 'sleep 600 & echo $! > "$0"; wait', str(pid)) as client:
        assert wait_until(lambda: pid.exists() and pid.read_text().endswith("\n"), 20.0)
        assert not client.is_done_by(0)
    assert wait_until(lambda: not is_running(int(pid.read_text())), 20.0)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_it_gets_what_it_is_to_send() -> None:
    code = "import sys; sys.exit(0 if sys.argv[1:] == ['t', '100', '100', '7', '4', '1'] else 3)"
    names = ("topic", "records", "rate", "size", "partitions", "acks")
    words = (sys.executable, "-c", code, *(f"{{{name}}}" for name in names))
    with running(*words) as client:
        assert client.outcome().software.startswith("python")


def test_one_that_fails_says_why() -> None:
    code = "import sys; sys.exit('no such setting\\nLeave it out.')"
    with running(sys.executable, "-c", code) as client, pytest.raises(RefusedError) as failed:
        client.outcome()
    assert "status 1: no such setting Leave it out." in failed.value.what


def test_one_that_is_not_there_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="cannot be run"), running("/no/such/program"):
        pass
