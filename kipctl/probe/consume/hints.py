"""The leader hints of Fetch answers (KIP-951)."""

from kipctl.probe.drafts import drafted
from kipctl.probe.leadership import NO_HINT, Hint, Leader, Node
from kipctl.protocol.draft_hints import FIRST_FETCH_WITH_HINTS, drafted_in_fetch
from kipctl.protocol.fetch_frames import FetchAnswer, Fetched


def hint_of(fetched: Fetched, answer: FetchAnswer, version: int) -> Hint:
    """The hint of a partition in an answer of that version.

    Versions 12 to 15 name a leader without endpoint, which clients do not take for a hint; with
    endpoints it is one in the form of the KIP's early draft.
    """
    if version < FIRST_FETCH_WITH_HINTS:
        return drafted(drafted_in_fetch(version, fetched.leader, answer.unknown_tags))
    if fetched.leader is None:
        return NO_HINT
    leader = Leader(*fetched.leader)
    for at in answer.node_endpoints:
        if at.node_id == leader.id:
            return Hint(leader, Node(at.node_id, at.host, at.port, at.rack))
    return Hint(leader)
