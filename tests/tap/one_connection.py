"""A connection's exchange without sockets: a test plays both the client and the broker."""

from pathlib import Path
from uuid import UUID

import pyarrow as pa
from record_batches import Record, encode_batch

from kipctl.protocol.api import ApiKey, encode_request
from kipctl.protocol.message import ZERO_UUID, encode
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
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
from kipctl.tap.addresses import Addresses
from kipctl.tap.exchange import Exchange
from kipctl.tap.observer import Observer
from kipctl.tap.recorder import COLUMNS
from kipctl.tap.spec import TapSpec
from kipctl.trace import export
from kipctl.trace.schema import DATASETS
from kipctl.transport.access import Access

TOPIC = "t"
HOST = "127.0.0.1"
PORTS = {1: 9001, 2: 9002, 3: 9003}
"""Of the brokers."""
TAP_PORTS = 10_000
"""A broker's port at the tap is its own and so many more."""

START_US = 1_000_000_000
"""So late that records without a create time (0) are not taken for created in this run."""


class Wire:
    """A tap of its own, and connections through it. Times are microseconds."""

    def __init__(self, folder: Path, **spec) -> None:
        self.folder = folder
        self.observer = Observer(
            TapSpec(access=Access("b:1"), **spec),
            folder,
            Addresses(lambda broker: broker[1] + TAP_PORTS),
            wall_offset_us=0,
        )
        self.now = START_US
        self._made = 0

    def connect(self, broker: int, client_id: str = "c") -> "Peer":
        """A connection of that client's to that broker."""
        self._made += 1
        address = (HOST, PORTS[broker])
        exchange = Exchange(self.observer, self._made, address, "tap", self.now)
        return Peer(self, exchange, client_id)

    def after(self, us: int) -> None:
        self.now += us

    def rows(self, dataset: str) -> list[dict]:
        """What was recorded; the tap is over."""
        self.observer.close()
        meaning = export.Meaning(0, {"source": "tap"}, self.observer.recorder.names, COLUMNS)
        batches = export.record_batches(meaning, self.folder, dataset)
        return pa.Table.from_batches(batches, DATASETS[dataset]).to_pylist()


class Peer:
    """Both ends of a connection."""

    def __init__(self, wire: Wire, exchange: Exchange, client_id: str) -> None:
        self.wire, self.exchange, self.client_id = wire, exchange, client_id
        self._correlation = 0
        self._asked: list[tuple[int, type, int]] = []

    def ask(self, request, version: int) -> None:
        """The client asks."""
        self._correlation += 1
        self._asked.append((self._correlation, type(request), version))
        frame = encode_request(request, version, self._correlation, self.client_id)
        self.exchange.request(frame, self.wire.now)

    def answer(self, body) -> bytes:
        """The broker answers the oldest request; returns what the client gets."""
        correlation, request, version = self._asked.pop(0)
        flexible = version >= request.api.flexible_since and request.api.key != (
            ApiKey.API_VERSIONS
        )
        content = correlation.to_bytes(4, "big") + b"\0" * flexible + encode(body, version)
        frame = len(content).to_bytes(4, "big") + content
        return self.exchange.answer(frame, self.wire.now).frame


def records(count: int, value: bytes = b"v") -> bytes:
    """A batch of so many records."""
    return encode_batch([Record(value=value) for _ in range(count)])


def produce(*batches: tuple[int, bytes], acks: int = 1) -> ProduceRequest:
    """A request with a batch for each (partition, batch)."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=(
            TopicProduceData(
                name=TOPIC,
                partition_data=tuple(
                    PartitionProduceData(index=index, records=batch) for index, batch in batches
                ),
            ),
        ),
    )


def produced(*answers: tuple[int, int], hint: tuple[int, int] | None = None) -> ProduceResponse:
    """An answer with (partition, error) for each; `hint` is (leader, epoch) of those in error."""
    leader = LeaderIdAndEpoch(*hint) if hint else LeaderIdAndEpoch()
    return ProduceResponse(
        responses=(
            TopicProduceResponse(
                name=TOPIC,
                partition_responses=tuple(
                    PartitionProduceResponse(
                        index=index,
                        error_code=error,
                        base_offset=-1 if error else 100,
                        current_leader=leader if error else LeaderIdAndEpoch(),
                    )
                    for index, error in answers
                ),
            ),
        ),
        node_endpoints=(NodeEndpoint(hint[0], HOST, PORTS[hint[0]]),) if hint else (),
    )


def ask_metadata(*topics: str) -> MetadataRequest:
    """For these topics; without any, for all."""
    asked = tuple(MetadataRequestTopic(name=name) for name in topics)
    return MetadataRequest(topics=asked or None)


def metadata(*leaders: tuple[int, int], topic_id: UUID = ZERO_UUID) -> MetadataResponse:
    """Partitions from 0 up with (leader, epoch) each."""
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(node, HOST, port, f"rack-{node}") for node, port in PORTS.items()
        ),
        cluster_id="cluster",
        topics=(
            MetadataResponseTopic(
                name=TOPIC,
                topic_id=topic_id,
                partitions=tuple(
                    MetadataResponsePartition(
                        partition_index=index, leader_id=leader, leader_epoch=epoch
                    )
                    for index, (leader, epoch) in enumerate(leaders)
                ),
            ),
        ),
    )
