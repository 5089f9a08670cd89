"""What the tap reads in Produce, Fetch and Metadata, and what clients get to see of the answers."""

from collections.abc import Iterable
from typing import Any

from kipctl.client_behaviour.facts import Event
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import LEADER_ERRORS, ErrorCode
from kipctl.protocol.fetch_frames import read_fetch
from kipctl.protocol.leader_hints import NO_HINT, leader_named
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce_frames import read_success
from kipctl.tap.batches import Batch
from kipctl.tap.episodes import About
from kipctl.tap.fetches import NamedPartition, Session, refusal_of
from kipctl.tap.leaders import PartitionId
from kipctl.tap.produce_requests import Refusal, answered, read_acks, read_produce
from kipctl.tap.rewrite import (
    read_answer,
    read_request,
    translated,
    with_body,
    without_hints,
)
from kipctl.tap.route import EPOCH_ERRORS, Api, Flight, Route

PRODUCE, FETCH, METADATA = (int(key) for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA))
SHARE = SHARE_FETCH, SHARE_ACKNOWLEDGE = int(ApiKey.SHARE_FETCH), int(ApiKey.SHARE_ACKNOWLEDGE)
_SEQUENCE_ERRORS = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH)
Followed = tuple[str | bytes, dict[tuple[str | bytes, int], Batch]]
"""A request's topic (the first, if it has several), and its batches."""


