"""A run that is watched while it lasts: what is read, what is removed, and what is served."""

import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from strict_loopback import StrictLoopback

from kipctl.conform.cluster import Cluster
from kipctl.errors import UsageError
from kipctl.load import forever as long_watch
from kipctl.load.e2e import FOREVER_RECORDS, EndToEndPlan
from kipctl.load.forever import MetricsServer, Watch, WatchOptions, parse_listen, serving_metrics
from kipctl.load.produce import PerfPlan
from kipctl.load.start import OnThisMachine
from kipctl.measure.live_totals import CONSUMER, DATASETS, PRODUCER, EndToEndTotals
from kipctl.measure.outcomes import salvaged_outcome
from kipctl.probe.health import Health
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceSpec
from kipctl.probe.schedule import Schedule
from kipctl.protocol.address import Address
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.row_writer import RowWriter
from kipctl.trace.rows import chunks
from kipctl.trace.run_start import RunStart
from kipctl.trace.settings import end_of
from kipctl.transport.access import Access

START_US = 5_000_000_000
S = 1_000_000
ANY = Address("127.0.0.1", 0)
SPEC = ProduceSpec(Access("h:1"), "t", FOREVER_RECORDS, throughput=1000)


class Clients:
    """Two that write rows, by a clock that stands."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_us = START_US
        monkeypatch.setattr(long_watch, "now_us", lambda: self.now_us)
        self.folders = {name: folder / name for name in DATASETS}
        self.writers = {}
        for client, datasets in DATASETS.items():
            self.folders[client].mkdir()
            for dataset in datasets:
                path = raw_path(self.folders[client], dataset)
                self.writers[client, dataset] = RowWriter(path, len(COLUMNS[dataset]))
        self.sent = 0

    def send(self, records: int, came: bool = True) -> None:
        """A batch of so many records, now; and its way to the consumer."""
        acked = {"acked_us": self.now_us, "sent_us": self.now_us, "intended_us": self.now_us}
        row = {"first_seq": self.sent, "seq_stride": 1, "records": records, "bytes": records}
        self.write(PRODUCER, "batches", acked | row | {"base_offset": self.sent, "broker": 1})
        after = {"fetch_offset": self.sent, "next_offset": self.sent + records}
        if came:
            read = {"records": records, "time_us": self.now_us}
            self.write(CONSUMER, "reads", after | read)
        self.sent += records

    def write(self, client: str, dataset: str, row: dict[str, int]) -> None:
        writer = self.writers[client, dataset]
        writer.append([row.get(name, 0) for name in COLUMNS[dataset]])
        writer.flush()

    def rotate(self) -> None:
        for writer in self.writers.values():
            writer.rotate()

    def files(self, dataset: str = "batches") -> list[str]:
        paths = self.folders[PRODUCER].glob(f"{dataset}*")
        return sorted(path.name for path in paths)


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with_writers = Clients(tmp_path, monkeypatch)
    yield with_writers
    for writer in with_writers.writers.values():
        writer.close()


def watch(clients: Clients, how: WatchOptions, server: MetricsServer | None = None) -> Watch:
    totals = EndToEndTotals(START_US, 1_000_000, 0, round(how.lost_after_s * S), 150 * S, 3600 * S)
    schedule = Schedule(START_US, FOREVER_RECORDS, 1000)
    return Watch(how, totals, schedule, clients.folders, server)


def test_files_are_removed_when_they_are_read_and_older_than_what_is_kept(clients: Clients) -> None:
    watching = watch(clients, WatchOptions(forever=True, keep_s=60))
    for _ in range(5):
        clients.send(10)
        clients.now_us += 6 * S
        clients.rotate()
        watching.look()
    assert clients.files() == [*(f"batches.{number}.i64" for number in range(1, 6)), "batches.i64"]
    assert watching.kept_since_us is None
    clients.now_us = START_US + 6 * S + 60 * S
    watching.look()
    assert "batches.i64" not in clients.files()
    assert "batches.1.i64" in clients.files()
    assert watching.kept_since_us == START_US + 6 * S
    clients.now_us += 3600 * S
    watching.look()
    # What is still written to stays, however old it is.
    assert clients.files() == ["batches.5.i64"]
    assert clients.files("rpcs") == ["rpcs.5.i64"]
    clients.send(7)
    watching.load_is_over()
    clients.rotate()
    clients.now_us += 3600 * S
    watching.finish()
    delivery = watching.totals.delivery
    assert (delivery.delivered, delivery.missing) == (57, 0)
    kept = chunks(raw_path(clients.folders[PRODUCER], "batches"), len(COLUMNS["batches"]))
    records = COLUMNS["batches"].index("records")
    assert [rows[:, records].tolist() for rows in kept] == [[7]]


def test_files_that_were_not_read_yet_stay(clients: Clients) -> None:
    watching = watch(clients, WatchOptions(forever=True, keep_s=10))
    clients.send(10)
    clients.rotate()
    clients.now_us += 3600 * S
    clients.send(5)
    clients.rotate()
    watching.look()
    assert len(clients.files()) == 3
    clients.now_us += 3600 * S
    watching.look()
    assert clients.files() == ["batches.2.i64"]
    assert watching.totals.matching.acknowledged == 15


def test_a_run_with_an_end_keeps_all_of_its_rows(clients: Clients) -> None:
    watching = watch(clients, WatchOptions(metrics=ANY))
    clients.send(10)
    clients.rotate()
    clients.now_us += 7200 * S
    watching.look()
    assert clients.files() == ["batches.1.i64", "batches.i64"]


def test_what_was_counted_last_is_served_until_the_end(clients: Clients) -> None:
    told: list[str] = []
    with serving_metrics(ANY, told.append) as server:
        assert server
        assert told == [f"Metrics: {server.url}"]
        watching = watch(clients, WatchOptions(metrics=ANY), server)
        clients.send(10)
        clients.send(5, came=False)
        clients.now_us += 3 * S
        watching.look()
        first = scraped(server.url)
        assert first["kipctl_records_delivered_total"] == 10
        assert first["kipctl_records_waiting"] == 5
        assert first["kipctl_records_due_total"] == 1001
        assert first["kipctl_up"] == 1
        clients.now_us += 62 * S
        watching.load_is_over()
        watching.look()
        last = scraped(server.url)
        assert (last["kipctl_records_lost_total"], last["kipctl_up"]) == (5, 0)
        assert abs(last["kipctl_counted_until_seconds"] - time.time()) < 3600
        url = server.url
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def scraped(url: str) -> dict[str, float]:
    answer = httpx.get(url)
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {
        sample.name: sample.value
        for family in families
        for sample in family.samples
        if not sample.labels
    }


@pytest.mark.parametrize(
    ("host", "is_warned"), [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True)]
)
def test_metrics_that_other_machines_can_read_are_said_to_be(host: str, is_warned: bool) -> None:
    told: list[str] = []
    with serving_metrics(Address(host, 0), told.append):
        pass
    assert any("whoever reaches it reads them" in line for line in told) is is_warned


def test_where_nobody_can_listen_is_said_before_anything_begins() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"--metrics 127.0.0.1:{port} cannot be listened at"):
            MetricsServer(Address("127.0.0.1", port))


def test_what_went_wrong_while_it_looked_is_raised_at_the_end(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = watch(clients, WatchOptions(forever=True, keep_s=60))
    monkeypatch.setattr(long_watch, "_LOOK_S", 0.001)
    looks = iter(range(4))

    def look() -> None:
        if next(looks) == 3:
            raise OSError("no room")

    def work() -> None:
        with watching.at_work():
            deadline = time.monotonic() + 60
            while watching.fault is None and time.monotonic() < deadline:
                time.sleep(0.001)

    monkeypatch.setattr(watching, "look", look)
    with pytest.raises(OSError, match="no room"):
        work()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("0", ("127.0.0.1", 0)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),
        ("[::1]:9464", ("::1", 9464)),
    ],
)
def test_where_metrics_are_served(text: str, address: tuple[str, int]) -> None:
    assert parse_listen(text) == address


@pytest.mark.parametrize("text", ["", "host", "70000", "a:b", "-1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="no address"):
        parse_listen(text)


@pytest.mark.parametrize(
    ("watched", "produce", "what"),
    [
        ({"forever": True}, {"throughput": -1}, "--forever needs a rate"),
        ({"forever": True}, {"workers": 2}, "on this machine"),
        ({"metrics": ANY}, {"master": "local[2]"}, "on this machine"),
        ({"keep_s": 9}, {}, "--keep"),
        ({"lost_after_s": 0.5}, {}, "--lost-after"),
    ],
)
def test_what_cannot_be_watched(watched: Any, produce: Any, what: str) -> None:
    spec = replace(SPEC, throughput=produce.pop("throughput", 1000))
    with pytest.raises(UsageError, match=what):
        EndToEndPlan(PerfPlan(probe=spec, **produce), watched=WatchOptions(**watched))


def test_of_a_producer_that_did_not_come_to_tell_what_was_counted_is_known(
    clients: Clients,
) -> None:
    watching = watch(clients, WatchOptions(forever=True))
    clients.send(10)
    clients.write(PRODUCER, "batches", {"records": 3, "error": 7, "seq_stride": 1})
    clients.now_us += 10 * S
    watching.look()
    outcome = salvaged_outcome(SPEC, RunStart("h", START_US, 0), clients.folders[PRODUCER], "")
    outcome = replace(outcome, end_us=START_US + 10 * S, generated=1, acknowledged=1, failed=0)
    totals = watching.counted(outcome)
    assert (totals.generated, totals.acknowledged, totals.failed) == (13, 10, 3)
    assert totals.errors == {"REQUEST_TIMED_OUT": 3}
    whole = replace(outcome, health=Health())
    assert watching.counted(whole) is whole
    assert watching.whole_run(outcome)["seconds"] == 10
    assert watching.whole_run(outcome)["kept_from_seconds"] == 0


def test_a_producers_rows_are_whole_though_they_go_into_several_files(tmp_path: Path) -> None:
    config = ProducerConfig(acks=1, enable_idempotence=False, linger_ms=0.0)
    with StrictLoopback(Cluster({"t": 2}, brokers=2)) as cluster:
        spec = ProduceSpec(
            Access(cluster.bootstrap_server), "t", 400, 400, 10, config=config, rotate_us=200_000
        )
        with OnThisMachine()(spec) as probe:
            outcome = probe.outcome()
            (part,) = probe.results
            path = raw_path(part.directory, "batches")
            files = len(list(part.directory.glob("batches*")))
            acknowledged = sum(
                int(rows[:, COLUMNS["batches"].index("records")].sum())
                for rows in chunks(path, len(COLUMNS["batches"]))
            )
    assert (outcome.acknowledged, acknowledged) == (400, 400)
    assert files > 1


def test_a_record_says_that_it_is_the_end_of_a_longer_run() -> None:
    assert end_of({"kept_from_s": 90_000.4, "lasted_s": 93_600}) == "from 90,000 s on, of 93,600 s"
    assert end_of({"kept_from_s": 120.0}) == "from 120 s on"
    assert end_of({}) == ""
