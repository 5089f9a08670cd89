"""The documents of experiments: arms, what they came to, and whether they differ."""

from typing import TypedDict

from kipctl.documents.common import Latency, Longest, Tail, VerdictFigures, Waits
from kipctl.documents.runs import MetadataClient, MetadataRpcs, Moves, Redirects

Pair = TypedDict(
    "Pair",
    {
        "without": str | int,
        "with": str | int,
        "measure": str,
        "title": str,
        "without_ms": float | None,
        "with_ms": float | None,
        "without_ms_by_run": list[float | None],
        "with_ms_by_run": list[float | None],
        "cut_percent": float | None,
    },
)


class ComparedArms(Pair, VerdictFigures):
    """Two arms by one time of each run; `ratio_interval` bounds the second over the first."""


class ComparedHints(ComparedArms):
    """`takes_hints`: the second arm is shown leader hints."""

    takes_hints: bool


class ComparedPoint(ComparedHints):
    """At one staleness of the gain curve."""

    stale_metadata_ms: float


class ArmRecords(TypedDict):
    """`failed` is what clients say; null where one does not."""

    acknowledged: int
    failed: int | None
    refused_and_not_sent_again_alike: int


class ClientSays(TypedDict):
    """A run by its client's own account; null where it does not say. Its times have the names of
    `Latency`, as far as it tells them."""

    software: str
    records: int | None
    failed: int | None
    latency_ms: dict[str, float]
    cpu_seconds: float | None
    error: str | None


class TailByRun(TypedDict):
    p999: list[float]


class ArmDocument(TypedDict):
    """All runs of an arm together, every record counting the same."""

    arm: str
    kip_arm: str | None
    takes_hints: bool
    latency_ms: Latency
    records: ArmRecords
    redirects: Redirects
    metadata_rpcs: MetadataRpcs
    produce_rpcs: int
    records_per_second: float
    move_wait_ms: float | None
    move_wait_ms_by_run: list[float | None]
    latency_ms_by_run: TailByRun
    client_says: list[ClientSays]
    rotations: int


class BesidePublished(TypedDict):
    arm: str
    kip_arm: str | None
    latency_ms: Tail
    against: str | None
    cut_percent: float | None
    published_latency_ms: Tail
    published_latency_ms_by_run: TailByRun
    published_cut_percent: float | None
    set_up: str | None


class SetUpDiffers(TypedDict):
    """Something in which a run here is not as the KIP's was, as text; "not said" if unknown."""

    what: str
    published_value: str
    value_here: str


class TapConditions(TypedDict):
    metadata_delay_ms: float
    stale_metadata_ms: float


class RedirectMeasured(TapConditions):
    kafka_version: str | None
    acks: str
    throughput: int
    run_count: int
    doubts: list[str]
    arms: list[ArmDocument]
    comparisons: list[ComparedHints]
    beside_published: list[BesidePublished]
    published_cut_percent: float
    set_up_otherwise: list[SetUpDiffers]


class DemoDocument(TypedDict):
    kafka_version: str | None
    partitions: int
    fresh: RedirectMeasured
    stale: RedirectMeasured


class OwnArmDocument(ArmDocument):
    software: str | None
    kafka_version: str | None
    client_settings: dict[str, str]


class OwnDocument(TapConditions):
    title: str
    acks: str
    throughput: int
    run_count: int
    during: str
    doubts: list[str]
    arms: list[OwnArmDocument]
    comparisons: list[ComparedArms]


class BatchLatency(TypedDict):
    p50: float | None
    p99: float | None


class BatchLatencyByRun(TypedDict):
    p50: list[float | None]
    p99: list[float | None]


class BatchArm(TypedDict):
    """All runs of a batch size; what leads is the geometric mean of its runs."""

    batch: int
    batches: int
    leader_count: int
    rotations: int
    rotation_ms: float
    rotation_ms_by_run: list[float]
    latency_ms_of_runs: BatchLatency
    latency_ms_by_run: BatchLatencyByRun
    move_wait_ms: float | None
    move_wait_ms_by_run: list[float | None]
    partition_wait_ms: float | None
    partition_wait_ms_by_run: list[float | None]
    late_ms: int
    late_records: float
    late_records_by_run: list[float]
    latency_ms: Latency
    moves: Moves
    moves_met_by_run: list[int]
    records_failed: int


class BatchFigures(TypedDict):
    """What was measured of each size, how they differ, and what spoils it."""

    doubts: list[str]
    busy_percent: float | None
    arms: list[BatchArm]
    differences: list[ComparedArms]


class BatchDocument(BatchFigures):
    kafka_version: str | None
    broker_count: int
    leader_discovery: str
    acks: str
    throughput: float
    record_size: int
    run_count: int
    settle_seconds: float


