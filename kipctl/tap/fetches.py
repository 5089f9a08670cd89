"""Fetches of all clients: what they read, from whom, and which were turned away."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kipctl.client_behaviour.facts import SESSION_REQUESTS
from kipctl.client_behaviour.replica_reads import Answer
from kipctl.protocol.error_codes import LEADER_ERRORS, ErrorCode
from kipctl.protocol.fetch import FetchRequest
from kipctl.protocol.fetch_frames import FetchAnswer, Fetched
from kipctl.protocol.leader_hints import hint_in_fetch
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.record_counts import Counted, count_records
from kipctl.tap.addresses import Addresses
from kipctl.tap.clients import Client
from kipctl.tap.leaders import Leaders, PartitionId
from kipctl.tap.produce_requests import Refusal
from kipctl.tap.recorder import FETCH, Recorder
from kipctl.tap.retries import (
    failed_attempt,
    given_up,
    retried,
    settled,
)
from kipctl.trace.codes import RangeCase, RangeHandling
from kipctl.trace.columns import ReadRow
from kipctl.trace.redirect_phases import FailedAttempt

_NOTHING = -1
_RETRIABLE = frozenset(code for code in ErrorCode if code.retriable)
_NO_SESSION_YET = (0, -1)
"""Session epochs of a request that names all that is wanted (KIP-227)."""

NamedPartition = tuple[str | bytes, int]
"""A partition as a request names it: the topic by name or by id."""


@dataclass(slots=True)
class Session:
    """What a connection's Fetches ask for: requests name only what has changed (KIP-227)."""

    offsets: dict[NamedPartition, int] = field(default_factory=dict)
    rack: str = ""
    may_go_on: bool = False
    """The broker keeps it, and has not said otherwise."""
    requests: int = 0
    begun_anew: int = 0
    """Of the last requests, those that could have gone on with it."""

    def apply(self, request: FetchRequest, version: int) -> list[NamedPartition]:
        """Take a request; returns the partitions that it names."""
        by_id = version >= 13
        self.requests += 1
        self.begun_anew += self.may_go_on and request.session_epoch in _NO_SESSION_YET
        if request.session_epoch in _NO_SESSION_YET:
            self.offsets.clear()
        self.rack = request.rack_id
        named: list[NamedPartition] = []
        for topic in request.topics:
            name = topic.topic_id.bytes if by_id else topic.topic
            for partition in topic.partitions:
                said = name, partition.partition
                self.offsets[said] = partition.fetch_offset
                named.append(said)
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id.bytes if by_id else forgotten.topic
            for number in forgotten.partitions:
                self.offsets.pop((name, number), None)
        return named

    def answered(self, answer: FetchAnswer) -> None:
        """A request was answered."""
        self.may_go_on = not answer.error_code and answer.session_id != 0

    def is_churned(self) -> bool:
        """Whether most of the last SESSION_REQUESTS began it anew; counts from there on."""
        if self.requests < SESSION_REQUESTS:
            return False
        is_churned = 2 * self.begun_anew > self.requests
        self.requests = self.begun_anew = 0
        return is_churned


@dataclass(slots=True)
class _RefusedPartition:
    """A partition that a broker would not let be read, until one does."""

    offset: int
    sent_us: int
    last_sent_us: int
    is_sent: bool = False
    failures: list[FailedAttempt] = field(default_factory=list)


