"""What `kipctl inspect replica-selection` prints, as documents."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kipctl.counts import cost_per_month
from kipctl.documents.replica_selection import (
    CrossRackReads,
    GroupReads,
    GroupsNotShown,
    RackTraffic,
    ReadingClient,
    ReplicaChoice,
    ReplicaFlip,
    ReplicaSelectionDocument,
    ReplicaWalksDocument,
)

if TYPE_CHECKING:
    from kipctl.cluster.inspect.cross_rack_traffic import Crossing, RackSummary
    from kipctl.cluster.inspect.group_traffic import GroupTraffic
    from kipctl.cluster.inspect.replica_selection import Choice, Flip
    from kipctl.cluster.inspect.replica_selection_facts import Observation
    from kipctl.cluster.inspect.replica_selection_librdkafka import ClientRead
    from kipctl.cluster.snapshot import PartitionId


def document(
    observation: "Observation",
    summaries: "Sequence[RackSummary]",
    unreported: "Mapping[PartitionId, str]",
    reads: "Sequence[ClientRead]",
    over_s: float | None,
    price_per_gb: float | None,
    groups: "Sequence[GroupTraffic]" = (),
    groups_not_shown: Sequence[GroupsNotShown] = (),
) -> ReplicaSelectionDocument:
    """Each partition in each rack, the racks, and what a client did, None without one.

    `over_s` are the seconds that rates were measured for, None without; `unreported` says why the
    bytes of a partition are not known, and sums that need them null.
    """
    return {
        "partitions": [_choice(choice) for choice in observation.choices],
        "racks": [_rack(summary, observation, price_per_gb) for summary in summaries],
        "groups": [_group(group, price_per_gb) for group in groups],
        "groups_not_shown": list(groups_not_shown),
        "unreported": [
            {"topic": partition.topic, "partition": partition.partition, "why": why}
            for partition, why in unreported.items()
        ],
        "rate_over_seconds": over_s,
        "price_per_gb": price_per_gb,
        "reading_client": _client(observation, reads) if reads else None,
    }


def _choice(choice: "Choice") -> ReplicaChoice:
    return {
        "topic": choice.id.topic,
        "partition": choice.id.partition,
        "rack": choice.rack,
        "leader": None if choice.leader < 0 else choice.leader,
        "leader_rack": choice.leader_rack,
        "reads_from": choice.reads_from,
        "reads_from_rack": choice.reads_from_rack,
        "local": choice.local,
        "closest": choice.closest,
        "reason": str(choice.reason),
        "detail": choice.detail,
        "expected": list(choice.expected),
        "as_expected": choice.as_expected,
    }


def _rack(
    summary: "RackSummary", observation: "Observation", price_per_gb: float | None
) -> RackTraffic:
    return {
        "rack": summary.rack,
        "is_known": summary.rack in observation.racks,
        "partitions": summary.partitions,
        "local_partitions": summary.local,
        "local_percent": summary.local_percent,
        "closest_partitions": summary.closest,
        "held_bytes": summary.held_bytes,
        "cross_held_bytes": summary.cross_held_bytes,
        "bytes_per_second": summary.bytes_per_s,
        "cross_bytes_per_second": summary.cross_bytes_per_s,
        "cross_percent": summary.cross_percent,
        "unreported_partitions": len(summary.unreported),
        "from_leaders": _crossing(summary.from_leaders, price_per_gb),
        "from_closest": _crossing(summary.from_closest, price_per_gb),
        "price_of_30_days": cost_per_month(summary.cross_bytes_per_s, price_per_gb),
    }


def _crossing(crossing: "Crossing", price_per_gb: float | None) -> CrossRackReads:
    return {
        "cross_bytes_per_second": crossing.bytes_per_s,
        "cross_percent": crossing.percent,
        "price_of_30_days": cost_per_month(crossing.bytes_per_s, price_per_gb),
    }


def _group(group: "GroupTraffic", price_per_gb: float | None) -> GroupReads:
    return {
        "group": group.group,
        "client_rack": group.rack,
        "is_known": group.is_known,
        "says_rack": group.says_rack,
        "client_ids": list(group.client_ids),
        "members": group.members,
        "partitions": group.partitions,
        "now_cross_bytes_per_second": group.now,
        "closest_cross_bytes_per_second": group.closest,
        "now_price_of_30_days": cost_per_month(group.now, price_per_gb),
        "closest_price_of_30_days": cost_per_month(group.closest, price_per_gb),
    }


def _client(observation: "Observation", reads: "Sequence[ClientRead]") -> ReadingClient:
    from kipctl.cluster.inspect.replica_selection_librdkafka import version

    said: dict[tuple[PartitionId, str], int | None] = {
        (choice.id, choice.rack): choice.reads_from for choice in observation.choices
    }
    racks = {r.broker: r.rack for fact in observation.facts for r in fact.replicas}
    return {
        "name": "librdkafka",
        "version": version(),
        "reads": [
            {
                "topic": read.id.topic,
                "partition": read.id.partition,
                "rack": read.rack,
                "broker": read.broker,
                "broker_rack": None if read.broker is None else racks.get(read.broker),
                "records": read.records,
                "bytes": read.bytes,
                "agrees": _agrees(read.broker, said[read.id, read.rack]),
            }
            for read in reads
        ],
    }


def _agrees(read_from: int | None, named: int | None) -> bool | None:
    return None if read_from is None or named is None else read_from == named


def walks(observation: "Observation") -> ReplicaWalksDocument:
    """One partition's choices, rule by rule."""
    from kipctl.cluster.inspect.replica_selection import apply_rules

    (facts,) = observation.facts
    return {
        "topic": facts.id.topic,
        "partition": facts.id.partition,
        "walks": [
            {
                **_choice(choice),
                "steps": [
                    {"rule": step.rule, "facts": step.facts, "left": list(step.left)}
                    for step in apply_rules(facts, choice.rack)
                ],
            }
            for choice in observation.choices
        ],
    }


def flip(change: "Flip") -> ReplicaFlip:
    """A change, with the time of the wall clock as it is now."""
    return {
        "time": datetime.now().astimezone().isoformat(timespec="milliseconds"),
        "topic": change.id.topic,
        "partition": change.id.partition,
        "rack": change.rack,
        "from_broker": change.before,
        "to_broker": change.after,
        "why": change.why,
    }
