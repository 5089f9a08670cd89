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


class Tail(TypedDict):
    """Times in milliseconds."""

    p999: float | None


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
    """What a client makes of leader hints; `fault` is of most hints that nobody could follow, `why`
    says why it cannot be told, and `sentence` is without its subject."""

    behaviour: str
    fault: str | None
    why: str | None
    doubts: list[str]
    sentence: str
    advice: str | None


class KnownFinding(TypedDict):
    """Where it is public, and the release that mends it."""

    source: str
    address: str
    mended_in: str | None


class ClientFinding(TypedDict):
    """What a client, or what it is sent, is found to do wrong; `is_known` of its version."""

    id: str
    severity: str
    is_known: bool
    times: int
    of: int
    does: str
    costs: str
    change: str
    known: KnownFinding | None


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

    condition: str
    last: float | None
    worst: float | None
    worst_at: str | None
    looks: int
    looks_without_value: int
    crossed: int
    undisturbed: float | None
    """What it was before the change began, where it is compared with that."""


class GuardSeen(TypedDict):
    """What a guard saw."""

    conditions: list[GuardCondition]
    pauses: int
    paused_seconds: float
    is_given_up: bool


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
