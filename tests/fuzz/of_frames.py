"""Frames: Kafka's messages, batches of records, and what a tap lets through both ways."""

import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from fuzzing import MALFORMED, Reader
from mutations import batch_changed, bytes_changed, frame_changed
from one_connection import Wire
from protocol_oracles import ALL_VERSIONS, Fill, random_message
from raw_peers import ALL_METADATA, EXCHANGE, Asked, HangUp, RawBroker, RawClient, tapped
from record_batches import Record, encode_batch
from tap_messages import API_VERSIONS, answer_frame, ask_metadata, metadata, records

from kipctl.protocol.api import encode_request
from kipctl.protocol.compression import Compression
from kipctl.protocol.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kipctl.protocol.fetch_frames import read_fetch
from kipctl.protocol.leader_hints import hint_in_fetch, hint_in_produce
from kipctl.protocol.message import Request, Response, decode, encode
from kipctl.protocol.metadata import MetadataRequest
from kipctl.protocol.metadata_frames import read_metadata
from kipctl.protocol.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kipctl.protocol.produce_frames import read_success
from kipctl.protocol.record_counts import count_records
from kipctl.tap.rewrite import REQUESTS

Readers = Iterator[Mapping[str, Reader]]


@contextmanager
def protocol(_: Path) -> Readers:
    """Requests and answers of every API and version; what is read is written again."""

    def again(cls: Any, version: int, content: bytes) -> None:
        encode(decode(cls, content, version), version)

    readers = {}
    for cls, version in ALL_VERSIONS:
        small, any_other = (
            encode(random_message(cls, version, Random(f"{cls} {version}"), fill), version)
            for fill in (Fill.FULL, Fill.ANY)
        )
        readers[f"{cls.__name__} {version}"] = Reader(
            [small, small, any_other], partial(again, cls, version), bytes_changed, MALFORMED
        )
    of_whole_frames: dict[str, tuple[type[Response], Callable[[int, bytes], object]]] = {
        "hints of Produce": (ProduceResponse, _produce_hints),
        "hints of Fetch": (FetchResponse, _fetch_hints),
        "success of Produce": (ProduceResponse, read_success),
        "Fetch in place": (
            FetchResponse,
            lambda version, frame: read_fetch(version, memoryview(frame)),
        ),
        "Metadata in place": (MetadataRequest.response, read_metadata),
    }
    for name, (answer, read) in of_whole_frames.items():
        for version in range(answer.api.versions[0], answer.api.versions[1] + 1):
            message = random_message(answer, version, Random(f"{name} {version}"), Fill.FULL)
            whole = answer_frame(message, version, 77)[4:]
            readers[f"{name} {version}"] = Reader(
                [whole], partial(read, version), bytes_changed, MALFORMED
            )
    yield readers


def _produce_hints(version: int, frame: bytes) -> None:
    answer = decode(ProduceResponse, frame[4 + (version >= 9) :], version)
    for topic in answer.responses:
        for partition in topic.partition_responses:
            hint_in_produce(partition, answer, version)


def _fetch_hints(version: int, frame: bytes) -> None:
    answer = read_fetch(version, memoryview(frame))
    for partition in answer.partitions:
        hint_in_fetch(partition, answer, version)


@contextmanager
def batches(_: Path) -> Readers:
    """Record batches as brokers hand them on, several of them, compressed or not."""

    def several(*codecs: Compression) -> bytes:
        some = [Record(b"value", b"key", headers=(("name", None),)), Record(None, b"tombstone")]
        return b"".join(encode_batch(some, codec, 4711, 3, 99) for codec in codecs)

    def counted(check_crcs: bool, content: bytes) -> None:
        for aborted in (None, ((4711, 0), (4711, 1 << 62), (-1, -1))):
            count_records(memoryview(content), 1, check_crcs, aborted)

    control = bytearray(several(Compression.NONE))
    control[22] |= 0x30  # transactional, and of control records
    sound = [*map(several, Compression), several(*Compression), bytes(control)]
    yield {
        f"batches{' unchecked' * (not checked)}": Reader(
            sound, partial(counted, checked), batch_changed, MALFORMED
        )
        for checked in (True, False)
    }


# What goes through a tap

TOPIC_ID = UUID(int=7)
BATCH = records(2, b"value")
LEADER, AT = LeaderIdAndEpoch(2, 6), NodeEndpoint(2, "h2", 9092, "r")
CLUSTER = metadata((1, 5), topic_id=TOPIC_ID)
Exchanged = tuple[Request[Any], Response, int]


def produce(version: int) -> Exchanged:
    named: dict[str, Any] = {"topic_id": TOPIC_ID} if version >= 13 else {"name": "t"}
    data = tuple(PartitionProduceData(index=n, records=BATCH) for n in range(3))
    hint: dict[str, Any] = {"current_leader": LEADER} if version >= 10 else {}
    answers = (
        PartitionProduceResponse(index=0, base_offset=4),
        PartitionProduceResponse(index=1, error_code=6, base_offset=-1, **hint),
        PartitionProduceResponse(index=2, error_code=2, base_offset=-1),
    )
    answer = ProduceResponse(
        responses=(TopicProduceResponse(**named, partition_responses=answers),),
        node_endpoints=(AT,) if hint else (),
    )
    asked = TopicProduceData(**named, partition_data=data)
    return ProduceRequest(acks=1, topic_data=(asked,)), answer, version


