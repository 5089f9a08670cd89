"""A connection's exchange without sockets: a test plays both the client and the broker."""

from pathlib import Path

import pyarrow as pa
from tap_messages import HOST, PORTS, answer_frame, ask_metadata, metadata

from kipctl.client_behaviour.episode import REFRESH_US
from kipctl.protocol.api import encode_request
from kipctl.protocol.message import Request, Response
from kipctl.tap.addresses import Addresses
from kipctl.tap.exchange import Exchange
from kipctl.tap.observer import Observer
from kipctl.tap.recorder import COLUMNS
from kipctl.tap.rewrite import read_answer
from kipctl.tap.spec import TapSpec
from kipctl.trace import export
from kipctl.trace.schema import DATASETS
from kipctl.transport.access import Access

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
            Addresses(lambda broker: (broker[1] + TAP_PORTS) % (1 << 16)),
            wall_offset_us=0,
        )
        self.now = START_US
        self._made = 0

    def connect(
        self, broker: int, client_id: str = "c", host: str = "", is_bootstrap: bool = False
    ) -> "Peer":
        """A connection of that client's to that broker."""
        self._made += 1
        address = (HOST, PORTS[broker])
        exchange = Exchange(
            *(self.observer, self._made, address, "tap", self.now),
            client_host=host,
            is_bootstrap=is_bootstrap,
        )
        return Peer(self, exchange, client_id)

    def connect_to(self, *brokers: int) -> list["Peer"]:
        """Connections of a client, which knows broker 1 as the leader, in epoch 0."""
        peers = [self.connect(broker) for broker in brokers]
        peers[0].call(ask_metadata(), metadata((1, 0)))
        return peers

    def after(self, us: int) -> None:
        self.now += us

    def findings(self) -> dict[str, tuple[int, int]]:
        """Findings of the only client, with how often they were seen, two seconds and more
        later."""
        self.after(2 * REFRESH_US)
        self.observer.tick(self.now)
        findings = self.client.findings(self.observer.spec.drop_hints, self.now)
        return {finding.id: (finding.times, finding.of) for finding in findings}

    @property
    def client(self):
        """The only client, whatever it says of its software at last."""
        clients = self.observer.clients.values()
        (client,) = (client for client in clients if client.counts.requests.total())
        return client

    @property
    def counts(self):
        return self.client.counts

    def rows(self, dataset: str, *columns: str) -> list:
        """What was recorded, as tuples of these columns or as dicts of all; the tap is over."""
        self.observer.close()
        meaning = export.Meaning(0, {"source": "tap"}, self.observer.recorder.names, COLUMNS)
        batches = export.record_batches(meaning, self.folder, dataset)
        rows = pa.Table.from_batches(batches, DATASETS[dataset]).to_pylist()
        return [tuple(row[name] for name in columns) for row in rows] if columns else rows


class Peer:
    """Both ends of a connection."""

    def __init__(self, wire: Wire, exchange: Exchange, client_id: str) -> None:
        self.wire, self.exchange, self.client_id = wire, exchange, client_id
        self._correlation = 0
        self._asked: list[tuple[int, type, int]] = []

    def ask(self, request: Request, version: int = 12) -> None:
        """The client asks."""
        self._correlation += 1
        self._asked.append((self._correlation, request.api.key, version))
        self.send(encode_request(request, version, self._correlation, self.client_id))

    def send(self, frame: bytes) -> None:
        """The client sends whatever bytes."""
        self.exchange.request(frame, self.wire.now)

    def answer(self, body: Response) -> Response:
        """The broker answers the oldest request. Returns what the client gets, as it reads it."""
        correlation, api_key, version = self._asked.pop(0)
        return read_answer(api_key, version, self.get(answer_frame(body, version, correlation)))

    def get(self, frame: bytes) -> bytes:
        """The broker sends whatever bytes. Returns those that the client gets."""
        return self.exchange.answer(frame, self.wire.now).frame

    def call(self, request: Request, answer: Response, took_us: int = 0, version: int = 12):
        """The client asks, and so much later the broker answers. Returns what the client reads."""
        self.ask(request, version)
        self.wire.after(took_us)
        return self.answer(answer)
