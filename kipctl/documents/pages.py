"""What pages draw besides what commands print: counted by time and by length, so that it is small.

Moments and spans are microseconds, of runs since their start.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from kipctl.documents.analysis import AnalysisDocument
from kipctl.documents.tap import TapClient

Row = Mapping[str, Any]
"""Of a table that Spark made: its columns are those of docs/pipeline.md."""
Rows = Sequence[Row]


class DrawnRun(TypedDict):
    """What spoilt a run, and what it was made with; `clients` are those of a tap."""

    run: str
    arm: str
    started: str | None
    command: str | None
    doubts: list[str]
    clients: list[TapClient]
    tells_moves: bool
    """The moved leaders are those that a tap counted, and the waits are as it has them."""
    failed: str | None
    stopped: bool
    end_of: str
    actions: str
    settings: dict[str, str]
    span_us: tuple[int, int] | None


class LeaderBand(TypedDict):
    """Partitions with the same leaders: which broker led (None: not known) from when on."""

    names: list[str]
    count: int
    leads: list[tuple[int, int | None]]


class LeaderBands(TypedDict):
    partitions: int
    rows: list[LeaderBand]
    rows_left_out: int
    partitions_left_out: int


class LeadersInTime(LeaderBands):
    has_more_changes: bool


class Timeline(TypedDict):
    """Of one run, in buckets; refusals and Metadata requests are counted by bucket."""

    run: str
    arm: str
    from_us: int
    until_us: int
    latency: Rows
    refused: Rows
    metadata: Rows
    leaders: LeadersInTime


class TablesByArm(TypedDict):
    records: Rows
    latency: Rows
    moves: Rows
    redirects: Rows


class RunPictures(TypedDict):
    """Of recorded runs. `waits` (of moved leaders) and `latencies` count how many were up to so
    long; `slowest` are the redirected batches and Fetches that took longest."""

    analysis: AnalysisDocument
    bucket_us: int
    runs: list[DrawnRun]
    latencies: Rows
    waits: Rows
    slowest: Rows
    arms: TablesByArm
    timelines: list[Timeline]


class CountInTime(TypedDict):
    name: str
    bucket: int
    count: int


class LogTimeline(TypedDict):
    """Of a request log's cluster; `from_us` is since the epoch, of the first bucket."""

    cluster_id: str | None
    from_us: int
    bucket_us: int
    apis: list[CountInTime]
    software: list[CountInTime]
    errors: list[CountInTime]
    metadata: list[CountInTime]
