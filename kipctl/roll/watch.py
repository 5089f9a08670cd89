"""Looks at a cluster during a roll: whether a broker is there, and whether it is a new process."""

from collections.abc import Collection
from dataclasses import dataclass, field

from kipctl.cluster.moves.conditions import Condition, look, unmet
from kipctl.cluster.snapshot import Snapshot
from kipctl.errors import KipctlError, RefusedError, TimedOutError, UnreachableError
from kipctl.guard.metrics import Exporters
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.init_producer_id import InitProducerIdRequest
from kipctl.protocol.metadata import MetadataRequest
from kipctl.roll.facts import ask_facts
from kipctl.roll.marks import Mark
from kipctl.roll.plan import Facts
from kipctl.transport.request import Cluster

WANTED = (Condition.IN_SYNC, Condition.CONVERGED)
_EMPTY = MetadataRequest(topics=())


@dataclass(slots=True)
class Watcher:
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

    def is_there(self, broker: int) -> bool:
        """Whether the cluster lists it and it answers."""
        try:
            listed = [one.node_id for one in self.cluster.metadata(()).brokers]
        except (UnreachableError, TimedOutError):
            self.was_away |= self._is_alone(broker) and self._refuses(broker)
            return False
        others = [one for one in listed if one != broker]
        if broker not in listed:
            shown = self._shown_by_one_of(others)
            self.was_away |= shown is not None and broker not in shown
            return False
        try:
            self.cluster.broker(broker).request(_EMPTY)
        except UnreachableError as error:
            if _is_refusal(error):
                self.was_away |= not others or self._shown_by_one_of(others) is not None
            return False
        except TimedOutError:  # it may hang: that is no restart
            return False
        return True

    def _shown_by_one_of(self, others: Collection[int]) -> Collection[int] | None:
        """The brokers that the first of these lists that answers; None if none does."""
        for other in others:
            try:
                answer = self.cluster.broker(other).request(_EMPTY)
            except KipctlError:
                continue
            return [one.node_id for one in answer.brokers]
        return None

    def _is_alone(self, broker: int) -> bool:
        """Whether the last answer listed no other."""
        try:
            return set(self.cluster.nodes) == {broker}
        except KipctlError:  # nobody has ever answered
            return False

    def _refuses(self, broker: int) -> bool:
        try:
            self.cluster.broker(broker).request(_EMPTY)
        except UnreachableError as error:
            return _is_refusal(error)
        except TimedOutError:
            return False
        return False

    def whole(self) -> tuple[Snapshot, str]:
        """The cluster, and what is not in sync, or not known alike to all brokers; "" if all is.

        Raises UnreachableError and TimedOutError.
        """
        seen = look(self.cluster, None, WANTED, self._looks)
        self._looks += 1
        return seen.snapshot, "; ".join(filter(None, (unmet(one, seen) for one in WANTED)))

    def facts(self) -> Facts:
        """What a restart that is to begin now is judged by. Raises UnreachableError."""
        return ask_facts(self.cluster)

    def mark(self, broker: int) -> Mark:
        """What only this life of its process tells.

        Raises UnreachableError and TimedOutError while the broker does not answer, or cannot yet.
        """
        return Mark(self._producer_id(broker), self.exporters.started_at(broker))

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


def _is_refusal(error: UnreachableError) -> bool:
    """Whether its machine says that nobody listens at its port."""
    return isinstance(error.__cause__, ConnectionRefusedError)
