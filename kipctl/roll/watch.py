"""Looks at a cluster during a roll: whether a broker is there, and whether it is a new process."""

from dataclasses import dataclass

from kipctl.cluster.moves.conditions import Condition, look, unmet
from kipctl.cluster.snapshot import Snapshot
from kipctl.errors import RefusedError, TimedOutError, UnreachableError
from kipctl.guard.metrics import Exporters
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.init_producer_id import InitProducerIdRequest
from kipctl.protocol.metadata import MetadataRequest
from kipctl.roll.facts import ask_facts
from kipctl.roll.marks import Mark
from kipctl.roll.plan import Facts
from kipctl.transport.request import Cluster

WANTED = (Condition.IN_SYNC, Condition.CONVERGED)


@dataclass(slots=True)
class Watcher:
    """Looks at a cluster of which one broker at a time is away.

    `was_away` says that the broker in hand has been seen to be gone since `forget`: it refused
    connections, or the others did not list it.
    """

    cluster: Cluster
    exporters: Exporters
    was_away: bool = False

    def forget(self) -> None:
        """Another broker is in hand, or another restart of it."""
        self.was_away = False

    def is_there(self, broker: int) -> bool:
        """Whether the cluster lists it and it answers."""
        try:
            if all(one.node_id != broker for one in self.cluster.metadata(()).brokers):
                self.was_away = True
                return False
            self.cluster.broker(broker).request(MetadataRequest(topics=()))
        except UnreachableError:
            self.was_away = True
            return False
        except TimedOutError:  # it may hang: that is no restart
            return False
        return True

    def whole(self) -> tuple[Snapshot, str]:
        """The cluster, and what is not in sync, or not known alike to all brokers; "" if all is.

        Raises UnreachableError and TimedOutError.
        """
        seen = look(self.cluster, None, WANTED)
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
