"""The documents of commands that look at a cluster, at what is known of clusters, and at labs."""

from typing import NotRequired, TypedDict

from kipctl.documents.common import Longest, PartitionId


class LedPartition(PartitionId):
    leader: int | None
    leader_epoch: int
    preferred_leader: int
    replicas: list[int]
    adding: list[int]
    isr: list[int]
    offline: list[int]


class LeadersOfBroker(TypedDict):
    broker: int
    rack: str | None
    alive: bool
    leader_count: int
    preferred: int
    replica_count: int
    not_in_sync: int


class LeadersOfTopic(TypedDict):
    topic: str
    partitions: int
    not_led_by_preferred: int
    imbalance_percent: float
    leader_skew: float | None


class LeadersDocument(TypedDict):
    partitions: list[LedPartition]
    brokers: list[LeadersOfBroker]
    topics: list[LeadersOfTopic]
    imbalance_percent: float
    leader_skew: float | None
    without_leader: int


class FeatureOfBroker(TypedDict):
    in_use: int
    supported: list[int]


class LogDir(TypedDict):
    path: str
    error: str | None
    cordoned: bool


class BrokerSeen(TypedDict):
    broker: int
    address: str
    rack: str | None
    release: str | None
    leader_count: int
    preferred: int
    not_in_sync: int
    adding_replicas: int
    needed_by: int | None
    is_answering: bool
    error: str | None
    lists: list[int] | None
    feature_versions: dict[str, FeatureOfBroker]
    api_versions: dict[str, list[int]]
    setting_values: dict[str, str | None]
    throttle_settings: dict[str, str | int]
    throttles_from: dict[str, list[str]]
    log_dirs: list[LogDir]
    log_dirs_error: str | None
    needed_by_partitions: list[str]


class Feature(TypedDict):
    feature: str
    in_use_by_brokers: str | None
    supported_by_brokers: str | None


class ApiRange(TypedDict):
    api: str
    versions: str | None
    from_version: int
    brings: str
    all_brokers: bool


class Setting(TypedDict):
    setting: str
    value: str | None
    decides: str


class CopyStall(TypedDict):
    broker: int
    partitions: int


class Reassignments(TypedDict):
    in_progress: int | None
    error: str | None
    looked_seconds: float
    stalled: list[CopyStall]


class ApiCount(TypedDict):
    api: str
    api_version: int
    count: int


class ErrorCount(TypedDict):
    api: str
    error: str
    count: int


class SoftwareCount(TypedDict):
    software: str
    version: str
    connections: int


class CountsOfBroker(TypedDict):
    kafka_version: str | None
    requests_by_version: list[ApiCount]
    errors_by_api: list[ErrorCount]
    connections_by_software: list[SoftwareCount] | None
    under_replicated: int | float | None
    bytes_out: int | float | None


class MetricsSeen(TypedDict):
    url: str
    broker: int | None
    error: str | None
    before: CountsOfBroker | None
    after: CountsOfBroker | None
    own_requests: list[ApiCount] | None


class FindingSeen(TypedDict):
    id: str
    severity: str
    what: str
    consequence: str
    change: str
    commands: list[str | list[str]]


class BrokersDocument(TypedDict):
    brokers: list[BrokerSeen]
    features: list[Feature]
    apis: list[ApiRange]
    settings: list[Setting]
    reassignments: Reassignments
    product: str
    metrics: list[MetricsSeen]
    findings: list[FindingSeen]
    severities: dict[str, int]


class HintsOfBroker(TypedDict):
    broker: int
    rack: str | None
    produce_versions: str | None
    fetch_versions: str | None
    metadata_versions: str | None
    asked_partition: str | None
    hint_leader: int | None
    hint_epoch: int | None
    hint_endpoint: str | None
    verdict: str
    detail: str | None
    fetch_asked_partition: str | None
    fetch_error: str | None
    fetch_hint_leader: int | None
    fetch_verdict: str
    fetch_detail: str | None


class HintsDocument(TypedDict):
    brokers: list[HintsOfBroker]
    hinting: int
    agreeing: int
    past_proxy: bool
    drafts: int
    not_asked: int
    hinting_in_fetch: int


class MetadataCost(TypedDict):
    """`asked`: for how many topics, or "all topics"."""

    broker: int
    asked: int | str
    topic_count: int | None
    partition_count: int | None
    request_bytes: int | None
    response_bytes: int | None
    took_ms: Longest | None
    error: str | None


class MetadataView(TypedDict):
    broker: int
    rack: str | None
    partitions: int | None
    behind: int | None
    most_epochs_behind: int | None
    otherwise: int | None
    unseen_brokers: list[int]
    extra_brokers: list[int]
    error: str | None


class MetadataDifference(TypedDict):
    broker: int
    topic: str
    partition: int
    leader: int | None
    leader_epoch: int | None
    isr: list[int] | None
    newest_leader: int
    newest_epoch: int
    newest_isr: list[int]


class Convergence(TypedDict):
    broker: int
    leaders_seen: int
    after_call_ms: Longest | None
    behind_ms: Longest | None


class MetadataViewsDocument(TypedDict):
    request_costs: list[MetadataCost]
    brokers: list[MetadataView]
    brokers_alive: int
    not_alive: list[int]
    differences: list[MetadataDifference]
    looks: int
    agree: bool
    convergence: NotRequired[list[Convergence]]


class WaitDocument(TypedDict):
    conditions: list[str]
    seconds: float
    partitions: int
    broker_count: int
    answering_brokers: list[int]
    asked_brokers: list[int]


class NamedCluster(TypedDict):
    name: str
    bootstrap_servers: str
    command_config: str | None
    rack: str | None
    metrics_urls: list[str]
    protected: bool
    id: str | None
    map: dict[str, str]


class ClustersDocument(TypedDict):
    file: str
    clusters: list[NamedCluster]


class ConnectionStep(TypedDict):
    server: str
    step: str
    ok: bool
    duration_ms: float | None
    what: str
    broker: int | None


class ProductLimit(TypedDict):
    applies_to: str
    what: str
    source: str


class CommandRights(TypedDict):
    command: str
    needed: list[str]
    not_granted: list[str]
    not_known: list[str]


class ClusterTestDocument(TypedDict):
    steps: list[ConnectionStep]
    products: list[str]
    limits: list[ProductLimit]
    rights: list[CommandRights]


class LoggerLevel(TypedDict):
    broker: int
    on: bool | None
    level: str | None
    level_before: NotRequired[str | None]
    error: str | None


class RequestLogDocument(TypedDict):
    logger: str
    brokers: list[LoggerLevel]
    seconds: NotRequired[float]


class LabNode(TypedDict):
    node: int
    role: str
    rack: str | None
    port: int
    pid: int | None
    state: str
    leader_count: int | None
    kafka_version: str
    request_log_file: str
    metrics_url: str | None


class LabSeen(TypedDict):
    name: str
    state: str
    kafka_version: str
    bootstrap_server: str
    folder: str
    request_log: bool
    security: str
    acl: bool
    client_properties: str | None
    krb5_config: str | None
    client_files: dict[str, str]
    nodes: list[LabNode]


class LabsDocument(TypedDict):
    labs: list[LabSeen]
