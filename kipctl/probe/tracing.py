"""What a client writes down while it runs: rows of integers, in the order of these columns."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kipctl.probe.redirects import FailedAttempt, phases
from kipctl.trace.codes import PHASES
from kipctl.trace.rows import RowWriter
from kipctl.transport.loop import InFlight

BATCH_COLUMNS = (
    "topic",
    "partition",
    "first_seq",
    "seq_stride",
    "records",
    "bytes",
    "intended_us",
    "sent_us",
    "acked_us",
    "attempts",
    "error",
    "broker",
    "leader_epoch",
    "base_offset",
)


class RpcRow(NamedTuple):
    """One request and its answer; `received_us` 0 when none came, `cause` -1 but for Metadata."""

    connection: int
    broker: int
    api_key: int
    api_version: int
    request_bytes: int
    response_bytes: int
    sent_us: int
    received_us: int
    queued_behind: int
    queued_behind_us: int
    cause: int
    topics: int
    critical: bool
    error: int


REDIRECT_COLUMNS = (
    "topic",
    "partition",
    "first_seq",
    "records",
    "attempt",
    "error",
    "error_us",
    "from_broker",
    "from_epoch",
    "base_offset",
    "hint_leader",
    "hint_epoch",
    "hint_endpoint",
    "decision",
    "to_broker",
    "to_epoch",
    *(f"{phase}_us" for phase in PHASES),
    "metadata_queued_us",
    "same_epoch_retry",
)


class ReadRow(NamedTuple):
    """What an answer to a Fetch said of one partition; -1 for what it did not say."""

    topic: int
    partition: int
    broker: int
    broker_rack: int
    """Position in the consumer's list of racks."""
    is_leader: bool
    preferred_read_replica: int
    records: int
    bytes: int
    error: int
    fetch_offset: int
    next_offset: int
    high_watermark: int
    range_case: int
    range_handling: int
    time_us: int


MOMENTS = {"intended_us", "sent_us", "acked_us", "received_us", "error_us", "time_us"}
"""Columns that hold moments, 0 for never; other `_us` columns are durations."""
COLUMNS = {
    "batches": BATCH_COLUMNS,
    "reads": ReadRow._fields,
    "rpcs": RpcRow._fields,
    "redirects": REDIRECT_COLUMNS,
}


def raw_path(directory: Path, dataset: str) -> Path:
    """The file of a dataset's rows in the folder of a running probe."""
    return directory / f"{dataset}.i64"


class Tracing:
    """The row files of one probe. Times are absolute monotonic microseconds; 0 is never."""

    def __init__(self, directory: Path, datasets: Iterable[str]) -> None:
        self._writers = {
            name: RowWriter(raw_path(directory, name), len(COLUMNS[name])) for name in datasets
        }
        self.rows = {name: writer.append for name, writer in self._writers.items()}
        """For each dataset, what appends a row of its columns."""

    def rpc(
        self,
        broker: int,
        connection: int,
        flight: InFlight,
        received_us: int,
        response_bytes: int,
        behind_us: int,
        topics: int,
        error: int,
        cause: int = -1,
        critical: bool = False,
    ) -> None:
        """A request was answered, or its connection lost (`received_us` 0)."""
        self.rows["rpcs"](
            RpcRow(
                connection,
                broker,
                flight.api_key,
                flight.api_version,
                flight.size,
                response_bytes,
                flight.sent_us,
                received_us,
                flight.ahead,
                behind_us,
                cause,
                topics,
                critical,
                error,
            )
        )

    def redirects(
        self,
        topic: int,
        partition: int,
        first_seq: int,
        records: int,
        failures: Sequence[FailedAttempt],
        intended_us: int,
        last_sent_us: int,
        done_us: int,
    ) -> None:
        """What was sent again is done: its failed attempts, and their shares of the time."""
        shares = phases(failures, intended_us, last_sent_us, done_us)
        for failed, share in zip(failures, shares, strict=True):
            self.rows["redirects"](
                (
                    topic,
                    partition,
                    first_seq,
                    records,
                    failed.attempt,
                    failed.error,
                    failed.error_us,
                    failed.broker,
                    failed.epoch,
                    failed.base_offset,
                    failed.hint_leader,
                    failed.hint_epoch,
                    failed.hint_endpoint,
                    failed.decision,
                    failed.to_broker,
                    failed.to_epoch,
                    *share,
                    failed.metadata_queued_us,
                    failed.to_broker != -1 and failed.to_epoch <= failed.epoch,
                )
            )

    def flush(self) -> None:
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
