"""What the tap reads in Produce, Fetch and Metadata, and what clients get to see of the answers."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kipctl.protocol.address import Address
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import LEADER_ERRORS
from kipctl.protocol.fetch_frames import read_fetch
from kipctl.protocol.metadata import MetadataResponse, MetadataResponseBroker
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce import NodeEndpoint
from kipctl.protocol.produce_frames import read_success
from kipctl.tap.batches import Batch
from kipctl.tap.clients import Client, MetadataAnswer
from kipctl.tap.fetches import Session, refusal_of
from kipctl.tap.leaders import PartitionId
from kipctl.tap.metadata_causes import cause_of
from kipctl.tap.observer import Observer
from kipctl.tap.produce_requests import Answered, Refusal, answered, read_acks, read_produce
from kipctl.tap.rewrite import (
    read_answer,
    read_request,
    translated,
    with_body,
    without_hints,
)

PRODUCE, FETCH, METADATA = (int(key) for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA))
_NO_CAUSE = -1
Followed = tuple[str | bytes, dict[tuple[str | bytes, int], Batch]]
"""A request's topic (the first, if it has several), and its batches."""


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
    is_answered: bool = True
    """False where the client wants no answer (acks=0)."""


@dataclass(slots=True)
class Route:
    """Where a connection leads. `address` is the broker's, `host` what clients know the tap by, and
    to the tap's ports so much is added in what they are told."""

    observer: Observer
    address: Address
    host: str
    connected_us: int
    add_to_ports: int = 0

    @property
    def broker(self) -> int:
        """The broker's id, -1 if it is not known."""
        return self.observer.addresses.broker_at(self.address)

    def named(self, brokers: Iterable[MetadataResponseBroker | NodeEndpoint]) -> None:
        """An answer says where these are."""
        self.observer.addresses.learn((at.node_id, at.host, at.port, at.rack) for at in brokers)

    def translate(self, host: str, port: int) -> Address:
        """The tap's own address that stands for this one."""
        ours = self.observer.addresses.port_for(Address(host, port))
        return Address(self.host, ours + self.add_to_ports)

    def translated(self, flight: Flight, frame: bytes, body: Any) -> bytes:
        """The answer, with the tap's addresses in place of the brokers'."""
        changed = translated(body, self.translate)
        return with_body(flight.api_key, flight.version, frame, changed)

    def leader_error(
        self, client: Client, topic: str | bytes, number: int, refusal: Refusal, now_us: int
    ) -> None:
        """A partition's leader is another: learn from it what the tap needs to know."""
        observer = self.observer
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
            observer.stale.refused(partition, self.broker, now_us)


