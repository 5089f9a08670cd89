"""The producer: an open loop of records over non-blocking sockets, with every leader move felt.

One thread, one connection per broker. The rules it follows are elsewhere: who leads and when a
retry may go out (`leadership`), when Metadata is asked for (`metadata_policy`), which records go
where (`schedule`, `partitioner`, `batches`). Here they are carried out.
"""

import heapq
import random
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle

from kipctl.errors import RefusedError
from kipctl.probe.batches import Batch, Partition
from kipctl.probe.config import ProducerConfig
from kipctl.probe.leadership import (
    NO_LEADER,
    Attempts,
    Hint,
    Leader,
    LeaderDiscovery,
    Leadership,
    Node,
    retry_backoff,
)
from kipctl.probe.links import WRITE, Link
from kipctl.probe.metadata_policy import NEVER_US, MetadataPolicy
from kipctl.probe.partitioner import Partitioner
from kipctl.probe.payloads import Variant
from kipctl.probe.redirects import FailedAttempt, split_wait
from kipctl.probe.schedule import Schedule
from kipctl.probe.tracing import Tracing
from kipctl.protocol.api import ApiKey, decode_response
from kipctl.protocol.compression import Compression
from kipctl.protocol.error_codes import ErrorCode, error_name
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce import PartitionProduceResponse, ProduceRequest
from kipctl.protocol.produce_frames import (
    MAX_PARTITIONS,
    PartitionRecords,
    Topic,
    batch_header,
    read_success,
)
from kipctl.trace.codes import Decision, MetadataCause
from kipctl.transport.loop import ConnectionLostError, InFlight

LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
_STALE_METADATA_ERRORS = LEADER_ERRORS | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.NETWORK_EXCEPTION,
}
_RETRIABLE = frozenset(code for code in ErrorCode if code.retriable)
_TICK_US = 50_000
_NO_OFFSET = -1


def now_us() -> int:
    """The machine's monotonic clock, the same in all its processes, in microseconds."""
    return time.monotonic_ns() // 1000


@dataclass(slots=True)
class Totals:
    """What the run came to."""

    acknowledged: int = 0
    failed: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    """Records failed, by the error's name."""


@dataclass(slots=True)
class MetadataCall:
    """A Metadata request of this producer, kept until the end to know whether a batch waited."""

    cause: MetadataCause
    link: Link
    connection: int = 0
    flight: InFlight | None = None
    received_us: int = 0
    response_bytes: int = 0
    behind_us: int = 0
    critical: bool = False
    error: int = 0


