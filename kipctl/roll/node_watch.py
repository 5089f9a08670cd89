"""Looks at a cluster during a roll: whether a node is there, and whether it is a new process."""

import socket
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from kipctl.changes.wait_conditions import Condition, read_state, unmet
from kipctl.cluster.snapshot import Broker, Snapshot
from kipctl.errors import KipctlError, RefusedError, TimedOutError, UnreachableError
from kipctl.guard.exporters import Exporters
from kipctl.protocol.address import Address
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.init_producer_id import InitProducerIdRequest
from kipctl.protocol.metadata import MetadataRequest
from kipctl.roll.facts import ask_facts
from kipctl.roll.plan import Facts
from kipctl.roll.process_identity import ProcessMark
from kipctl.roll.quorum import ask_quorum, broker_behind, quorum_problem
from kipctl.transport.request import Cluster

WANTED = (Condition.IN_SYNC, Condition.CONVERGED)
_EMPTY = MetadataRequest(topics=())
_CONNECT_S = 2.0
SILENT_S = 2.0
"""A controller that fetches nothing for so long is away: it asks twice a second at least
(MAX_FETCH_WAIT_MS of Kafka's raft client)."""


@dataclass(slots=True)
class ClusterWatch:
    """Looks at a cluster of which one broker at a time is away.

    `was_away` says that the broker in hand has been seen to be gone since `forget`: another broker
    did not list it, or it refused connections while another answered. Where nobody answers it may
    be kipctl's own network that is lost; only of a cluster's one broker nobody else can tell.
    """

    cluster: Cluster
    exporters: Exporters
    was_away: bool = False
    _looks: int = field(default=0, init=False)

    def forget(self) -> None:
        """Another broker is in hand, or another restart of it."""
        self.was_away = False

    def is_up(self, broker: int) -> bool:
        """Whether the cluster lists it and it answers."""
        try:
            listed = [broker.node_id for broker in self.cluster.metadata(()).brokers]
        except (UnreachableError, TimedOutError):
            self.was_away |= self._is_alone(broker) and self._answers(broker) is False
            return False
        others = [other for other in listed if other != broker]
        if broker not in listed:
            shown = self._shown_by_one_of(others)
            self.was_away |= shown is not None and broker not in shown
            return False
        answers = self._answers(broker)
        if answers is False:
            self.was_away |= not others or self._shown_by_one_of(others) is not None
        return answers is True

    def _shown_by_one_of(self, others: Collection[int]) -> Collection[int] | None:
        """The brokers that the first of these lists that answers; None if none does."""
        for other in others:
            try:
                answer = self.cluster.broker(other).request(_EMPTY)
            except KipctlError:
                continue
            return [broker.node_id for broker in answer.brokers]
        return None

    def _is_alone(self, broker: int) -> bool:
        """Whether the last answer listed no other."""
        try:
            return set(self.cluster.nodes) == {broker}
        except KipctlError:  # nobody has ever answered
            return False

    def _answers(self, broker: int) -> bool | None:
        """False where its machine says that nobody listens at its port; None where neither is so.

        It may hang then, or the network is lost: that is no restart.
        """
        try:
            self.cluster.broker(broker).request(_EMPTY)
        except UnreachableError as error:
            return False if isinstance(error.__cause__, ConnectionRefusedError) else None
        except TimedOutError:
            return None
        return True

    def cluster_state(self) -> tuple[Snapshot, str]:
        """The cluster, and what is not in sync, or not known alike to all brokers; "" if all is.

        Raises UnreachableError and TimedOutError.
        """
        seen = read_state(self.cluster, None, WANTED, self._looks)
        self._looks += 1
        problems = (unmet(condition, seen) for condition in WANTED)
        return seen.snapshot, "; ".join(filter(None, problems))

    def quorum_unmet(self) -> str:
        """Which controller is not caught up, or which broker knows another active one; "" for none.

        Raises UnreachableError and TimedOutError.
        """
        try:
            quorum = ask_quorum(self.cluster)
        except RefusedError as refused:
            return refused.what.rstrip(".")
        return quorum_problem(quorum) or broker_behind(self.cluster, self._brokers(), quorum)

    def active_controller(self) -> int | None:
        """None while it is not known."""
        try:
            return ask_quorum(self.cluster).active
        except KipctlError:
            return None

    def controller(self, place: Address | None) -> "ControllerWatch":
        """A watch of a controller that is no broker; None: where it listens is not known."""
        return ControllerWatch(self.cluster, self.exporters, place)

    def _brokers(self) -> tuple[Broker, ...]:
        nodes = self.cluster.metadata(()).brokers
        return tuple(Broker(node.node_id, node.host, node.port, node.rack) for node in nodes)

    def facts(self) -> Facts:
        """What a restart that is to begin now is judged by. Raises UnreachableError."""
        return ask_facts(self.cluster)

    def mark(self, broker: int) -> ProcessMark:
        """What only this life of its process tells.

        Raises UnreachableError and TimedOutError while the broker does not answer, or cannot yet.
        """
        return ProcessMark(self._producer_id(broker), self.exporters.started_at(broker))

    def _producer_id(self, broker: int) -> int | None:
        """A new one; None if the client has no right to one."""
        try:
            answer = self.cluster.broker(broker).request(InitProducerIdRequest())
        except RefusedError:
            return None
        code = ErrorCode(answer.error_code)
        if code.retriable:
            raise UnreachableError(f"Broker {broker} has no producer ids yet: {code.name}.")
        return None if code else answer.producer_id


