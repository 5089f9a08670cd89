"""Hints in the form of KIP-951's early draft, as the probe knows hints."""

from kipctl.probe.leadership import NO_HINT, Hint, Leader, Node
from kipctl.protocol.draft_hints import DraftHint


def drafted(draft: DraftHint | None) -> Hint:
    """The hint that a draft's tags make; none if there are none."""
    if draft is None:
        return NO_HINT
    at = draft.endpoint
    node = Node(at.node_id, at.host, at.port, at.rack) if at else None
    return Hint(Leader(draft.leader_id, draft.leader_epoch), node, is_draft=True)
