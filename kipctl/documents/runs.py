"""The documents of measured runs: what a client came to. They are in `run.json`, too."""

from typing import NotRequired, TypedDict

from kipctl.documents.common import Action, Latency, Longest, Waits


class PhaseTimes(TypedDict):
    """What redirected batches, or partitions that were read, spent in a phase, in milliseconds."""

    p50: float
    p99: float
    sum: float


class Phases(TypedDict):
    queued: PhaseTimes
    detect: PhaseTimes
    backoff: PhaseTimes
    metadata: PhaseTimes
    connect: PhaseTimes
    throttled: PhaseTimes
    not_ready: PhaseTimes
    acknowledge: PhaseTimes


class Moves(TypedDict):
    """Moved leaders as a client met them (`kipctl.measure.moves`)."""

    met: int
    not_ready: int
    wait_ms: Waits
    by_wait: dict[str, int]


class Redirects(TypedDict):
    """What met a leader that leads no more."""

    batches: int
    errors: int
    appended_then_failed: int
    hints: dict[str, int]
    moves: Moves
    same_epoch_retries: int
    client_share_ms: PhaseTimes
    phases_ms: Phases
    removable_percent: NotRequired[float | None]


class QueuedBehind(TypedDict):
    """Requests that were sent while their connection had others to answer first."""

    requests: int
    wait_ms: Longest


class MetadataRpcs(TypedDict):
    """Metadata requests (KIP-526)."""

    total: int
    on_critical_path: int
    bytes: int
    queued_behind: QueuedBehind
    by_cause: dict[str, int]


class Reauthentications(TypedDict):
    """KIP-368."""

    count: int
    max_ms: float


class Health(TypedDict):
    """What a reader has to know besides the times; null is what is not known."""

    throttle_ms: int | None
    topic_changes: list[str] | None
    loop_lag_ms: Waits | None
    reauthentications: Reauthentications | None
    connection_failures: dict[str, int] | None
    hinted_elsewhere: dict[str, int] | None


class RecordsSent(TypedDict):
    sent: int
    acknowledged: int
    failed: int
    errors: dict[str, int]


class Run(TypedDict):
    """Of every measured run."""

    topic: str
    actions: list[Action]
    doubts: list[str]
    leader_discovery: str
    kafka_version: str | None


class LongestRecord(TypedDict):
    """The record that took longest: how long, and when it was intended to be sent, in milliseconds
    since the run's start and by the wall clock."""

    longest_ms: float
    intended_ms: float
    intended: str
    partition: int


class ProduceDocument(Run, Health):
    """Times and the rate leave the warm-up out; all else is of the whole run."""

    records: RecordsSent
    warmup_records: int
    latency_ms: Latency
    service_ms: Latency
    longest_record: NotRequired[LongestRecord | None]
    records_per_second: float
    cpu_seconds: float | None
    redirects: Redirects
    metadata_rpcs: MetadataRpcs


class Fetches(TypedDict):
    """Fetch requests, and what partitions were answered."""

    requests: int
    lost: int
    request_bytes: int
    response_bytes: int
    took_ms: Latency
    partitions_with_records: int
    preferred_replica_named: int
    errors: dict[str, int]


class ReadFrom(TypedDict):
    """What was read from a broker, as leader or as follower."""

    broker: int
    rack: str | None
    read_as: str
    partitions: int
    answers: int
    records: int
    bytes: int
    share: float
    local: bool | None


class Flips(TypedDict):
    """Changes of the broker that partitions were read from, those that are alike together."""

    from_broker: int
    to_broker: int
    why: str
    partitions: int
    times: int
    first_ms: float
    gap_ms: Longest


class OutOfRange(TypedDict):
    """Offsets that a broker did not have (KIP-392)."""

    case: str
    handling: str
    times: int


class Reading(TypedDict):
    """What a consumer did; bytes are of whole record batches."""

    partitions: int
    client_rack: str | None
    fetches: Fetches
    brokers: list[ReadFrom]
    flips: list[Flips]
    out_of_range: list[OutOfRange]


class RecordsRead(TypedDict):
    read: int
    bytes: int


class ConsumeDocument(Run, Reading, Health):
    records: RecordsRead
    partitions_failed: dict[str, int]
    seconds: float
    mb_per_second: float
    records_per_second: float
    cpu_seconds: float | None
    cpu_seconds_per_gb: float | None
    redirects: Redirects
    metadata_rpcs: MetadataRpcs


class RecordsDelivered(RecordsSent):
    """`missing` is null where nobody waited for them."""

    delivered: int
    missing: int | None
    twice: int
    extra: int


class CpuOfBoth(TypedDict):
    producer: float | None
    consumer: float | None


class HealthOfBoth(TypedDict):
    producer: Health
    consumer: Health


class RedirectsOfBoth(TypedDict):
    produce: Redirects
    fetch: Redirects


class MetadataOfBoth(TypedDict):
    producer: MetadataRpcs
    consumer: MetadataRpcs


class ClientOfWholeRun(TypedDict):
    """What one client met in all of a run that lasted, times to three digits."""

    redirects: Redirects
    metadata_rpcs: MetadataRpcs


class WholeRun(TypedDict):
    """Of a run with --forever, of which the end is recorded."""

    seconds: float
    kept_from_seconds: float
    late: int
    producer: ClientOfWholeRun
    consumer: ClientOfWholeRun


class EndToEndDocument(Run, Reading):
    """`latency_ms` is from the intended send time to the answer that brought the record; times and
    the rate leave the warm-up out, all else is of the whole run."""

    records: RecordsDelivered
    warmup_records: int
    latency_ms: Latency
    acknowledged_ms: Latency
    longest_record: NotRequired[LongestRecord | None]
    seconds: float
    records_per_second: float
    cpu_seconds: CpuOfBoth
    health: HealthOfBoth
    redirects: RedirectsOfBoth
    metadata_rpcs: MetadataOfBoth
    whole_run: NotRequired[WholeRun]


RunDocument = ProduceDocument | ConsumeDocument | EndToEndDocument
"""Of any run of kipctl's own clients."""


class LatencyAndSum(Latency):
    sum: float


class MetadataPhase(TypedDict):
    """What a client asked for in a phase; null is what it does not report."""

    phase: str
    records: int
    failed: int
    errors: dict[str, int]
    seconds: float
    requests: int
    brokers_counted: int | None
    by_cause: dict[str, int]
    topics_asked: int | None
    most_topics_asked: int
    request_bytes: int | None
    response_bytes: int | None
    request_ms: LatencyAndSum | None
    waited_records: int | None
    waited_ms: LatencyAndSum | None
    latency_ms: LatencyAndSum | None
    move_count: NotRequired[int]
    least_asked: NotRequired[int | None]


class Growth(TypedDict):
    """A request for a new topic, of those of the first phase."""

    number: int
    topic_count: int | None
    request_bytes: int | None
    response_bytes: int | None
    duration_ms: float | None


class MetadataClient(TypedDict):
    client: str
    policy: str | None
    version: str
    phases: list[MetadataPhase]
    growth: list[Growth]


class MetadataDocument(TypedDict):
    topic_count: int
    partition_count: int
    throughput: float
    kafka_version: str | None
    configuration: dict[str, str]
    clients: list[MetadataClient]
