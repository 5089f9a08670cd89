"""A producer that comes to its topics one by one: what their Metadata costs, and who waits for it.

It is one thread that calls send(), as in Java: a record whose topic is not known waits for its
Metadata (`KafkaProducer.waitOnMetadata`), and so do the records behind it, whatever their topic.
So n new topics make n requests one after another, under KIP-526 for one topic each. Answers to what
is in flight are taken meanwhile.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kipctl.errors import TimedOutError
from kipctl.next_step import Command
from kipctl.probe.idle_eviction import TopicPolicy, TopicsInUse
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.metadata_refresh import NEVER_US
from kipctl.probe.metadata_updater import MetadataCall
from kipctl.probe.produce.accumulator import Accumulator
from kipctl.probe.produce.batches import Batch, Partition
from kipctl.probe.produce.broker_link import ProducerLink
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.partitioner import RoundRobin
from kipctl.probe.produce.payloads import Variant
from kipctl.probe.produce.producer import Producer
from kipctl.probe.schedule import Schedule
from kipctl.probe.tracing import Tracing
from kipctl.protocol.address import Address
from kipctl.protocol.api import ApiKey
from kipctl.protocol.metadata import MetadataResponse, MetadataResponseBroker
from kipctl.protocol.produce_frames import Topic
from kipctl.trace.codes import MetadataCause
from kipctl.transport.loop_connection import InFlight
from kipctl.transport.sockets import Sockets

MAX_BLOCK_US = 60_000_000
"""How long a record waits for its topic's Metadata: Kafka's `max.block.ms`."""
_BOOTSTRAP_NODE = -1
"""Java's id for the first of the bootstrap servers."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Records at a fixed rate: number k is for the topic `topics[k % len(topics)]`."""

    topics: Sequence[int]
    """Positions in the producer's list."""
    records: int
    rate: float
    """Records per second, above 0."""


@dataclass(frozen=True, slots=True)
class SegmentsSent:
    """The outcome of segments. `waits_us` has how long each record waited that had no Metadata.

    Latencies are those of acknowledged records, from their intended send time. Microseconds.
    """

    records: int
    failed: int
    seconds: float
    latencies_us: Sequence[int]
    waits_us: Sequence[int]
    calls: Sequence[MetadataCall]
    errors: Mapping[str, int]
    """How many records failed for what, by Kafka's names."""


