"""Any client's Metadata requests, phase by phase, as a tap sees them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

import numpy as np

from kipctl.load.metadata.phases import PhaseLoad, PhaseResult, Rpc
from kipctl.protocol.api import ApiKey
from kipctl.tap import export
from kipctl.tap.process import RunningTap, TapOutcome, running_tap
from kipctl.tap.spec import Lend, TapSpec
from kipctl.trace.clock import now_us
from kipctl.trace.codes import MetadataCause
from kipctl.trace.columns import BATCH, RPC
from kipctl.trace.rows import IntRows
from kipctl.trace.run_rows import dataset, rows
from kipctl.trace.store import Run
from kipctl.transport.access import Access


class Sender(Protocol):
    """A producer of many topics."""

    @property
    def software(self) -> str:
        """Its name and version."""

    def send(self, load: PhaseLoad) -> Mapping[str, int]:
        """Send the phase's records on time, and wait until all are settled; returns how many have
        failed, by Kafka's names of the errors."""

    def close(self) -> None:
        """Give up its connections."""


class _Sent(NamedTuple):
    """A phase, from and to (monotonic microseconds), and how many of its records failed."""

    begin_us: int
    end_us: int
    errors: Mapping[str, int]


class TappedClient:
    """A client at work behind a tap. What comes before its first phase is part of that."""

    def __init__(self, sender: Sender, tap: RunningTap, directory: Path) -> None:
        self._sender, self._tap, self._directory = sender, tap, directory
        self.software = sender.software
        self._end_us = tap.start_us
        self._sent: list[_Sent] = []

    def send(self, load: PhaseLoad) -> None:
        """Carry out a phase."""
        errors = self._sender.send(load)
        begin_us, self._end_us = self._end_us, now_us()
        self._sent.append(_Sent(begin_us, self._end_us, errors))

    def finish(self, run: Run, client_id: str) -> tuple[TapOutcome, list[PhaseResult]]:
        """End both and record what the tap saw; what the client did in each of the phases."""
        self._sender.close()
        tapped = self._tap.stop()
        export.write(run, tapped, self._directory)
        start_us = tapped.start_us
        return tapped, [
            phase_result(run, client_id, begin_us - start_us, end_us - start_us, errors)
            for begin_us, end_us, errors in self._sent
        ]


@contextmanager
def tapped_client(make: Callable[[Access], Sender], access: Access) -> Iterator[TappedClient]:
    """A client that is made for the tap's bootstrap server; both are gone after the block."""
    with (
        TemporaryDirectory(prefix="kipctl-tap-") as scratch,
        running_tap(TapSpec(access=access, lends=Lend.THIS_USER), Path(scratch)) as tap,
        closing(make(access.behind(tap.bootstrap_server))) as sender,
    ):
        yield TappedClient(sender, tap, Path(scratch))


def phase_result(
    run: Run, client_id: str, begin_us: int, end_us: int, errors: Mapping[str, int]
) -> PhaseResult:
    """What the recorded client did in [begin, end), microseconds since the run's start."""
    calls = rows(dataset(run, "rpcs", client_id), "rpcs")
    batches = rows(dataset(run, "batches", client_id), "batches")
    calls = _sent_in(calls, RPC["sent_us"], begin_us, end_us)
    calls = calls[calls[:, RPC["api_key"]] == ApiKey.METADATA]
    batches = _sent_in(batches, BATCH["sent_us"], begin_us, end_us)
    done = batches[batches[:, BATCH["error"]] == 0]
    latencies = np.repeat(
        done[:, BATCH["acked_us"]] - done[:, BATCH["intended_us"]], done[:, BATCH["records"]]
    )
    failed = sum(errors.values())
    return PhaseResult(
        records=int(done[:, BATCH["records"]].sum()) + failed,
        failed=failed,
        seconds=(end_us - begin_us) / 1e6,
        latencies_us=latencies.tolist(),
        waits_us=None,
        rpcs=[_rpc(call) for call in calls.tolist()],
        errors=errors,
    )


def _sent_in(recorded: IntRows, column: int, begin_us: int, end_us: int) -> IntRows:
    at = recorded[:, column]
    return recorded[(at >= begin_us) & (at < end_us)]


def _rpc(call: Sequence[int]) -> Rpc:
    cause, topics, size, answer, sent_us, received_us = (
        call[RPC[name]]
        for name in (
            "cause", "topics", "request_bytes", "response_bytes", "sent_us", "received_us"
        )
    )  # fmt: skip
    answered = received_us > 0
    return Rpc(
        MetadataCause(cause).name.lower() if cause >= 0 else None,
        topics if topics >= 0 else None,
        size,
        answer if answered else None,
        received_us - sent_us if answered else None,
    )
