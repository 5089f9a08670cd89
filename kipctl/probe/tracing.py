"""What the producer writes down while it runs: rows of integers, in the order of these columns."""

from pathlib import Path
from typing import NamedTuple

from kipctl.probe.produce.batches import Batch
from kipctl.probe.redirects import phases
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
MOMENTS = {"intended_us", "sent_us", "acked_us", "received_us", "error_us"}
"""Columns that hold moments, 0 for never; other `_us` columns are durations."""
COLUMNS = {"batches": BATCH_COLUMNS, "rpcs": RpcRow._fields, "redirects": REDIRECT_COLUMNS}


def raw_path(directory: Path, dataset: str) -> Path:
    """The file of a dataset's rows in the folder of a running probe."""
    return directory / f"{dataset}.i64"


class Tracing:
    """The row files of one probe. Times are absolute monotonic microseconds; 0 is never."""

    def __init__(self, directory: Path) -> None:
        self._writers = {
            name: RowWriter(raw_path(directory, name), len(columns))
            for name, columns in COLUMNS.items()
        }
        self.batch_row = self._writers["batches"].append
        self._rpc_row = self._writers["rpcs"].append
        self._redirect_row = self._writers["redirects"].append

    def batch_done(self, batch: Batch, done_us: int, error: int, base_offset: int) -> None:
        """A batch was acknowledged (error 0) or given up."""
        partition = batch.partition
        attempts = batch.attempts
        section = batch.section or batch.variant.section(batch.records)
        self.batch_row(
            (
                partition.topic_position,
                partition.index,
                batch.first_seq,
                batch.stride,
                batch.records,
                section.value_bytes,
                batch.intended_us,
                batch.sent_us,
                done_us,
                attempts.count if attempts else 0,
                error,
                batch.broker,
                attempts.epoch if attempts else -1,
                base_offset,
            )
        )
        if batch.failures:
            self._write_redirects(batch, done_us)

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
        self._rpc_row(
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

    def _write_redirects(self, batch: Batch, done_us: int) -> None:
        failures = batch.failures or []
        shares = phases(failures, batch.intended_us, batch.last_sent_us, done_us)
        for failed, share in zip(failures, shares, strict=True):
            self._redirect_row(
                (
                    batch.partition.topic_position,
                    batch.partition.index,
                    batch.first_seq,
                    batch.records,
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
