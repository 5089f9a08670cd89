"""A run that is watched while it lasts: its figures so far, its metrics, its oldest rows.

A thread reads what both clients write, once a second. With `keep_s` it removes files of rows that
are older (`kipctl.trace.row_writer.RowWriter.rotate`), when it has read them.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.registry import Collector

from kipctl.background import every
from kipctl.documents.runs import ClientOfWholeRun, WholeRun
from kipctl.errors import UsageError
from kipctl.load.live import Screen
from kipctl.measure.client_totals import ClientTotals
from kipctl.measure.live_totals import CONSUMER, DATASETS, PRODUCER, EndToEndTotals
from kipctl.measure.prometheus_metrics import families
from kipctl.probe.produce.run import ProduceOutcome
from kipctl.probe.schedule import Schedule
from kipctl.protocol.address import Address, host_port, is_loopback
from kipctl.trace.clock import now_us
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.row_writer import file_of
from kipctl.trace.rows import IntRows, RowReader, read_all
from kipctl.transport.access import parse_address

FILES_KEPT = 10
"""Into so many files goes what is kept of a dataset; there is one more, or two."""
_LOOK_S = 1.0
_WRITTEN_US = 2_000_000
"""So long after something happened its row is there to be read: clients write every 50 ms."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How a run is watched. Times are in seconds.

    `forever`: it lasts until a signal ends it, and `keep_s` of its rows are kept. `metrics` is
    where Prometheus text is served, port 0 for any. A record that did not come `lost_after_s`
    after its acknowledgement is lost.
    """

    forever: bool = False
    keep_s: float = 3600.0
    metrics: Address | None = None
    lost_after_s: float = 60.0

    def __post_init__(self) -> None:
        """Raises UsageError for times that make no sense."""
        if self.keep_s < FILES_KEPT:
            raise UsageError(f"--keep must be {FILES_KEPT} s or more.")
        if self.lost_after_s < 1:
            raise UsageError("--lost-after must be 1 s or more.")

    @property
    def asked(self) -> dict[str, object]:
        """For `run.json`."""
        if not self.forever:
            return {}
        return {"forever": True, "keep_s": self.keep_s, "lost_after_s": self.lost_after_s}

    @property
    def rotate_us(self) -> int:
        """How long rows go into one file; 0 for all the time."""
        return round(self.keep_s * 1e6 / FILES_KEPT) if self.forever else 0


def parse_listen(text: str) -> Address:
    """The address that `--metrics [HOST:]PORT` means. Raises UsageError."""
    return Address(*parse_address(f"127.0.0.1:{text}" if text.isdecimal() else text, least_port=0))


class _Published(Collector):
    """What was counted last, for whoever asks."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []

    def collect(self) -> list[Metric]:
        return self.metrics


class MetricsServer:
    """Prometheus text at an address, until it is closed."""

    def __init__(self, address: Address) -> None:
        """Raises UsageError when it cannot listen there."""
        self._published = _Published()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self._published)
        self._server: WSGIServer
        try:
            self._server, self._thread = start_http_server(address.port, address.host, registry)
        except OSError as refused:
            raise UsageError(
                f"--metrics {address} cannot be listened at: {refused.strerror or refused}.",
                "Name a free port, or 0 for any.",
            ) from None
        self.url = f"http://{host_port(address.host, self._server.server_port)}/metrics"

    def publish(self, metrics: list[Metric]) -> None:
        self._published.metrics = metrics

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serving_metrics(
    address: Address | None, message: Callable[[str], None]
) -> Iterator[MetricsServer | None]:
    """Metrics at that address, if any, while inside. Raises UsageError."""
    if address is None:
        yield None
        return
    server = MetricsServer(address)
    message(f"Metrics: {server.url}")
    if not is_loopback(address.host):
        message(
            f"--metrics {address}: whoever reaches it reads them, in plain text and without a"
            " login."
        )
    try:
        yield server
    finally:
        server.close()


