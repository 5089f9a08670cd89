"""The leader hints of Fetch answers (KIP-951)."""

from kipctl.probe.leadership import NO_HINT, Hint, Leader, Node
from kipctl.protocol.fetch_frames import FetchAnswer, Fetched

FIRST_HINT_VERSION = 16
"""Of Fetch, with CurrentLeader and NodeEndpoints; 12 to 15 name no endpoint, and clients take no
hint from them."""


def hint_of(fetched: Fetched, answer: FetchAnswer, version: int) -> Hint:
    """The hint of a partition in an answer of that version."""
    if fetched.leader is None or version < FIRST_HINT_VERSION:
        return NO_HINT
    leader = Leader(*fetched.leader)
    for at in answer.node_endpoints:
        if at.node_id == leader.id:
            return Hint(leader, Node(at.node_id, at.host, at.port, at.rack))
    return Hint(leader)
