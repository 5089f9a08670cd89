"""Frames with bytes changed at random: the tap either reads them or says they are malformed."""

import random
import struct
from pathlib import Path
from uuid import UUID

import pytest
from record_batches import Record, encode_batch

from kipctl.protocol.api import encode_request
from kipctl.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kipctl.protocol.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumListener,
    QuorumNode,
)
from kipctl.protocol.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kipctl.protocol.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kipctl.protocol.message import Request, Response, encode
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
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
from kipctl.protocol.share_groups import (
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    SharePartitionData,
)
from kipctl.tap.addresses import Addresses
from kipctl.tap.exchange import Exchange
from kipctl.tap.observer import Observer
from kipctl.tap.spec import TapSpec
from kipctl.transport.access import Access

TRIES = 1000
TOPIC_ID = UUID(int=7)
BATCH = encode_batch([Record(value=b"value"), Record(key=b"k", value=b"")])
CLUSTER_ANSWER = MetadataResponse(
    brokers=(MetadataResponseBroker(1, "h1", 9092), MetadataResponseBroker(2, "h2", 9092)),
    cluster_id="c",
    topics=(
        MetadataResponseTopic(
            0, "t", TOPIC_ID, partitions=(MetadataResponsePartition(0, 0, 1, 5, (1, 2), (1, 2)),)
        ),
    ),
)


def produce(version: int) -> tuple[Request, Response, int]:
    by_id = version >= 13
    named = {"topic_id": TOPIC_ID} if by_id else {"name": "t"}
    data = tuple(PartitionProduceData(index=n, records=BATCH) for n in range(3))
    refused = LeaderIdAndEpoch(2, 6) if version >= 10 else LeaderIdAndEpoch()
    answers = (
        PartitionProduceResponse(index=0, base_offset=4),
        PartitionProduceResponse(index=1, error_code=6, base_offset=-1, current_leader=refused),
        PartitionProduceResponse(index=2, error_code=2, base_offset=-1),
    )
    return (
        ProduceRequest(acks=1, topic_data=(TopicProduceData(**named, partition_data=data),)),
        ProduceResponse(
            responses=(TopicProduceResponse(**named, partition_responses=answers),),
            node_endpoints=(NodeEndpoint(2, "h2", 9092, "r"),) if version >= 10 else (),
        ),
        version,
    )


def fetch(version: int) -> tuple[Request, Response, int]:
    named = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": "t"}
    wanted = tuple(FetchPartition(partition=n, partition_max_bytes=100) for n in range(2))
    leader = LeaderIdAndEpoch(2, 6) if version >= 12 else LeaderIdAndEpoch()
    found = (
        PartitionData(partition_index=0, high_watermark=2, records=BATCH),
        PartitionData(partition_index=1, error_code=6, current_leader=leader),
    )
    return (
        FetchRequest(topics=(FetchTopic(**named, partitions=wanted),)),
        FetchResponse(
            responses=(FetchableTopicResponse(**named, partitions=found),),
            node_endpoints=(NodeEndpoint(2, "h2", 9092),) if version >= 16 else (),
        ),
        version,
    )


EXCHANGES: dict[str, tuple[Request, Response, int]] = {
    **{f"Produce-{version}": produce(version) for version in (3, 8, 9, 10, 13)},
    **{f"Fetch-{version}": fetch(version) for version in (4, 11, 12, 15, 16, 18)},
    **{f"Metadata-{version}": (MetadataRequest(), CLUSTER_ANSWER, version) for version in (10, 13)},
    "ApiVersions": (
        ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"),
        ApiVersionsResponse(api_keys=(ApiVersion(0, 0, 13), ApiVersion(3, 0, 13))),
        3,
    ),
    "FindCoordinator": (
        FindCoordinatorRequest(coordinator_keys=("g",)),
        FindCoordinatorResponse(coordinators=(Coordinator("g", 1, "h1", 9092),)),
        4,
    ),
    "DescribeCluster": (
        DescribeClusterRequest(),
        DescribeClusterResponse(brokers=(DescribeClusterBroker(1, "h1", 9092),)),
        1,
    ),
    "DescribeQuorum": (
        DescribeQuorumRequest(),
        DescribeQuorumResponse(
            nodes=(QuorumNode(101, (QuorumListener("CONTROLLER", "h9", 9093),)),)
        ),
        2,
    ),
    "ShareFetch": (
        ShareFetchRequest(),
        ShareFetchResponse(
            responses=(ShareFetchableTopicResponse(TOPIC_ID, (SharePartitionData(error_code=6),)),),
            node_endpoints=(NodeEndpoint(2, "h2", 9092),),
        ),
        2,
    ),
}


def an_observer(directory: Path) -> Observer:
    directory.mkdir()
    spec = TapSpec(access=Access("127.0.0.1:1"), stale_metadata_us=1000)
    observer = Observer(spec, directory, Addresses(lambda address: 19092), 0)
    observer.leaders.apply_metadata(CLUSTER_ANSWER)
    return observer


def an_exchange(observer: Observer) -> Exchange:
    return Exchange(observer, 1, ("h1", 9092), "127.0.0.1", 0)


def answer_frame(request: Request, response: Response, version: int) -> bytes:
    flexible = version >= response.api.flexible_since and response.api.key != 18
    content = struct.pack(">i", 1) + b"\0" * flexible + encode(response, version)
    return struct.pack(">i", len(content)) + content


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


@pytest.mark.parametrize("name", EXCHANGES)
def test_whatever_a_request_or_an_answer_holds_it_is_read_or_refused(
    name: str, tmp_path: Path
) -> None:
    request, response, version = EXCHANGES[name]
    choose = random.Random(name)
    asked = encode_request(request, version, 1, "fuzz")
    said = answer_frame(request, response, version)
    observer = an_observer(tmp_path / "rows")
    sound = an_exchange(observer)
    sound.request(asked, 1000)
    sound.answer(said, 2000)
    assert sound.in_flight == 0
    refused = read = 0
    for _ in range(TRIES):
        exchange = an_exchange(observer)
        try:
            exchange.request(changed(asked, choose), 1000)
        except MalformedFrame:
            refused += 1
        exchange.lost(2000)
        exchange = an_exchange(observer)
        exchange.request(asked, 3000)
        try:
            exchange.answer(changed(said, choose), 4000)
            read += 1
        except (MalformedFrame, EncodeError):
            refused += 1
        exchange.lost(5000)
    observer.close()
    passed = sum(client.counts.not_decoded for client in observer.clients.values())
    assert refused + passed > TRIES / 20
    assert read > TRIES / 20