@dataclass(slots=True)
class _DatasetFiles:
    """A dataset that a client writes, as far as it was read."""

    path: Path
    reader: RowReader
    over: deque[tuple[int, int]] = field(default_factory=deque)
    """Files that are read to their ends: their numbers, and when the next one was begun."""
    kept_since_us: int = 0

    def new_rows(self) -> IntRows:
        """All that was written since the last call."""
        before = self.reader.number
        rows = read_all(self.reader.new_rows)
        self.over.extend((number, now_us()) for number in range(before, self.reader.number))
        return rows

    def remove_before(self, moment_us: int) -> None:
        """Remove files that were over by then."""
        while self.over and self.over[0][1] <= moment_us:
            number, self.kept_since_us = self.over.popleft()
            file_of(self.path, number).unlink(missing_ok=True)


class Watch:
    """Counts a run of two clients whose rows are in these folders, by name."""

    def __init__(
        self,
        how: WatchOptions,
        totals: EndToEndTotals,
        schedule: Schedule,
        folders: Mapping[str, Path],
        server: MetricsServer | None,
        screen: Screen | None = None,
    ) -> None:
        self._how, self.totals, self._schedule = how, totals, schedule
        self._followed = {
            (client, dataset): _DatasetFiles(
                path,
                RowReader(path, len(COLUMNS[dataset])),
            )
            for client, datasets in DATASETS.items()
            for dataset in datasets
            for path in [raw_path(folders[client], dataset)]
        }
        self._server, self._screen = server, screen
        self._wall_offset_us = time.time_ns() // 1000 - now_us()
        self._is_over = False
        self.fault: BaseException | None = None
        """What has ended the watching."""

    @property
    def kept_since_us(self) -> int | None:
        """From when on all rows are kept (monotonic); None if none was removed."""
        return max(files.kept_since_us for files in self._followed.values()) or None

    def load_is_over(self) -> None:
        """No more is produced; and from now on nothing is removed, as somebody reads it."""
        self._is_over = True

    def look(self) -> None:
        """Count what was written since, and remove what is old."""
        until_us = now_us() - _WRITTEN_US
        rows = {name: files.new_rows() for name, files in self._followed.items()}
        self.totals.add(rows, until_us)
        if self._how.forever and not self._is_over:
            for files in self._followed.values():
                files.remove_before(now_us() - round(self._how.keep_s * 1e6))
        if self._server:
            schedule = self._schedule
            due = (
                schedule.due(until_us) if schedule.throttled else self.totals.matching.acknowledged
            )
            self._server.publish(
                list(families(self.totals, due, self._wall_offset_us, not self._is_over))
            )
        if self._screen:
            self._screen.show(self.totals, until_us)

    def finish(self) -> None:
        """Both clients have ended: count the rest."""
        self.look()
        self.totals.finish()

    def counted(self, outcome: ProduceOutcome) -> ProduceOutcome:
        """The producer's outcome; one that died has settled what was counted."""
        if outcome.health is not None:
            return outcome
        acknowledged, errors = self.totals.matching.acknowledged, dict(self.totals.failed)
        failed = sum(errors.values())
        return replace(
            outcome,
            generated=acknowledged + failed,
            acknowledged=acknowledged,
            failed=failed,
            errors=errors,
        )

    def whole_run(self, outcome: ProduceOutcome) -> WholeRun:
        """The `whole_run` object of `perf e2e --forever --output json`."""
        since_us = self.kept_since_us
        return {
            "seconds": round((outcome.end_us - outcome.start_us) / 1e6, 3),
            "kept_from_seconds": (since_us - outcome.start_us) / 1e6 if since_us else 0.0,
            "late": self.totals.matching.late,
            "producer": _met(self.totals.clients[PRODUCER]),
            "consumer": _met(self.totals.clients[CONSUMER]),
        }

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Look every second, in a thread, while inside. Raises what went wrong there."""

        def work() -> None:
            try:
                if not self.fault:
                    self.look()
            except BaseException as fault:
                self.fault = fault

        self.look()
        with every(_LOOK_S, work):
            yield
        if self.fault:
            raise self.fault


def _met(client: ClientTotals) -> ClientOfWholeRun:
    return {"redirects": client.redirects, "metadata_rpcs": client.metadata_rpcs}