class Api(ABC):
    """Follows one API's requests and answers on a connection.

    Each method that takes a frame raises MalformedFrame for what cannot be read.
    """

    def __init__(self, route: Route) -> None:
        self._route = route
        self._observer = route.observer

    @abstractmethod
    def request(self, flight: Flight, frame: bytes) -> None:
        """A request, which passes as it is: note what its answer needs."""

    @abstractmethod
    def answer(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        """What the client is to get for the answer."""

    @abstractmethod
    def lost(self, flight: Flight, now_us: int) -> None:
        """The request is never answered, as far as can be seen."""


class ProduceApi(Api):
    """Batches, and what became of each."""

    def request(self, flight: Flight, frame: bytes) -> None:
        """Where nothing is recorded a request is read only when something went wrong."""
        if self._observer.directory or flight.client.waiting:
            acks, flight.subject = self._followed(flight, frame)
        else:
            acks, flight.subject = read_acks(frame, flight.version), frame
        if acks == 0:
            if not isinstance(flight.subject, bytes):
                for batch in flight.subject[1].values():
                    self._observer.batches.acknowledged(batch, -1, flight.sent_us)
            flight.is_answered = False

    def _followed(self, flight: Flight, frame: bytes) -> tuple[int, Followed]:
        """A Produce request's acks, and its batches."""
        acks, sent = read_produce(frame, flight.version)
        batches = self._observer.batches.sent(
            flight.client, sent, self._route.broker, flight.sent_us, self._route.connected_us
        )
        return acks, (sent[0].topic if sent else "", batches)

    def answer(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        """See `Api`."""
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
        body = read_answer(PRODUCE, flight.version, frame)
        client = flight.client
        for one in answered(body, flight.version):
            if one.refusal:
                client.counts.produce_errors[one.refusal.error] += 1
                if one.refusal.error in LEADER_ERRORS:
                    self._route.leader_error(client, one.topic, one.partition, one.refusal, now_us)
            if batch := batches.get((one.topic, one.partition)):
                self._settle(batch, one, now_us)
        changed = body
        if self._observer.spec.drop_hints:
            changed = without_hints(body)
        self._route.named(body.node_endpoints)
        if body.node_endpoints or body.unknown_tags:
            changed = translated(changed, self._route.translate)
        if changed is body:
            return frame
        return with_body(PRODUCE, flight.version, frame, changed)

    def _settle(self, batch: Batch, one: Answered, now_us: int) -> None:
        if one.refusal is None:
            self._observer.batches.acknowledged(batch, one.base_offset, now_us)
        else:
            self._observer.batches.refused(batch, self._as_passed(one.refusal), now_us)

    def _as_passed(self, refusal: Refusal) -> Refusal:
        """What the client gets to see of it."""
        if self._observer.spec.drop_hints:
            return Refusal(refusal.error, refusal.base_offset)
        return refusal

    def lost(self, flight: Flight, now_us: int) -> None:
        """See `Api`."""
        if isinstance(flight.subject, bytes):
            try:
                _, flight.subject = self._followed(flight, flight.subject)
            except MalformedFrame:  # perhaps that is why the broker closed the connection
                return
        for batch in flight.subject[1].values():
            self._observer.batches.lost(batch, now_us)


class FetchApi(Api):
    """Reads, and the sessions that say what is read."""

    def __init__(self, route: Route) -> None:
        super().__init__(route)
        self._session = Session()

    def request(self, flight: Flight, frame: bytes) -> None:
        """See `Api`."""
        body = read_request(FETCH, flight.version, frame)
        named = self._session.apply(body, flight.version)
        flight.subject = self._observer.fetches.sent(
            flight.client, named, self._route.broker, flight.sent_us, self._route.connected_us
        )

    def answer(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        """See `Api`."""
        body = read_fetch(flight.version, memoryview(frame)[4:])
        for one in body.partitions:
            if one.error_code in LEADER_ERRORS:
                refusal = refusal_of(one, body, flight.version)
                self._route.leader_error(flight.client, one.topic, one.partition, refusal, now_us)
        self._observer.fetches.answered(
            flight.client,
            self._session,
            body,
            flight.version,
            self._route.broker,
            flight.sent_us,
            now_us,
            flight.subject,
        )
        self._route.named(body.node_endpoints)
        drop = self._observer.spec.drop_hints and any(one.leader for one in body.partitions)
        if not (drop or body.node_endpoints or body.unknown_tags):
            return frame
        whole = read_answer(FETCH, flight.version, frame)
        changed = without_hints(whole) if drop else whole
        changed = translated(changed, self._route.translate)
        return with_body(FETCH, flight.version, frame, changed)

    def lost(self, flight: Flight, now_us: int) -> None:
        """See `Api`."""
        if flight.subject:
            self._observer.fetches.lost(flight.client, flight.subject, self._route.broker, now_us)


class MetadataApi(Api):
    """What clients ask for and why, and the leaders that they are shown."""

    def request(self, flight: Flight, frame: bytes) -> None:
        """See `Api`."""
        body = read_request(METADATA, flight.version, frame)
        client, leaders = flight.client, self._route.observer.leaders
        asked: list[str] | None = None
        if body.topics is not None and (body.topics or flight.version > 0):
            asked = [leaders.topic(topic.name or topic.topic_id.bytes) for topic in body.topics]
        is_first, client.has_requested_metadata = not client.has_requested_metadata, True
        cause = cause_of(
            asked, is_first, client.known_topics, client.leader_error, client.had_error
        )
        client.leader_error = client.had_error = False
        client.counts.metadata[cause.name.lower()] += 1
        flight.cause, flight.topics = cause, -1 if asked is None else len(asked)
        flight.subject = asked

    def answer(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        """See `Api`."""
        observer, client = self._observer, flight.client
        body: MetadataResponse = read_answer(METADATA, flight.version, frame)
        self._route.named(body.brokers)
        observer.cluster_id = body.cluster_id or observer.cluster_id
        observer.leaders.apply_metadata(body)
        if observer.stale:
            body = observer.stale.with_stale_leaders(body, now_us)
        client.had_error |= any(topic.error_code for topic in body.topics)
        client.known_topics.update(topic.name for topic in body.topics if topic.name)
        if flight.topics < 0:
            flight.topics = len(body.topics)
        if client.waiting:
            shown = {
                PartitionId(topic.name or "", one.partition_index): one.leader_id
                for topic in body.topics
                for one in topic.partitions
            }
            seen_us = now_us + observer.delays.get(METADATA, 0)
            client.answers.append(MetadataAnswer(flight.sent_us, seen_us, shown))
        return self._route.translated(flight, frame, body)

    def lost(self, flight: Flight, now_us: int) -> None:
        """See `Api`."""
