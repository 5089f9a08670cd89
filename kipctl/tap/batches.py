"""Batches on their way: each from its first request to its answer, through all its attempts."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from kipctl.client_behaviour.episode import PAUSE_US
from kipctl.protocol.error_codes import ErrorCode
from kipctl.tap.clients import Client
from kipctl.tap.leaders import Leaders, PartitionId
from kipctl.tap.produce_requests import Refusal, SentBatch
from kipctl.tap.recorder import PRODUCE, Recorder
from kipctl.tap.retries import (
    Flight,
    failed_attempt,
    given_up,
    retried,
    settled,
)
from kipctl.trace.redirect_phases import FailedAttempt

_OLDEST_US = 120_000_000
"""`delivery.timeout.ms` of Java's producer: older create times are somebody's own timestamps."""
_MOST_WAITING = 10_000
"""Batches of one client that met an error and were not sent again; older ones are given up."""
_RETRIABLE = frozenset(code for code in ErrorCode if code.retriable)
_LOST = Refusal(int(ErrorCode.NETWORK_EXCEPTION), -1)
_NOT_KNOWN = -1
_FLIGHTS_KEPT = 1000
"""Of a client in a hot loop there would be thousands a second while one batch waits."""


@dataclass(slots=True)
class Batch:
    """A batch. `first_seq` numbers its first record among all that the tap has seen."""

    client: Client
    partition: PartitionId
    first_seq: int
    sent: SentBatch
    intended_us: int
    sent_us: int
    last_sent_us: int
    broker: int
    epoch: int
    """The leader epoch by which it was sent last, -1 if it is not known."""
    generation: int = 0
    """Of its topic then (`Leaders.generation`)."""
    attempts: int = 1
    failures: list[FailedAttempt] = field(default_factory=list)
    is_rest: bool = False
    """What was left when the client sent a part of it again by itself."""

    @property
    def has_paused(self) -> bool | None:
        """It was sent after a pause of its own, or for the first time by a client whose batches are
        known again: many that back off by themselves look like one that does not. None if no batch
        of the client's was known again yet."""
        if self.failures:
            failed = self.failures[-1]
            return self.last_sent_us - failed.error_us - failed.wait.queued >= PAUSE_US
        return self.client.repeats_batches or None

    def is_behind(self, producer: int, first_seq: int) -> bool:
        """Whether it cannot overtake that one of its partition: with idempotence a producer keeps
        the order, and others know nothing of each other."""
        return 0 <= producer == self.sent.producer_id and first_seq < self.first_seq


@dataclass(slots=True)
class Waiting:
    """Batches of a partition that met an error and were not sent again, and the answers that came
    to others of it meanwhile."""

    batches: list[Batch] = field(default_factory=list)
    answered: deque[Flight] = field(default_factory=lambda: deque(maxlen=_FLIGHTS_KEPT))

    def ahead_of(self, batch: Batch) -> list[Flight]:
        """What was answered since its error of the batches that it cannot overtake."""
        error_us = batch.failures[-1].error_us
        since = takewhile(lambda flight: flight.answered_us > error_us, reversed(self.answered))
        return [flight for flight in since if batch.is_behind(flight.producer, flight.first_seq)]


