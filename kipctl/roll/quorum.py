"""The controllers of a cluster, as the active one describes them (DescribeQuorum, KIP-595).

Times are the active controller's own: it gives its own clock as when it fetched last itself, and
what others did is counted from that. Kafka reports them since 3.3 (KIP-836), and where controllers
listen since 3.9 (KIP-853).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kipctl.cluster.metadata_convergence import sample_brokers
from kipctl.cluster.snapshot import Broker
from kipctl.errors import KipctlError, RefusedError
from kipctl.protocol.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumPartitionAsked,
    QuorumTopicAsked,
)
from kipctl.protocol.error_codes import error_text
from kipctl.protocol.message import only
from kipctl.transport.request import Cluster

_ASKED = DescribeQuorumRequest((QuorumTopicAsked("__cluster_metadata", (QuorumPartitionAsked(),)),))
CAUGHT_UP_MS = 2000
"""Who had all of the log so long ago follows it: Kafka's controller.quorum.fetch.timeout.ms. There
is a record every half second at least (metadata.max.idle.interval.ms)."""
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Voter:
    """One controller. `host` is "" where the cluster does not report where it listens.

    `silent_ms` is since it last fetched, `behind_ms` since it last had all of the log; None when
    the active controller has not heard of it, or does not report.
    """

    id: int
    host: str = ""
    port: int = 0
    silent_ms: int | None = None
    behind_ms: int | None = None

    @property
    def is_caught_up(self) -> bool:
        return self.behind_ms is not None and self.behind_ms <= CAUGHT_UP_MS


@dataclass(frozen=True, slots=True)
class Quorum:
    """All controllers; `active` leads them, in that epoch."""

    active: int
    epoch: int
    voters: tuple[Voter, ...]

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(voter.id for voter in self.voters)

    @property
    def survives_one(self) -> bool:
        """Whether those that are left without any one of them are a majority."""
        return len(self.voters) - 1 > len(self.voters) / 2

    def voter(self, controller: int) -> Voter | None:
        """None when it is none of the voters."""
        return next((voter for voter in self.voters if voter.id == controller), None)


def quorum_of(answer: DescribeQuorumResponse) -> Quorum:
    """What the answer says. Raises RefusedError when it says that there is none, MalformedFrame
    when it tells of several. Pure."""
    partitions = [partition for topic in answer.topics for partition in topic.partitions]
    code = answer.error_code or next((p.error_code for p in partitions), 0)
    if code or not partitions:
        raise RefusedError(f"The cluster does not describe its quorum: {error_text(code)}.")
    quorum = only(partitions)
    places = {node.node_id: node.listeners[0] for node in answer.nodes if node.listeners}
    own = (v for v in quorum.current_voters if v.replica_id == quorum.leader_id)
    now_ms = next((leader.last_fetch_timestamp for leader in own), _UNKNOWN)
    voters = []
    for voter in quorum.current_voters:
        place = places.get(voter.replica_id)
        voters.append(
            Voter(
                voter.replica_id,
                place.host if place else "",
                place.port if place else 0,
                _ago(now_ms, voter.last_fetch_timestamp),
                _ago(now_ms, voter.last_caught_up_timestamp),
            )
        )
    return Quorum(quorum.leader_id, quorum.leader_epoch, tuple(voters))


def _ago(now_ms: int, then_ms: int) -> int | None:
    return None if _UNKNOWN in (now_ms, then_ms) else max(0, now_ms - then_ms)


def quorum_problem(quorum: Quorum) -> str:
    """What keeps controllers from being restarted, in a few words; "" for nothing. Pure."""
    if quorum.active not in quorum.ids:
        return "the controllers have no leader"
    leader = quorum.voter(quorum.active)
    if leader is None or leader.behind_ms is None:
        return "whether controllers are caught up is not known (Kafka shows it since 3.3)"
    late = [voter for voter in quorum.voters if not voter.is_caught_up]
    if not late:
        return ""
    voter = late[0]
    ago = "" if voter.behind_ms is None else f", for {voter.behind_ms / 1000:.1f} s"
    more = f" (and {len(late) - 1} more)" if len(late) > 1 else ""
    return f"controller {voter.id} is not caught up{ago}{more}"


def ask_quorum(cluster: Cluster) -> Quorum:
    """Raises RefusedError when the cluster does not report, UnreachableError, TimedOutError."""
    return quorum_of(cluster.ask_controller(_ASKED))


def broker_behind(cluster: Cluster, brokers: Iterable[Broker], known: Quorum) -> str:
    """Which broker knows another active controller, in a few words; "" for none.

    Each is asked, and passes the question on to the one that it knows.
    """
    for broker in sample_brokers(tuple(brokers)):
        try:
            seen = quorum_of(cluster.broker(broker.id).request(_ASKED))
        except KipctlError:
            return f"broker {broker.id} does not reach the active controller"
        if (seen.active, seen.epoch) != (known.active, known.epoch):
            return f"broker {broker.id} knows another active controller"
    return ""
