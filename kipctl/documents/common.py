"""Parts of documents that several commands have."""

from typing import NotRequired, TypedDict


class Waits(TypedDict):
    """Times in milliseconds."""

    p50: float
    p99: float
    max: float


class Latency(Waits):
    """Times in milliseconds, nearest-rank."""

    mean: float
    p95: float
    p999: float


class Longest(TypedDict):
    """Times in milliseconds."""

    p50: float
    max: float


class PartitionId(TypedDict):
    topic: str
    partition: int


class VerdictFigures(TypedDict):
    """Whether two sides differ (`kipctl.verdict`)."""

    p_value: float | None
    p_adjusted: float | None
    ratio_interval: list[float] | None
    different: bool | None
    verdict: str
    runs_a_side: int


class ClientVerdict(TypedDict):
    """What a client makes of leader hints."""

    behaviour: str
    fault: str | None
    why: str | None
    doubts: list[str]
    sentence: str
    advice: str | None


class Action(TypedDict):
    """What was done to the cluster while a client worked; times since the run's start."""

    action: str
    called_ms: float | None
    answered_ms: float | None
    converged_ms: float | None
    partitions: int | None
    error: str | None


class GuardCondition(TypedDict):
    """A condition of a guard; latencies are seconds."""

    guard: str
    last: float | None
    worst: float | None
    looks: int
    not_known: int
    crossed: int
    undisturbed: float | None
    """What it was before the change began, where it is compared with that."""


class GuardSeen(TypedDict):
    """What a guard saw."""

    conditions: list[GuardCondition]
    pauses: int
    paused_seconds: float
    given_up: bool


class OpenTransaction(TypedDict):
    topic: str
    partition: int
    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    state: str | None
    since: str | None
    start_offset: int | None
    ending: str
    hanging: bool
    readers: str
    abort: str | None


class Cluster(TypedDict):
    """Which cluster a document is about."""

    name: str
    id: str
    bootstrap_servers: str


class Envelope(TypedDict):
    """What every document has besides."""

    _command: str
    _version: str
    _cluster: NotRequired[Cluster]
