"""Who does not lead says who does, and where that is (KIP-951)."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.cluster.control import Refusal
from kipctl.conform.cluster.state import Broker
from kipctl.probe.leadership import Node
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import ZERO_UUID
from kipctl.protocol.produce import LeaderIdAndEpoch, NodeEndpoint

if TYPE_CHECKING:
    from kipctl.conform.cluster.cluster import Cluster

NO_HINT = LeaderIdAndEpoch()


def refused(
    cluster: "Cluster", broker: Broker, attempt: Attempt, must_lead: bool = True
) -> Refusal | None:
    """What a broker says by itself; None if it has what is asked for.

    The epoch is looked at before the leader, as Kafka does (Partition.getLocalLog), by those who
    hold the partition.
    """
    place, epoch = attempt.place, attempt.epoch
    known, leader = broker.topics.get(place[0]), broker.leaders.get(place)
    if attempt.topic_id not in (ZERO_UUID, known):
        return Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
    if known is None or leader is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    holds, error = cluster.holds(broker.id, place), ErrorCode.NONE
    if holds and epoch > leader.epoch:
        return Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)
    if holds and -1 < epoch < leader.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif leader.id != broker.id and (must_lead or not cluster.follows(broker.id, place)):
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if not error or not cluster.names_leaders:
        return Refusal(error) if error else None
    return Refusal(error, leader, broker.endpoints.get(leader.id))


@dataclass
class Hints:
    """Those of one answer, as its version can say them."""

    is_told: bool
    nodes: dict[int, Node] = field(default_factory=dict)
    throttle_ms: int = 0

    def of(self, tried: Attempt, refusal: Refusal) -> LeaderIdAndEpoch:
        """What a partition is refused with; it is written down as tried."""
        tried.error = refusal.error
        self.throttle_ms = max(self.throttle_ms, refusal.throttle_ms)
        if not self.is_told:
            return NO_HINT
        if refusal.endpoint is not None:
            self.nodes[refusal.endpoint.id] = refusal.endpoint
        if refusal.hint is None:
            return NO_HINT
        tried.hint = refusal.hint
        return LeaderIdAndEpoch(refusal.hint.id, refusal.hint.epoch)

    @property
    def endpoints(self) -> tuple[NodeEndpoint, ...]:
        return tuple(NodeEndpoint(n.id, n.host, n.port, n.rack) for n in self.nodes.values())
