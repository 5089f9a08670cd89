"""Frames with bytes changed at random: the tap either reads them or says they are malformed."""

import random
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

from campaigns import as_many, campaign, chance
from looped import noted
from one_connection import Wire
from protocol_oracles import random_message
from tap_messages import API_VERSIONS, answer_frame, ask_metadata, metadata, records

from kipctl.protocol.api import encode_request
from kipctl.protocol.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kipctl.protocol.message import Request, Response
from kipctl.protocol.metadata import MetadataRequest
from kipctl.protocol.primitives import EncodeError, MalformedFrame
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
from kipctl.tap.rewrite import REQUESTS

TRIES = as_many(100, 10_000)
TOPIC_ID = UUID(int=7)
BATCH = records(2, b"value")
LEADER, AT = LeaderIdAndEpoch(2, 6), NodeEndpoint(2, "h2", 9092, "r")
CLUSTER = metadata((1, 5), topic_id=TOPIC_ID)
Exchanged = tuple[Request[Any], Response, int]


def produce(version: int) -> Exchanged:
    named = {"topic_id": TOPIC_ID} if version >= 13 else {"name": "t"}
    data = tuple(PartitionProduceData(index=n, records=BATCH) for n in range(3))
    hint = {"current_leader": LEADER} if version >= 10 else {}
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
    named = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": "t"}
    wanted = tuple(FetchPartition(partition=n, partition_max_bytes=100) for n in range(2))
    hint = {"current_leader": LEADER} if version >= 12 else {}
    found = (
        PartitionData(partition_index=0, high_watermark=2, records=BATCH),
        PartitionData(partition_index=1, error_code=6, **hint),
    )
    answer = FetchResponse(
        responses=(FetchableTopicResponse(**named, partitions=found),),
        node_endpoints=(AT,) if version >= 16 else (),
    )
    return FetchRequest(topics=(FetchTopic(**named, partitions=wanted),)), answer, version


def any_of(cls: type[Request[Any]]) -> Exchanged:
    """A request and an answer of an API in its newest version, with whatever content."""
    version, choose = cls.api.versions[1], chance(f"fuzzed {cls.__name__}")
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


def changed(frame: bytes, choose: random.Random) -> bytes:
    """The frame with some bytes changed, taken out, or put in behind its first eight."""
    content = bytearray(frame)
    for _ in range(choose.choice([1, 1, 1, 2, 5, 20])):
        at = choose.randrange(8, len(content)) if len(content) > 8 else len(content)
        match choose.randrange(4):
            case 0:
                content[at:at] = choose.choice([b"\xff", b"\0", b"\x80", choose.randbytes(3)])
            case 1:
                del content[at : at + choose.choice([1, 2, 9, 50])]
            case _:
                content[at : at + 1] = choose.choice([b"\xff", b"\x7f", b"\0", choose.randbytes(1)])
    content[:4] = struct.pack(">i", len(content) - 4)
    return bytes(content)


@campaign
def test_whatever_a_request_or_an_answer_holds_it_is_read_or_refused(
    make_wire: Callable[..., Wire],
) -> None:
    share = TRIES * len(EXCHANGES) / 20
    refused = read = 0
    for name in EXCHANGES:
        with noted(name):
            some_refused, some_read = fuzzed(make_wire, name)
        refused, read = refused + some_refused, read + some_read
    assert refused > share
    assert read > share


def fuzzed(make_wire: Callable[..., Wire], name: str) -> tuple[int, int]:
    """How many requests and answers of the exchange were refused, and how many answers read."""
    request, answer, version = EXCHANGES[name]
    choose = chance(f"fuzz {name}")
    asked, said = encode_request(request, version, 1, "fuzz"), answer_frame(answer, version, 1)
    wire = make_wire(stale_metadata_us=1000)
    wire.connect(1, "other").call(ask_metadata(), CLUSTER)
    sound = wire.connect(1)
    sound.send(asked)
    sound.get(said)
    assert sound.exchange.in_flight == 0
    refused = read = 0
    for _ in range(TRIES):
        peer = wire.connect(1)
        try:
            peer.send(changed(asked, choose))
        except MalformedFrame:
            refused += 1
        peer.exchange.lost(wire.now)
        peer = wire.connect(1)
        peer.send(asked)
        try:
            peer.get(changed(said, choose))
            read += 1
        except (MalformedFrame, EncodeError):
            refused += 1
        peer.exchange.lost(wire.now)
    wire.observer.close()
    passed = sum(client.counts.not_decoded for client in wire.observer.clients.values())
    return refused + passed, read
