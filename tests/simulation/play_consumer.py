"""Plays a story with kipctl's own consumer, and looks at what must hold whatever happens."""

import struct
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import UUID

from fake_kafka import TOPIC
from fetching import ReadCluster
from handed import Handed
from stage import BOOTSTRAP, Seen, Stage, named, played
from story_of_reading import READING_FAULTS, ReadingStory

from kipctl.conform.cluster.log import Batch, Log
from kipctl.probe.bootstrap import find_topic
from kipctl.probe.consume.broker_link import ConsumerLink
from kipctl.probe.consume.consumer import Consumer
from kipctl.probe.consume.offset_fetcher import PositionCall
from kipctl.probe.consume.positions import NO_OFFSET, Partition, State
from kipctl.probe.leadership import ClientPartition
from kipctl.probe.tracing import Tracing
from kipctl.protocol.api import ApiKey
from kipctl.protocol.list_offsets import LATEST_TIMESTAMP
from kipctl.protocol.records import BATCH_HEADER_SIZE
from kipctl.trace.codes import PHASES, RangeCase, RangeHandling
from kipctl.trace.redirect_phases import FailedAttempt
from kipctl.transport.access import Access

_HEADER = struct.Struct(">qii")
"""Base offset, length and leader epoch of a batch."""
_FOREVER_US = 1 << 60


def play(story: ReadingStory) -> Seen:
    """Play it. Raises Broken."""
    return played(partial(_Play, story), story)


@dataclass
class _Reader:
    """What was read of a partition of one topic id, which the client knows since then."""

    log: Log
    since_us: int
    next: int
    """-1 while nothing was read."""
    epochs: dict[int, int] = field(default_factory=dict)
    """In which epoch each record was written that was read last at its offset."""
    records: int = 0


class _Tracing(Tracing):
    """It also notes how long what was redirected took."""

    def __init__(self, directory: Path, datasets: Sequence[str]) -> None:
        super().__init__(directory, datasets)
        self.took: list[tuple[int, int]] = []
        """Rows, and time from the first attempt until all was over."""

    def redirects(
        self,
        partition: ClientPartition,
        first_seq: int,
        records: int,
        failures: Sequence[FailedAttempt],
        intended_us: int,
        last_sent_us: int,
        done_us: int,
    ) -> None:
        self.took.append((len(failures), done_us - intended_us))
        super().redirects(
            partition, first_seq, records, failures, intended_us, last_sent_us, done_us
        )


