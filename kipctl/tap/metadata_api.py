"""What the tap reads in Metadata: what clients ask for and why, and the leaders they are shown."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from kipctl.client_behaviour.facts import Event
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.metadata_frames import MetadataFrame
from kipctl.protocol.primitives import MalformedFrame
from kipctl.tap.apis import FETCH, METADATA, PRODUCE
from kipctl.tap.clients import Client, MetadataAnswer
from kipctl.tap.leaders import PartitionId
from kipctl.tap.rewrite import read_answer, read_request, with_body, with_brokers_translated
from kipctl.tap.route import Api, Flight
from kipctl.trace.codes import MetadataCause

_LATE_US = 100_000
"""A tap that is so late reads together what was sent over more than a second."""
_PARTITIONS_AT_ONCE = 300
"""Read in about a millisecond, in which no other client is served."""


class MetadataApi(Api):
    """What clients ask for and why, and the leaders that they are shown."""

    def request(self, flight: Flight, frame: bytes) -> None:
        """See `Api`."""
        body = read_request(METADATA, flight.version, frame)
        client, leaders = flight.client, self._route.observer.leaders
        asked: list[str] | None = None
        if body.topics is not None and (body.topics or flight.version > 0):
            asked = [leaders.topic(topic.name or topic.topic_id.bytes) for topic in body.topics]
        # As long as it looks for a leader that is what it asks for.
        leader_error = client.leader_error or bool(client.episodes.open)
        client.episodes.asked_metadata(self._request(flight), flight.sent_us)
        client.unreachable.asked_metadata()
        if not (leader_error or client.had_error):
            self._note_what_is_asked(client, asked, flight.sent_us)
        cause = client.metadata.cause(
            asked, client.topics, leader_error, client.had_error, flight.sent_us
        )
        client.leader_error = client.had_error = False
        client.counts.metadata[cause.name.lower()] += 1
        flight.cause, flight.topics = cause, -1 if asked is None else len(asked)
        flight.subject = asked

    def answer(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        """See `Api`."""
        observer, client = self._observer, flight.client
        client.episodes.metadata_over(self._request(flight), now_us)
        answer = MetadataFrame(frame[4:], flight.version)
        topics = dict(observer.shown.read(answer))
        if answer.end() == ErrorCode.REBOOTSTRAP_REQUIRED:
            client.unreachable.told_to_rebootstrap(now_us)
        self._route.named(answer.brokers, is_metadata=True)
        observer.cluster_id = answer.cluster_id or observer.cluster_id
        if observer.stale:
            body = observer.stale.with_stale_leaders(
                read_answer(METADATA, flight.version, frame), now_us
            )
            frame = with_body(METADATA, flight.version, frame, body)
            answer = MetadataFrame(frame[4:], flight.version)
            topics = dict(observer.shown.read(answer))
        client.had_error |= any(topic.error_code for topic in topics.values())
        seen_us = now_us + observer.delays.get(METADATA, 0)
        shown = {name: topic.shown for name, topic in topics.items() if name}
        nodes = frozenset(broker.node_id for broker in answer.brokers)
        is_same = client.shown(nodes, shown, seen_us)
        client.counts.same_again += is_same and flight.cause == MetadataCause.UNEXPLAINED
        is_late = observer.watch.late_us >= _LATE_US
        if is_same and flight.subject == client.asked_before and not is_late:
            # Processes that share a client id are told apart by their connections.
            broker, connection = self._route.way
            client.sightings.once_more(
                Event.ALIKE_METADATA, now_us, broker=broker, connection=connection
            )
        client.asked_before = flight.subject
        if flight.topics < 0:
            flight.topics = answer.topics
        if client.waiting:
            client.answers.append(MetadataAnswer(flight.sent_us, seen_us, shown))
        return with_brokers_translated(answer, self._route.translate)

    def lost(self, flight: Flight, now_us: int) -> Iterable[PartitionId]:
        """See `Api`."""
        flight.client.episodes.metadata_over(self._request(flight), now_us)
        return ()

    def _request(self, flight: Flight) -> tuple[int, int]:
        return self._route.number, flight.correlation_id

    def _note_what_is_asked(self, client: Client, asked: list[str] | None, now_us: int) -> None:
        """More than it needs, by a client that has been at work for a while."""
        broker = self._route.broker
        if asked is None:
            if client.counts.requests[PRODUCE] and not client.counts.requests[FETCH]:
                client.sightings.note(Event.ALL_TOPICS, now_us, broker=broker)
        elif any(map(client.metadata.is_new, asked)) and any(
            topic in client.topics for topic in asked
        ):
            client.sightings.note(Event.KNOWN_WITH_NEW, now_us, broker=broker)

    def look_through(self, flight: Flight, frame: bytes) -> Iterator[None]:
        """Read an answer piece by piece, before `answer` does, which then knows most of it."""
        read = 0
        with suppress(MalformedFrame):  # `answer` says what is wrong
            answer = MetadataFrame(frame[4:], flight.version)
            for _, topic in self._observer.shown.read(answer):
                read += 1 + len(topic.shown.leaders)
                if read >= _PARTITIONS_AT_ONCE:
                    read = 0
                    yield
