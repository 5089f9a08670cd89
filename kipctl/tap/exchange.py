"""One connection's requests and answers: what they mean, and what clients get to see of them.

No sockets here: frames come in, and frames to pass on go out.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Any, NamedTuple

from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import ApiVersionsResponse
from kipctl.protocol.error_codes import LEADER_ERRORS
from kipctl.protocol.fetch_frames import read_fetch
from kipctl.protocol.metadata import MetadataResponse, MetadataResponseBroker
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce import NodeEndpoint
from kipctl.protocol.produce_frames import read_success
from kipctl.tap.addresses import Address
from kipctl.tap.causes import cause_of
from kipctl.tap.clients import Client, Identity, MetadataAnswer
from kipctl.tap.contents import Answered, Refusal, answered, read_acks, read_produce
from kipctl.tap.fetched import Session, refusal_of
from kipctl.tap.frames import body_at
from kipctl.tap.leaders import PartitionId
from kipctl.tap.observer import Observer
from kipctl.tap.produced import Batch
from kipctl.tap.rewrite import (
    REQUESTS,
    WITH_ENDPOINTS,
    capped,
    is_known,
    read_answer,
    read_request,
    translated,
    unsupported_api_versions,
    with_body,
    without_hints,
)
from kipctl.trace.codes import MetadataCause

_HEAD = Struct(">hhih")
_SASL_HANDSHAKE = 17
_PRODUCE, _FETCH, _METADATA, _API_VERSIONS = (
    int(key) for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.API_VERSIONS)
)
_FIRST_WITH_ENDPOINTS = {_PRODUCE: 10, _FETCH: 16}
"""From these versions on answers may name brokers (KIP-951); those of other APIs here always do."""
_NO_CAUSE = -1
_INT32 = Struct(">i")
Followed = tuple[str | bytes, dict[tuple[str | bytes, int], Batch]]
"""A request's topic (the first, if it has several), and its batches."""
_UNANSWERED = object()
"""The subject of a request that gets no answer."""
_WELL_KNOWN = range(93)
"""API keys of Kafka 4.3: of those that are not read, all bytes pass as they are."""


@dataclass(slots=True)
class Flight:
    """A request on its way. `subject` is what its answer needs."""

    api_key: int
    version: int
    correlation_id: int
    size: int
    sent_us: int
    ahead: int
    client: Client
    subject: Any = None
    cause: int = _NO_CAUSE
    topics: int = 0
    is_followed: bool = True
    """It was read, and what it asks for is kept until its answer comes."""


class Passed(NamedTuple):
    """An answer to pass on: its frame, and for how long it is to be held (microseconds)."""

    frame: bytes
    delay_us: int


