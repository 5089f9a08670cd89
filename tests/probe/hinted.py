"""What KIP-951 asks of both clients alike: hints without anything in them, and one taken."""

from collections.abc import Mapping, Sequence

from kipctl.probe.leadership import Leader
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import Decision

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
FENCED = ErrorCode.FENCED_LEADER_EPOCH
NOTHING_TO_FOLLOW = [
    (NOT_LEADER, None, Decision.ABSENT),
    (NOT_LEADER, Leader(-1, 6), Decision.ABSENT),
    (NOT_LEADER, Leader(2, -1), Decision.ABSENT),
    (NOT_LEADER, Leader(1, 5), Decision.KNOWN),
    (NOT_LEADER, Leader(2, 5), Decision.SAME_EPOCH),
    (NOT_LEADER, Leader(2, 4), Decision.STALE),
    (NOT_LEADER, Leader(9, 6), Decision.UNKNOWN_NODE),
    (FENCED, None, Decision.ABSENT),
]
"""An answer to who knows leader 1 in epoch 5: its error and hint, and what is made of that."""


def assert_followed_to_an_unnamed_endpoint(
    row: Mapping[str, int], endpoints: Sequence[str], address: str
) -> None:
    """The row of a refusal by broker 1 in epoch 5, whose hint says that 3 leads in 6, and where."""
    assert (row["error"], row["decision"]) == (NOT_LEADER, Decision.FOLLOWED)
    assert (row["from_broker"], row["from_epoch"]) == (1, 5)
    assert (row["hint_leader"], row["hint_epoch"]) == (3, 6)
    assert (row["to_broker"], row["to_epoch"]) == (3, 6)
    assert (endpoints, row["hint_endpoint"]) == ((address,), 0)
    assert (row["metadata_us"], row["same_epoch_retry"]) == (0, 0)
    assert row["connect_us"] > 0  # it had never been needed before