def fetch(version: int) -> Exchanged:
    named: dict[str, Any] = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": "t"}
    wanted = tuple(FetchPartition(partition=n, partition_max_bytes=100) for n in range(2))
    hint: dict[str, Any] = {"current_leader": LEADER} if version >= 12 else {}
    partitions = (
        PartitionData(partition_index=0, high_watermark=2, records=BATCH),
        PartitionData(partition_index=1, error_code=6, **hint),
    )
    answer = FetchResponse(
        responses=(FetchableTopicResponse(**named, partitions=partitions),),
        node_endpoints=(AT,) if version >= 16 else (),
    )
    return FetchRequest(topics=(FetchTopic(**named, partitions=wanted),)), answer, version


def any_of(cls: type[Request[Any]]) -> Exchanged:
    """A request and an answer of an API in its newest version, with whatever content."""
    version, choose = cls.api.versions[1], Random(f"fuzzed {cls.__name__}")
    answer = random_message(cls.response, version, choose)
    if cls.api.key == API_VERSIONS:  # 35 says that the body is in version 0
        answer = replace(answer, error_code=0)
    return random_message(cls, version, choose), answer, version


FOLLOWED = (ProduceRequest, FetchRequest, MetadataRequest)
EXCHANGES = {
    f"{type(asked).__name__} {version}": (asked, answer, version)
    for asked, answer, version in (
        *map(produce, (3, 8, 9, 10, 13)),
        *map(fetch, (4, 11, 12, 15, 16, 18)),
        *((MetadataRequest(), CLUSTER, version) for version in (10, 13)),
        *(any_of(cls) for cls in REQUESTS.values() if cls not in FOLLOWED),
    )
}


@contextmanager
def tap(folder: Path) -> Readers:
    """What a tap makes of frames, without sockets: requests, and answers to what was asked."""
    wire = Wire(folder, stale_metadata_us=1000)
    wire.connect(1, "other").call(ask_metadata(), CLUSTER)

    def requested(answer: bytes, request: bytes) -> None:
        peer = wire.connect(1)
        try:
            peer.send(request)
            if peer.exchange.in_flight:
                peer.get(answer)
        finally:
            peer.exchange.lost(wire.now)

    readers = {}
    for name, (request, answer, version) in EXCHANGES.items():
        asked, said = encode_request(request, version, 1, "fuzz"), answer_frame(answer, version, 1)
        requested(said, asked)
        # A connection's own state, and rows on their way to the disk, are no matter of its length.
        readers[f"{name} of a client"] = Reader(
            [asked], partial(requested, said), frame_changed, MALFORMED, memory=200
        )
        readers[f"{name} of a broker"] = Reader(
            [said],
            lambda content, asked=asked: requested(content, asked),
            frame_changed,
            MALFORMED,
            memory=200,
        )
    yield readers
    wire.observer.close()


@contextmanager
def running_tap(folder: Path) -> Readers:
    """A tap's process, between a client and a broker of which one says anything: another client is
    served as before, and each connection that is lost is told of in one line."""
    with RawBroker() as broker, tapped(broker, folder) as tap:
        other = RawClient(tap.bootstrap_server, "another")
        before = other.exchange()

        def known(asked: Asked, _: socket.socket) -> bytes:
            try:
                return broker.usual(asked)
            except (AssertionError, ValueError):  # it has no such API, or version
                raise HangUp from None

        def others_are_served() -> None:
            broker.script = known
            assert [other.ask(ALL_METADATA, 12)] == before[1:2]
            assert all("\n" not in line for line in tap.messages())

        def of_a_client(content: bytes) -> None:
            with RawClient(tap.bootstrap_server, "fuzz") as client:
                client.socket.sendall(content)
                client.socket.shutdown(socket.SHUT_WR)
                while not client.is_closed():
                    pass
            others_are_served()

        def of_a_broker(content: bytes) -> None:
            def script(asked: Asked, connection: socket.socket) -> bytes:
                connection.sendall(content)
                raise HangUp

            with RawClient(tap.bootstrap_server, "fuzz") as client:
                client.exchange()
                broker.script = script
                client.send(*EXCHANGE[2])
                while not client.is_closed():
                    pass
            others_are_served()

        broker.script = known
        with other:
            with RawClient(tap.bootstrap_server) as client:
                asked = b"".join(client.frame(*request) for request in EXCHANGE)
            said = answer_frame(produce(9)[1], 9, 3) + struct.pack(">i", 9)
            yield {
                "a client": Reader([asked], of_a_client, bytes_changed, memory=0),
                "a broker": Reader([said], of_a_broker, bytes_changed, memory=0),
            }
            assert tap.still_serves()
