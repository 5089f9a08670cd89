"""That a request log was switched on is on record until it is off, and what then warns of it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from passing_clock import replaced_time

from kipctl.cluster.broker_metrics import BrokerMetrics
from kipctl.cluster.request_log_cost import estimate, request_rates
from kipctl.cluster.request_log_record import (
    SwitchedOn,
    read_records,
    record_switched_off,
    record_switched_on,
    warning,
)
from kipctl.cluster.snapshot import Broker
from kipctl.errors import RefusedError, UnreachableError
from kipctl.process import Process, current_process

GONE = Process(2**22 + 1, "0")


def record(
    brokers: tuple[int, ...] = (1, 2),
    until: float | None = None,
    host: str = "me",
    owner: Process = GONE,
) -> SwitchedOn:
    return SwitchedOn("id", brokers, 1000.0, until, host, owner, Path("x.json"))


def test_it_is_there_until_it_is_off_at_every_broker(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path)}
    assert read_records({"id"}, state) == ()
    written = record_switched_on("id", (1, 2, 3), 60.0, state)
    record_switched_on("other", (1,), None, state)
    (record,) = read_records({"id"}, state)
    assert record == written
    assert (record.owner, record.until) == (current_process(), pytest.approx(record.since + 60))
    assert written.path.stat().st_mode & 0o077 == 0
    record_switched_off({"id"}, [2], state)
    assert [record.brokers for record in read_records({"id"}, state)] == [(1, 3)]
    record_switched_off({"id"}, [4], state)
    assert [record.brokers for record in read_records({"id"}, state)] == [(1, 3)]
    record_switched_off({"id"}, [3, 1, 2], state)
    assert read_records({"id"}, state) == ()
    assert [record.brokers for record in read_records({"other"}, state)] == [(1,)]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"owner": 5}', '{"owner": [1, "2"]}', "7", "[" * 100_000]
)
def test_a_record_that_cannot_be_read_stops_nothing(tmp_path: Path, text: str) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path)}
    path = record_switched_on("id", (1,), None, state).path
    path.write_text(text)
    assert read_records({"id"}, state) == ()


def test_a_clusters_id_is_no_path(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    record_switched_on("../../x", (1,), None, state)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert len(read_records({"../../x"}, state)) == 1


def test_what_cannot_be_put_on_record_is_not_switched_on(tmp_path: Path) -> None:
    (tmp_path / "kipctl").write_text("a file")
    with pytest.raises(RefusedError, match="The request log was not switched on"):
        record_switched_on("id", (1,), None, {"XDG_STATE_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("record", "warns"),
    [
        (record(), True),  # --until-off: nobody is there to switch it off
        (record(until=2000.0), True),  # its kipctl was killed
        (record(until=2000.0, owner=current_process()), False),
        (record(until=2000.0, host="elsewhere"), False),
        (record(until=1400.0, host="elsewhere"), True),
        (record(host="elsewhere"), True),
    ],
)
def test_it_is_warned_of_what_nobody_will_switch_off(record: SwitchedOn, warns: bool) -> None:
    assert bool(warning([record], "me", now=1500.0)) is warns


def test_the_warning_says_where_and_what_to_do() -> None:
    text = warning([record((2, 1)), record((3,))], "me", 1500.0)
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(1000))
    assert text == (
        f"The request log was switched on at brokers 1, 2, 3 of this cluster on {since}, and is"
        " still on unless they have been restarted since.\n"
        "Switch it off: kipctl request-log off --broker 1 --broker 2 --broker 3"
    )
    assert warning([], "me", 0) == ""


def test_of_a_kipctl_that_was_killed_the_record_stays(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from kipctl.cluster.request_log_record import record_switched_on\n"
        "record_switched_on('id', (1,), 3600.0)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    state = {"XDG_STATE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=os.environ | state, check=False)
    (record,) = read_records({"id"}, state)
    assert json.loads(record.path.read_text())["brokers"] == [1]
    assert warning([record], record.host, time.time()).startswith("The request log was switched on")


BROKERS = (Broker(1, "a", 9092, None), Broker(2, "b", 9092, None), Broker(3, "c", 9092, None))


def test_rates_are_counted_by_the_brokers_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"http://a/": iter([100, 300]), "http://b/": iter([5, 5])}

    def scrape(url: str) -> BrokerMetrics:
        if url == "http://c/":
            raise UnreachableError("No.")
        count = next(counts[url])
        requests = {("Fetch", 13): count, ("FetchConsumer", 13): count}
        return BrokerMetrics(url, requests, {}, {"http://a/": 1, "http://b/": None}[url])

    monkeypatch.setattr("kipctl.cluster.request_log_cost.scrape", scrape)
    now = [5.0]
    with replaced_time(
        monotonic=lambda: now[0],
        sleep=lambda _: now.append(now.pop() + 2),
    ):
        rates = request_rates(["http://a/", "http://b/", "http://c/"], BROKERS)
    assert rates == {1: 100.0, 2: 0.0}


@pytest.mark.parametrize(
    ("rates", "seconds", "said"),
    [
        (
            {},
            300.0,
            "How many requests they answer is not known (--metrics-url would tell). A broker that"
            " answers 10,000 a second writes about 20 MB/s of log (6.0 GB in all), at 1.5 CPU"
            " cores.",
        ),
        (
            {1: 20_000.0, 2: 100.0, 3: 90_000.0},
            None,
            "Broker 1 answers 20,000 requests a second, the most of them: it will write about"
            " 40 MB/s of log, at 3.0 CPU cores.",
        ),
        (
            {2: 0.0},
            60.0,
            "Broker 2 answers 0 requests a second: it will write about 0.0 B/s of log (0.0 B in"
            " all), at 0.0 CPU cores. Of broker 1 that is not known.",
        ),
    ],
)
def test_what_it_will_cost_is_said(
    rates: dict[int, float], seconds: float | None, said: str
) -> None:
    assert estimate((1, 2), rates, seconds) == said
