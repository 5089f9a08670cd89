"""The producer: an open loop of records over non-blocking sockets, each failed attempt traced.

One thread, one connection per broker. What is decided is decided elsewhere: which records are due
and what may go out (`accumulator`, `batches`), who leads and when a retry may follow
(`leadership`), when Metadata is asked for (`metadata_policy`). Here it is carried out.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from kipctl.probe.backoff import Attempts
from kipctl.probe.client import STALE_METADATA_ERRORS, TICK_US, ProbeClient
from kipctl.probe.idle_eviction import TopicsInUse
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce.accumulator import Accumulator
from kipctl.probe.produce.batches import NO_WINDOW, Batch, Partition
from kipctl.probe.produce.broker_link import ProducerLink
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.partitioner import Partitioner
from kipctl.probe.produce.payloads import Variant
from kipctl.probe.produce.responses import (
    NO_OFFSET,
    BatchResult,
    read_response,
    read_successes,
    warm_up_codec,
)
from kipctl.probe.produce.rows import batch_done
from kipctl.probe.schedule import Schedule
from kipctl.probe.tracing import Tracing
from kipctl.protocol.address import Address
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import LEADER_ERRORS, ErrorCode, error_name
from kipctl.protocol.leader_hints import NO_HINT, LeaderHint
from kipctl.protocol.message import ZERO_UUID
from kipctl.protocol.produce_frames import PartitionRecords, Topic
from kipctl.protocol.records import batch_header
from kipctl.trace.codes import Decision, MetadataCause
from kipctl.transport.loop_connection import ConnectionLostError, InFlight
from kipctl.transport.sockets import Sockets

_NOT_APPENDED = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
"""The broker does not know the batches before it; the second one is that of brokers before 2.5."""
_RETRIABLE = frozenset(code for code in ErrorCode if code.retriable)


class Producer(ProbeClient[Partition, ProducerLink]):
    """Sends the schedule's records to the topics' partitions and writes the trace.

    `run` returns when every record is acknowledged or given up, or soon after `stop`.
    """

    _baseline_backs_off = True

    def __init__(
        self,
        config: ProducerConfig,
        discovery: LeaderDiscovery,
        topics: Sequence[Topic],
        partitions: Sequence[int],
        variants: Sequence[Variant],
        partitioner: Partitioner,
        tracing: Tracing,
        producer_id: int,
        producer_epoch: int,
        sockets: Sockets,
        bootstrap: Iterable[Address],
        should_stop: Callable[[], bool] = lambda: False,
        topics_in_use: TopicsInUse | None = None,
    ) -> None:
        """`partitions` counts those of each topic; for the rest see `ProbeClient`.

        With a working set a topic that gets no record for `metadata.max.idle.ms` is forgotten.
        """
        self._config = config
        self._topics = topics
        self._producer_id = producer_id
        ordered = config.enable_idempotence
        in_flight = config.max_in_flight_requests_per_connection
        window = in_flight if ordered or in_flight == 1 else NO_WINDOW
        self._by_topic = [
            [
                Partition(topic, position, index, ordered, window, producer_epoch)
                for index in range(count)
            ]
            for position, (topic, count) in enumerate(zip(topics, partitions, strict=True))
        ]
        self._topic_position: dict[str | UUID, int] = {
            topic.name: i for i, topic in enumerate(topics)
        } | {topic.id: i for i, topic in enumerate(topics)}
        self._partitions = [p for of_topic in self._by_topic for p in of_topic]
        names_only = any(topic.id == ZERO_UUID for topic in topics)
        self._attributes = int(variants[0].compression)
        self._accumulator = Accumulator(config, self._partitions, partitioner, variants)
        super().__init__(
            config,
            discovery,
            {topic.name: of_topic for topic, of_topic in zip(topics, self._by_topic, strict=True)},
            lambda node: ProducerLink(node, config, sockets, names_only),
            tracing,
            sockets,
            bootstrap,
            should_stop,
            topics_in_use,
        )
        self.acknowledged = 0
        """Records."""
        self._wall_offset_us = 0

    # --- before the run ---

    def connect_all(self, timeout_us: int) -> tuple[int, ...]:
        """Open the connections to all leaders, so that the first records do not wait for them.

        Returns the ids of brokers that did not answer in time. Raises RefusedError when a broker
        speaks no common version.
        """
        deadline = self._now_us() + timeout_us
        links = dict.fromkeys(filter(None, map(self._metadata.link, self._partitions)))
        while self._now_us() < deadline and not all(link.ready for link in links):
            for link in links:
                self._network.ensure_connected(link)
            self._network.poll(self._now_us() + TICK_US)
        for version in {link.encoder.version for link in links if link.encoder}:
            warm_up_codec(version)
        return tuple(sorted(link.node.id for link in links if not link.ready))

    # --- the run ---

    def run(self, schedule: Schedule) -> None:
        """Send all records of the schedule."""
        self._wall_offset_us = time.time_ns() // 1000 - self._now_us()
        self._accumulator.start(schedule)
        self._network.begin_run()
        while not self._accumulator.is_over:
            self._run_once()
        self._metadata.write_unanswered()

    def _run_once(self) -> None:
        """Do what is due, then wait for answers until the next thing is."""
        accumulator, metadata, network = self._accumulator, self._metadata, self._network
        now = self._now_us()
        network.update_timers(now)
        if now >= accumulator.due_us:
            for partition in accumulator.append_due(now):
                self._mark_sendable(partition)
            self._mark_topics_used(now)
        if now >= accumulator.wake_us:
            for partition in accumulator.due_timers(now):
                self._mark_sendable(partition)
        if now >= metadata.due_us:
            metadata.send_due_request(now)
        for link in network.links:
            if link.pending:
                self._drain(link, now)
        if now >= self._next_tick_us:
            self._tick(now)
        network.poll(
            min(
                accumulator.due_us,
                accumulator.wake_us,
                metadata.wake_us,
                network.wake_us,
                self._next_tick_us,
            )
        )

    def _mark_topics_used(self, now: int) -> None:
        """The topics have got records: they are not idle."""
        for topic in self._topics:
            self._metadata.use_topic(topic.name, now)

    @property
    def generated(self) -> int:
        """How many records were handed to the partitions' queues."""
        return self._accumulator.generated

    @property
    def failed(self) -> int:
        """How many of them were given up."""
        return sum(self.errors.values())

    def stop(self) -> None:
        """Generate no further records; those under way are still waited for."""
        self._accumulator.stop()

    def _tick(self, now: int) -> None:
        for batch in self._accumulator.expired(now):
            if batch in batch.partition.outstanding:
                self._attempt_failed(batch, ErrorCode.REQUEST_TIMED_OUT, now)
                continue
            if batch.failures:
                self._expire_waiting(batch, now)
            self._settle(batch, now, ErrorCode.REQUEST_TIMED_OUT, NO_OFFSET)
        super()._tick(now)
        self._accumulator.load(self._metadata.has_leader)

    def _mark_sendable(self, partition: Partition) -> None:
        """The partition may have something to send: let its leader's link look at it."""
        if partition.queue:
            link = self._metadata.link(partition)
            if link is not None:
                link.pending[partition] = None
                return
            # Its topic may have been dropped as idle, also while a batch was under way: then it is
            # new again, and is asked for at once. For what was sent before all topics are asked for
            # (Java's `Sender.sendProducerData`, for topics with unknown leaders).
            is_known = self._metadata.use_topic(partition.topic.name, self._now_us())
            if is_known or partition.queue[0].failures:
                self._metadata.request_update(MetadataCause.LEADER_CHANGE)

    def _leader_changed(self, partition: Partition) -> None:
        for link in self._network.links:
            link.pending.pop(partition, None)
        self._mark_sendable(partition)

    def _topic_recreated(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            self._topic_position[partition.topic.id] = partition.topic_position
            partition.restart()

    # --- sending ---

    def _drain(self, link: ProducerLink, now: int) -> None:
        """Send what the link's pending partitions have, a batch of each in a request."""
        if not self._network.ensure_connected(link):
            return
        while link.pending and link.may_send:
            batches = self._next_request(link, now)
            if not batches:
                return
            self._send(link, batches)
            for batch in batches:
                self._mark_sendable(batch.partition)

    def _next_request(self, link: ProducerLink, now: int) -> list[Batch]:
        """The batches that go into the link's next request, taken from their queues."""
        batches: list[Batch] = []
        size = 0
        for partition in list(link.pending):
            batch = self._accumulator.next_batch(partition, now, self._backoff_us(partition))
            if batch is not None:
                section = batch.section or batch.variant.section(batch.records)
                size += len(section)
                full = size > self._config.max_request_size
                if batches and full:
                    break
                batch.section = section
                batches.append(partition.next_batch())
            del link.pending[partition]
        return batches

    def _backoff_us(self, partition: Partition) -> int:
        """How long after its last error the first batch in the queue has to wait."""
        batch = partition.queue[0] if partition.queue else None
        if batch is None or not batch.failures:
            return 0
        epoch = self._metadata.epoch(partition)
        return self._retries.wait_us(batch.attempts, batch.failures, partition, epoch)

    def _send(self, link: ProducerLink, batches: list[Batch]) -> None:
        connection, encoder = link.connection, link.encoder
        assert connection is not None
        assert encoder is not None
        sent = self._now_us()
        topics: dict[int, tuple[Topic, list[PartitionRecords]]] = {}
        for batch in batches:
            partition = batch.partition
            section = batch.section
            assert section is not None
            epoch = self._metadata.epoch(partition)
            if batch.attempts is None:
                batch.attempts = Attempts()
                batch.sent_us = sent
            elif batch.failures:
                unblocked_us = max(partition.unblocked_us, link.window_open_us)
                self._retries.retried(
                    batch.attempts, batch.failures[-1], partition, link, epoch, sent, unblocked_us
                )
            batch.attempts.sent(epoch, partition.generation)
            batch.last_sent_us = partition.unblocked_us = sent
            batch.broker = link.node.id
            header = batch_header(
                self._attributes,
                batch.records,
                (batch.intended_us + self._wall_offset_us) // 1000,
                self._producer_id,
                batch.producer_epoch,
                batch.sequence,
                section,
            )
            position = partition.topic_position
            if position not in topics:
                topics[position] = partition.topic, []
            topics[position][1].append(PartitionRecords(partition.index, header, section))
        buffers, size = encoder.encode(
            connection.next_correlation_id(),
            list(topics.values()),
        )
        answered = self._config.acks != 0
        try:
            link.send(buffers, size, ApiKey.PRODUCE, encoder.version, sent, batches, answered)
        except ConnectionLostError:
            self._network.disconnect(link)
            return
        if not answered and (written := link.pop_written()):
            self._written(link, written)

    def _written(self, link: ProducerLink, flight: InFlight) -> None:
        """With acks=0 that is all that is ever known (Java's `handleCompletedSends`)."""
        assert link.connection is not None
        done, number = self._now_us(), link.connection.number
        self._tracing.rpc(link.node.id, number, flight, 0, 0, 0, self._topics_in(flight), 0)
        for batch in flight.subject:
            if not batch.is_settled:
                self._settle(batch, done, 0, NO_OFFSET)

    # --- answers ---

    def _handle_response(
        self, link: ProducerLink, flight: InFlight, frame: memoryview, now: int
    ) -> tuple[int, int]:
        """Settle what an answer is about (`ProbeClient`); its error is the first of a batch."""
        topics = self._topics_in(flight)
        successes = read_successes(flight, frame) if len(self._topics) == 1 else None
        if successes is not None:
            for batch, base_offset in successes:
                self._settle(batch, now, 0, base_offset)
            return 0, topics
        answers, throttle_ms = read_response(flight, frame, self._topic_position)
        self._network.throttle(link, flight, throttle_ms, now)
        for answer in answers:
            if answer.error:
                self._refused(answer, now)
            else:
                self._settle(answer.batch, now, 0, answer.base_offset)
        return next((answer.error for answer in answers if answer.error), 0), topics

    def _topics_in(self, flight: InFlight) -> int:
        """How many topics a request was about."""
        if len(self._topics) == 1:
            return 1
        return len({batch.partition.topic_position for batch in flight.subject})

    def _refused(self, answer: BatchResult, now: int) -> None:
        """A partition's error: learn what its hint says before the batch is tried again."""
        batch, error, base_offset, hint = answer
        decision = Decision.NOT_APPLICABLE
        if error in LEADER_ERRORS:
            decision = self._metadata.apply_hint(batch.partition, hint, now)
        if batch.is_settled:  # given up: its hint is as good for those behind it, as in Java
            if decision is Decision.FOLLOWED:
                self._metadata.request_update(MetadataCause.LEADER_CHANGE)
            return
        self._attempt_failed(batch, error, now, base_offset, decision, hint)

    def _attempt_failed(
        self,
        batch: Batch,
        error: int,
        now: int,
        base_offset: int = NO_OFFSET,
        decision: Decision = Decision.NOT_APPLICABLE,
        hint: LeaderHint = NO_HINT,
    ) -> None:
        """Give the batch up, or put it back to be tried again."""
        attempts = batch.attempts
        assert attempts is not None
        if error in STALE_METADATA_ERRORS:
            self._metadata.request_update(MetadataCause.LEADER_CHANGE)
        failed = self._retries.failed(
            attempts,
            batch.broker,
            attempts.epoch,
            batch.last_sent_us,
            now,
            error,
            decision,
            hint,
            base_offset,
        )
        if batch.failures is None:
            batch.failures = []
        batch.failures.append(failed)
        expired = now - batch.intended_us >= self._config.delivery_timeout_ms * 1000
        partition = batch.partition
        retriable = error in _RETRIABLE
        if error in _NOT_APPENDED:
            # Either one before it is still to come, or the broker will never see what it waits
            # for: then a new epoch begins (Java's TransactionManager.canRetry).
            retriable = True
            if partition.is_first_in_sequence(batch):
                partition.renumber_from = min(partition.renumber_from, batch.number)
        if not retriable or attempts.count > self._config.retries or expired:
            # An earlier attempt may be in the log, whatever is said of this one.
            refused = not retriable and attempts.count == 1
            self._settle(batch, now, error, base_offset, refused)
        else:
            partition.requeue(batch)
            self._mark_sendable(partition)

    def _settle(
        self, batch: Batch, done_us: int, error: int, base_offset: int, refused: bool = False
    ) -> None:
        """The batch is acknowledged, or given up."""
        partition = batch.partition
        self._accumulator.settle(batch, error != 0, refused)
        batch_done(self._tracing, batch, done_us, error, base_offset)
        if error:
            self.errors[error_name(error)] += batch.records
        else:
            self.acknowledged += batch.records
        if partition.window < NO_WINDOW:
            partition.unblocked_us = done_us
            self._mark_sendable(partition)

    # --- what goes wrong ---

    def _handle_request_lost(self, link: ProducerLink, flight: InFlight, now: int) -> int:
        self._all_failed(flight.subject, now)
        return self._topics_in(flight)

    def _all_failed(self, batches: Iterable[Batch], now: int) -> None:
        for batch in batches:
            if not batch.is_settled:
                self._attempt_failed(batch, ErrorCode.NETWORK_EXCEPTION, now)

    def _expire_waiting(self, batch: Batch, now: int) -> None:
        """The batch ends while it waits: that wait belongs to its last failed attempt."""
        assert batch.failures
        partition, metadata = batch.partition, self._metadata
        self._retries.given_up(
            batch.attempts,
            batch.failures[-1],
            partition,
            metadata.link(partition),
            metadata.epoch(partition),
            now,
        )
