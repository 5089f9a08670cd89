"""The documents of `kipctl inspect replica-selection`."""

from typing import TypedDict

from kipctl.documents.common import PartitionId


class GroupReads(TypedDict):
    """Members of a group that name the same rack (null: none).

    `now` is as they read, null where they cannot tell their rack; `closest` with `client.rack` set
    right, and a `replica.selector.class` on brokers. Who names no rack of the cluster may be in any
    of them: the mean is taken.
    """

    group: str
    client_rack: str | None
    is_known: bool
    says_rack: bool
    """Whether its clients tell their coordinator (KIP-881)."""
    client_ids: list[str]
    members: int
    partitions: int
    now_cross_bytes_per_second: float | None
    closest_cross_bytes_per_second: float | None
    now_price_of_30_days: float | None
    closest_price_of_30_days: float | None


class GroupsNotShown(TypedDict):
    """A group that its coordinator does not describe; null: all that this broker coordinates."""

    broker: int
    group: str | None
    why: str


class ReplicaChoice(PartitionId):
    """From which replica a consumer in a rack reads (KIP-392)."""

    rack: str
    leader: int | None
    leader_rack: str | None
    reads_from: int | None
    reads_from_rack: str | None
    local: bool
    closest: bool
    reason: str
    detail: str
    expected: list[int]
    as_expected: bool | None


class CrossRackReads(TypedDict):
    """What readers of a rack get from other racks."""

    cross_bytes_per_second: float | None
    cross_percent: float | None
    price_of_30_days: float | None


class RackTraffic(TypedDict):
    """What readers of a rack get from other racks, as brokers serve those that set `client.rack`.

    `from_leaders` is the same for readers that name no rack, `from_closest` where the nearest
    replicas are: it takes a `replica.selector.class` on brokers.
    """

    rack: str
    is_known: bool
    partitions: int
    local_partitions: int
    local_percent: float | None
    closest_partitions: int
    held_bytes: int | None
    cross_held_bytes: int | None
    bytes_per_second: float | None
    cross_bytes_per_second: float | None
    cross_percent: float | None
    from_leaders: CrossRackReads
    from_closest: CrossRackReads
    unreported_partitions: int
    price_of_30_days: float | None


class Unreported(PartitionId):
    why: str


class ClientRead(PartitionId):
    rack: str
    broker: int | None
    broker_rack: str | None
    records: int
    bytes: int
    agrees: bool | None


class ReadingClient(TypedDict):
    name: str
    version: str
    reads: list[ClientRead]


class ReplicaSelectionDocument(TypedDict):
    partitions: list[ReplicaChoice]
    racks: list[RackTraffic]
    groups: list[GroupReads]
    groups_not_shown: list[GroupsNotShown]
    unreported: list[Unreported]
    rate_over_seconds: float | None
    price_per_gb: float | None
    reading_client: ReadingClient | None


class RuleApplied(TypedDict):
    rule: str
    facts: str
    left: list[int]


class ReplicaWalk(ReplicaChoice):
    steps: list[RuleApplied]


class ReplicaWalksDocument(PartitionId):
    walks: list[ReplicaWalk]


class ReplicaFlip(TypedDict):
    time: str
    topic: str
    partition: int
    rack: str
    from_broker: int | None
    to_broker: int | None
    why: str


class ReplicaFlipsDocument(TypedDict):
    flips: list[ReplicaFlip]
