"""The leader that a refusal names (CurrentLeader, NodeEndpoints: KIP-951), or that of its draft."""

from collections.abc import Iterable
from typing import NamedTuple

from kipctl.protocol.address import host_port
from kipctl.protocol.draft_hints import (
    FIRST_FETCH_WITH_HINTS,
    drafted_in_fetch,
    drafted_in_produce,
)
from kipctl.protocol.fetch_frames import FetchAnswer, Fetched
from kipctl.protocol.produce import NodeEndpoint, PartitionProduceResponse, ProduceResponse


class LeaderHint(NamedTuple):
    """Id and epoch of the leader, -1 where none is named; its endpoint if the answer has it.

    `is_draft`: in the form of KIP-951's early draft, which clients do not read.
    """

    leader_id: int = -1
    leader_epoch: int = -1
    endpoint: NodeEndpoint | None = None
    is_draft: bool = False

    @property
    def address(self) -> str | None:
        """host:port of the endpoint."""
        return host_port(self.endpoint.host, self.endpoint.port) if self.endpoint else None


def hint_in_produce(
    partition: PartitionProduceResponse, response: ProduceResponse, version: int
) -> LeaderHint:
    """The hint of a partition in an answer of that version."""
    draft = drafted_in_produce(version, partition.unknown_tags, response.unknown_tags)
    if draft:
        return LeaderHint(*draft, is_draft=True)
    leader = partition.current_leader
    return _named(leader.leader_id, leader.leader_epoch, response.node_endpoints)


def hint_in_fetch(fetched: Fetched, answer: FetchAnswer, version: int) -> LeaderHint:
    """The hint of a partition in an answer of that version.

    Versions 12 to 15 name a leader without endpoint, which clients do not take for a hint; with
    endpoints it is one in the form of the draft.
    """
    if draft := drafted_in_fetch(version, fetched.leader, answer.unknown_tags):
        return LeaderHint(*draft, is_draft=True)
    if fetched.leader is None or version < FIRST_FETCH_WITH_HINTS:
        return LeaderHint()
    return _named(*fetched.leader, answer.node_endpoints)


def _named(leader_id: int, epoch: int, endpoints: Iterable[NodeEndpoint]) -> LeaderHint:
    endpoint = next((at for at in endpoints if at.node_id == leader_id), None)
    return LeaderHint(leader_id, epoch, endpoint)
