"""The documents of commands that change a cluster, and of its journal."""

from typing import NotRequired, TypedDict

from kipctl.documents.common import GuardSeen, Longest, OpenTransaction, PartitionId
from kipctl.documents.plans import PhaseShown, PlannedPartition, PlanShown
from kipctl.documents.runs import ProduceDocument


class Copied(TypedDict):
    """What was copied, beside what was expected."""

    expected_bytes: int
    copied_bytes: int
    seconds: float


class Skipped(PartitionId):
    reason: str


class Besides(TypedDict):
    """What a change may have besides."""

    skipped: NotRequired[list[Skipped]]
    emptied_brokers: NotRequired[list[int]]
    measured: NotRequired[ProduceDocument]
    guard: NotRequired[GuardSeen]


class PlanDocument(PlanShown, Besides):
    """A dry run: the plan as Kafka's own tool reads it, and what it changes."""

    version: int
    partitions: list[PlannedPartition]
    ongoing_partitions: int
    phases: NotRequired[list[PhaseShown]]
    roll: NotRequired[str]
    entry: NotRequired[str]
    under_way: NotRequired[int]
    leaders_to_elect: NotRequired[int]


class TopicRotation(TypedDict):
    topic: str
    leader_count: int
    left_alone_partitions: int


class RotationsDocument(Besides):
    """What a rotation of everything would move."""

    topics: list[TopicRotation]


class ReassignedPartition(PartitionId):
    replicas_before: list[int]
    replicas: list[int]
    leader: int


class ReassignedDocument(Besides):
    """What a plan changed."""

    partitions: list[ReassignedPartition]
    refused: list[str]
    gone: list[PartitionId]
    seconds: float
    copied: Copied | None
    saved: str | None
    entry: str | None


class MovedPartition(PartitionId):
    outcome: str
    from_leader: int | None
    leader: int
    leader_epoch: int
    replicas_before: list[int]
    replicas: list[int]
    error: str | None


class MovedCounts(TypedDict):
    done: int
    failed: int


class MovedBy(TypedDict):
    by_election: int
    with_data: int
    by_others: int


class HeldUp(PartitionId):
    last_stable_offset: int
    high_watermark: int


class StandingWatermark(PartitionId):
    """A partition of which nobody reads the newest records, as too few replicas are in sync."""

    in_sync: int
    min_insync_replicas: int | None


class TimelineStep(TypedDict):
    """When a step ended, of all or of a broker: after the first call; of several batches the
    slowest election's, after that was called."""

    step: str
    broker: int | None
    after_ms: float


class MovedDocument(Besides):
    """What became of leaders that were to move."""

    partitions: list[MovedPartition]
    timeline: list[TimelineStep]
    silent_brokers: list[int]
    watched_brokers: list[int]
    gone: list[PartitionId]
    counts: MovedCounts
    leaders_moved: MovedBy
    failures: list[str]
    copied: Copied | None
    saved: str | None
    entry: str | None
    held_up: NotRequired[list[HeldUp]]
    high_watermark_stands: NotRequired[list[StandingWatermark]]
    transactions: NotRequired[list[OpenTransaction]]
    transactions_not_known: NotRequired[list[str]]
    state: NotRequired[str]
    stopped: NotRequired[str]
    rolled_back: NotRequired[bool]


class StoppedDocument(Besides):
    """A change that was stopped, by its guard or by somebody."""

    entry: str | None
    state: str | None
    stopped: str
    rolled_back: bool


class VerifiedPartition(PartitionId):
    state: str
    wanted: list[int]
    replicas: list[int]


class MovedReplica(PartitionId):
    """A replica that is to be in another log directory of its broker, or was brought there."""

    broker: int
    from_log_dir: str
    to_log_dir: str
    bytes: int


class DisksDocument(Besides):
    """Replicas moved between the log directories of their brokers, or to be; `seconds` is null
    where nothing was."""

    disks: list[MovedReplica]
    left_alone: list[str]
    failures: list[str]
    throttle_bytes_per_second: int | None
    seconds: float | None
    entry: str | None


class VerifiedDocument(Besides):
    """How the cluster stands to a plan."""

    partitions: list[VerifiedPartition]
    counts: dict[str, int]
    disks: list[MovedReplica]


class OngoingPartition(PartitionId):
    replicas: list[int]
    adding: list[int]
    removing: list[int]


class OngoingDocument(Besides):
    """What is being reassigned, and what brokers copy from disk to disk: of those in
    `broker_errors` that is not known."""

    ongoing: list[OngoingPartition]
    left_alone: NotRequired[list[OngoingPartition]]
    disks: list[MovedReplica]
    broker_errors: NotRequired[dict[str, str]]


class CancelledPartition(PartitionId):
    replicas: list[int]
    order: str


class CancelledDocument(Besides):
    cancelled: list[CancelledPartition]
    refused: list[str]
    disks: NotRequired[list[MovedReplica]]
    entry: NotRequired[str | None]
    state: NotRequired[str]
    stopped: NotRequired[str]
    rolled_back: NotRequired[bool]


