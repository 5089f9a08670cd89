"""The documents of `analyze`, `report` and of the run store."""

from typing import Any, NotRequired, TypedDict

from kipctl.documents.common import ClientFinding, ClientVerdict, Tail, VerdictFigures
from kipctl.documents.log_traffic import (
    DeprecatedUse,
    LoggedPrincipal,
    LogLatency,
    RacklessReads,
    Talker,
)

Row = dict[str, int | float | str | bool | dict[str, Any] | None]
"""A row of a table of recorded runs: its columns are those of docs/pipeline.md."""


class AnalysedRun(TypedDict):
    run: str
    path: str
    started: str | None
    command: str | None
    leader_discovery: str | None
    throughput: float | None
    acks: str | None
    failure: str | None
    is_stopped: bool
    end_of: str | None


class AboutTable(TypedDict):
    title: str
    keys: list[str]
    rows: int
    shown: int


class AnalysisDocument(TypedDict):
    runs: list[AnalysedRun]
    by: list[str]
    window_ms: float
    tables: dict[str, AboutTable]
    records: list[Row]
    latency: list[Row]
    failures: list[Row]
    moves: list[Row]
    redirects: list[Row]
    actions: list[Row]
    rpcs: list[Row]
    metadata: list[Row]
    reads: list[Row]
    flips: list[Row]
    read_errors: list[Row]
    out_of_range: list[Row]


class LineCounts(TypedDict):
    """Lines by what they are. `parsed` and `broken` hold the marker, `other` do not."""

    read: int
    parsed: int
    broken: int
    other: int


class TurnedClock(TypedDict):
    file: str
    at: str
    is_forward: bool


class BrokenLine(TypedDict):
    """A line that holds the marker and no whole JSON: its file, its number (from 1), its start."""

    file: str
    line: int
    text: str


Period = TypedDict("Period", {"from": str | None, "to": str | None, "seconds": float | None})
Gap = TypedDict("Gap", {"from": str, "to": str})


class ApiUse(TypedDict):
    """What `--by` names tells its rows apart, too."""

    broker: NotRequired[int | None]
    software: NotRequired[str | None]
    software_version: NotRequired[str | None]
    client_id: NotRequired[str | None]
    origin: NotRequired[str | None]
    api: str
    api_key: int
    api_version: int
    requests: int


class LoggedClient(TypedDict):
    software: str
    version: str
    client_id: str
    origin: str
    requests: int
    connections: int
    hosts: int


class NotLeader(TypedDict):
    total: int
    hinted: int
    appended_then_failed: int


class FollowedHints(TypedDict):
    present: int
    followed: int | None
    at_once: int | None


class EpisodeWaits(TypedDict):
    """Of what clients waited for, in milliseconds; null where nothing was seen."""

    episode_count: int
    p50: float | None
    p99: float | None
    max: float | None
    longest: float | None
    """Until the last success, or what was seen last."""


class RefusedCounts(TypedDict):
    episodes: dict[str, int]
    followed_hints: FollowedHints
    wait_ms: EpisodeWaits


class Refused(RefusedCounts):
    verdict: ClientVerdict


class LoggedMetadata(TypedDict):
    requests: int
    per_minute: float | None
    response_bytes: int
    by_cause: dict[str, int]
    answered_the_same: int


class RackBytes(TypedDict):
    bytes_of_known_racks: int
    cross_rack_bytes: int
    cross_rack_share: float | None


class FleetRow(Refused):
    software: str
    version: str
    client_count: int
    connections: int
    requests: int
    hint_behaviour: str
    requests_by_api: dict[str, dict[str, int]]
    not_leader: NotLeader
    metadata: LoggedMetadata
    rack_bytes: RackBytes


class LoggedFinding(ClientFinding):
    """Of a software; `client_count` have it by themselves, of which the first are named."""

    software: str
    version: str
    client_count: int
    client_ids: list[str]


class RefusedClient(Refused):
    client: str
    software: str
    version: str
    leader_errors: int


class ErrorsByReader(TypedDict):
    consumers: dict[str, int]
    replicas: dict[str, int]


class PreferredNamed(TypedDict):
    named: int


class MetadataAsker(TypedDict):
    client: str
    software: str
    version: str
    is_kipctl: bool
    requests: int
    per_minute: float | None
    response_bytes: int
    by_cause: dict[str, int]
    unexplained: int
    answered_the_same: int
    asked: str | int | None
    known_bug: str | None


class RackReads(TypedDict):
    client_rack: str
    broker_rack: str | None
    fetch_count: int
    bytes: int


