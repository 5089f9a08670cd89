"""Plays a story with kipctl's own producer, and looks at what must hold whatever happens."""

import random
import tempfile
import traceback
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cluster import PRODUCER_ID, Cluster
from story import TOPIC, Story, perform, topic_names
from world import SimulatedSocket, SimulatedSockets, World

from kipctl.probe.bootstrap import find_topic
from kipctl.probe.metadata_policy import TopicPolicy
from kipctl.probe.produce.many_topics import Leg, ManyTopicsProducer
from kipctl.probe.produce.partitioner import partitioner
from kipctl.probe.produce.payloads import Variant, random_values, variants
from kipctl.probe.produce.producer import Producer
from kipctl.probe.schedule import Schedule
from kipctl.probe.tracing import Tracing
from kipctl.protocol.address import Address
from kipctl.protocol.compression import Compression
from kipctl.trace.codes import PHASES, Decision, MetadataCause
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.rows import read_rows

_RECORD_BYTES = 10
_IDLE_MS = 300


class Broken(AssertionError):  # noqa: N818
    """An invariant does not hold. Its text tells the story."""


@dataclass
class Seen:
    """What was reached: hint decisions, phases that took time, causes of Metadata requests."""

    decisions: Counter[Decision] = field(default_factory=Counter)
    phases: Counter[str] = field(default_factory=Counter)
    causes: Counter[MetadataCause] = field(default_factory=Counter)
    errors: Counter[int] = field(default_factory=Counter)
    records: int = 0
    failed: int = 0

    def add(self, other: "Seen") -> None:
        for name in ("decisions", "phases", "causes", "errors"):
            getattr(self, name).update(getattr(other, name))
        self.records += other.records
        self.failed += other.failed


def play(story: Story) -> Seen:
    """Play it. Raises Broken."""
    world = World(random.Random(story.seed))
    random.seed(story.seed)  # what the client leaves to chance
    try:
        with tempfile.TemporaryDirectory() as directory:
            return _Play(story, world, Path(directory)).run()
    except Exception as broken:
        told = "\n".join(world.story)
        where = "".join(traceback.format_tb(broken.__traceback__)[-2:])
        raise Broken(f"{broken!r}\n{story}\nwhat happened:\n{told}\n{where}") from broken


