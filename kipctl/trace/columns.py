"""What is written down while a run lasts: rows of integers, in the order of these columns."""

from pathlib import Path
from typing import NamedTuple

from kipctl.trace.codes import PHASES

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
    "topic_generation",
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


MOVE_MET_COLUMNS = (
    *("topic", "partition", "topic_generation", "epoch"),
    *("error_us", "wait_us", "not_ready"),
)
EVENT_COLUMNS = ("topic", "partition", "from_broker", "to_broker", "epoch", "seen_by", "time_us")

MOMENTS = {"intended_us", "sent_us", "acked_us", "received_us", "error_us", "time_us"}
"""Columns that hold moments, 0 for never; other `_us` columns are durations."""
COLUMNS = {
    "batches": BATCH_COLUMNS,
    "reads": ReadRow._fields,
    "rpcs": RpcRow._fields,
    "redirects": REDIRECT_COLUMNS,
}
BATCH, READ, RPC, REDIRECT = (
    {name: position for position, name in enumerate(COLUMNS[dataset])}
    for dataset in ("batches", "reads", "rpcs", "redirects")
)
"""Where a dataset's columns are in its rows, by their names."""


def raw_path(directory: Path, dataset: str) -> Path:
    """The file of a dataset's rows in the folder of a running probe."""
    return directory / f"{dataset}.i64"
