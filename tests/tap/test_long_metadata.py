"""Answers to Metadata that take long to read: nobody else waits, and nothing is read twice."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from one_connection import Wire
from tap_messages import HOST, PORTS, answer_frame, ask_metadata, metadata

from kipctl.protocol.api import encode_request
from kipctl.protocol.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.protocol.metadata_frames import MetadataFrame
from kipctl.tap import metadata_causes
from kipctl.tap.connection import Connection
from kipctl.tap.exchange import Exchange
from kipctl.tap.leaders import PartitionId

TOPICS, PARTITIONS = 60, 50


def topic(number: int, leader: int = 1, epoch: int = 5) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=f"topic-{number}",
        topic_id=UUID(int=number + 1),
        partitions=tuple(
            MetadataResponsePartition(0, index, leader, epoch, (1, 2, 3), (1, 2, 3))
            for index in range(PARTITIONS)
        ),
    )


LONG = replace(metadata(), topics=tuple(map(topic, range(TOPICS))))


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_open = True

    def set_write_buffer_limits(self, high: int) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, _: str) -> tuple[str, int]:
        return HOST, 1

    def is_closing(self) -> bool:
        return not self.is_open

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.is_open = False

    abort = close


class Pair:
    """A connection through a tap, both of whose ends are a test's."""

    def __init__(self, wire: Wire, number: int) -> None:
        exchange = Exchange(wire.observer, number, (HOST, PORTS[1]), "tap", wire.now)
        self.client, self.broker, self.said = Transport(), Transport(), []

        async def connect(end: Any) -> None:
            end.connection_made(self.broker)

        self.connection = Connection(
            lambda: exchange, connect, lambda _, why: self.said.append(why), self.said.append
        )
        self.connection.client.connection_made(self.client)
        self._asked = 0

    def ask(self, answer: MetadataResponse) -> None:
        """The client asks, and the broker answers."""
        self._asked += 1
        request = encode_request(ask_metadata(), 12, self._asked, "c")
        self.connection.client.data_received(request)
        self.connection.broker.data_received(answer_frame(answer, 12, self._asked))


def played(make_wire: Callable[..., Wire], play: Callable[[Pair, Pair], Any]) -> None:
    async def run() -> None:
        wire = make_wire()
        pair, other = Pair(wire, 1), Pair(wire, 2)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await play(pair, other)
        assert pair.said == other.said == []

    asyncio.run(run())


def test_others_are_served_while_a_long_answer_is_read(make_wire: Callable[..., Wire]) -> None:
    async def play(pair: Pair, other: Pair) -> None:
        pair.ask(LONG)
        served = 0
        while not pair.client.written:
            other.ask(metadata((1, 5)))
            served += 1
            assert len(other.client.written) == served, "it waits for the long one"
            await asyncio.sleep(0)
        assert served > TOPICS * PARTITIONS / 1000

    played(make_wire, play)


def test_answers_stay_in_order_behind_a_long_one(make_wire: Callable[..., Wire]) -> None:
    async def play(pair: Pair, _: Pair) -> None:
        pair.ask(LONG)
        pair.ask(metadata((1, 5)))
        pair.ask(LONG)
        while sum(map(len, pair.client.written)) < 2 * len(answer_frame(LONG, 12, 1)):
            await asyncio.sleep(0)
        stream, ids = b"".join(pair.client.written), []
        while stream:
            size = 4 + int.from_bytes(stream[:4], "big")
            ids.append(int.from_bytes(stream[4:8], "big"))
            stream = stream[size:]
        assert ids == [1, 2, 3]

    played(make_wire, play)


def test_a_broker_that_closes_behind_a_long_answer_has_given_it(
    make_wire: Callable[..., Wire],
) -> None:
    async def run() -> None:
        pair = Pair(make_wire(), 1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        pair.ask(LONG)
        pair.connection.broker.connection_lost(None)
        while not pair.said:
            await asyncio.sleep(0)
        assert pair.said == [""]
        assert len(pair.client.written) == 1

    asyncio.run(run())


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of topics that were read, and not just compared."""
    names: list[str] = []
    really = MetadataFrame.topic

    def topic(self: MetadataFrame) -> Any:
        shown = really(self)
        names.append(shown.name)
        return shown

    monkeypatch.setattr(MetadataFrame, "topic", topic)
    return names


def test_only_what_has_changed_is_read(wire: Wire, read: list[str]) -> None:
    peer = wire.connect(1)
    peer.call(ask_metadata(), LONG)
    assert len(read) == TOPICS
    read.clear()
    peer.call(ask_metadata(), LONG)
    wire.connect(2, "another").call(ask_metadata(), LONG)
    assert read == []
    moved = (*LONG.topics[:-1], topic(TOPICS - 1, leader=2, epoch=6))
    peer.call(ask_metadata(), replace(LONG, topics=moved))
    assert read == [f"topic-{TOPICS - 1}"]
    partition = PartitionId(f"topic-{TOPICS - 1}", 0)
    assert wire.observer.leaders.leader(partition) == 2
    shown = {
        client.identity.client_id: client.leader_shown(partition)
        for client in wire.observer.clients.values()
    }
    assert shown == {"c": (2, 6), "another": (1, 5)}


def test_a_topic_made_anew_and_shown_as_it_was_by_a_broker_that_is_late(wire: Wire) -> None:
    """The last that is shown counts, in whatever version, though its bytes were seen before."""
    peer, leaders, partition = wire.connect(1), wire.observer.leaders, PartitionId("topic-0", 0)
    old = replace(LONG, topics=(topic(0, epoch=9),))
    new = replace(LONG, topics=(replace(topic(0, leader=2, epoch=0), topic_id=UUID(int=99)),))
    for version, answer, leader, epoch in (
        (12, old, 1, 9),
        (11, new, 2, 0),
        (12, old, 1, 9),
        (11, new, 2, 0),
    ):
        peer.call(ask_metadata(), answer, version=version)
        assert (leaders.leader(partition), leaders.epoch(partition)) == (leader, epoch)


def test_names_of_topics_that_there_are_not_do_not_pile_up(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for them, they are kept neither for all nor without end for the client."""
    monkeypatch.setattr(metadata_causes, "MOST_TOPICS", 500)
    peer = wire.connect(1)
    for at in range(0, 1000, 100):
        missing = tuple(
            MetadataResponseTopic(error_code=3, name=f"t{n}") for n in range(at, at + 100)
        )
        peer.call(ask_metadata("t"), MetadataResponse(topics=missing))
    assert 0 < len(wire.client.topics) <= 500
    assert wire.observer.shown._topics == wire.observer.shown._shared == {}