class Batches:
    """Follows the batches of all clients. Times are monotonic microseconds.

    `wall_offset_us` is what the wall clock (Unix epoch) is ahead of the monotonic one.
    """

    def __init__(self, leaders: Leaders, recorder: Recorder, wall_offset_us: int) -> None:
        self._leaders = leaders
        self._recorder = recorder
        self._wall_offset_us = wall_offset_us
        self._next_seq = 0
        self._waiting: dict[Client, dict[PartitionId, Waiting]] = {}

    def sent(
        self,
        client: Client,
        batches: Sequence[SentBatch],
        broker: int,
        now_us: int,
        connected_us: int,
    ) -> dict[tuple[str | bytes, int], Batch]:
        """A Produce request goes out; its batches by topic, as it names it, and partition."""
        waiting = self._waiting.get(client) if client.waiting else None
        by_partition = {}
        for sent in batches:
            partition = PartitionId(self._leaders.topic(sent.topic), sent.partition)
            of_partition = waiting.get(partition) if waiting else None
            batch = self._take_waiting(of_partition, sent) if of_partition else None
            if batch is None or of_partition is None:
                batch = self._new(client, partition, sent, broker, now_us)
            else:
                client.waiting -= 1
                client.repeats_batches = True
                retried(
                    batch.failures[-1],
                    client,
                    partition,
                    broker,
                    self._leaders,
                    now_us,
                    connected_us,
                    of_partition.ahead_of(batch),
                )
                batch.attempts += 1
                batch.last_sent_us, batch.broker = now_us, broker
                batch.epoch = self._leaders.epoch_of(partition, broker)
                batch.generation = self._leaders.generation(partition.topic)
            by_partition[sent.topic, sent.partition] = batch
        return by_partition

    def acknowledged(self, batch: Batch, base_offset: int, now_us: int) -> None:
        """A batch's partition was answered without error."""
        if batch.failures:
            batch.client.counts.redirects += any(f.is_leader_error for f in batch.failures)
        self._answered(batch, now_us)
        self._write(batch, 0, base_offset, now_us)

    def refused(self, batch: Batch, refusal: Refusal, now_us: int) -> None:
        """It was answered with an error: it may be sent again, or it is over."""
        client = batch.client
        self._answered(batch, now_us)
        failed = failed_attempt(
            batch.attempts,
            batch.broker,
            batch.epoch,
            batch.generation,
            refusal,
            batch.last_sent_us,
            now_us,
            self._recorder.endpoints.texts,
        )
        batch.failures.append(failed)
        if refusal.error not in _RETRIABLE and refusal.error != (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        ):
            self._write(batch, refusal.error, refusal.base_offset, now_us)
            return
        waiting = self._waiting.setdefault(client, {})
        waiting.setdefault(batch.partition, Waiting()).batches.append(batch)
        client.waiting += 1
        if client.waiting > _MOST_WAITING:
            self.give_up(client)

    def _answered(self, batch: Batch, now_us: int) -> None:
        """Its last attempt was: note it for those of the partition that wait behind it."""
        producer, first_seq = batch.sent.producer_id, batch.first_seq
        is_followed = batch.client.waiting and producer >= 0
        of_client = self._waiting.get(batch.client) if is_followed else None
        waiting = of_client.get(batch.partition) if of_client else None
        if waiting and any(other.is_behind(producer, first_seq) for other in waiting.batches):
            waiting.answered.append(Flight(batch.last_sent_us, now_us, producer, first_seq))

    def lost(self, batch: Batch, now_us: int) -> None:
        """Its connection was lost before it was answered."""
        self.refused(batch, _LOST, now_us)

    def give_up(self, client: Client) -> None:
        """What waits to be sent again never was: so it failed with its last error, at that time."""
        for waiting in self._waiting.pop(client, {}).values():
            for batch in waiting.batches:
                self._never_sent_again(batch)

    def expire(self, now_us: int) -> None:
        """Give up what has waited for longer than any client would let it."""
        for client, waiting in list(self._waiting.items()):
            for partition, of_partition in list(waiting.items()):
                batches = of_partition.batches
                old = [b for b in batches if b.failures[-1].error_us < now_us - _OLDEST_US]
                for batch in old:
                    batches.remove(batch)
                    self._never_sent_again(batch)
                if not batches:
                    del waiting[partition]
            if not waiting:
                del self._waiting[client]

    def _never_sent_again(self, batch: Batch) -> None:
        failed = batch.failures[-1]
        given_up(failed)
        batch.client.waiting -= 1
        self._write(batch, failed.error, failed.base_offset, failed.error_us)

    def give_up_all(self) -> None:
        """The tap ends."""
        for client in list(self._waiting):
            self.give_up(client)

    def _new(
        self, client: Client, partition: PartitionId, sent: SentBatch, broker: int, now_us: int
    ) -> Batch:
        created_us = sent.base_timestamp * 1000 - self._wall_offset_us
        is_own_time = now_us - _OLDEST_US < created_us < now_us
        intended_us = created_us if is_own_time else now_us
        epoch = self._leaders.epoch_of(partition, broker)
        batch = Batch(
            client,
            partition,
            self._next_seq,
            sent,
            intended_us,
            now_us,
            now_us,
            broker,
            epoch,
            generation=self._leaders.generation(partition.topic),
        )
        self._next_seq += sent.records
        return batch

    def _take_waiting(self, waiting: Waiting, sent: SentBatch) -> Batch | None:
        """The waiting batch that this is, if it is one: it leaves those that wait."""
        batches = waiting.batches
        batch = next((batch for batch in batches if _is_same(batch.sent, sent)), None) or next(
            (batch for batch in batches if _begins_alike(batch, sent)), None
        )
        if batch is None:
            return None
        batches.remove(batch)
        missing = sent.records - batch.sent.records
        if missing < 0:
            rest = batch.sent._replace(records=-missing, crc=_NOT_KNOWN)
            batches.insert(
                0,
                replace(
                    batch,
                    first_seq=batch.first_seq + sent.records,
                    sent=rest,
                    failures=[replace(failed) for failed in batch.failures],
                    is_rest=True,
                ),
            )
            batch.client.waiting += 1
        while missing > 0 and batches:  # it was put together anew, with those that waited behind
            missing -= batches.pop(0).sent.records
            batch.client.waiting -= 1
        if missing > 0:
            self._next_seq += missing
        batch.sent = sent
        return batch

    def _write(self, batch: Batch, error: int, base_offset: int, now_us: int) -> None:
        recorder, sent = self._recorder, batch.sent
        if not error:
            batch.client.took.add(now_us - batch.intended_us)
        topic = recorder.topics.number(batch.partition.topic)
        recorder.batch(
            (
                batch.client.number[0],
                topic,
                sent.partition,
                batch.first_seq,
                1,
                sent.records,
                sent.bytes,
                batch.intended_us,
                batch.sent_us,
                now_us,
                batch.attempts,
                error,
                batch.broker,
                self._leaders.epoch_of(batch.partition, batch.broker),
                base_offset,
            )
        )
        if batch.failures:
            whose = (PRODUCE, topic, sent.partition, batch.first_seq, sent.records)
            times_us = (batch.intended_us, batch.last_sent_us, now_us)
            settled(recorder, batch.client, whose, batch.failures, *times_us)


def _is_same(before: SentBatch, now: SentBatch) -> bool:
    """The very same bytes, or with idempotence the same place in the producer's sequence."""
    if before.crc == now.crc:
        return True
    return before.producer_id >= 0 and before.in_sequence == now.in_sequence


def _begins_alike(before: Batch, now: SentBatch) -> bool:
    """Clients may put records together anew: then the first one's create time tells.

    Not so with idempotence, unless the producer has begun a new epoch.
    """
    sent = before.sent
    if now.producer_id >= 0 and (sent.producer_id, sent.producer_epoch) == (
        now.producer_id,
        now.producer_epoch,
    ):
        return False
    return before.is_rest or sent.base_timestamp == now.base_timestamp