class _Play:
    """One run: the cluster, the client, and a watch on it at every turn."""

    def __init__(self, story: Story, world: World, directory: Path) -> None:
        self.story, self.world, self.directory = story, world, directory
        chance = world.chance
        self.cluster = Cluster(
            world,
            story.brokers,
            lambda: chance.choice((0, 0.1, 1)) * story.lag_us,
            story.produce_version,
            story.metadata_version,
            story.hints,
            story.endpoints,
        )
        for name in topic_names(story):
            self.cluster.create(name, story.partitions)
        for broker in self.cluster.brokers.values():
            broker.view = self.cluster.truth
        self.sockets = SimulatedSockets(
            world,
            self._listening,
            lambda: story.delay_us * chance.choice((0.5, 1, 1, 3)),
            self._watch,
        )
        self.producer: Producer | None = None
        self._epochs: dict[Any, tuple[Any, int]] = {}
        self._settle_until_us = 1 << 62
        self._due_since_us: int | None = None
        self._throttled: dict[SimulatedSocket, int] = {}

    def _listening(self, host: str, port: int) -> Any:
        if host == "bootstrap":  # whoever is up, as behind a load balancer
            up = [broker for broker in self.cluster.brokers.values() if broker.is_up]
            return self.world.chance.choice(up) if up else None
        broker = self.cluster.brokers[int(host[1:])]
        if broker.paused_until_us > self.world.now_us and self.world.chance.random() < 0.5:
            return None
        return broker if broker.port == port else None

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
        metadata = self.cluster.brokers[1].metadata([TOPIC])
        topic, partitions = find_topic(TOPIC, metadata)
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
                lambda: None,
                self.sockets,  # type: ignore[arg-type]
                [Address("bootstrap", 9092)],
            )
        ) as self.producer:
            self.producer.learn(metadata)
            self.producer.connect_all(10_000_000)
            self._let_happen()
            totals = self.producer.run(Schedule(world.now_us, story.num_records, story.throughput))
        tracing.flush()
        self._look_back(totals)
        return self._seen(totals.failed)

    def _send_to_many(
        self, payloads: list[Variant], producer_id: tuple[int, int], tracing: Tracing
    ) -> Seen:
        """All topics come into use, then only one, until the others are idle; then all again."""
        story, metadata = self.story, self.cluster.brokers[1].metadata(topic_names(self.story))
        topics = [find_topic(name, metadata)[0] for name in topic_names(story)]
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
                self.sockets,  # type: ignore[arg-type]
            )
        ) as self.producer:
            self.producer.bootstrap(Address("bootstrap", 9092))
            self.producer.keep_metadata(1_000, _IDLE_MS)
            self._let_happen()
            self._settle_until_us += 4 * _IDLE_MS * 1000
            legs = [
                Leg(every, story.num_records, rate),
                Leg([0], _IDLE_MS // 10, 5),
                Leg(every, story.num_records, rate),
            ]
            sent = self.producer.send(legs)
        assert sent.records == sum(leg.records for leg in legs)
        tracing.flush()
        return self._seen(sent.failed)

    def _let_happen(self) -> None:
        """The faults come, counted from now on; all must be settled some time after the last."""
        story, world = self.story, self.world
        for fault in story.faults:
            world.after(fault.at_us, partial(perform, fault, world, self.cluster))
        self._settle_until_us = world.now_us + story.over_us + self._patience_us

    @property
    def _patience_us(self) -> int:
        """How long after the last fault all must be settled.

        Brokers hear of the truth; a connection that is silent is noticed by its timeouts; a retry
        and a reconnection have backed off as far as they do; Metadata comes by its backoff. And
        the load may not be over: the records that are left go through one by one.
        """
        config, story = self.story.config, self.story
        waits_ms = (
            config.request_timeout_ms
            + config.socket_connection_setup_timeout_max_ms * 1.2
            + config.reconnect_backoff_max_ms * 2
            + config.retry_backoff_max_ms * 4
        )
        load_us = story.num_records / story.throughput * 1e6 if story.throughput > 0 else 0
        round_trips = story.num_records * (story.delay_us * 8 + 2_000)
        return int(3 * story.lag_us + 2 * waits_ms * 1000 + load_us + round_trips)

    # --- at every turn ---

    def _watch(self) -> None:
        producer, now = self.producer, self.world.now_us
        if producer is None:
            return
        finder = producer._finder
        every_id = list(self.cluster.names)
        for partition in producer._partitions:
            leader = finder._leadership._leaders.get(partition)
            if leader is None:
                continue
            known_id, known = self._epochs.get(partition, (None, -1))
            if known_id == partition.topic.id:
                assert leader.epoch >= known or leader.epoch < 0, (
                    f"epoch of {partition.index} fell from {known} to {leader.epoch}"
                )
            self._epochs[partition] = partition.topic.id, leader.epoch
            if leader.id >= 0 and leader.epoch >= 0:
                # Before version 13 a hint may be of another topic of that name.
                ids = [partition.topic.id] if self.story.produce_version >= 13 else every_id
                reigns = {
                    self.cluster.reigns.get((id, partition.index, leader.epoch)) for id in ids
                }
                assert leader.id in reigns, (
                    f"{leader.id} is believed to lead {partition.index} in epoch {leader.epoch}:"
                    f" it was {reigns}"
                )
        self._metadata_goes_first(producer, now)
        assert now <= self._settle_until_us, (
            f"{producer.generated - producer._accumulator.settled} records are not settled long"
            " after the last fault"
        )

    def _metadata_goes_first(self, producer: Producer, now: int) -> None:
        """While a Metadata request is due, and was at the last turn, no Produce goes out."""
        sent = {
            (socket.number, flight.correlation_id)
            for socket in self.sockets.open.values()
            if socket.connection and not socket.is_closed
            for flight in socket.connection.in_flight
            if flight.api_key == 0
        }
        policy = producer._finder._policy
        due = policy.in_flight is None and policy.due_us(producer._finder._new_topics) <= now
        if due and self._due_since_us is not None:
            new = sent - self._sent_before
            assert not new, "Produce goes out while Metadata is due"
        self._due_since_us = now if due else None
        self._sent_before = sent

    # --- afterwards ---

    def _rows(self, dataset: str) -> list[dict[str, int]]:
        columns = COLUMNS[dataset]
        rows = read_rows(raw_path(self.directory, dataset), len(columns)).tolist()
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _seen(self, failed: int) -> Seen:
        seen = Seen(records=self.story.num_records, failed=failed)
        for row in self._rows("redirects"):
            seen.decisions[Decision(row["decision"])] += 1
            seen.errors[row["error"]] += 1
            seen.phases.update(phase for phase in PHASES if row[f"{phase}_us"])
        for row in self._rows("rpcs"):
            if row["cause"] >= 0:
                seen.causes[MetadataCause(row["cause"])] += 1
        return seen

    def _look_back(self, totals: Any) -> None:
        story, cluster = self.story, self.cluster
        batches, redirects = self._rows("batches"), self._rows("redirects")
        settled: Counter[int] = Counter()
        acknowledged: set[int] = set()
        for row in batches:
            records = [row["first_seq"] + k * row["seq_stride"] for k in range(row["records"])]
            settled.update(records)
            if not row["error"]:
                acknowledged.update(records)
        assert settled == Counter(range(story.num_records)), "a record is not settled once"
        assert len(acknowledged) == totals.acknowledged
        in_log = Counter[int]()
        for log in cluster.logs.values():
            in_log.update(log.copies.keys())
            if story.config.enable_idempotence:
                twice = [record for record, copies in log.copies.items() if copies > 1]
                assert not twice, f"records {twice[:5]} are in the log twice"
        if story.config.acks == -1:
            missing = sorted(acknowledged - in_log.keys())
            assert not missing, f"records {missing[:5]} are acknowledged and in no log"
        patient = story.config.retries > 2 and story.config.delivery_timeout_ms > 10_000
        self._phases_add_up(batches, redirects)
        self._retries_back_off(redirects)
        refusing = {"refuse", "recreate", "regret"}
        if patient and not refusing & {fault.kind for fault in story.faults}:
            assert not totals.failed, f"{totals.errors} though nothing refuses them"

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

    def _retries_back_off(self, redirects: list[dict[str, int]]) -> None:
        """A retry to an epoch that is not newer comes after the backoff."""
        least_us = self.story.config.retry_backoff_ms * 1000 * 0.79
        for row in redirects:
            if row["same_epoch_retry"] and row["to_broker"] >= 0:
                waited = sum(row[f"{p}_us"] for p in ("backoff", "metadata", "connect", "queued"))
                assert waited >= least_us, f"a retry to the same epoch after {waited} us"