class RolledRecords(TypedDict):
    acknowledged: int
    failed: int | None
    unsettled: int
    missing: int


class RestartSeen(TypedDict):
    broker: int
    controlled: bool
    leader_count: int
    called_ms: float | None
    away_ms: float | None
    ended_ms: float | None
    started_ms: float | None
    in_sync_ms: float | None
    elected_ms: float | None
    back_ms: float | None
    error: str | None


class FiguresOfHalves(TypedDict):
    """Of what was due while leaders moved."""

    seconds: float
    acknowledged_ms: Waits
    latency_ms: Waits
    batches_sent_again: int
    detection_ms: Waits
    client_wait_ms: Waits
    not_ready_ms: Waits


class HalfDocument(FiguresOfHalves):
    """While leaders moved away from a broker, or back to it."""

    broker: int
    leaders_move: str


class RolledRunDocument(TypedDict):
    records: RolledRecords
    acknowledged_ms: Latency
    latency_ms: Latency
    restarts: list[RestartSeen]
    halves: list[HalfDocument]


class Worst(TypedDict):
    p99: float
    max: float


class MovesOneWay(TypedDict):
    batches_sent_again: int
    acknowledged_ms: Worst
    latency_ms: Worst
    detection_ms: Worst
    client_wait_ms: Worst


class MovesBothWays(TypedDict):
    away: MovesOneWay
    back: MovesOneWay


class RollArm(TypedDict):
    arm: str
    software: str
    measured_by: str
    acknowledged_ms: Latency
    latency_ms: Latency
    redirects: Redirects
    metadata_rpcs: MetadataRpcs
    moves: MovesBothWays
    runs: list[RolledRunDocument]


class Workload(TypedDict):
    """One of the two that the KIP's roll was measured under, in all 6 OpenMessaging clients: the
    partitions of its one topic, messages per second, consumers in each of 3 subscriptions."""

    name: str
    partitions: int
    throughput: int
    producers: int
    consumers: int


class PublishedRoll(TypedDict):
    acks: str
    workload: Workload
    measure: str
    without_ms_by_run: list[float]
    with_ms_by_run: list[float]
    without_ms: float
    with_ms: float
    cut_percent: float
    runs_overlap: bool
    set_up: str


class RollCell(TypedDict):
    acks: str
    partitions: int
    doubts: list[str]
    arms: list[RollArm]
    differences: list[ComparedArms]
    published_rolls: list[PublishedRoll]


class RollExperimentDocument(TypedDict):
    kafka_version: str | None
    broker_count: int
    controller_count: int
    restart_count: int
    controlled: bool
    throughput: float
    record_size: int
    run_count: int
    worker_count: int
    settle_seconds: float
    cells: list[RollCell]
    differs: list[str]


class RackOutage(TypedDict):
    partitions: int
    pause_ms: Longest | None
    elsewhere_after_ms: Longest | None
    partitions_back: int
    back_after_ms: Longest | None
    errors: dict[str, int]


class RackTraffic(TypedDict):
    bytes: int
    bytes_by_rack: dict[str, int]
    own_rack_percent: float | None
    cross_rack_bytes: int


class ReadRunDocument(RackTraffic):
    latency_ms: Latency
    missing: int
    outage: RackOutage | None


class ReadWay(RackTraffic):
    seconds: float
    latency_ms: Latency
    missing: int
    runs: list[ReadRunDocument]


class ReadWays(TypedDict):
    leader: ReadWay
    closest: ReadWay


class ClosestClient(TypedDict):
    client: str
    software: str
    measured_by: str
    ways: ReadWays
    cross_rack_saved_percent: float | None
    differences: list[ComparedArms]


class ClosestDocument(TypedDict):
    kafka_version: str | None
    rack: str
    rack_by_broker: dict[str, str | None]
    partitions: int
    throughput: float
    record_size: int
    seconds: float
    run_count: int
    rack_goes: bool
    controlled: bool
    clients: list[ClosestClient]


class Claims(TypedDict):
    """How a client stands to what KIP-526 asks for; null where no phase shows it."""

    client: str
    startup_requests: int
    most_topics_at_startup: int
    startup_topics_asked: int | None
    startup_response_bytes: int | None
    asks_for_new_topics: str | None
    renewal_topics: int | None
    leader_change_requests: int | None
    leader_change_topics: int | None
    topics_asked_once_idle: int | None
    forgets_idle_topics: bool | None
    requests_for_returned_topics: int | None


class ClaimsDocument(TypedDict):
    topic_count: int
    partition_count: int
    throughput: float
    kafka_version: str | None
    clients: list[MetadataClient]
    claims: list[Claims]