class NotPreferredPartition(PartitionId):
    leader: int
    preferred_leader: int
    replicas: list[int]
    isr: list[int]


class NotPreferredDocument(Besides):
    """What an election of preferred leaders would change."""

    partitions: list[NotPreferredPartition]


class LeaderlessPartition(PartitionId):
    replicas: list[int]
    live: list[int]
    last_in_sync: list[int]
    log_ends: dict[str, int]
    may_come_back: list[int]
    would_lead: int | None
    known_loss: int | None
    loss: str


class UncleanDocument(Besides):
    """Who would lead, and what may be lost."""

    partitions: list[LeaderlessPartition]
    transactions: list[OpenTransaction]
    transactions_not_known: list[str]


class ThrottleSetting(TypedDict):
    kind: str
    name: str
    config: str


class ThrottleChange(ThrottleSetting):
    value_before: str | None
    value_during: str | None


class ThrottleDocument(Besides):
    """What a throttle sets, or gives back."""

    settings: list[ThrottleChange]


class ThrottleSeen(ThrottleSetting):
    set_by: str
    value: NotRequired[str]
    is_needed: NotRequired[bool]
    value_during: NotRequired[str | None]
    value_before: NotRequired[str | None]


class ThrottlesDocument(Besides):
    """Throttles that are set; `not_known` are those on brokers that are away, as the journal here
    has them."""

    throttles: list[ThrottleSeen]
    not_known: NotRequired[list[ThrottleSeen]]


class JournalEntry(TypedDict):
    """A change, or a roll, in the journal."""

    id: str
    kind: str
    state: str
    made_at: str | None
    command_line: NotRequired[list[str]]
    user: str | None
    host: str
    undoes: NotRequired[str | None]
    saved: NotRequired[str]
    node_count: NotRequired[int]
    node_count_left: NotRequired[int]
    phase_number: NotRequired[int]
    phase_count: NotRequired[int]


class ListedEntry(JournalEntry):
    age: str
    partitions: int | None


class HistoryDocument(Besides):
    entries: list[ListedEntry]
    older: int


class ChangedAt(TypedDict):
    state: str
    at: str


class EntryPartition(PartitionId):
    replicas_before: list[int]
    replicas_after: list[int] | None
    replicas: list[int] | None
    leader_before: int | None
    leader: int | None
    state: str


class EntryDocument(JournalEntry, Besides):
    changed_at: list[ChangedAt]
    partitions: list[EntryPartition]


class DisksEntryDocument(JournalEntry, Besides):
    disks: list[MovedReplica]


class SuchAs(TypedDict):
    lost: list[str]
    below: list[str]
    at_minimum: list[str]
    less_than_spare: list[str]
    single: list[str]


class RestartRisk(TypedDict):
    """What the restart of a node does while it is away."""

    broker: int
    host: str
    port: int
    rack: str | None
    role: str
    replica_count: int
    leader_count: int
    no_other_replica: int
    below_min_insync_replicas: int
    at_min_insync_replicas: int
    less_than_spare: int
    one_replica_left: int
    min_insync_replicas_not_known: int
    no_quorum: bool
    such_as: SuchAs


class RollPlanDocument(TypedDict):
    nodes: list[RestartRisk]
    refused: list[str]
    not_known: list[str]
    controllers_left_alone: list[int]
    guard: NotRequired[GuardSeen]


class Process(TypedDict):
    pid: int
    started: str


class ProcessMark(TypedDict):
    producer_id: int | None
    started_at: float | None
    led_epoch: int | None


class StepWaits(TypedDict):
    move_count: int
    wait_ms: Longest | None


class RollStep(TypedDict):
    """A node of a roll, and how far it came."""

    broker: int
    host: str
    port: int
    rack: str | None
    role: str
    phase: str
    mark: ProcessMark
    process: Process | None
    called_on: str
    output: str
    seen_by: str
    leaders_moved_off: int
    leaders_brought_back: int
    at: dict[str, float | str]
    waits_seconds: list[float] | None
    restarted_seconds: float | None
    in_sync_seconds: float | None
    waits: StepWaits | None


class GuardAsked(TypedDict):
    conditions: list[str]
    patience_s: float
    quiet_s: float
    action: str
    urls: list[str]
    undisturbed: dict[str, float]


class RollHow(TypedDict):
    restarter: str | None
    command: list[str]
    folder: str
    lab: str
    guard: GuardAsked
    timeout_s: float
    exec_timeout_s: float
    between_s: float
    batch: int
    force: bool
    spare: int


class RollDocument(TypedDict):
    """A roll as its record has it, without secrets."""

    schema: int
    command_line: list[str]
    user: str
    host: str
    part_of: str
    id: str
    cluster_id: str
    how: RollHow
    steps: list[RollStep]
    state: str
    why: str
    parts: NotRequired[list[str]]
    guard: NotRequired[GuardSeen]