LoggedBroker = TypedDict(
    "LoggedBroker",
    {
        "broker": int,
        "rack": str | None,
        "advertised": list[str],
        "addresses": list[str],
        "line_count": int,
        "from": str | None,
        "to": str | None,
        "gaps": list[Gap],
        "hours_apart": float | None,
        "seconds": float | None,
    },
)


class ClockDifference(TypedDict):
    broker: int
    other: int
    other_ahead_at_least_ms: float | None
    other_ahead_at_most_ms: float | None
    differ_at_least_ms: float


class LoggedCluster(LogLatency):
    cluster_id: str | None
    period: Period
    apis: list[ApiUse]
    clients: list[LoggedClient]
    fleet: list[FleetRow]
    findings: list[LoggedFinding]
    refused_clients: list[RefusedClient]
    produce_not_leader: NotLeader
    produce_errors: dict[str, int]
    fetch_errors: dict[str, int]
    fetch_errors_by_reader: ErrorsByReader
    error_names: dict[str, str]
    preferred_read_replica: PreferredNamed
    metadata: LoggedMetadata
    metadata_clients: list[MetadataAsker]
    reads: list[RackReads]
    principals: list[LoggedPrincipal]
    talkers: list[Talker]
    rackless_reads: RacklessReads
    deprecated: list[DeprecatedUse]
    brokers: list[LoggedBroker]
    requests_served: int
    requests_of_unknown_brokers: dict[str, int]
    clocks: list[ClockDifference]


class RequestLogAnalysis(TypedDict):
    lines: LineCounts
    copies: dict[str, str]
    envelopes: dict[str, int]
    untimed: int
    turned_clocks: list[TurnedClock]
    broken_lines: list[BrokenLine]
    clusters: list[LoggedCluster]
    price_per_gb: float | None


class WrittenPage(TypedDict):
    """A page that was written, and its pictures."""

    html: str
    bytes: int
    svg: list[str]


class ReportDocument(WrittenPage):
    """A page of runs that was written."""

    runs: list[str]
    answer: str
    doubts: list[str]


class ListedRun(TypedDict):
    name: str
    started: str | None
    command: str | None
    records: int | None
    records_per_second: float | None
    acks: str | None
    leader_discovery: str | None
    during: str | None
    latency_ms: Tail
    bytes: int
    folder: str
    state: str


class RunsDocument(TypedDict):
    store: str
    runs: list[ListedRun]


class RunDocument(TypedDict):
    """A run in the store, and all of its `run.json`."""

    name: str
    folder: str
    bytes: int
    state: str


class SettingDiffers(TypedDict):
    """A setting that is not the same on both sides: every value that occurs there, as text."""

    setting: str
    a_values: str
    b_values: str


class ClientsOfSides(TypedDict):
    a: list[str]
    b: list[str]


class ComparedMeasure(VerdictFigures):
    measure: str
    title: str
    unit: str
    a: float | None
    b: float | None
    difference: float | None
    difference_percent: float | None
    a_by_run: dict[str, float | None]
    b_by_run: dict[str, float | None]


class GateSeen(TypedDict):
    condition: str
    holds: bool


class ComparisonDocument(TypedDict):
    a_runs: list[str]
    b_runs: list[str]
    settings: list[SettingDiffers]
    doubts: list[str]
    clients_by_side: ClientsOfSides
    lengths_differ: bool
    measures: list[ComparedMeasure]
    gates: NotRequired[list[GateSeen]]


class NamedComparison(ComparisonDocument):
    """What pages show; `names` are those of A and B."""

    names: tuple[str, str]


class ExportDocument(TypedDict):
    run: str
    format: str
    file: str
    bytes: int


class RemovedRun(TypedDict):
    name: str
    folder: str
    bytes: int


class RemovedDocument(TypedDict):
    removed: list[RemovedRun]


class SparkDocument(TypedDict):
    """The JVM that is kept warm; times are seconds since the Unix epoch."""

    running: bool
    starting: bool
    pid: NotRequired[int]
    jvm_pid: NotRequired[int]
    java: NotRequired[str]
    spark: NotRequired[str]
    driver_memory: NotRequired[str]
    started_at: NotRequired[float]
    last_used: NotRequired[float]
    idle_timeout_seconds: NotRequired[float]
    analyses: NotRequired[int]
    memory_bytes: NotRequired[int]
    is_busy: NotRequired[bool]


class PageTitle(TypedDict):
    id: str
    title: str


class ExplainDocument(TypedDict):
    findings: list[PageTitle]
    pages: list[PageTitle]


class PageDocument(PageTitle):
    text: str


class PackDocument(TypedDict):
    """What was packed now; `bytes_read` are those of files as they lie there."""

    pack: str
    files_in_pack: int
    files_packed: int
    files_unchanged: int
    files_renamed: int
    lines_packed: int
    bytes_read: int
    slice_seconds: float