class BlockingAccumulator(Accumulator):
    """Takes a segment's records one by one, and none while one waits for its topic's Metadata."""

    def __init__(
        self,
        config: ProducerConfig,
        by_topic: Sequence[Sequence[Partition]],
        variants: Sequence[Variant],
        use: Callable[[str, int], bool],
    ) -> None:
        """`use` is told of a topic and when a record comes to it, and says whether it is known."""
        partitions = [partition for of_topic in by_topic for partition in of_topic]
        super().__init__(config, partitions, RoundRobin(len(partitions)), variants)
        self._by_topic = by_topic
        self._use = use
        self._topics: Sequence[int] = ()
        self.waiting_for: str | None = None
        self.waiting_since_us = NEVER_US
        self.waits_us: list[int] = []

    def begin_segment(self, segment: Segment, start_us: int) -> None:
        """The segment to send next; the one before is over."""
        self._topics = segment.topics
        self.generated = self.settled = 0
        self.start(Schedule(start_us, segment.records, segment.rate))

    def append_due(self, now_us: int) -> Iterator[Partition]:
        """Put the records that are due into queues, up to one whose topic is not known."""
        schedule, topics = self._schedule, self._topics
        due = schedule.due(now_us)
        while self.generated < due:
            seq = self.generated
            of_topic = self._by_topic[topics[seq % len(topics)]]
            topic = of_topic[0].topic.name
            if not self._use(topic, now_us):
                if self.waiting_for is None:
                    self.waiting_for, self.waiting_since_us = topic, now_us
                self.due_us = NEVER_US  # until an answer comes
                return
            if self.waiting_for is not None:
                self.waits_us.append(now_us - self.waiting_since_us)
                self.waiting_for, self.waiting_since_us = None, NEVER_US
            self.generated += 1
            partition = of_topic[seq // len(topics) % len(of_topic)]
            # It is sent from now on: while it waited `delivery.timeout.ms` did not run.
            partition.append(seq, 1, 1, lambda _: now_us, self._next_variant)
            yield partition
        self.due_us = NEVER_US if due >= schedule.own_records else schedule.next_due_us(due)

    def resume(self) -> None:
        """An answer came: the record that waits may go on."""
        if self.waiting_for is not None:
            self.due_us = 0

    def intended_us(self, batch: Batch) -> Iterator[int]:
        """When each record of a batch of this segment should have been sent."""
        return (self._schedule.intended_us(batch.first_seq + k) for k in range(batch.records))


class ManyTopicsProducer(Producer):
    """One client, which learns of topics as records come to them and forgets idle ones."""

    def __init__(
        self,
        config: ProducerConfig,
        policy: TopicPolicy,
        topics: Sequence[Topic],
        partitions: int,
        variants: Sequence[Variant],
        tracing: Tracing,
        producer: tuple[int, int],
        sockets: Sockets,
        bootstrap: Iterable[Address],
    ) -> None:
        """Each topic has so many `partitions`; `producer` is its id and epoch (-1 for none).

        What topics there are it is told, for their ids and so that it has queues for them. Who
        leads it has to ask.
        """
        counts = [partitions] * len(topics)
        self._preloaded = [t.name for t in topics] if policy is TopicPolicy.PRELOAD else []
        self._topics_in_use = TopicsInUse(policy, config.metadata_max_idle_ms * 1000)
        super().__init__(
            config,
            LeaderDiscovery.KIP951,
            topics,
            counts,
            variants,
            RoundRobin(sum(counts)),
            tracing,
            *producer,
            sockets=sockets,
            bootstrap=bootstrap,
            topics_in_use=self._topics_in_use,
        )
        self._calls: list[MetadataCall] = []
        self._metadata.calls = self._calls
        self._blocking = BlockingAccumulator(
            config, self._by_topic, variants, self._metadata.use_topic
        )
        self._accumulator = self._blocking
        self._latencies_us: list[int] = []

    def bootstrap(self, server: Address) -> Sequence[MetadataCall]:
        """Ask this server who the brokers are, and for those topics that are preloaded.

        Returns the requests that it took. Raises TimedOutError.
        """
        self._wall_offset_us = time.time_ns() // 1000 - self._now_us()
        first = MetadataResponseBroker(_BOOTSTRAP_NODE, server.host, server.port)
        self.apply_first_metadata(
            MetadataResponse(brokers=(first,)), MetadataResponse.api.versions[1]
        )
        for name in self._preloaded:
            self._metadata.use_topic(name, self._now_us())
        self._metadata.request_update(MetadataCause.START)
        deadline = self._now_us() + self._config.request_timeout_ms * 1000
        while self._metadata.is_updating:
            self._run_once()
            if self._now_us() > deadline:
                raise TimedOutError(
                    f"Broker {server} does not answer Metadata.",
                    "Check that it is running, and not overloaded or paused.",
                )
        return tuple(self._calls)

    def set_metadata_ages(self, max_age_ms: int, max_idle_ms: int) -> None:
        """Another `metadata.max.age.ms`, counted from now, and another `metadata.max.idle.ms`."""
        self._metadata.set_max_age(max_age_ms * 1000, self._now_us())
        self._topics_in_use.idle_us = max_idle_ms * 1000

    def send(self, segments: Sequence[Segment]) -> SegmentsSent:
        """Send the segments' records in order, until they are settled and Metadata is too.

        Raises TimedOutError when a topic does not come to be known.
        """
        turns, metadata = self._blocking, self._metadata
        calls, waits = len(self._calls), len(turns.waits_us)
        before = self.errors.copy()
        self._latencies_us = []
        began_us = self._now_us()
        for segment in segments:
            turns.begin_segment(segment, self._now_us())
            while not turns.is_over:
                self._run_once()
        deadline = self._now_us() + self._config.request_timeout_ms * 1000
        while metadata.is_updating and self._now_us() < deadline:
            self._run_once()
        errors = self.errors - before
        return SegmentsSent(
            sum(segment.records for segment in segments),
            errors.total(),
            (self._now_us() - began_us) / 1e6,
            self._latencies_us,
            turns.waits_us[waits:],
            self._calls[calls:],
            errors,
        )

    def _tick(self, now: int) -> None:
        super()._tick(now)
        if now - self._blocking.waiting_since_us > MAX_BLOCK_US:
            raise TimedOutError(
                f"Topic {self._blocking.waiting_for} is not in Metadata after"
                f" {MAX_BLOCK_US / 1e6:.0f} s.",
                "See whether it was removed: "
                + Command("inspect leaders", topic=self._blocking.waiting_for),
            )

    def _mark_topics_used(self, now: int) -> None:
        """`BlockingAccumulator` has marked each record's topic."""

    def _response_received(
        self, link: ProducerLink, flight: InFlight, frame: memoryview, now: int, behind_us: int
    ) -> None:
        super()._response_received(link, flight, frame, now, behind_us)
        if flight.api_key == ApiKey.METADATA:
            self._blocking.resume()

    def _settle(
        self, batch: Batch, done_us: int, error: int, base_offset: int, refused: bool = False
    ) -> None:
        if not error:
            self._latencies_us += [done_us - due for due in self._blocking.intended_us(batch)]
        super()._settle(batch, done_us, error, base_offset, refused)
