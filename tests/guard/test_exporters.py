"""What guards read in Prometheus' text, and how a broker's start is known: from a real server."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kipctl.cluster.broker_metrics import samples_in
from kipctl.errors import UnreachableError
from kipctl.guard.conditions import parse_guard
from kipctl.guard.exporters import ExporterAnswer, Exporters, worst_value

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
    for one in made:
        if one.thread.is_alive():
            one.end()


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
    answers = {"u": ExporterAnswer(1, samples_in(text, "u"))}
    assert worst_value(parse_guard(guard), answers) == value
    silent = {**answers, "v": UnreachableError("gone")}
    assert worst_value(parse_guard(guard), silent) is None


def test_a_brokers_start_is_found_by_its_id(exporters: list[Exporter]) -> None:
    asked = Exporters(tuple(one.url for one in exporters))
    assert [asked.started_at(broker) for broker in (1, 2, 3)] == [100, 200, None]
    exporters[1].text = TEXT % (2, 250)
    assert asked.started_at(2) == 250
    assert Exporters().started_at(1) is None


def test_the_exporter_of_a_broker_that_is_being_restarted_is_not_missed(
    exporters: list[Exporter],
) -> None:
    guard = parse_guard("metric under > 3")
    asked = Exporters(tuple(one.url for one in exporters))
    assert asked.values([guard]) == {guard.text: 4}
    exporters[1].end()
    assert asked.values([guard]) == {guard.text: None}
    assert asked.values([guard], away=2) == {guard.text: 4}
    assert asked.values([guard], away=1) == {guard.text: None}
    assert asked.started_at(2) is None
