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
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
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
                MetadataResponseBroker(one, "127.0.0.1", self.ports[one])
                for one in self.shown.get(id, tuple(self.ports))
            ),
        )

    def end(self, id: int) -> None:
        """Its process is gone: its port refuses connections."""
        self.running.pop(id).__exit__()

    def end_all(self) -> None:
        for id in tuple(self.running):
            self.end(id)


@contextmanager
def brokers(*ids: int) -> Iterator[Brokers]:
    cluster = Brokers()
    with ExitStack() as meanwhile:
        for id in ids:
            cluster.running[id] = ScriptedBroker(lambda asked, id=id: cluster.answer(id, asked))
            cluster.ports[id] = cluster.running[id].port
        meanwhile.callback(cluster.end_all)
        yield cluster


@contextmanager
def watching(cluster: Brokers) -> Iterator[ClusterWatch]:
    servers = ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values())
    with Cluster(servers, timeout_s=0.5) as connected:
        yield ClusterWatch(connected, Exporters())


def test_a_broker_that_answers_and_is_listed_is_there() -> None:
    with brokers(1, 2) as cluster, watching(cluster) as watcher:
        assert watcher.is_up(2)
        assert not watcher.was_away


@pytest.mark.parametrize("others", [(), (1,), (1, 3)])
def test_one_that_refuses_connections_was_away_if_others_answer(others: tuple[int, ...]) -> None:
    """Of a cluster of one broker nobody else can answer."""
    with brokers(2, *others) as cluster, watching(cluster) as watcher:
        assert watcher.is_up(2)
        cluster.end(2)
        assert not watcher.is_up(2)
        assert watcher.was_away


def test_one_that_others_do_not_list_was_away() -> None:
    with brokers(1, 2, 3) as cluster, watching(cluster) as watcher:
        assert watcher.is_up(2)
        cluster.shown = {1: (1, 3), 2: (1, 3), 3: (1, 3)}
        assert not watcher.is_up(2)
        assert watcher.was_away


def test_where_nobody_answers_it_is_kipctls_own_network_that_may_be_lost() -> None:
    with brokers(1, 2) as cluster, watching(cluster) as watcher:
        assert watcher.is_up(2)
        cluster.stumbles = {1: HANGS, 2: HANGS}
        assert not watcher.is_up(2)
        cluster.stumbles = {1: HANG_UP, 2: HANG_UP}
        assert not watcher.is_up(2)
        cluster.end(1)
        cluster.end(2)  # as when a tunnel to all of them ends
        assert not watcher.is_up(2)
        assert not watcher.was_away


@pytest.mark.parametrize("stumble", [HANGS, HANG_UP])
def test_one_that_hangs_or_hangs_up_is_not_there_and_need_not_have_been_restarted(
    stumble: bytes | None,
) -> None:
    with brokers(1, 2) as cluster, watching(cluster) as watcher:
        assert watcher.is_up(2)
        cluster.stumbles = {2: stumble}
        assert not watcher.is_up(2)
        assert not watcher.was_away


def test_what_it_says_of_itself_alone_is_not_enough() -> None:
    """A broker that does not list itself has been fenced: its process may be the same."""
    with brokers(1, 2) as cluster, watching(cluster) as watcher:
        cluster.shown = {2: (1,)}
        cluster.stumbles = {1: HANGS}
        assert not watcher.is_up(2)
        assert not watcher.was_away
        cluster.stumbles = {}  # the other one lists it
        watcher.is_up(2)
        assert not watcher.was_away
