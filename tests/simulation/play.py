"""Plays a story with kipctl's own producer, and looks at what must hold whatever happens."""

import random
from collections import Counter, defaultdict
from contextlib import closing
from functools import partial
from pathlib import Path

from fake_kafka import PRODUCER_ID, TOPIC, SimulatedCluster
from handed import Handed
from stage import BOOTSTRAP, Seen, Stage, played
from story import FAULTS, Story, topic_names

from kipctl.probe.bootstrap import find_topic
from kipctl.probe.idle_eviction import TopicPolicy, TopicsInUse
from kipctl.probe.produce.many_topics import ManyTopicsProducer, Segment
from kipctl.probe.produce.partitioner import partitioner
from kipctl.probe.produce.payloads import Variant, random_values, variants
from kipctl.probe.produce.producer import Producer
from kipctl.probe.schedule import Schedule
from kipctl.probe.tracing import Tracing
from kipctl.protocol.api import ApiKey
from kipctl.protocol.compression import Compression
from kipctl.trace.codes import PHASES
from kipctl.transport.access import Access

_RECORD_BYTES = 10
_IDLE_MS = 300
_SOON_IDLE_MS = 5


def play(story: Story) -> Seen:
    """Play it. Raises Broken."""
    return played(partial(_Play, story), story)


class _Play(Stage):
    """One run of the producer."""

    story: Story

    def __init__(self, story: Story, directory: Path) -> None:
        self.producer: Producer | None = None
        versions = {0: (3, story.produce_version), 3: (1, story.metadata_version)}
        super().__init__(story, FAULTS, SimulatedCluster, versions, topic_names(story), directory)

    def run(self) -> Seen:
        config = self.story.config
        choose = random.Random(self.story.seed)
        pool = random_values(_RECORD_BYTES, choose, config.batch_size)
        payloads = variants(pool, config.batch_size, Compression.NONE, choose)
        producer_id = (PRODUCER_ID, 0) if config.enable_idempotence else (-1, -1)
        with closing(Tracing(self.directory, ("batches", "rpcs", "redirects"))) as tracing:
            if self.story.topics > 1:
                return self._send_to_many(payloads, producer_id, tracing)
            return self._send_to_one(payloads, producer_id, tracing, choose)

    def _send_to_one(
        self,
        payloads: list[Variant],
        producer_id: tuple[int, int],
        tracing: Tracing,
        choose: random.Random,
    ) -> Seen:
        story, world = self.story, self.world
        metadata = self.cluster.metadata([TOPIC], story.metadata_version)
        topic, partitions = find_topic(TOPIC, metadata, Access(""))
        idle_ms = story.config.metadata_max_idle_ms
        if story.has_idle_topic:
            idle_ms = _SOON_IDLE_MS
        with closing(
            Producer(
                story.config,
                story.discovery,
                [topic],
                [partitions],
                payloads,
                partitioner("round-robin", partitions, payloads[0].capacity, choose),
                tracing,
                *producer_id,
                self.sockets,
                [BOOTSTRAP],
                topics_in_use=TopicsInUse(TopicPolicy.KIP526, idle_ms * 1000),
            )
        ) as self.producer:
            self.producer.apply_first_metadata(metadata, story.metadata_version)
            Handed(self.producer, story, self.sockets)
            self.producer.connect_all(10_000_000)
            self.let_happen()
            self.producer.run(Schedule(world.now_us, story.num_records, story.throughput))
        tracing.flush()
        self._look_back(self.producer)
        return self.seen(records=story.num_records, failed=self.producer.failed)

    def _send_to_many(
        self, payloads: list[Variant], producer_id: tuple[int, int], tracing: Tracing
    ) -> Seen:
        """All topics come into use, then only one, until the others are idle; then all again."""
        story, metadata = (
            self.story,
            self.cluster.metadata(topic_names(self.story), self.story.metadata_version),
        )
        topics = [find_topic(name, metadata, Access(""))[0] for name in topic_names(story)]
        every, rate = range(story.topics), max(story.throughput, 100)
        with closing(
            ManyTopicsProducer(
                story.config,
                TopicPolicy.KIP526,
                topics,
                story.partitions,
                payloads,
                tracing,
                producer_id,
                self.sockets,
                [BOOTSTRAP],
            )
        ) as self.producer:
            Handed(self.producer, story, self.sockets)
            self.producer.bootstrap(BOOTSTRAP)
            self.producer.set_metadata_ages(1_000, _IDLE_MS)
            self.let_happen()
            self.settle_until_us += 4 * _IDLE_MS * 1000
            segments = [
                Segment(every, story.num_records, rate),
                Segment([0], _IDLE_MS // 10, 5),
                Segment(every, story.num_records, rate),
            ]
            sent = self.producer.send(segments)
        assert sent.records == sum(segment.records for segment in segments)
        tracing.flush()
        return self.seen(records=story.num_records, failed=sent.failed)

    # --- at every turn ---

    def _watch(self) -> None:
        producer = self.producer
        if producer is None:
            return
        # Before version 13 a hint may be of another topic of that name.
        others = () if self.story.produce_version >= 13 else self.cluster.names
        self.leaders_have_led(producer._metadata, producer._partitions, others)
        self.metadata_goes_first(producer._metadata, {ApiKey.PRODUCE})
        assert self.world.now_us <= self.settle_until_us, (
            f"{producer.generated - producer._accumulator.settled} records are not settled long"
            " after the last fault"
        )

    # --- afterwards ---

    def _look_back(self, producer: Producer) -> None:
        story, cluster = self.story, self.cluster
        batches, redirects = self.rows("batches"), self.rows("redirects")
        settled: Counter[int] = Counter()
        acknowledged: set[int] = set()
        for row in batches:
            records = [row["first_seq"] + k * row["seq_stride"] for k in range(row["records"])]
            settled.update(records)
            if not row["error"]:
                acknowledged.update(records)
        assert settled == Counter(range(story.num_records)), "a record is not settled once"
        assert len(acknowledged) == producer.acknowledged
        in_log = Counter[int]()
        for appended in cluster.appended.values():
            copies = Counter(number for batch in appended for number in cluster.numbers(batch))
            in_log.update(copies.keys())
            if story.config.enable_idempotence:
                twice = [record for record, count in copies.items() if count > 1]
                assert not twice, f"records {twice[:5]} are in the log twice"
        if story.config.acks == -1:
            missing = sorted(acknowledged - in_log.keys())
            assert not missing, f"records {missing[:5]} are acknowledged and in no log"
        patient = story.config.retries > 2 and story.config.delivery_timeout_ms > 10_000
        self._phases_add_up(batches, redirects)
        self.retries_back_off()
        refusing = {"refuse", "recreate", "regret"}
        if patient and not refusing & {fault.kind for fault in story.faults}:
            assert not producer.failed, f"{producer.errors} though nothing refuses them"

    def _phases_add_up(
        self, batches: list[dict[str, int]], redirects: list[dict[str, int]]
    ) -> None:
        by_batch: dict[int, list[dict[str, int]]] = defaultdict(list)
        for row in redirects:
            by_batch[row["first_seq"]].append(row)
        for batch in batches:
            rows = by_batch.pop(batch["first_seq"], [])
            spent = [row[f"{phase}_us"] for row in rows for phase in PHASES]
            if rows:
                whole = batch["acked_us"] - batch["intended_us"]
                assert sum(spent) == whole, f"phases are {sum(spent)} of {whole} us"
                assert min(spent) >= 0
        assert not by_batch