class Producer:
    """Sends the schedule's records to the topics' partitions and writes the trace.

    `run` returns when every record is acknowledged or given up, or soon after `stop`.
    """

    def __init__(
        self,
        config: ProducerConfig,
        discovery: LeaderDiscovery,
        topics: list[Topic],
        partitions: list[int],
        variants: list[Variant],
        partitioner: Partitioner,
        tracing: Tracing,
        producer_id: int,
        producer_epoch: int,
        on_tick: Callable[[], None],
    ) -> None:
        """`partitions` counts those of each topic; `on_tick` is called every 50 ms or so."""
        self._config = config
        self._discovery = discovery
        self._topics = topics
        self._partitioner = partitioner
        self._tracing = tracing
        self._producer_id = producer_id
        self._on_tick = on_tick
        ordered = config.enable_idempotence
        exclusive = config.max_in_flight_requests_per_connection == 1
        self._by_topic = [
            [Partition(topic, position, index, ordered, exclusive) for index in range(count)]
            for position, (topic, count) in enumerate(zip(topics, partitions, strict=True))
        ]
        self._partitions = [p for of_topic in self._by_topic for p in of_topic]
        for partition in self._partitions:
            partition.producer_epoch = producer_epoch
        self._topic_position = {topic.name: i for i, topic in enumerate(topics)} | {
            topic.id: i for i, topic in enumerate(topics)
        }
        self._next_variant = cycle(variants).__next__
        self._record_bytes = max(1, variants[0].ends[-1] // variants[0].capacity)
        self._attributes = int(variants[0].compression)
        self._compressed = variants[0].compression is not Compression.NONE

        self._leadership: Leadership[Partition] = Leadership(discovery)
        self._backoff = retry_backoff(
            discovery, config.retry_backoff_ms * 1000, config.retry_backoff_max_ms * 1000
        )
        self._metadata = MetadataPolicy(
            discovery, config.retry_backoff_ms * 1000, config.metadata_max_age_ms * 1000
        )
        self.metadata_calls: list[MetadataCall] = []
        self.endpoints: dict[str, int] = {}
        self.totals = Totals()

        self._epoll = select.epoll()
        self._epoll_only = [self._epoll.fileno()]
        self._links: dict[int, Link] = {}
        self._link_of: dict[int, Link] = {}
        self._connections = 0
        self._timers: list[tuple[int, int, Partition]] = []
        self._timer_number = 0
        self._schedule = Schedule(0, 0, 0)
        self._wall_offset_us = 0
        self._next_seq = 0
        self._next_due_us = 0
        self._next_tick_us = 0
        self._stopped = False

    # --- before the run ---

    def learn(self, response: MetadataResponse) -> None:
        """Take the Metadata answer that the run starts with."""
        now = now_us()
        self._take_metadata(response, None, now)
        self._metadata.answered(now, news=True)

    def connect_all(self, timeout_us: int) -> None:
        """Open the connections to all leaders, so that the first records do not wait for them.

        Raises RefusedError when a broker speaks no common version.
        """
        deadline = now_us() + timeout_us
        links = {link for p in self._partitions if (link := self._link(p)) is not None}
        while now_us() < deadline and not all(link.ready for link in links):
            for link in links:
                self._ensure_connected(link, now_us())
            self._poll(0.05)

    # --- the run ---

    def run(self, schedule: Schedule) -> Totals:
        """Send all records of the schedule."""
        self._schedule = schedule
        self._wall_offset_us = time.time_ns() // 1000 - now_us()
        self._next_due_us = schedule.start_us
        while True:
            now = now_us()
            if now >= self._next_due_us:
                self._append_due(now)
            if self._timers and self._timers[0][0] <= now:
                self._fire_timers(now)
            for link in self._links.values():
                if link.pending:
                    self._drain(link, now)
            if self._metadata.due_us() <= now:
                self._ask_metadata(now)
            if now >= self._next_tick_us:
                self._tick(now)
                if self._is_over():
                    break
            self._poll(self._wait_s())
        self._finish()
        return self.totals

    @property
    def generated(self) -> int:
        """How many records were handed to the partitions' queues."""
        return self._next_seq

    def stop(self) -> None:
        """Generate no further records; those under way are still waited for."""
        self._stopped = True
        self._next_due_us = NEVER_US

    def _is_over(self) -> bool:
        settled = self.totals.acknowledged + self.totals.failed
        generated_all = self._stopped or self._next_seq >= self._schedule.num_records
        return generated_all and settled >= self._next_seq

    def _wait_s(self) -> float:
        until = min(self._next_due_us, self._next_tick_us, self._metadata.due_us())
        if self._timers:
            until = min(until, self._timers[0][0])
        if self._is_over():
            self._next_tick_us = 0
            return 0
        return max(0, until - now_us()) / 1e6

    def _tick(self, now: int) -> None:
        self._next_tick_us = now + _TICK_US
        self._expire(now)
        self._partitioner.load(
            [len(p.queue) for p in self._partitions],
            [self._leadership.leader(p) is not None for p in self._partitions],
        )
        self._tracing.flush()
        self._on_tick()

    def _append_due(self, now: int) -> None:
        schedule = self._schedule
        if schedule.throttled:
            end = schedule.due(now)
        else:
            settled = self.totals.acknowledged + self.totals.failed
            room = settled + max(1, self._config.buffer_memory // self._record_bytes)
            end = min(schedule.num_records, room)
        if end > self._next_seq:
            intended_us = schedule.intended_us if schedule.throttled else lambda seq: now
            for position, first, stride, count in self._partitioner.runs(self._next_seq, end):
                partition = self._partitions[position]
                partition.append(first, stride, count, intended_us, self._next_variant)
                link = self._link(partition)
                if link is not None:
                    link.pending[partition] = None
            self._next_seq = end
        if end >= schedule.num_records:
            self._next_due_us = NEVER_US
        elif schedule.throttled:
            self._next_due_us = schedule.intended_us(end)
        else:
            self._next_due_us = NEVER_US  # until a batch is settled

    def _fire_timers(self, now: int) -> None:
        while self._timers and self._timers[0][0] <= now:
            partition = heapq.heappop(self._timers)[2]
            partition.wake_us = 0
            self._queue_up(partition)

    def _wake_at(self, time_us: int, partition: Partition) -> None:
        if 0 < partition.wake_us <= time_us:
            return
        partition.wake_us = time_us
        self._timer_number += 1
        heapq.heappush(self._timers, (time_us, self._timer_number, partition))

    # --- who leads ---

    def _link(self, partition: Partition) -> Link | None:
        """The link to the partition's leader, None while there is none."""
        leader = self._leadership.leader(partition)
        if leader is None:
            return None
        node = self._leadership.nodes[leader.id]
        link = self._links.get(leader.id)
        if link is None:
            link = self._links[leader.id] = Link(node, self._config, self._epoll)
        elif link.node is not node:
            moved = (link.node.host, link.node.port) != (node.host, node.port)
            link.node = node
            if moved and link.connection is not None:
                self._lost(link, now_us())
        return link

    def _queue_up(self, partition: Partition) -> None:
        """The partition may have something to send: let its leader's link look at it."""
        if partition.queue:
            link = self._link(partition)
            if link is not None:
                link.pending[partition] = None
            else:
                self._metadata.want(MetadataCause.LEADER_CHANGE)

    def _leader_moved(self, partition: Partition, call: MetadataCall | None, now: int) -> None:
        partition.leader_us = now
        partition.leader_rpc = call
        for link in self._links.values():
            link.pending.pop(partition, None)
        self._queue_up(partition)

    # --- sending ---

    def _ensure_connected(self, link: Link, now: int) -> bool:
        """True when the link is ready; begins to connect when it is not."""
        if link.connection is None and now >= link.retry_us:
            self._connections += 1
            try:
                self._link_of[link.connect(self._connections, now)] = link
            except (ConnectionLostError, OSError):
                link.drop()
                self._metadata.want(MetadataCause.ERROR_RETRY)
        return link.ready

    def _drain(self, link: Link, now: int) -> None:
        """Send what the link's pending partitions have, a batch of each in a request."""
        if not self._ensure_connected(link, now):
            return
        while link.pending and link.may_send:
            batches: list[Batch] = []
            size = 0
            for partition in list(link.pending):
                batch = self._next_batch(partition, now)
                if batch is None:
                    del link.pending[partition]
                    continue
                section = batch.section
                if section is None:
                    section = batch.section = batch.variant.section(batch.records)
                size += len(section.content)
                if batches and (
                    size > self._config.max_request_size or len(batches) == MAX_PARTITIONS
                ):
                    break
                partition.take()
                del link.pending[partition]
                batches.append(batch)
            if not batches:
                return
            self._send(link, batches)
            for batch in batches:
                if batch.partition.queue:
                    link.pending[batch.partition] = None

    def _next_batch(self, partition: Partition, now: int) -> Batch | None:
        """The partition's next batch if it may go out now; else it is woken when it may."""
        if not partition.queue or not partition.may_send():
            return None
        batch = partition.queue[0]
        failures = batch.failures
        if failures:
            allowed = failures[-1].error_us + self._backoff_us(batch)
            if allowed > now:
                self._wake_at(allowed, partition)
                return None
        elif self._config.linger_ms and not batch.is_full and len(partition.queue) == 1:
            lingered = batch.intended_us + int(self._config.linger_ms * 1000)
            if lingered > now:
                self._wake_at(lingered, partition)
                return None
        return batch

    def _backoff_us(self, batch: Batch) -> int:
        assert batch.failures
        assert batch.attempts
        return batch.attempts.backoff_us(
            self._discovery,
            self._leadership.epoch(batch.partition),
            batch.failures[-1].backoff_us,
        )

    def _send(self, link: Link, batches: list[Batch]) -> None:
        connection, encoder = link.connection, link.encoder
        assert connection is not None
        assert encoder is not None
        sent = now_us()
        broker = link.node.id
        topics: dict[int, list[PartitionRecords]] = {}
        for batch in batches:
            partition = batch.partition
            section = batch.section
            assert section is not None
            if batch.attempts is None:
                batch.attempts = Attempts()
                batch.sent_us = sent
            elif batch.failures:
                self._resent(link, batch, sent)
            batch.attempts.sent(self._leadership.epoch(partition))
            batch.last_sent_us = partition.turn_us = sent
            batch.broker = broker
            idempotent = partition.ordered
            header = batch_header(
                self._attributes,
                batch.records,
                (batch.intended_us + self._wall_offset_us) // 1000,
                self._producer_id,
                batch.producer_epoch,
                batch.sequence if idempotent else -1,
                section.content,
            )
            topics.setdefault(partition.topic_position, []).append(
                PartitionRecords(partition.index, header, section.content)
            )
        buffers, size = encoder.encode(
            connection.next_correlation_id(),
            [(self._topics[position], records) for position, records in topics.items()],
        )
        answered = self._config.acks != 0
        try:
            link.send(buffers, size, ApiKey.PRODUCE, encoder.version, sent, batches, answered)
        except ConnectionLostError:
            if not answered:
                connection.in_flight.append(
                    InFlight(0, ApiKey.PRODUCE, encoder.version, size, sent, 0, batches)
                )
            self._lost(link, now_us())
            return
        if not answered:
            done = now_us()
            for batch in batches:
                self._settle(batch, done, 0, _NO_OFFSET)

    def _resent(self, link: Link, batch: Batch, sent: int) -> None:
        """Complete the record of the failed attempt: where the time until this retry went."""
        assert batch.failures
        partition = batch.partition
        failed = batch.failures[-1]
        failed.to_broker = link.node.id
        failed.to_epoch = self._leadership.epoch(partition)
        failed.wait = split_wait(
            failed.error_us,
            sent,
            failed.error_us + self._backoff_us(batch),
            partition.leader_us,
            link.ready_us,
            max(partition.turn_us, link.window_us),
        )
        if failed.wait.metadata and isinstance(call := partition.leader_rpc, MetadataCall):
            call.critical = True
            behind_until = (call.flight.sent_us if call.flight else sent) + call.behind_us
            failed.metadata_queued_us = min(
                failed.wait.metadata, max(0, behind_until - failed.error_us)
            )

    # --- Metadata ---

    def _ask_metadata(self, now: int) -> None:
        """Send it to the least loaded node that can take a request (Java's leastLoadedNode)."""
        usable = [link for link in self._links.values() if link.may_send]
        if not usable:
            if not any(link.connection for link in self._links.values()):
                self._reconnect_somewhere(now)
            return
        fewest = min(len(link.connection.in_flight) for link in usable if link.connection)
        link = random.choice(
            [x for x in usable if x.connection and len(x.connection.in_flight) == fewest]
        )
        assert link.connection is not None
        call = MetadataCall(self._metadata.sent(), link, link.connection.number)
        self.metadata_calls.append(call)
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=topic.name) for topic in self._topics),
            allow_auto_topic_creation=False,
        )
        try:
            link.send_message(request, ApiKey.METADATA, link.metadata_version, now, call)
            call.flight = link.connection.in_flight[-1]
        except ConnectionLostError:
            self._lost(link, now)

    def _reconnect_somewhere(self, now: int) -> None:
        for node in self._leadership.nodes.values():
            link = self._links.setdefault(node.id, Link(node, self._config, self._epoll))
            self._ensure_connected(link, now)

    def _take_metadata(
        self, response: MetadataResponse, call: MetadataCall | None, now: int
    ) -> bool:
        """Returns whether any leader changed."""
        leaders = {}
        for topic in response.topics:
            position = self._topic_position.get(topic.name or "")
            if position is None or topic.error_code:
                continue
            of_topic = self._by_topic[position]
            for p in topic.partitions:
                if p.partition_index < len(of_topic):
                    leaders[of_topic[p.partition_index]] = Leader(p.leader_id, p.leader_epoch)
        nodes = [Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers]
        changed = self._leadership.take_metadata(nodes, leaders)
        for partition in changed:
            self._leader_moved(partition, call, now)
        if any(leader.id == NO_LEADER for leader in leaders.values()):
            self._metadata.want(MetadataCause.LEADER_CHANGE)
        return bool(changed)

    # --- answers ---

    def _poll(self, timeout_s: float) -> None:
        """Handle what the sockets have; wait at most so long, to the microsecond, if nothing."""
        events = self._epoll.poll(0)
        if not events and timeout_s > 0:
            select.select(self._epoll_only, (), (), timeout_s)
            events = self._epoll.poll(0)
        for fd, mask in events:
            link = self._link_of[fd]
            connection = link.connection
            if connection is None or connection.fileno() != fd:
                continue
            try:
                if mask & WRITE and not connection.connected:
                    link.begin_handshake(now_us())
                elif mask & WRITE:
                    connection.write()
                    link.watch()
                if mask & ~WRITE:
                    frames = connection.read()
                    now = now_us()
                    for frame in frames:
                        self._answer(link, frame, now)
                        if link.connection is not connection:
                            break
            except (ConnectionLostError, MalformedFrame):
                self._lost(link, now_us())

    def _answer(self, link: Link, frame: bytes, now: int) -> None:
        connection = link.connection
        assert connection is not None
        if not connection.in_flight:
            raise ConnectionLostError("an answer to no request")
        full = len(connection.in_flight) >= self._config.max_in_flight_requests_per_connection
        flight = connection.in_flight.popleft()
        behind_us = max(0, connection.answered_us - flight.sent_us) if flight.ahead else 0
        connection.answered_us = now
        if full:
            link.window_us = now
        error = 0
        if flight.api_key == ApiKey.PRODUCE:
            self._produced(flight, frame, now)
        elif flight.api_key == ApiKey.METADATA:
            self._metadata_answered(flight, frame, now, behind_us)
            return
        else:
            response = link.finish_handshake(flight, frame, now)
            error = response.error_code
        self._rpc_row(link.node.id, connection.number, flight, now, len(frame), behind_us, error)

    def _rpc_row(
        self,
        broker: int,
        connection: int,
        flight: InFlight,
        received: int,
        size: int,
        behind_us: int,
        error: int,
    ) -> None:
        self._tracing.rpc_row(
            (
                connection,
                broker,
                flight.api_key,
                flight.api_version,
                flight.size,
                size + 4 if received else 0,
                flight.sent_us,
                received,
                flight.ahead,
                behind_us,
                -1,
                len(self._topics),
                0,
                error,
            )
        )

    def _metadata_answered(self, flight: InFlight, frame: bytes, now: int, behind_us: int) -> None:
        call = flight.subject
        call.received_us = now
        call.response_bytes = len(frame) + 4
        call.behind_us = behind_us
        _, response = decode_response(MetadataRequest, flight.api_version, frame)
        call.error = next((t.error_code for t in response.topics if t.error_code), 0)
        news = self._take_metadata(response, call, now)
        if call.error:
            self._metadata.failed(now)
        else:
            self._metadata.answered(now, news)

    def _produced(self, flight: InFlight, frame: bytes, now: int) -> None:
        batches: list[Batch] = flight.subject
        if len(self._topics) == 1:
            successes = read_success(flight.api_version, frame)
            if successes is not None and len(successes) == len(batches):
                by_index = {batch.partition.index: batch for batch in batches}
                for index, base_offset in successes:
                    self._settle(by_index[index], now, 0, base_offset)
                return
        _, response = decode_response(ProduceRequest, flight.api_version, frame)
        endpoints = {
            e.node_id: Node(e.node_id, e.host, e.port, e.rack) for e in response.node_endpoints
        }
        by_partition = {batch.partition: batch for batch in batches}
        for topic in response.responses:
            position = self._topic_position.get(topic.name or topic.topic_id)
            if position is None:
                continue
            for result in topic.partition_responses:
                batch = by_partition.pop(self._by_topic[position][result.index], None)
                if batch is None:
                    continue
                if result.error_code in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._settle(batch, now, 0, result.base_offset)
                else:
                    self._refused(batch, result, endpoints, now)
        for batch in by_partition.values():
            self._attempt_failed(batch, ErrorCode.NETWORK_EXCEPTION, now)

    def _refused(
        self,
        batch: Batch,
        result: PartitionProduceResponse,
        endpoints: dict[int, Node],
        now: int,
    ) -> None:
        """A partition's error: learn what its hint says before the batch is tried again."""
        current = result.current_leader
        endpoint = endpoints.get(current.leader_id)
        hint = Hint(Leader(current.leader_id, current.leader_epoch), endpoint)
        decision = Decision.NOT_APPLICABLE
        if result.error_code in LEADER_ERRORS:
            decision = self._leadership.take_hint(batch.partition, hint)
            if decision is Decision.FOLLOWED:
                self._leader_moved(batch.partition, None, now)
        self._attempt_failed(batch, result.error_code, now, result.base_offset, decision, hint)

    def _attempt_failed(
        self,
        batch: Batch,
        error: int,
        now: int,
        base_offset: int = _NO_OFFSET,
        decision: Decision = Decision.NOT_APPLICABLE,
        hint: Hint | None = None,
    ) -> None:
        """Give the batch up, or put it back to be tried again."""
        attempts = batch.attempts
        assert attempts is not None
        if error in _STALE_METADATA_ERRORS:
            self._metadata.want(
                MetadataCause.LEADER_CHANGE
                if error != ErrorCode.NETWORK_EXCEPTION
                else MetadataCause.ERROR_RETRY
            )
        failed = FailedAttempt(
            attempt=attempts.count,
            sent_us=batch.last_sent_us,
            error_us=now,
            error=error,
            is_leader_error=error in LEADER_ERRORS,
            broker=batch.broker,
            epoch=attempts.epoch,
            base_offset=base_offset,
            decision=decision,
            backoff_us=self._backoff.wait_us(attempts.to_this_epoch - 1, random.random()),
        )
        if hint is not None:
            failed.hint_leader, failed.hint_epoch = hint.leader.id, hint.leader.epoch
            if hint.endpoint is not None:
                address = f"{hint.endpoint.host}:{hint.endpoint.port}"
                failed.hint_endpoint = self.endpoints.setdefault(address, len(self.endpoints))
        if batch.failures is None:
            batch.failures = []
        batch.failures.append(failed)
        expired = now - batch.intended_us >= self._config.delivery_timeout_ms * 1000
        partition = batch.partition
        if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            retriable = not partition.is_lowest(batch)
        else:
            retriable = error in _RETRIABLE
        if not retriable or attempts.count > self._config.retries or expired:
            self._settle(batch, now, error, base_offset)
        else:
            partition.put_back(batch)
            self._queue_up(partition)

    def _settle(self, batch: Batch, done_us: int, error: int, base_offset: int) -> None:
        """The batch is acknowledged, or given up."""
        partition = batch.partition
        partition.settle(batch, failed=error != 0)
        self._tracing.batch_done(batch, done_us, error, base_offset)
        if error:
            self.totals.failed += batch.records
            name = error_name(error)
            self.totals.errors[name] = self.totals.errors.get(name, 0) + batch.records
        else:
            self.totals.acknowledged += batch.records
        if partition.ordered or partition.exclusive:
            partition.turn_us = done_us
            self._queue_up(partition)
        if not self._schedule.throttled and not self._stopped:
            self._next_due_us = 0

    # --- what goes wrong ---

    def _lost(self, link: Link, now: int) -> None:
        """The connection is gone: what was in flight on it is tried again."""
        number = link.connection.number if link.connection else 0
        self._metadata.want(MetadataCause.ERROR_RETRY)
        for flight in link.drop():
            subject = flight.subject
            if isinstance(subject, MetadataCall):
                subject.error = ErrorCode.NETWORK_EXCEPTION
                self._metadata.failed(now)
                continue
            self._rpc_row(link.node.id, number, flight, 0, 0, 0, ErrorCode.NETWORK_EXCEPTION)
            for batch in subject or ():
                self._attempt_failed(batch, ErrorCode.NETWORK_EXCEPTION, now)

    def _expire(self, now: int) -> None:
        """Give up batches past `delivery.timeout.ms`; drop connections past their timeouts."""
        oldest = now - self._config.delivery_timeout_ms * 1000
        for partition in self._partitions:
            while partition.queue and partition.queue[0].intended_us <= oldest:
                batch = partition.queue[0]
                if batch.failures:
                    self._waited_in_vain(batch, now)
                self._settle(batch, now, ErrorCode.REQUEST_TIMED_OUT, _NO_OFFSET)
        silent = now - self._config.request_timeout_ms * 1000
        for link in self._links.values():
            connection = link.connection
            if connection is None:
                continue
            oldest_sent = connection.in_flight[0].sent_us if connection.in_flight else now
            if oldest_sent <= silent or (not link.ready and link.began_us <= silent):
                self._lost(link, now)

    def _waited_in_vain(self, batch: Batch, now: int) -> None:
        """The batch ends while it waits: that wait belongs to its last failed attempt."""
        assert batch.failures
        failed = batch.failures[-1]
        failed.wait = split_wait(
            failed.error_us, now, failed.error_us + self._backoff_us(batch), now, 0, 0
        )

    def _finish(self) -> None:
        """Write the Metadata requests, of which it is known only now whether a batch waited."""
        for call in self.metadata_calls:
            flight = call.flight
            if flight is None:
                continue
            self._tracing.rpc_row(
                (
                    call.connection,
                    call.link.node.id,
                    flight.api_key,
                    flight.api_version,
                    flight.size,
                    call.response_bytes,
                    flight.sent_us,
                    call.received_us,
                    flight.ahead,
                    call.behind_us,
                    call.cause,
                    len(self._topics),
                    call.critical,
                    call.error,
                )
            )
        for link in self._links.values():
            link.drop()
        self._epoll.close()
        if self.totals.acknowledged + self.totals.failed < self._next_seq:
            raise RefusedError("The run ended with records under way.")