class Exchange:
    """Follows a connection. Every method that takes a frame raises MalformedFrame for garbage.

    `address` is the broker's, `host` what the client knows the tap by, and to the tap's ports so
    much is added in what it is told. Times are monotonic microseconds.
    """

    def __init__(
        self,
        observer: Observer,
        number: int,
        address: Address,
        host: str,
        now_us: int,
        add_to_ports: int = 0,
    ) -> None:
        self._observer = observer
        self._host, self._add_to_ports = host, add_to_ports
        self._number = number
        self._address = address
        self._connected_us = now_us
        self._flights: deque[Flight] = deque()
        self._answered_us = 0
        self._software = ("", "")
        self._client: Client | None = None
        self._said: bytes | None = None
        """The client id as the last request had it, with its length."""
        self._session = Session()
        self._requests: dict[int, Callable[[Flight, bytes], None]] = {
            _PRODUCE: self._produce,
            _FETCH: self._fetch,
            _METADATA: self._metadata,
            _API_VERSIONS: self._api_versions,
        }
        self._answers: dict[int, Callable[[Flight, bytes, int], bytes]] = {
            _PRODUCE: self._produced,
            _FETCH: self._fetched,
            _METADATA: self._metadata_answered,
            _API_VERSIONS: self._api_versions_answered,
        }

    @property
    def in_flight(self) -> int:
        """Requests that wait for an answer."""
        return len(self._flights)

    @property
    def client(self) -> Client | None:
        """Who is at the other end; None before the first request."""
        return self._client

    @property
    def _broker(self) -> int:
        return self._observer.addresses.broker_at(self._address)

    def request(self, frame: bytes, now_us: int) -> None:
        """A request came, and goes on as it is."""
        if len(frame) < 14:
            raise MalformedFrame(f"a request of {len(frame) - 4} bytes, which has no head")
        api_key, version, correlation, length = _HEAD.unpack_from(frame, 4)
        if api_key == _SASL_HANDSHAKE and version == 0:
            raise MalformedFrame("SaslHandshake 0, whose tokens are no requests; it needs 1")
        end = 14 + max(length, 0)
        if frame[12:end] != self._said:
            self._called(frame, end)
        client = self._client
        assert client
        flight = Flight(
            api_key, version, correlation, len(frame), now_us, len(self._flights), client
        )
        client.counts.requests[api_key] += 1
        read = self._requests.get(api_key)
        if not is_known(api_key, version):
            self._not_decoded(flight, frame)
        elif read is not None:
            self._read(read, flight, frame)
        if flight.subject is not _UNANSWERED:
            self._flights.append(flight)

    def _read(self, read: Callable[[Flight, bytes], None], flight: Flight, frame: bytes) -> None:
        """Look at a request, which passes as it is: a gateway's own form of it is no reason to end
        a connection."""
        try:
            read(flight, frame)
        except MalformedFrame:
            flight.client.counts.not_decoded += 1
            flight.is_followed = False
            if flight.api_key == _PRODUCE:
                flight.subject = ("", {})

    def _not_decoded(self, flight: Flight, frame: bytes) -> None:
        """A request that is not read; of some APIs that is as it should be."""
        api_key, version = flight.api_key, flight.version
        flight.client.counts.not_decoded += api_key in REQUESTS or api_key not in _WELL_KNOWN
        if api_key == _PRODUCE:
            flight.subject = ("", {})
            if read_acks(frame, version) == 0:
                self._unanswered(flight)

    def _unanswered(self, flight: Flight) -> None:
        """A request that gets no answer."""
        self._row(flight, 0, 0, 0)
        flight.subject = _UNANSWERED

    def _called(self, frame: bytes, end: int) -> None:
        """The client calls itself otherwise than before."""
        if end > len(frame):
            raise MalformedFrame(f"a client id of {end - 14} bytes in a request of {len(frame)}")
        self._said = frame[12:end]
        name = frame[14:end].decode("utf-8", "replace")
        self._is_client(Identity(name, *self._software))

    def _is_client(self, identity: Identity) -> None:
        before, self._client = self._client, self._observer.client(identity)
        if before is self._client:
            return
        if before is not None:
            before.open_connections -= 1
            before.counts.connections -= 1
        self._client.open_connections += 1
        self._client.counts.connections += 1

    # --- requests ---

    def _api_versions(self, flight: Flight, frame: bytes) -> None:
        request = REQUESTS[_API_VERSIONS]
        flexible = flight.version >= request.api.flexible_since
        body = read_request(_API_VERSIONS, flight.version, frame[body_at(frame, flexible) :])
        if body.client_software_name:
            self._software = (body.client_software_name, body.client_software_version)
            assert self._client
            self._is_client(Identity(self._client.identity.client_id, *self._software))
            assert self._client
            if flight.client is not self._client:
                flight.client.counts.requests[_API_VERSIONS] -= 1
                self._client.counts.requests[_API_VERSIONS] += 1
                flight.client = self._client

    def _produce(self, flight: Flight, frame: bytes) -> None:
        """Where nothing is recorded a request is read only when something went wrong."""
        if self._observer.directory or flight.client.waiting:
            acks, flight.subject = self._followed(flight, frame)
        else:
            acks, flight.subject = read_acks(frame, flight.version), frame
        if acks == 0:
            if not isinstance(flight.subject, bytes):
                for batch in flight.subject[1].values():
                    self._observer.batches.acknowledged(batch, -1, flight.sent_us)
            self._unanswered(flight)

    def _followed(self, flight: Flight, frame: bytes) -> tuple[int, Followed]:
        """A Produce request's acks, and its batches."""
        acks, sent = read_produce(frame, flight.version)
        batches = self._observer.batches.sent(
            flight.client, sent, self._broker, flight.sent_us, self._connected_us
        )
        return acks, (sent[0].topic if sent else "", batches)

    def _fetch(self, flight: Flight, frame: bytes) -> None:
        flexible = flight.version >= REQUESTS[_FETCH].api.flexible_since
        body = read_request(_FETCH, flight.version, frame[body_at(frame, flexible) :])
        named = self._session.asked(body, flight.version)
        flight.subject = self._observer.fetches.sent(
            flight.client, named, self._broker, flight.sent_us, self._connected_us
        )

    def _metadata(self, flight: Flight, frame: bytes) -> None:
        flexible = flight.version >= REQUESTS[_METADATA].api.flexible_since
        body = read_request(_METADATA, flight.version, frame[body_at(frame, flexible) :])
        client, leaders = flight.client, self._observer.leaders
        asked: list[str] | None = None
        if body.topics is not None and (body.topics or flight.version > 0):
            asked = [leaders.topic(topic.name or topic.topic_id.bytes) for topic in body.topics]
        is_first, client.has_asked = not client.has_asked, True
        cause = cause_of(asked, is_first, client.shown, client.leader_error, client.trouble)
        client.leader_error = client.trouble = False
        client.counts.metadata[cause.name.lower()] += 1
        flight.cause, flight.topics = cause, -1 if asked is None else len(asked)
        flight.subject = asked

    # --- answers ---

    def answer(self, frame: bytes, now_us: int) -> Passed:
        """An answer came; returns what the client is to get for it."""
        if not self._flights:
            raise MalformedFrame("an answer that nobody asked for")
        flight = self._flights.popleft()
        size = len(frame)
        if size < 8:
            raise MalformedFrame(f"an answer of {size - 4} bytes")
        (correlation,) = _INT32.unpack_from(frame, 4)
        if correlation != flight.correlation_id:
            raise MalformedFrame(f"an answer to request {correlation}, not {flight.correlation_id}")
        api_key = flight.api_key
        if api_key == _API_VERSIONS and not is_known(api_key, flight.version):
            frame = unsupported_api_versions(flight.correlation_id)
        elif is_known(api_key, flight.version):
            handler = self._answers.get(api_key)
            if handler is not None:
                frame = self._answer(handler, flight, frame, now_us)
            elif api_key in WITH_ENDPOINTS:
                body = read_answer(api_key, flight.version, frame)
                frame = self._translated(flight, frame, body)
        behind_us = max(0, self._answered_us - flight.sent_us) if flight.ahead else 0
        self._answered_us = now_us
        self._row(flight, now_us, size, behind_us)
        return Passed(frame, self._observer.delays.get(api_key, 0))

    def _answer(
        self,
        handler: Callable[[Flight, bytes, int], bytes],
        flight: Flight,
        frame: bytes,
        now_us: int,
    ) -> bytes:
        """What the client is to get.

        Raises MalformedFrame for an answer that cannot be read and may name brokers: with their own
        addresses the client would leave the tap.
        """
        may_name_brokers = flight.version >= _FIRST_WITH_ENDPOINTS.get(flight.api_key, 0)
        if not flight.is_followed and not may_name_brokers:
            return frame
        if not flight.is_followed and flight.api_key in (_PRODUCE, _FETCH):
            return self._translated(
                flight, frame, read_answer(flight.api_key, flight.version, frame)
            )
        try:
            return handler(flight, frame, now_us)
        except MalformedFrame:
            if may_name_brokers or self._observer.spec.drop_hints:
                raise
            flight.client.counts.not_decoded += 1
            self._never_answered(flight, now_us)
            return frame

    def _never_answered(self, flight: Flight, now_us: int) -> None:
        if flight.api_key == _PRODUCE:
            self._produce_lost(flight, now_us)
        elif flight.api_key == _FETCH and flight.subject:
            self._observer.fetches.lost(flight.client, flight.subject, self._broker, now_us)

    def lost(self, now_us: int) -> None:
        """The connection is gone: what was in flight is not answered any more."""
        client = self._client
        if client is None:
            return
        client.open_connections -= 1
        if self._flights and not self._observer.is_ending:
            client.counts.lost += 1
            client.trouble = True
        flights, self._flights = self._flights, deque()
        for flight in flights:
            self._row(flight, 0, 0, 0)
            self._never_answered(flight, now_us)

    def _produce_lost(self, flight: Flight, now_us: int) -> None:
        if isinstance(flight.subject, bytes):
            try:
                _, flight.subject = self._followed(flight, flight.subject)
            except MalformedFrame:  # perhaps that is why the broker closed the connection
                return
        for batch in flight.subject[1].values():
            self._observer.batches.lost(batch, now_us)

    def _named(self, brokers: Iterable[MetadataResponseBroker | NodeEndpoint]) -> None:
        """An answer says where these are."""
        self._observer.addresses.name((at.node_id, at.host, at.port, at.rack) for at in brokers)

    def _translate(self, host: str, port: int) -> Address:
        ours = self._observer.addresses.port_for((host, port))
        return self._host, ours + self._add_to_ports

    def _translated(self, flight: Flight, frame: bytes, body: Any) -> bytes:
        changed = translated(body, self._translate)
        return with_body(flight.api_key, flight.version, frame, changed)

    def _api_versions_answered(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        body: ApiVersionsResponse = read_answer(_API_VERSIONS, flight.version, frame)
        changed = capped(body, self._observer.caps)
        if changed == body:
            return frame
        return with_body(_API_VERSIONS, flight.version, frame, changed)

    def _metadata_answered(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        observer, client = self._observer, flight.client
        body: MetadataResponse = read_answer(_METADATA, flight.version, frame)
        self._named(body.brokers)
        observer.cluster_id = body.cluster_id or observer.cluster_id
        observer.leaders.apply_metadata(body)
        if observer.stale:
            body = observer.stale.of_before(body, now_us)
        client.trouble |= any(topic.error_code for topic in body.topics)
        client.shown.update(topic.name for topic in body.topics if topic.name)
        if flight.topics < 0:
            flight.topics = len(body.topics)
        if client.waiting:
            shown = {
                PartitionId(topic.name or "", one.partition_index): one.leader_id
                for topic in body.topics
                for one in topic.partitions
            }
            seen_us = now_us + observer.delays.get(_METADATA, 0)
            client.answers.append(MetadataAnswer(flight.sent_us, seen_us, shown))
        return self._translated(flight, frame, body)

    def _produced(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        success = read_success(flight.version, memoryview(frame)[4:])
        if isinstance(flight.subject, bytes):
            if success is not None:
                return frame
            _, flight.subject = self._followed(flight, flight.subject)
        topic, batches = flight.subject
        if success is not None:
            for partition, base_offset in success:
                if batch := batches.get((topic, partition)):
                    self._observer.batches.acknowledged(batch, base_offset, now_us)
            return frame
        body = read_answer(_PRODUCE, flight.version, frame)
        client = flight.client
        for one in answered(body, flight.version):
            if one.refusal:
                client.counts.produce_errors[one.refusal.error] += 1
                if one.refusal.error in LEADER_ERRORS:
                    self._leader_error(client, one.topic, one.partition, one.refusal, now_us)
            if batch := batches.get((one.topic, one.partition)):
                self._settle(batch, one, now_us)
        changed = body
        if self._observer.spec.drop_hints:
            changed = without_hints(body)
        self._named(body.node_endpoints)
        if body.node_endpoints or body.unknown_tags:
            changed = translated(changed, self._translate)
        if changed is body:
            return frame
        return with_body(_PRODUCE, flight.version, frame, changed)

    def _settle(self, batch: Batch, one: Answered, now_us: int) -> None:
        if one.refusal is None:
            self._observer.batches.acknowledged(batch, one.base_offset, now_us)
        else:
            self._observer.batches.refused(batch, self._as_passed(one.refusal), now_us)

    def _fetched(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        body = read_fetch(flight.version, memoryview(frame)[4:])
        for one in body.partitions:
            if one.error_code in LEADER_ERRORS:
                refusal = refusal_of(one, body, flight.version)
                self._leader_error(flight.client, one.topic, one.partition, refusal, now_us)
        self._observer.fetches.answered(
            flight.client,
            self._session,
            body,
            flight.version,
            self._broker,
            flight.sent_us,
            now_us,
            flight.subject,
        )
        self._named(body.node_endpoints)
        drop = self._observer.spec.drop_hints and any(one.leader for one in body.partitions)
        if not (drop or body.node_endpoints or body.unknown_tags):
            return frame
        whole = read_answer(_FETCH, flight.version, frame)
        changed = without_hints(whole) if drop else whole
        changed = translated(changed, self._translate)
        return with_body(_FETCH, flight.version, frame, changed)

    def _as_passed(self, refusal: Refusal) -> Refusal:
        """What the client gets to see of it."""
        if self._observer.spec.drop_hints:
            return Refusal(refusal.error, refusal.base_offset)
        return refusal

    def _leader_error(
        self, client: Client, topic: str | bytes, number: int, refusal: Refusal, now_us: int
    ) -> None:
        """A partition's leader is another: learn from it what the tap needs to know."""
        observer = self._observer
        partition = PartitionId(observer.leaders.topic(topic), number)
        client.leader_error = True
        client.counts.leader_errors += 1
        if refusal.hint_leader >= 0:
            if refusal.is_draft:
                client.counts.draft_hints += 1
            else:
                client.counts.hints += 1
                observer.leaders.learn(partition, refusal.hint_leader, refusal.hint_epoch)
            client.counts.dropped_hints += observer.spec.drop_hints
        if observer.stale:
            observer.stale.refused(partition, self._broker, now_us)

    def _row(self, flight: Flight, received_us: int, size: int, behind_us: int) -> None:
        if not self._observer.directory:
            return
        client = flight.client
        self._observer.recorder.rpc(
            (
                *client.number,
                self._number,
                self._broker,
                flight.api_key,
                flight.version,
                flight.size,
                size,
                flight.sent_us,
                received_us,
                flight.ahead,
                behind_us,
                flight.cause,
                max(flight.topics, 0),
                flight.cause == MetadataCause.LEADER_CHANGE and client.waiting > 0,
                0,
            )
        )
