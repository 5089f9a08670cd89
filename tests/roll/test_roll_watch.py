"""Whether a broker was away: what others show of it, or that it refuses; never that nobody answers.

Each broker is scripted, at a port of its own.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest
from scripted_broker import HANG_UP, Asked, ScriptedBroker

from kipctl.guard.exporters import Exporters
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kipctl.roll.node_watch import ClusterWatch
from kipctl.transport.request import Cluster

HANGS = None


@dataclass
class Brokers:
    """Brokers by id. `shown` are those that each lists, all of them if it is not there; `stumbles`
    has what one answers in place of Metadata."""

    running: dict[int, ScriptedBroker] = field(default_factory=dict)
    ports: dict[int, int] = field(default_factory=dict)
    shown: dict[int, tuple[int, ...]] = field(default_factory=dict)
    stumbles: dict[int, bytes | None] = field(default_factory=dict)

    def answer(self, id: int, asked: Asked) -> Response | bytes | None:
        if not isinstance(asked.request, MetadataRequest):
            return None
        if id in self.stumbles:
            return self.stumbles[id]
        return MetadataResponse(
            cluster_id="c",
            controller_id=1,
            brokers=tuple(
                MetadataResponseBroker(broker, "127.0.0.1", self.ports[broker])
                for broker in self.shown.get(id, tuple(self.ports))
            ),
        )

    def end(self, id: int) -> None:
        """Its process is gone: its port refuses connections."""
        self.running.pop(id).__exit__()

    def end_all(self) -> None:
        for id in tuple(self.running):
            self.end(id)


@contextmanager
def watching(*ids: int) -> Iterator[tuple[Brokers, ClusterWatch]]:
    """Brokers, and a look at them by which broker 2 is there."""
    cluster = Brokers()
    with ExitStack() as meanwhile:
        for id in ids:
            cluster.running[id] = ScriptedBroker(lambda asked, id=id: cluster.answer(id, asked))
            cluster.ports[id] = cluster.running[id].port
        meanwhile.callback(cluster.end_all)
        servers = ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values())
        connected = meanwhile.enter_context(Cluster(servers, timeout_s=0.5))
        watcher = ClusterWatch(connected, Exporters())
        assert (watcher.is_up(2), watcher.was_away) == (True, False)
        yield cluster, watcher


@pytest.mark.parametrize(
    ("others", "ended", "shown", "stumbles", "was_away"),
    [
        # It refuses connections. Of a cluster of one broker nobody else can answer.
        ((), (2,), {}, {}, True),
        ((1,), (2,), {}, {}, True),
        ((1, 3), (2,), {}, {}, True),
        # Others do not list it.
        ((1, 3), (), {1: (1, 3), 2: (1, 3), 3: (1, 3)}, {}, True),
        # One that hangs or hangs up is not there, and need not have been restarted.
        ((1,), (), {}, {2: HANGS}, False),
        ((1,), (), {}, {2: HANG_UP}, False),
        # Where nobody answers it is kipctl's own network that may be lost, as when a tunnel ends.
        ((1,), (), {}, {1: HANGS, 2: HANGS}, False),
        ((1,), (), {}, {1: HANG_UP, 2: HANG_UP}, False),
        ((1,), (1, 2), {}, {}, False),
        # A broker that does not list itself has been fenced: its process may be the same.
        ((1,), (), {2: (1,)}, {1: HANGS}, False),
    ],
)
def test_whether_one_that_is_not_there_was_away(
    others: tuple[int, ...],
    ended: tuple[int, ...],
    shown: dict[int, tuple[int, ...]],
    stumbles: dict[int, bytes | None],
    was_away: bool,
) -> None:
    with watching(2, *others) as (cluster, watcher):
        cluster.shown, cluster.stumbles = shown, stumbles
        for id in ended:
            cluster.end(id)
        assert (watcher.is_up(2), watcher.was_away) == (False, was_away)
        if not ended:
            cluster.stumbles = {}  # others that list it prove nothing
            watcher.is_up(2)
            assert watcher.was_away == was_away
