"""Positions asked about over a connection that breaks between two questions."""

import select
import socket
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock
from uuid import UUID

import pytest
from metadata_answers import metadata_of

from kipctl.probe.consume.broker_link import ConsumerLink
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.offset_fetcher import OffsetFetcher, PositionCall
from kipctl.probe.consume.positions import Partition, State
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.metadata_updater import MetadataUpdater
from kipctl.probe.network import Network
from kipctl.probe.tracing import Tracing
from kipctl.protocol.produce_frames import Topic
from kipctl.trace.columns import COLUMNS, ReadRow
from kipctl.transport.access import Access
from kipctl.transport.loop_connection import ConnectionLostError, InFlight, LoopConnection
from kipctl.transport.sockets import SystemSockets

TOPIC = Topic("t", UUID(int=1))
NO_ROW = ReadRow(*[0] * len(ReadRow._fields))


def test_what_is_asked_over_a_connection_that_breaks_is_asked_again_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One partition is to be reset, another validated: two requests to the same leader."""
    config = ConsumerConfig(retry_backoff_ms=1)
    lost: list[PositionCall] = []

    def on_lost(link: ConsumerLink, number: int, flights: list[InFlight], now_us: int) -> None:
        for flight in flights:
            lost.append(flight.subject)
            positioning.handle_disconnect(flight.subject, now_us)

    def broken(connection: LoopConnection, buffers: list[bytes]) -> None:
        raise ConnectionLostError("broken")

    partitions = [Partition(TOPIC, 0, index, -1) for index in (0, 1)]
    partitions[1].state, partitions[1].offset, partitions[1].epoch = State.VALIDATE, 5, 3
    sockets = SystemSockets(lambda: 0, Access(""))
    network: Network[ConsumerLink] = Network(
        sockets, lambda node: ConsumerLink(node, config, sockets), lambda *_: None, on_lost
    )
    tracing = Tracing(tmp_path, COLUMNS)
    metadata: MetadataUpdater[Partition, ConsumerLink] = MetadataUpdater(
        config, LeaderDiscovery.KIP951, {"t": partitions}, network, tracing, Mock(), Mock()
    )
    positioning = OffsetFetcher(
        config,
        metadata,
        network,
        lambda partition, now_us: None,
        lambda partition, now_us: NO_ROW,
        lambda row, case: None,
    )
    with closing(tracing), socket.create_server(("127.0.0.1", 0)) as listener:
        ports = {1: listener.getsockname()[1]}
        metadata.apply_first(metadata_of((1, 0), (1, 0), ports=ports), 13, 0)
        for partition in partitions:
            positioning.add(partition)
        link = metadata.link(partitions[0])
        assert link
        network.ensure_connected(link)
        assert link.connection
        select.select([], [link.connection], [])
        link.connection.establish()
        link.ready = True
        link.list_offsets_version, link.leader_epoch_version = 7, 4
        monkeypatch.setattr(LoopConnection, "send", broken)
        positioning.send_requests(0)
        assert len(lost) == 1
        assert link.connection is None
        assert not any(partition.asked for partition in partitions)
        network.close()