class ProduceApi(Api):
    """Batches, and what became of each."""

    def request(self, flight: Flight, frame: bytes) -> None:
        """Where nothing is recorded a request is read only when something went wrong."""
        client = flight.client
        is_looked_at = client.waiting or flight.sent_us < client.episodes.look_until_us
        if is_looked_at or client.unreachable or self._observer.directory:
            acks, flight.subject = self._followed(flight, frame)
        else:
            acks, flight.subject = read_acks(frame, flight.version), frame
        if acks == 0:
            client.counts.acks_0 += 1
            if not isinstance(flight.subject, bytes):
                for batch in flight.subject[1].values():
                    self._observer.batches.acknowledged(batch, -1, flight.sent_us)
            flight.is_answered = False

    def _followed(self, flight: Flight, frame: bytes) -> tuple[int, Followed]:
        """A Produce request's acks, and its batches."""
        acks, sent = read_produce(frame, flight.version)
        route, client = self._route, flight.client
        batches = self._observer.batches.sent(
            client, sent, route.broker, flight.sent_us, route.connected_us
        )
        if acks and flight.sent_us < client.episodes.look_until_us:
            for batch in batches.values():
                client.episodes.sent(_about(batch), route.way, flight.sent_us)
        if client.unreachable:
            for batch in batches.values():
                client.unreachable.sent(batch.partition, route.broker)
        return acks, (sent[0].topic if sent else "", batches)

    def answer(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        """See `Api`."""
        success = read_success(flight.version, memoryview(frame)[4:])
        client = flight.client
        if isinstance(flight.subject, bytes):
            if success is not None and not (client.episodes.open or client.recreated):
                client.took.add(now_us - flight.sent_us)
                return frame
            _, flight.subject = self._followed(flight, flight.subject)
        topic, batches = flight.subject
        if success is not None:
            for partition, base_offset in success:
                if batch := batches.get((topic, partition)):
                    self._observer.batches.acknowledged(batch, base_offset, now_us)
            if client.episodes.open or client.recreated:
                for batch in batches.values():
                    self._accepted(flight, batch, now_us)
            return frame
        body = read_answer(PRODUCE, flight.version, frame)
        self._route.named(body.node_endpoints)
        for answer in answered(body, flight.version):
            batch, refusal = batches.get((answer.topic, answer.partition)), answer.refusal
            if refusal is None:
                if batch:
                    self._observer.batches.acknowledged(batch, answer.base_offset, now_us)
                    self._accepted(flight, batch, now_us)
                continue
            client.counts.produce_errors[refusal.error] += 1
            if client.recreated:
                self._route.refused_as_before(
                    flight, answer.topic, answer.partition, refusal.error, now_us
                )
            if refusal.error in _SEQUENCE_ERRORS:
                self._note(flight, Event.SEQUENCE_REFUSED, answer.topic, answer.partition, now_us)
            if refusal.error in LEADER_ERRORS:
                about = self._route.about(PRODUCE, answer.topic, answer.partition)
                about = _about(batch) if batch else about
                paused = batch.has_paused if batch else None
                refusal = self._route.leader_error(flight, about, refusal, now_us, paused)
            if batch:
                self._observer.batches.refused(batch, refusal, now_us)
        changed = body
        if self._observer.spec.drop_hints:
            changed = without_hints(body)
        if body.node_endpoints or body.unknown_tags:
            changed = translated(changed, self._route.translate)
        if changed is body:
            return frame
        return with_body(PRODUCE, flight.version, frame, changed)

    def _accepted(self, flight: Flight, batch: Batch, now_us: int) -> None:
        way, client = self._route.way, flight.client
        client.episodes.accepted(_about(batch), way, flight.sent_us, now_us)
        client.recreated.accepted(batch.partition.topic)

    def lost(self, flight: Flight, now_us: int) -> Iterable[PartitionId]:
        """See `Api`."""
        if isinstance(flight.subject, bytes):
            try:
                _, flight.subject = self._followed(flight, flight.subject)
            except MalformedFrame:  # perhaps that is why the broker closed the connection
                return ()
        batches = flight.subject[1].values()
        for batch in batches:
            self._observer.batches.lost(batch, now_us)
        return [batch.partition for batch in batches]


def _about(batch: Batch) -> About:
    return About(PRODUCE, batch.partition, batch.sent.producer_id)


class FetchApi(Api):
    """Reads, and the sessions that say what is read."""

    def __init__(self, route: Route) -> None:
        super().__init__(route)
        self._session = Session()

    def request(self, flight: Flight, frame: bytes) -> None:
        """See `Api`."""
        body = read_request(FETCH, flight.version, frame)
        named = self._session.apply(body, flight.version)
        route, episodes = self._route, flight.client.episodes
        if self._session.is_churned():
            flight.client.sightings.note(Event.SESSION_LOST, flight.sent_us, broker=route.broker)
        again = self._observer.fetches.sent(
            flight.client, named, route.broker, flight.sent_us, route.connected_us
        )
        unreachable = flight.client.unreachable
        is_followed = episodes.open or unreachable
        asked = [route.about(FETCH, *partition) for partition in named] if is_followed else []
        for about in asked:
            episodes.sent(about, route.way, flight.sent_us)
            unreachable.sent(about.partition, route.broker)
        flight.subject = again, asked

    def answer(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        """See `Api`."""
        body = read_fetch(flight.version, memoryview(frame)[4:])
        route, episodes = self._route, flight.client.episodes
        again, asked = flight.subject
        self._session.answered(body)
        route.named(body.node_endpoints)
        refusals: dict[NamedPartition, Refusal] = {}
        if episodes.open and not body.error_code:
            in_error = {
                route.about(FETCH, *partition[:2])
                for partition in body.partitions
                if partition.error_code
            }
            answered_now = (route.about(FETCH, *partition[:2]) for partition in body.partitions)
            for about in dict.fromkeys((*asked, *answered_now)):
                if about not in in_error:
                    episodes.accepted(about, route.way, flight.sent_us, now_us)
        recreated = flight.client.recreated
        for partition in body.partitions:
            said = partition.topic, partition.partition
            if recreated and partition.error_code:
                route.refused_as_before(flight, *said, partition.error_code, now_us)
            elif recreated:
                recreated.accepted(self._observer.leaders.topic(partition.topic))
            if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                what = *said, self._session.offsets.get(said), route.number
                self._note_position(flight, what, said, now_us)
            if partition.error_code:
                refusal = refusal_of(partition, body, flight.version)
                if partition.error_code in EPOCH_ERRORS:
                    self._note(flight, Event.EPOCH_REFUSED, *said, now_us)
                if partition.error_code in LEADER_ERRORS:
                    about = route.about(FETCH, *said)
                    refusal = route.leader_error(flight, about, refusal, now_us)
                refusals[said] = refusal
        self._observer.fetches.answered(
            flight.client,
            self._session,
            body,
            refusals,
            route.broker,
            flight.sent_us,
            now_us,
            again,
        )
        drop = self._observer.spec.drop_hints and any(
            partition.leader for partition in body.partitions
        )
        if not (drop or body.node_endpoints or body.unknown_tags):
            return frame
        whole = read_answer(FETCH, flight.version, frame)
        changed = without_hints(whole) if drop else whole
        changed = translated(changed, self._route.translate)
        return with_body(FETCH, flight.version, frame, changed)

    def lost(self, flight: Flight, now_us: int) -> Iterable[PartitionId]:
        """See `Api`."""
        if flight.subject and flight.subject[0]:
            again, broker = flight.subject[0], self._route.broker
            self._observer.fetches.lost(flight.client, again, broker, now_us)
        return [self._route.about(FETCH, *said).partition for said in self._session.offsets]


class ShareApi(Api):
    """What members of share groups read and acknowledge: which partitions were refused."""

    def request(self, flight: Flight, frame: bytes) -> None:
        """See `Api`."""
        flight.subject = ()
        if flight.client.episodes.open:
            body = read_request(flight.api_key, flight.version, frame)
            flight.subject = [
                self._route.about(flight.api_key, topic.topic_id.bytes, partition.partition_index)
                for topic in body.topics
                for partition in topic.partitions
            ]
            for about in flight.subject:
                flight.client.episodes.sent(about, self._route.way, flight.sent_us)

    def answer(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        """See `Api`."""
        body = read_answer(flight.api_key, flight.version, frame)
        route, client = self._route, flight.client
        route.named(body.node_endpoints)
        is_over = set() if body.error_code else set(flight.subject)
        for topic in body.responses:
            for partition in topic.partitions:
                # A broker that does not lead takes no acknowledgement, either.
                error = partition.error_code or getattr(partition, "acknowledge_error_code", 0)
                about = route.about(flight.api_key, topic.topic_id.bytes, partition.partition_index)
                is_over.discard(about)
                if not error:
                    client.episodes.accepted(about, route.way, flight.sent_us, now_us)
                    continue
                client.counts.fetch_errors[error] += 1
                if error in LEADER_ERRORS:
                    # Without endpoint it may be the default, which is node 0 in epoch 0.
                    hint = leader_named(*_leader(partition), body.node_endpoints)
                    refusal = Refusal.hinting(error, -1, hint if hint.endpoint else NO_HINT)
                    route.leader_error(flight, about, refusal, now_us)
        for about in is_over:
            client.episodes.accepted(about, route.way, flight.sent_us, now_us)
        changed = without_hints(body) if self._observer.spec.drop_hints else body
        if not body.node_endpoints and changed == body:
            return frame
        return with_body(
            flight.api_key, flight.version, frame, translated(changed, route.translate)
        )


def _leader(partition: Any) -> tuple[int, int]:
    return partition.current_leader.leader_id, partition.current_leader.leader_epoch
