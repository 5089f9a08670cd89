"""A plan by what it changes: as it is planned with, and as it is printed."""

from dataclasses import dataclass
from typing import NotRequired, TypedDict

from kipctl.documents.common import PartitionId


class PlannedPartition(PartitionId):
    """As Kafka's own tool reads it."""

    replicas: list[int]
    log_dirs: list[str]


class PlanCounts(TypedDict):
    partition_count: int
    topic_count: int
    copied_count: int
    skipped_count: int


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """A broker before a plan and after it, its preferred leaders elected.

    `bytes_in` are copied to it, `bytes_out` from it, as the leader. What leaves it makes room when
    all is copied: it is not taken off `bytes_in`. `usable` bytes are those of its disks, and
    `fills` says that they are too few; null where it does not report.
    """

    broker: int
    rack: str | None
    alive: bool
    leader_count: int
    leader_count_after: int
    replica_count: int
    replica_count_after: int
    bytes: int
    bytes_after: int
    bytes_in: int
    bytes_out: int
    usable: int | None
    fills: bool | None


@dataclass(frozen=True, slots=True)
class TopicSpread:
    """Of so many topics, in how many no broker leads two partitions more than another that has
    replicas of it: before and after."""

    topic_count: int
    even_count: int
    even_count_after: int


class FactorChange(TypedDict):
    from_factor: int
    to_factor: int
    partitions: int


class LeftAlone(TypedDict):
    reason: str
    partitions: int
    example: str


@dataclass(frozen=True, slots=True)
class CopyLink:
    """What is copied from one broker, which leads, to another."""

    from_broker: int
    to_broker: int
    replica_count: int
    bytes: int


class ToCopy(TypedDict):
    replica_count: int
    bytes: int
    unknown_sizes: int
    broker_errors: dict[str, str]
    links: list[CopyLink]
    throttle_bytes_per_second: float | None
    seconds: float | None


class PlanShown(TypedDict):
    """A plan by what it changes; `copied` only of one that copies."""

    counts: PlanCounts
    brokers: list[BrokerChange]
    topic_spread: TopicSpread
    replication_factor_changes: list[FactorChange]
    left_alone: list[LeftAlone]
    copied: NotRequired[ToCopy]


class PhaseShown(PlanShown):
    """One of several plans that are carried out one after the other."""

    plan: str
    version: int
    partitions: list[PlannedPartition]
