"""What guards read in Prometheus' text, and how a broker's start is known: from a real server."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

import pytest
from http_peers import TRICKLES, peer

from kipctl.changes.guard_interface import GivenUpError
from kipctl.cluster.broker_metrics import samples_in
from kipctl.errors import UnreachableError
from kipctl.guard.conditions import Guard, parse_guard
from kipctl.guard.exporters import ExporterAnswer, Exporters, worst_value
from kipctl.guard.monitor import GuardMonitor
from kipctl.transport.request import Cluster

TEXT = """\
# TYPE kafka_server_app_info_version gauge
kafka_server_app_info_version{id="%d",version="4.3.1"} 1
process_start_time_seconds %s
under{topic="a"} 1
under{topic="b"} 4
idle 0.7
broken NaN
"""


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


class Exporter(ThreadingHTTPServer):
    """Serves its text, on loopback."""

    text = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server_port}/metrics"
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    def end(self) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()


@pytest.fixture
def exporters() -> Iterator[list[Exporter]]:
    """Of brokers 1 and 2."""
    made = [Exporter(), Exporter()]
    for broker, exporter in enumerate(made, 1):
        exporter.text = TEXT % (broker, 100 * broker)
    yield made
    for server in made:
        if server.thread.is_alive():
            server.end()


@pytest.mark.parametrize(
    ("guard", "value"),
    [
        ("metric under > 3", 4),
        ("metric under < 3", 1),
        ('metric under{topic="a"} > 3', 1),
        ('metric under{topic="c"} > 3', None),
        ("metric idle < 0.3", 0.7),
        ("metric missing > 0", None),
        ("metric broken > 0", None),
    ],
)
def test_the_worst_of_all_samples_counts(guard: str, value: float | None) -> None:
    text = TEXT % (1, 100)
    condition = parse_guard(guard)
    answers = {"u": ExporterAnswer(1, samples_in(text, "u", [condition.name]))}
    assert worst_value(condition, answers) == value
    silent = {**answers, "v": UnreachableError("gone")}
    assert worst_value(condition, silent) is None


def test_a_brokers_start_is_found_by_its_id(exporters: list[Exporter]) -> None:
    asked = Exporters(tuple(exporter.url for exporter in exporters))
    assert [asked.started_at(broker) for broker in (1, 2, 3)] == [100, 200, None]
    exporters[1].text = TEXT % (2, 250)
    assert asked.started_at(2) == 250
    assert Exporters().started_at(1) is None


def test_the_exporter_of_a_broker_that_is_being_restarted_is_not_missed(
    exporters: list[Exporter],
) -> None:
    guard = parse_guard("metric under > 3")
    asked = Exporters(tuple(exporter.url for exporter in exporters))
    assert asked.values([guard]) == {guard.text: 4}
    exporters[1].end()
    assert asked.values([guard]) == {guard.text: None}
    assert asked.values([guard], away=2) == {guard.text: 4}
    assert asked.values([guard], away=1) == {guard.text: None}
    assert asked.started_at(2) is None


@pytest.mark.parametrize("start", ["NaN", "+Inf", "soon", ""])
@pytest.mark.parametrize("id", ["²", "9" * 900, "1"])
def test_what_an_exporter_says_amiss_is_not_known(
    exporters: list[Exporter], id: str, start: str
) -> None:
    guard = parse_guard("metric under > 3")
    exporters[0].text = TEXT.replace('id="%d"', f'id="{id}"') % start
    asked = Exporters((exporters[0].url,))
    assert asked.started_at(1) is None
    assert asked.values([guard]) in ({guard.text: 4}, {guard.text: None})


@pytest.mark.timeout(120)
def test_one_that_trickles_holds_neither_a_guard_nor_a_roll(
    exporters: list[Exporter], monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = parse_guard("metric under > 3")
    with peer(TRICKLES["a body"]) as slow:
        asked = Exporters((slow.url, exporters[0].url))
        assert asked.values([guard]) == {guard.text: None}
        assert asked.started_at(1) == 100
        monkeypatch.setattr("kipctl.guard.exporters._TIMEOUT_S", 0.2)
        assert asked.started_at(2) is None
        monitor = GuardMonitor(cast(Cluster, None), Guard.of([guard], 0.0, 0.0), asked, print)
        with pytest.raises(GivenUpError):
            monitor.require_quiet()


@pytest.mark.timeout(120)
def test_the_first_interrupt_ends_the_wait_for_one_that_trickles() -> None:
    look = (
        "import sys\n"
        "from kipctl.guard import exporters, conditions\n"
        "exporters._TIMEOUT_S = 3600.0\n"
        "guard = conditions.parse_guard('metric under > 3')\n"
        "exporters.Exporters((sys.argv[1],)).values([guard])\n"
    )
    with peer(TRICKLES["a body"]) as slow:
        command = [sys.executable, "-c", look, slow.url]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as waiting:
            assert slow.was_asked.wait(60)
            waiting.send_signal(signal.SIGINT)
            _, told = waiting.communicate()
    assert told.rstrip().endswith(b"KeyboardInterrupt")