class _Play(Stage):
    """One run of the consumer."""

    story: ReadingStory
    cluster: ReadCluster

    def __init__(self, story: ReadingStory, directory: Path) -> None:
        self.consumer: Consumer | None = None
        self.partitions: list[Partition] = []
        versions = {
            1: (4, story.fetch_version),
            2: (1, story.list_offsets_version),
            3: (1, story.metadata_version),
            23: (2, story.leader_epoch_version),
        }
        made = partial(ReadCluster, racks=("rack-1", "rack-0"))
        super().__init__(story, READING_FAULTS, made, versions, [TOPIC], directory)
        cluster, chance = self.cluster, self.world.chance
        cluster.replica_lag_us = story.replica_lag_us
        cluster.all_hold_all, cluster.names_followers = story.all_hold_all, story.names_replicas
        cluster.sessions.keeps = lambda: chance.random() < 0.9
        cluster.stamp, cluster.look_again_us = object, 5_000
        if story.config.auto_offset_reset == "latest":
            cluster.resets_to = LATEST_TIMESTAMP
        for partition in range(story.partitions):
            for _ in range(story.batches):
                cluster.write(partition, records=chance.choice((1, 2, 5)))
        self._readers: dict[Partition, _Reader] = {}
        self._records = 0
        self._grows_until_us = 0
        self._is_reading = False
        self._idle: set[ConsumerLink] = set()
        """Brokers that could have been asked for records at the last turn, and were not."""
        self._asked: dict[Partition, tuple[UUID, int, int]] = {}
        """The topic's id, the leader and its epoch that a position was last asked of."""
        self._unasked: set[Partition] = set()
        """Positions whose leader could have been asked at the last turn, and was not yet."""

    def run(self) -> Seen:
        story, world = self.story, self.world
        metadata = self.cluster.metadata([TOPIC], story.metadata_version)
        topic, count = find_topic(TOPIC, metadata, Access(""))
        self.partitions = [Partition(topic, 0, index, story.offset) for index in range(count)]
        with (
            closing(_Tracing(self.directory, ("reads", "rpcs", "redirects"))) as tracing,
            closing(
                Consumer(
                    story.config,
                    story.discovery,
                    self.partitions,
                    self.partitions,
                    tracing,
                    self.sockets,
                    [BOOTSTRAP],
                    self._is_all_read,
                    self._read,
                )
            ) as consumer,
        ):
            self.consumer = consumer
            consumer.apply_first_metadata(metadata, story.metadata_version)
            self.let_happen()
            self._grows_until_us = world.now_us + story.over_us
            world.after(story.append_every_us, self._grow)
            Handed(consumer, story, self.sockets)
            try:
                consumer.find_positions(10_000_000, 2_000_000)
                self._is_reading = True
                consumer.run(world.now_us, _FOREVER_US, _FOREVER_US)
            finally:
                self.consumer = None  # what it does while it is closed is not looked at
            told = {
                link.session._id
                for link in consumer._network.links
                if link.may_send and not self._is_paused(link.node.id)  # then it reads later
            }
        assert not told & self.cluster.sessions.kept.keys(), "fetch sessions are left behind"
        self._look_back(consumer, tracing)
        return self._reached()

    def _is_paused(self, broker: int) -> bool:
        known = self.cluster.brokers.get(broker)
        return known is not None and known.paused_until_us > self.world.now_us

    def _grow(self) -> None:
        world, story = self.world, self.story
        count = world.chance.choice((1, 2, 5))
        self.cluster.grow_log(world.chance.randrange(story.partitions), count)
        if world.now_us < self._grows_until_us:
            world.after(story.append_every_us * world.chance.choice((0.5, 1, 1.5)), self._grow)

    # --- at every turn ---

    def _watch(self) -> None:
        consumer = self.consumer
        if consumer is None:
            return
        self.leaders_have_led(consumer._metadata, self.partitions)
        asks = {ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH}
        self.metadata_goes_first(consumer._metadata, asks)
        self._brokers_are_read(consumer)
        self._leaders_are_asked(consumer)
        fetches = Counter(
            link.node.id
            for link in consumer._network.links
            if link.connection
            for flight in link.connection.in_flight
            if flight.api_key == ApiKey.FETCH
        )
        assert all(count == 1 for count in fetches.values()), f"Fetches in flight: {fetches}"
        for partition in self.partitions:
            self._reader(partition)
        assert self.world.now_us <= self.settle_until_us, (
            f"not all is read long after the last fault: {[*map(_shown, self.partitions)]}"
        )

    def _brokers_are_read(self, consumer: Consumer) -> None:
        """Whoever leads, or is near, and can be asked is asked for records at once."""
        idle = {
            link
            for link in consumer._network.links
            if self._is_reading and link.fetchable and link.may_send and not link.is_fetching
        }
        assert not idle & self._idle, "a broker is not read from, though nothing is in the way"
        self._idle = idle

    def _leaders_are_asked(self, consumer: Consumer) -> None:
        """A position is asked about as soon as a leader is known, whatever was asked of others."""
        metadata, unasked = consumer._metadata, set()
        for partition in consumer._offsets._open:
            link = metadata.link(partition)
            if link is None or not link.may_send:
                continue
            asked = partition.topic.id, link.node.id, metadata.epoch(partition)
            if any(
                isinstance(flight.subject, PositionCall) and partition in flight.subject.wanted
                for flight in (link.connection.in_flight if link.connection else ())
            ):
                self._asked[partition] = asked  # also while it is not to be read again yet
            elif not partition.retry_us and self._asked.get(partition) != asked:
                unasked.add(partition)
        assert not unasked & self._unasked, "a leader is known, and not asked about a position"
        self._unasked = unasked

    def _reader(self, partition: Partition) -> _Reader:
        reader, place = self._readers.get(partition), (partition.topic.id, partition.index)
        if partition.topic.id.int == 0:  # nobody says the id, and no topic is made anew
            place = self.cluster.topics[TOPIC], partition.index
        log = self.cluster.logs[place]
        if reader is None or reader.log is not log:
            reader = _Reader(log, self.world.now_us, -1)
            self._readers[partition] = reader
        return reader

    def _is_all_read(self) -> bool:
        grows = self.world.now_us <= self._grows_until_us
        return not grows and all(map(self._is_read, self.partitions))

    def _is_read(self, partition: Partition) -> bool:
        if partition.state is State.FAILED:
            return True
        log = self._reader(partition).log
        return (
            TOPIC in self.cluster.topics
            and log is self.cluster.log_of(partition.index)
            and partition.state is State.READY
            and partition.offset == log.end
        )

    def _read(self, partition: Partition, fetched: memoryview, asked: int) -> None:
        """Records have come: they are the log's, and what comes next in it."""
        reader, at = self._reader(partition), 0
        while len(fetched) - at >= BATCH_HEADER_SIZE:
            base, length, epoch = _HEADER.unpack_from(fetched, at)
            content = bytes(fetched[at : at + 12 + length])
            if len(content) < 12 + length:
                break
            batch = reader.log.written.get((base, epoch))
            assert batch, f"nothing was written at {base} in epoch {epoch}: {_shown(partition)}"
            assert batch.content == content
            if at == 0 and asked != reader.next:
                self._jumped(partition, reader, asked, epoch)
            self._take(partition, reader, max(asked, base), batch)
            at += 12 + length

    def _jumped(self, partition: Partition, reader: _Reader, asked: int, epoch: int) -> None:
        """It is not read on where it was left: so a reset says, or its log was truncated."""
        is_first = reader.next == NO_OFFSET
        if is_first and reader.since_us < 2_000_000 and asked == self.story.offset:
            return
        gone = (known for offset, known in reader.epochs.items() if offset >= asked)
        if asked < reader.next and max(gone, default=epoch) < epoch:
            return
        said_us = self.cluster.answered_us.get((TOPIC, partition.index), {}).get(asked, 0)
        where = f"{_shown(partition)}: {asked} after {reader.next}"
        assert said_us >= reader.since_us, f"nobody said so: {where}"
        assert is_first or reader.log in self.cluster.refused, (
            f"nobody refused what was before: {where}"
        )
        reader.epochs.clear()

    def _take(self, partition: Partition, reader: _Reader, first: int, batch: Batch) -> None:
        where = f"{_shown(partition)}: {first} of epoch {batch.epoch}"
        before = batch.before if first == batch.base else batch.epoch
        if first <= reader.log.now.start:
            before = -1  # it is deleted, and nobody can say any more
        known = reader.epochs.get(first - 1, before)
        assert before in (known, -1), f"before {where} came epoch {known}, in the log {before}"
        for offset in range(first, batch.end):
            assert reader.epochs.get(offset, -1) < batch.epoch, f"read twice: {where}"
            reader.epochs[offset] = batch.epoch
        self._records += batch.end - first
        reader.next = batch.end

    # --- afterwards ---

    def _look_back(self, consumer: Consumer, tracing: _Tracing) -> None:
        kinds = {fault.kind for fault in self.story.faults}
        # Without epochs an old view leads back to a leader that is deposed, and has less.
        has_epochs = self.story.fetch_version >= 9 and self.story.metadata_version >= 9
        may_fail = "refuse" in kinds or (
            self.story.config.auto_offset_reset == "none"
            and (not has_epochs or kinds & {"lose", "delete"})
        )
        failed = [_shown(p) for p in self.partitions if p.state is State.FAILED]
        assert may_fail or not failed, f"given up: {failed}, {consumer.errors}"
        assert len(failed) <= sum(consumer.errors.values())
        assert consumer.records == self._records
        assert sum(row["records"] for row in self.rows("reads")) == self._records
        redirects = self.rows("redirects")
        for count, whole in tracing.took:
            rows, redirects = redirects[:count], redirects[count:]
            spent = [row[f"{phase}_us"] for row in rows for phase in PHASES]
            assert sum(spent) == whole, f"phases are {sum(spent)} of {whole} us: {rows}"
            assert min(spent) >= 0
        assert not redirects
        self.retries_back_off(elsewhere_too=False)

    def _reached(self) -> Seen:
        seen = self.seen(
            records_read=self._records,
            given_up=sum(p.state is State.FAILED for p in self.partitions),
        )
        for row in self.rows("reads"):
            if row["range_case"] >= 0:
                seen[named(RangeCase(row["range_case"]))] += 1
                seen[named(RangeHandling(row["range_handling"]))] += 1
        return seen


def _shown(partition: Partition) -> str:
    return (
        f"partition {partition.index} of {partition.topic.id.int:x},"
        f" {partition.state.value} at {partition.offset} of epoch {partition.epoch}"
    )
