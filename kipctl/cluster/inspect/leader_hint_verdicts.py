"""A leader hint beside what the same broker's Metadata shows."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from kipctl.cluster.snapshot import NO_LEADER, PartitionId, Snapshot
from kipctl.protocol.address import host_port
from kipctl.protocol.produce import LeaderIdAndEpoch, NodeEndpoint


class Verdict(StrEnum):
    """What a broker did when it was asked as if it led."""

    AGREES = "hint agrees with Metadata"
    DIFFERS = "hint differs from Metadata"
    NO_ENDPOINT = "hint without endpoint"
    DRAFT = "hint in the form of KIP-951's early draft: no client reads it"
    NO_HINT = "no hint"
    TOO_OLD = "too old for hints"
    NOT_ASKED = "no partition is led elsewhere: not asked"
    NO_RIGHT = "no right to write to the topic: not told"
    UNEXPECTED = "answered otherwise"
    UNREACHABLE = "does not answer"


@dataclass(frozen=True, slots=True)
class Hint:
    """The leader that a broker named; `endpoint` is host:port, None when there was none."""

    leader: int
    leader_epoch: int
    endpoint: str | None


def compare_with_metadata(
    leader: LeaderIdAndEpoch,
    node_endpoints: Iterable[NodeEndpoint],
    metadata: Snapshot,
    asked: PartitionId,
) -> tuple[Verdict, Hint | None, str]:
    """The verdict, the hint, and what is to be said about it."""
    if leader.leader_id == NO_LEADER:
        return Verdict.NO_HINT, None, ""
    endpoints = {node.node_id: host_port(node.host, node.port) for node in node_endpoints}
    hint = Hint(leader.leader_id, leader.leader_epoch, endpoints.get(leader.leader_id))
    known = metadata.by_id[asked]
    brokers = {broker.id: host_port(broker.host, broker.port) for broker in metadata.brokers}
    if hint.endpoint is None:
        return Verdict.NO_ENDPOINT, hint, ""
    expected = Hint(known.leader, known.leader_epoch, brokers.get(known.leader))
    if hint != expected:
        detail = f"Metadata: {expected.leader} epoch {expected.leader_epoch} {expected.endpoint}"
        return Verdict.DIFFERS, hint, detail
    return Verdict.AGREES, hint, ""