class Fetches:
    """Follows the Fetches of all clients. Times are monotonic microseconds."""

    def __init__(self, leaders: Leaders, addresses: Addresses, recorder: Recorder) -> None:
        self._leaders = leaders
        self._addresses = addresses
        self._recorder = recorder
        self._refused_partitions: dict[Client, dict[PartitionId, _RefusedPartition]] = {}

    def sent(
        self,
        client: Client,
        named: list[NamedPartition],
        broker: int,
        now_us: int,
        connected_us: int,
    ) -> list[PartitionId]:
        """A Fetch goes out; returns those of its partitions that were turned away before."""
        turned = self._refused_partitions.get(client)
        if not turned:
            return []
        again = []
        for topic, number in named:
            partition = PartitionId(self._leaders.topic(topic), number)
            if (refused := turned.get(partition)) and not refused.is_sent:
                to = (client, partition, broker, self._leaders)
                retried(refused.failures[-1], *to, now_us, connected_us)
                refused.is_sent, refused.last_sent_us = True, now_us
                client.waiting -= 1
                again.append(partition)
        return again

    def answered(
        self,
        client: Client,
        session: Session,
        answer: FetchAnswer,
        refusals: Mapping[NamedPartition, Refusal],
        broker: int,
        sent_us: int,
        now_us: int,
        again: list[PartitionId],
    ) -> None:
        """It was answered, with these errors: rows for what it says, and for what is read again."""
        if answer.error_code:  # of the session: nothing was read, and it will be asked anew
            client.counts.fetch_errors[answer.error_code] += 1
            self._refuse_all(client, again, answer.error_code, broker, sent_us, now_us)
            return
        turned_away = set()
        for fetched in answer.partitions:
            partition = PartitionId(self._leaders.topic(fetched.topic), fetched.partition)
            offset = session.offsets.get((fetched.topic, fetched.partition), _NOTHING)
            self._write(client, session, partition, broker, fetched, offset, sent_us, now_us)
            if not fetched.error_code:
                continue
            client.counts.fetch_errors[fetched.error_code] += 1
            is_tried_again = partition in again and fetched.error_code in _RETRIABLE
            if fetched.error_code in LEADER_ERRORS or is_tried_again:
                turned_away.add(partition)
                refusal = refusals[fetched.topic, fetched.partition]
                self._refused(client, partition, refusal, offset, broker, sent_us, now_us)
        for partition in again:
            if partition not in turned_away:
                self._finish(client, partition, now_us)

    def lost(self, client: Client, again: list[PartitionId], broker: int, now_us: int) -> None:
        """The connection was lost: what was read again over it is turned away once more."""
        self._refuse_all(client, again, int(ErrorCode.NETWORK_EXCEPTION), broker, 0, now_us)

    def _refuse_all(
        self,
        client: Client,
        again: list[PartitionId],
        error: int,
        broker: int,
        sent_us: int,
        now_us: int,
    ) -> None:
        """None of these was read, for the same reason."""
        for partition in again:
            if refused := self._refused_partitions.get(client, {}).get(partition):
                refusal = Refusal(error, _NOTHING)
                at_us = sent_us or refused.last_sent_us
                self._refused(client, partition, refusal, refused.offset, broker, at_us, now_us)

    def give_up_all(self) -> None:
        """The tap ends: what is still turned away was so until its last error."""
        for client, turned in self._refused_partitions.items():
            for partition in list(turned):
                last = turned[partition].failures[-1]
                self._finish(client, partition, last.error_us, is_read=False)

    def _refused(
        self,
        client: Client,
        partition: PartitionId,
        refusal: Refusal,
        offset: int,
        broker: int,
        sent_us: int,
        now_us: int,
    ) -> None:
        turned = self._refused_partitions.setdefault(client, {})
        refused = turned.get(partition)
        if refused is None:
            refused = turned[partition] = _RefusedPartition(offset, sent_us, sent_us)
        elif not refused.is_sent:  # not named anew: the session asked for it all the same
            client.waiting -= 1
            refused.last_sent_us = max(sent_us, refused.failures[-1].error_us)
            to = (client, partition, broker, self._leaders)
            retried(refused.failures[-1], *to, refused.last_sent_us, 0)
        known = self._leaders.epoch_of(partition, broker)
        generation = self._leaders.generation(partition.topic)
        last = refused.failures[-1] if refused.failures else None
        is_same = last is not None and last.generation == generation
        refused.failures.append(
            failed_attempt(
                len(refused.failures) + 1,
                broker,
                last.to_epoch if last and is_same else known,
                generation,
                refusal,
                refused.last_sent_us,
                now_us,
                self._recorder.endpoints.texts,
            )
        )
        refused.is_sent = False
        client.waiting += 1

    def _finish(
        self, client: Client, partition: PartitionId, now_us: int, is_read: bool = True
    ) -> None:
        refused = self._refused_partitions.get(client, {}).pop(partition, None)
        if refused is None:  # another client of the same name was first
            return
        given_up(refused.failures[-1])
        client.waiting -= not refused.is_sent
        client.counts.redirects += is_read
        topic = self._recorder.topics.number(partition.topic)
        whose = (FETCH, topic, partition.partition, refused.offset, 0)
        times_us = (refused.sent_us, refused.last_sent_us, now_us)
        settled(self._recorder, client, whose, refused.failures, *times_us)

    def _write(
        self,
        client: Client,
        session: Session,
        partition: PartitionId,
        broker: int,
        fetched: Fetched,
        offset: int,
        sent_us: int,
        now_us: int,
    ) -> None:
        counted = counted_of(fetched, offset)
        if fetched.preferred_read_replica >= 0 or client.replica_reads:
            next_offset = counted.next_offset if counted else offset
            read = Answer(
                *(broker, sent_us, now_us, fetched.preferred_read_replica, fetched.error_code),
                *(offset, next_offset),
            )
            for event in client.replica_reads.answered(partition, read):
                client.sightings.note(event, now_us, partition, broker)
        rack = self._addresses.racks.get(broker)
        case = handling = _NOTHING
        is_short = 0 <= fetched.high_watermark < offset and not len(fetched.records)
        if is_short and not fetched.error_code and fetched.preferred_read_replica == _NOTHING:
            case, handling = RangeCase.UNCOMMITTED, RangeHandling.WAIT
        self._recorder.read(
            (
                *client.number,
                self._recorder.racks.number(session.rack) if session.rack else _NOTHING,
                *ReadRow(
                    self._recorder.topics.number(partition.topic),
                    partition.partition,
                    broker,
                    _NOTHING if rack is None else self._recorder.racks.number(rack),
                    self._leaders.leader(partition) == broker,
                    fetched.preferred_read_replica,
                    counted.records if counted else _NOTHING,
                    counted.bytes if counted else len(fetched.records),
                    fetched.error_code,
                    offset,
                    counted.next_offset if counted else _NOTHING,
                    fetched.high_watermark,
                    case,
                    handling,
                    now_us,
                ),
            )
        )


def counted_of(fetched: Fetched, offset: int) -> Counted | None:
    """What was read, as far as its batches' headers tell; None for formats before Kafka 0.11."""
    if not len(fetched.records):
        return Counted(0, 0, offset, _NOTHING)
    try:
        return count_records(fetched.records, offset, check_crcs=False)
    except MalformedFrame:
        return None


def refusal_of(fetched: Fetched, answer: FetchAnswer, version: int) -> Refusal:
    """The error of a partition, with its hint if there is one, or one in the draft's form."""
    hint = hint_in_fetch(fetched, answer, version)
    return Refusal.hinting(fetched.error_code, _NOTHING, hint)
