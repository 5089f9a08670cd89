"""The consumer: assigned partitions over non-blocking sockets, each choice of a replica traced.

One thread, one connection and one fetch session per broker. What is decided is decided elsewhere:
from which replica to read (`replica_choice`), what a session is told (`session`), what a refused
position is (`positions`), who leads and when a retry may follow (`leadership`). Here it is carried
out, as Java's `AbstractFetch` and `FetchCollector` do.

A moved partition's Fetch waits until the one that is under way at its new leader is answered, as in
Java; with its position's check it is that redirect's phase `queued`.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from kipctl.probe.client import STALE_METADATA_ERRORS, ProbeClient
from kipctl.probe.consume.broker_link import Asked, ConsumerLink
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.fetch_retries import FetchRetries
from kipctl.probe.consume.fetch_session import FetchPosition
from kipctl.probe.consume.fetch_targets import FetchTargets
from kipctl.probe.consume.fetches import FetchCall, Fetches
from kipctl.probe.consume.offset_fetcher import OffsetFetcher, PositionCall
from kipctl.probe.consume.positions import RETRIABLE_ERRORS, Check, Partition, State
from kipctl.probe.consume.read_rows import UNKNOWN, ReadRows
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.tracing import Tracing
from kipctl.protocol.address import Address
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import LEADER_ERRORS, ErrorCode, error_name
from kipctl.protocol.fetch_frames import FetchAnswer, Fetched, read_fetch
from kipctl.protocol.leader_hints import NO_HINT, hint_in_fetch
from kipctl.protocol.message import ZERO_UUID
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.record_counts import OldFormatError, count_records
from kipctl.trace.codes import Decision, MetadataCause, RangeHandling
from kipctl.transport.loop_connection import InFlight
from kipctl.transport.sockets import Sockets

_STALE_METADATA_ERRORS = STALE_METADATA_ERRORS | {
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.OFFSET_NOT_AVAILABLE,
}
_POSITIONS_TICK_US = 20_000

OnRecords = Callable[[Partition, memoryview, int], None]
"""Called with a partition, the batches fetched for it, of which the last may be cut off or wrong,
and the offset that was asked for; the bytes are good for this call only."""


class Consumer(ProbeClient[Partition, ConsumerLink]):
    """Reads the partitions of one topic that are assigned and writes the trace.

    Its `errors` are those for which partitions were given up.
    """

    _baseline_backs_off = False
    """Java's asks for Metadata, and reads from the leader as soon as that names another (its
    `Fetcher.initializeCompletedFetch`, `requestMetadataUpdate`)."""

    def __init__(
        self,
        config: ConsumerConfig,
        discovery: LeaderDiscovery,
        partitions: Sequence[Partition],
        assigned: Iterable[Partition],
        tracing: Tracing,
        sockets: Sockets,
        bootstrap: Iterable[Address],
        should_stop: Callable[[], bool],
        on_records: OnRecords | None = None,
    ) -> None:
        """`partitions` are all those of the topic; for the rest see `ProbeClient`."""
        self._config = config
        self._on_records = on_records
        topic = partitions[0].topic
        self._by_topic: dict[str | bytes, Sequence[Partition]] = {
            topic.name: partitions,
            topic.id.bytes: partitions,
        }
        super().__init__(
            config,
            discovery,
            {topic.name: partitions},
            lambda node: ConsumerLink(node, config, sockets, topic.id == ZERO_UUID),
            tracing,
            sockets,
            bootstrap,
            should_stop,
        )
        self._rows = ReadRows(self._metadata, tracing)
        self._offsets = OffsetFetcher(
            config,
            self._metadata,
            self._network,
            self._settled,
            self._rows.row_without_answer,
            tracing.amend_range_case,
        )
        self._targets = FetchTargets(assigned, self._metadata, self._network, self._offsets.add)
        self._fetch_retries = FetchRetries(self._retries, tracing, self._metadata)
        self._fetches = Fetches(
            config, self._metadata, self._network, self._fetch_retries, self._now_us
        )
        self.records = 0
        self.bytes = 0
        """Of whole batches, as they come over the wire."""
        self._unsettled_at_start: list[Partition] = []
        """Without a position when the run began."""
        self._last_read_us = 0
        self.is_stopped = False
        """Somebody asked to read nothing more."""

    @property
    def racks(self) -> Sequence[str]:
        """The racks of brokers that answered, by their number in the trace."""
        return tuple(self._rows.racks)

    # --- before the run ---

    def find_positions(self, timeout_us: int, patience_us: int) -> list[Partition]:
        """Settle where each partition is read on, and connect; returns those that are not settled.

        For the first one it is waited as long as `timeout_us`, for the others `patience_us`: one
        without a leader does not keep all from being read. It ends too when somebody asks to stop.
        With `auto.offset.reset=latest` those that are settled later begin with what was written
        since: its leader may take records before it can be asked.
        """
        began_ms = time.time_ns() // 1_000_000
        began, assigned = self._now_us(), self._targets.assigned
        while not self.is_stopped:
            now = self._now_us()
            unsettled = [p for p in assigned if p.state not in (State.READY, State.FAILED)]
            is_connected = all(link.ready for link in self._network.links if link.fetchable)
            patience = patience_us if len(unsettled) < len(assigned) else timeout_us
            if (not unsettled and is_connected) or now - began > patience:
                self._unsettled_at_start = unsettled
                if self._config.auto_offset_reset == "latest":
                    for partition in unsettled:
                        partition.since_ms = began_ms
                return unsettled
            self._do_due_work(now)
            for link in self._network.links:
                if link.fetchable:
                    self._network.ensure_connected(link)
            self._network.poll(min(self._now_us() + _POSITIONS_TICK_US, self._offsets.wake_us))
        return []

    # --- the run ---

    def run(self, start_us: int, num_records: int, timeout_us: int) -> None:
        """Read from then on, until there are so many records, or for so long there was none."""
        self._last_read_us = start_us
        self._network.begin_run()
        while not self._is_over(self._now_us(), num_records, timeout_us):
            now = self._now_us()
            self._do_due_work(now)
            due = (self._targets, self._offsets, self._metadata, self._network)
            until = min(self._next_tick_us, *(part.wake_us for part in due))
            if now < start_us:
                until = min(until, start_us)
            else:
                self._fetches.send_all()
            self._network.poll(until)
        self._end(self._now_us())

    def close(self) -> None:
        """Close the fetch sessions that brokers keep for us, then every connection."""
        self._fetches.close_sessions()
        super().close()

    def stop(self) -> None:
        """Read nothing more."""
        self.is_stopped = True

    def _is_over(self, now: int, num_records: int, timeout_us: int) -> bool:
        return (
            self.is_stopped
            or self.records >= num_records
            or now - self._last_read_us > timeout_us
            or all(p.state is State.FAILED for p in self._targets.assigned)
        )

    def _do_due_work(self, now: int) -> None:
        """All but fetching that is due."""
        self._network.update_timers(now)
        if now >= self._targets.wake_us:
            self._targets.end_backoffs(now)
        if now >= self._metadata.due_us:
            self._metadata.send_due_request(now)
        self._offsets.send_requests(now)
        if now >= self._next_tick_us:
            self._tick(now)
            self._targets.refresh(now)

    def _end(self, now: int) -> None:
        """Write what is still open."""
        for partition in self._targets.assigned:
            if partition.state is State.RESET and partition in self._unsettled_at_start:
                # Nobody said where to begin.
                self.errors[error_name(ErrorCode.LEADER_NOT_AVAILABLE)] += 1
            if partition.check:
                self._rows.write(partition.check.row)
            self._fetch_retries.finish(partition, 0, now)
        self._metadata.write_unanswered()

    # --- what becomes of partitions ---

    def _leader_changed(self, partition: Partition) -> None:
        """The position is checked with the leader, then read on."""
        partition.preferred_replica.clear()
        partition.ask_anew()  # (Java's `SubscriptionState.validatePosition`)
        if partition.check:
            partition.check.answers.clear()  # they were the old leader's
        if partition.state is State.READY and self._offsets.can_validate(partition):
            partition.state = State.VALIDATE
        if partition.failures:
            wait_us = self._fetch_retries.wait_us(partition, self._metadata.epoch(partition))
            partition.retry_us = 0
            if wait_us:
                self._targets.back_off(partition, partition.failures[-1].error_us + wait_us)
        self._targets.place(partition, self._now_us())

    def _topic_recreated(self, partitions: Sequence[Partition]) -> None:
        """What was read before says nothing of the new logs."""
        self._by_topic[partitions[0].topic.id.bytes] = partitions
        for call in self._fetches.calls():
            for partition in partitions:
                call.wanted.pop(partition, None)
        for partition in partitions:
            partition.restart()
            self._targets.place(partition, self._now_us())

    def _settled(self, partition: Partition, now: int) -> None:
        """The position is known (`OffsetFetcher`'s on_settled), or there will be none."""
        if partition.check:
            row, partition.check = partition.check.row, None
            number = self._tracing.read_row(row)
            if row.range_handling == RangeHandling.ASK_LEADER:
                self._offsets.refused_by_follower(partition, row.broker, number)
            if row.range_handling == RangeHandling.WAIT:
                self._targets.back_off(partition, now + self._config.retry_backoff_ms * 1000)
        if partition.state is State.FAILED:
            self.errors[error_name(partition.error or ErrorCode.OFFSET_OUT_OF_RANGE)] += 1
        partition.unblocked_us = now
        self._targets.place(partition, now)

    # --- fetching ---

    def _handle_fetch(
        self, link: ConsumerLink, flight: InFlight, frame: memoryview, now: int
    ) -> tuple[int, int]:
        """Take an answer to a Fetch; returns its error and its number of topics."""
        answer = read_fetch(flight.api_version, frame)
        self._network.throttle(link, flight, answer.throttle_ms, now)
        call: FetchCall = flight.subject
        link.is_fetching, link.fetched_us = False, now
        is_evicted = link.session.is_evicted(answer.error_code)
        if not link.session.handle_response(answer.error_code, answer.session_id):
            if not is_evicted:
                link.next_fetch_us = now + self._config.retry_backoff_ms * 1000
            if answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR:
                self._metadata.request_update(MetadataCause.LEADER_CHANGE)
            return answer.error_code, 0
        for fetched in answer.partitions:
            of_topic = self._by_topic.get(fetched.topic, ())
            if fetched.partition >= len(of_topic):
                continue
            partition = of_topic[fetched.partition]
            want = call.wanted.get(partition)
            if want is None:
                continue
            # What was asked in an older epoch may be of a log that was truncated since.
            is_current = (
                partition.state is State.READY
                and partition.offset == want.offset
                and self._metadata.epoch(partition) == want.leader_epoch
            )
            asked = Asked(partition, link, want, flight.sent_us)
            if fetched.error_code:
                is_current &= self._targets.is_fetched_from(partition, link)
                self._refused(asked, fetched, answer, flight.api_version, now, is_current)
            elif is_current:
                self._read(asked, fetched, now)
            else:
                self._rows.write(self._rows.row(asked, fetched, now))
        return 0, 1

    def _read(self, asked: Asked, fetched: Fetched, now: int) -> None:
        """An answer without error: records, the name of a replica to read from, or nothing new."""
        partition, want = asked.partition, asked.want
        aborted = fetched.aborted if self._config.reads_committed else None
        try:
            counted = count_records(fetched.records, want.offset, self._config.check_crcs, aborted)
            if len(fetched.records) and counted.next_offset == want.offset:
                raise MalformedFrame("No whole batch, which there is since KIP-74")
        except MalformedFrame as wrong:
            error = ErrorCode.CORRUPT_MESSAGE
            if isinstance(wrong, OldFormatError):
                error = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
            refused = fetched._replace(error_code=error)
            self._rows.write(self._rows.row(asked, refused, now))
            self._fail(partition, error, now)
            return
        if self._on_records and len(fetched.records):
            self._on_records(partition, fetched.records, want.offset)
        self._rows.write(self._rows.row(asked, fetched, now, counted))
        is_elsewhere = fetched.preferred_read_replica != UNKNOWN
        if counted.records or not is_elsewhere:
            self._fetch_retries.finish(partition, counted.records, now)
        if counted.next_offset > want.offset:
            partition.offset = counted.next_offset
            partition.epoch = counted.epoch
            self._last_read_us = now
            self.records += counted.records
            self.bytes += counted.bytes
        if is_elsewhere:
            self._replica_named(partition, fetched.preferred_read_replica, now)

    def _replica_named(self, partition: Partition, replica: int, now: int) -> None:
        """The leader has named the replica to read from."""
        if replica in self._metadata.nodes:
            partition.preferred_replica.set(replica, now, self._config.metadata_max_age_ms * 1000)
        else:  # the leader knows more than we do, or less
            self._metadata.request_update(MetadataCause.LEADER_CHANGE)
            self._targets.back_off(partition, now + self._config.retry_backoff_ms * 1000)
        self._targets.place(partition, now)

    def _refused(
        self,
        asked: Asked,
        fetched: Fetched,
        answer: FetchAnswer,
        api_version: int,
        now: int,
        is_current: bool,
    ) -> None:
        """A partition's error: learn what its hint says, and settle what comes next.

        If it is not current, as its leader or its position is another by now, nothing comes of it
        but its hint: that may be newer still (Java's `AbstractFetch.handleFetchSuccess`).
        """
        partition, error = asked.partition, fetched.error_code
        row = self._rows.row(asked, fetched, now)
        hint, decision = NO_HINT, Decision.NOT_APPLICABLE
        if error in LEADER_ERRORS:
            hint = hint_in_fetch(fetched, answer, api_version)
            decision = self._metadata.apply_hint(partition, hint, now)
        if not is_current:
            self._rows.write(row)
            if decision is Decision.FOLLOWED:
                self._metadata.request_update(MetadataCause.LEADER_CHANGE)
            if error in LEADER_ERRORS and self._waits_for_newer_leader(asked):
                self._fetch_retries.failed(asked, error, now, decision, hint)
            return
        # A follower that knows the new leader after us is waited for (Java's `FetchCollector` keeps
        # it, too): the leader would name it again, and again.
        is_behind = error == ErrorCode.UNKNOWN_LEADER_EPOCH
        was_replica = not is_behind and partition.preferred_replica.clear()
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            partition.check = Check(row, by_leader=not was_replica)
            partition.state = State.CHECK
            self._targets.place(partition, now)
            return
        self._rows.write(row)
        if error not in RETRIABLE_ERRORS:
            self._fail(partition, error, now)
            return
        if error in _STALE_METADATA_ERRORS:
            self._metadata.request_update(MetadataCause.LEADER_CHANGE)
        self._fetch_retries.failed(asked, error, now, decision, hint)
        self._retry(partition, now)

    def _waits_for_newer_leader(self, asked: Asked) -> bool:
        """It is known to have moved since it was asked for, and was not asked for there yet."""
        partition, epoch = asked.partition, self._metadata.epoch(asked.partition)
        return (
            partition.state is not State.FAILED
            and asked.want.leader_epoch < epoch
            and not self._fetches.is_wanted_of(epoch, partition)
        )

    def _retry(self, partition: Partition, now: int) -> None:
        """After a failure: at once if a newer leader is known, else after the backoff."""
        wait_us = self._fetch_retries.wait_us(partition, self._metadata.epoch(partition))
        if wait_us:
            self._targets.back_off(partition, now + wait_us)
        self._targets.place(partition, now)

    def _fail(self, partition: Partition, error: int, now: int) -> None:
        """Nothing more can be read of it."""
        self.errors[error_name(error)] += 1
        partition.state = State.FAILED
        self._targets.place(partition, now)

    # --- answers and losses ---

    def _handle_response(
        self, link: ConsumerLink, flight: InFlight, frame: memoryview, now: int
    ) -> tuple[int, int]:
        if flight.api_key == ApiKey.FETCH:
            return self._handle_fetch(link, flight, frame, now)
        self._offsets.handle_response(link, flight, frame, now)
        return 0, 1

    def _handle_request_lost(self, link: ConsumerLink, flight: InFlight, now: int) -> int:
        if isinstance(flight.subject, PositionCall):
            self._offsets.handle_disconnect(flight.subject, now)
        return 1

    def _disconnected(
        self, link: ConsumerLink, number: int, flights: list[InFlight], now: int
    ) -> None:
        """Leaders are read, of what was read there (`ProbeClient`)."""
        link.is_fetching = False
        link.session.reset()
        super()._disconnected(link, number, flights, now)
        fetch = next((f for f in flights if isinstance(f.subject, FetchCall)), None)
        wanted: Mapping[Partition, FetchPosition] = fetch.subject.wanted if fetch else {}
        for partition in list(link.fetchable):
            was_replica = partition.preferred_replica.clear()
            if fetch and partition in wanted:
                self._fetch_retries.failed(
                    Asked(partition, link, wanted[partition], fetch.sent_us),
                    ErrorCode.NETWORK_EXCEPTION,
                    now,
                    is_read_elsewhere=was_replica,  # the leader is another broker
                )
                self._retry(partition, now)
            else:
                self._targets.place(partition, now)
