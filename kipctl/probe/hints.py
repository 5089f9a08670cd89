"""The leader hints of Produce and Fetch answers (KIP-951), as the probe knows hints."""

from collections.abc import Iterable

from kipctl.probe.leadership import NO_HINT, Hint, Leader, Node
from kipctl.protocol.draft_hints import (
    FIRST_FETCH_WITH_HINTS,
    DraftHint,
    drafted_in_fetch,
    drafted_in_produce,
)
from kipctl.protocol.fetch_frames import FetchAnswer, Fetched
from kipctl.protocol.produce import NodeEndpoint, PartitionProduceResponse, ProduceResponse


def hint_in_produce(
    result: PartitionProduceResponse, response: ProduceResponse, version: int
) -> Hint:
    """The hint of a partition in an answer of that version."""
    draft = drafted_in_produce(version, result.unknown_tags, response.unknown_tags)
    if draft:
        return _drafted(draft)
    leader = result.current_leader
    return _named(Leader(leader.leader_id, leader.leader_epoch), response.node_endpoints)


def hint_in_fetch(fetched: Fetched, answer: FetchAnswer, version: int) -> Hint:
    """The hint of a partition in an answer of that version.

    Versions 12 to 15 name a leader without endpoint, which clients do not take for a hint; with
    endpoints it is one in the form of the KIP's early draft.
    """
    if version < FIRST_FETCH_WITH_HINTS:
        draft = drafted_in_fetch(version, fetched.leader, answer.unknown_tags)
        return _drafted(draft) if draft else NO_HINT
    return _named(Leader(*fetched.leader), answer.node_endpoints) if fetched.leader else NO_HINT


def _named(leader: Leader, endpoints: Iterable[NodeEndpoint]) -> Hint:
    return Hint(leader, next((_node(at) for at in endpoints if at.node_id == leader.id), None))


def _drafted(draft: DraftHint) -> Hint:
    endpoint = _node(draft.endpoint) if draft.endpoint else None
    return Hint(Leader(draft.leader_id, draft.leader_epoch), endpoint, is_draft=True)


def _node(at: NodeEndpoint) -> Node:
    return Node(at.node_id, at.host, at.port, at.rack)