@dataclass(slots=True)
class ControllerWatch:
    """Looks at one controller that is no broker.

    Clients have nothing to ask it for, and its listener may be secured otherwise than theirs, or
    closed to them. So it is looked at whether it takes connections. Where it never took one from
    here it counts what it fetches of the metadata log, as the active controller reports it.
    """

    cluster: Cluster
    exporters: Exporters
    place: Address | None
    was_away: bool = False
    _takes_connections: bool = field(default=False, init=False)
    _silent_since: float | None = field(default=None, init=False)

    def forget(self) -> None:
        """Its restart is called for, once more."""
        self.was_away = False
        self._silent_since = None

    def is_up(self, node: int) -> bool:
        """Whether it takes connections; where it does not from here, whether it fetches."""
        try:
            if self._connects():
                self._takes_connections = True
                return True
        except OSError:  # it may hang, or kipctl's own network is lost: that is no restart
            return False if self._takes_connections else self._fetches(node)
        if self._takes_connections:
            self.was_away = True
            return False
        return self._fetches(node)

    def mark(self, node: int) -> ProcessMark:
        """When it started, and the epoch that it leads in. Raises UnreachableError, TimedOutError,
        also while there is no active controller."""
        try:
            quorum = ask_quorum(self.cluster)
        except RefusedError as refused:
            raise UnreachableError(refused.what) from None
        led = quorum.epoch if quorum.active == node else None
        return ProcessMark(None, self.exporters.started_at(node), led)

    def _connects(self) -> bool:
        """Whether its port takes them, or refuses. Raises OSError where neither is the answer."""
        if self.place is None:
            return False
        try:
            address = self.cluster.access.mapped(self.place)
            socket.create_connection(address, _CONNECT_S).close()
        except ConnectionRefusedError:
            return False
        return True

    def _fetches(self, node: int) -> bool:
        try:
            voter = ask_quorum(self.cluster).voter(node)
        except KipctlError:
            return False
        silent_ms = voter.silent_ms if voter else None
        if silent_ms is not None and silent_ms <= SILENT_S * 1000:
            self._silent_since = None
            return True
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
        if silent_ms is not None or now - self._silent_since > SILENT_S:
            self.was_away = True
        return False


NodeWatch = ClusterWatch | ControllerWatch
"""A look at the node in hand."""
