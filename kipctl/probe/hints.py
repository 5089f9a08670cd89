"""The leader hints of Produce and Fetch answers (KIP-951), as the probe knows hints.

What a client does with one is decided by `Leadership.apply_hint`.
"""

from dataclasses import dataclass

from kipctl.probe.leadership import NO_EPOCH, NO_LEADER, Leader, Node
from kipctl.protocol import leader_hints
from kipctl.protocol.address import host_port
from kipctl.protocol.fetch_frames import FetchAnswer, Fetched
from kipctl.protocol.leader_hints import LeaderHint
from kipctl.protocol.produce import PartitionProduceResponse, ProduceResponse


@dataclass(frozen=True, slots=True)
class Hint:
    """A `LeaderHint` as the probe knows leaders and brokers."""

    leader: Leader
    endpoint: Node | None = None
    is_draft: bool = False

    @property
    def leader_and_address(self) -> tuple[int, int, str | None]:
        """The leader's id and epoch, and where it listens as host:port if that is said."""
        at = self.endpoint
        return self.leader.id, self.leader.epoch, host_port(at.host, at.port) if at else None


NO_HINT = Hint(Leader(NO_LEADER, NO_EPOCH))
"""An error that names no leader."""


def hint_in_produce(
    result: PartitionProduceResponse, response: ProduceResponse, version: int
) -> Hint:
    """The hint of a partition in an answer of that version."""
    return _hint(leader_hints.hint_in_produce(result, response, version))


def hint_in_fetch(fetched: Fetched, answer: FetchAnswer, version: int) -> Hint:
    """The hint of a partition in an answer of that version."""
    return _hint(leader_hints.hint_in_fetch(fetched, answer, version))


def _hint(found: LeaderHint) -> Hint:
    at = found.endpoint
    endpoint = Node(at.node_id, at.host, at.port, at.rack) if at else None
    return Hint(Leader(found.leader_id, found.leader_epoch), endpoint, found.is_draft)
