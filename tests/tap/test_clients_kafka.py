"""Stock clients through the tap while leaders rotate: no error of its making, no byte changed.

They all work at the same time, through one tap, each on a topic of its own.
"""

import hashlib
import itertools
import random
import re
import string
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import pytest
from campaigns import as_many, campaign
from confluent_kafka import Consumer, KafkaError, TopicPartition
from stock_clients import MOST_BYTES, TRANSACTIONS, Confluent, KafkaPython, StockClient, java

from kipctl.changes.execution.plan_execution import rotate_own_topics
from kipctl.client_behaviour.findings.catalogue import FINDINGS
from kipctl.cluster.topics import await_no_topics, await_topics, create_topics, delete_topics
from kipctl.lab.cluster import Lab
from kipctl.lab.jars import KafkaJars
from kipctl.process import wait_until
from kipctl.severity import Severity
from kipctl.tap.export import record_batches
from kipctl.tap.process import TapOutcome, running_tap
from kipctl.tap.spec import TapSpec
from kipctl.transport.request import Cluster

pytestmark = [pytest.mark.kafka, campaign]
NAMES = ("java-3.6.0", "java-4.3.1", "confluent-kafka", "kafka-python")
PARTITIONS = 3
ROTATIONS = as_many(3, 60)
ROUNDS = 12
"""For each rotation, which comes as they begin."""
EVERY_S = 0.1
MEGABYTES_10 = 10 * 1024 * 1024
PATIENCE_S = 300
"""For a client that hangs; nothing else waits for it."""


class Work:
    """A client at work on its topic: producers of every codec, and groups of two consumers."""

    def __init__(self, client: StockClient, server: str) -> None:
        self.client = client
        self.written: list[bytes] = []
        self.read: dict[str, list[bytes]] = {group: [] for group in client.groups}
        self.errors: list[str] = []
        self._server = server
        self._rounds: Queue[bool | None] = Queue()
        self._numbers = itertools.count()
        self._over = threading.Event()
        members = [(group, member) for group in client.groups for member in range(2)]
        self._writer = self._start(self._write)
        self._readers = [self._start(self._read, *member) for member in members]

    def has_failed_or(self, condition: Callable[["Work"], bool]) -> bool:
        return self._over.is_set() or condition(self)

    def has_read_all(self) -> bool:
        written = set(self.written)
        return all(written <= set(read) for read in self.read.values())

    def let_write(self, rounds: int, has_large: bool) -> None:
        """So often by each producer, one after the other; the first may have a large record."""
        for number in range(rounds):
            self._rounds.put(has_large and number == 0)

    def has_written_all(self) -> bool:
        return self._rounds.unfinished_tasks == 0

    def end(self) -> None:
        """Write no more, and read all that was written."""
        self._rounds.put(None)
        self._writer.join()
        wait_until(lambda: self.has_failed_or(Work.has_read_all), PATIENCE_S)
        self._over.set()
        for reader in self._readers:
            reader.join()
        self.errors = self.client.take_errors()

    def _start(self, work: Callable[..., None], *arguments: object) -> threading.Thread:
        """In a thread; what it raises is an error of the client, which then is at its end."""

        def run() -> None:
            try:
                work(*arguments)
            except Exception as failure:
                self.client.errors.append(f"{type(failure).__name__}: {failure}")
                self._over.set()

        thread = threading.Thread(target=run, name=f"{self.client.name} {work.__name__}")
        thread.start()
        return thread

    def _write(self) -> None:
        codecs = self.client.codecs
        writers = {codec: self.client.writer(self._server, codec) for codec in codecs}
        while (has_large := self._rounds.get()) is not None:
            for codec, writer in writers.items():
                values = list(self._values(codec, has_large))
                self.written += map(kept, values)
                writer.send(values)
            self._rounds.task_done()
            self._over.wait(EVERY_S)
        for writer in writers.values():
            writer.close()

    def _values(self, codec: str, has_large: bool) -> Iterator[bytes]:
        """Of 500 bytes, all different, which compress a little; a large one does not."""
        filling = "".join(random.Random(codec).choices(string.ascii_letters, k=450))
        for _ in range(3 if codec == TRANSACTIONS else 1):
            yield f"{next(self._numbers)} {codec} {filling}".encode().ljust(500)
        if has_large and codec == "none":
            yield random.Random(next(self._numbers)).randbytes(MEGABYTES_10)

    def _read(self, group: str, member: int) -> None:
        reader = self.client.reader(self._server, group, member)
        while not self._over.is_set():
            self.read[group] += map(kept, reader.poll())
        reader.close()


def kept(value: bytes) -> bytes:
    """A value, or of a large one its length and its SHA-256."""
    if len(value) < 65536:
        return value
    return f"{len(value)} bytes {hashlib.sha256(value).hexdigest()}".encode()


def worked(server: str, lab: Lab, clients: Sequence[StockClient]) -> list[Work]:
    """What clients did on their topics, through this server, while leaders rotated."""
    works = [Work(client, server) for client in clients]

    def all_have(condition: Callable[[Work], bool]) -> bool:
        return wait_until(lambda: all(work.has_failed_or(condition) for work in works), PATIENCE_S)

    def let_write(rounds: int, has_large: bool = False) -> None:
        for work in works:
            work.let_write(rounds, has_large)

    try:
        let_write(1)
        assert all_have(lambda work: all(work.read.values()))
        with Cluster(lab.access) as cluster:
            for rotation in range(ROTATIONS):
                let_write(ROUNDS, has_large=rotation % 2 == 0)
                assert not rotate_own_topics(cluster, [client.name for client in clients]).failures
                assert all_have(Work.has_written_all)
    finally:
        for work in works:
            work.end()
    return works


Log = list[tuple[int, int, bytes]]
"""All that is committed in a topic: partition, offset, value (as `kept`), in that order."""


def logs_of(server: str) -> dict[str, Log]:
    settings = {"bootstrap.servers": server, "group.id": "log", "enable.auto.commit": False}
    consumer = Consumer(settings | {"enable.partition.eof": True})
    unread = {(topic, partition) for topic in NAMES for partition in range(PARTITIONS)}
    logs: dict[str, Log] = {topic: [] for topic in NAMES}
    try:
        consumer.assign([TopicPartition(*at, 0) for at in unread])
        while unread:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            topic, partition = message.topic(), message.partition()
            if error := message.error():
                assert error.code() == KafkaError._PARTITION_EOF, error.str()
                unread.discard((topic, partition))
            else:
                logs[topic].append((partition, message.offset(), kept(message.value())))
    finally:
        consumer.close()
    return {topic: sorted(log) for topic, log in logs.items()}


def written_through(outcome: TapOutcome, directory: Path) -> Counter[str]:
    """Records by topic that came into the log through the tap, by its own rows: those acknowledged,
    and those of an answer that names both an error and an offset (appended before the leader
    moved).

    The latter are never sent again by librdkafka if it is idempotent and a later batch of the
    partition was acknowledged: that tells it that they are in the log.
    """
    records: Counter[str] = Counter()
    for rows in record_batches(outcome, directory, "batches"):
        for row in rows.to_pylist():
            offset = row["base_offset"]
            if not row["error"] or (offset is not None and offset >= 0):
                records[row["topic"]] += row["records"]
    return records


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of the clients' work, in their own words, in the log, and as the tap saw it."""

    works: Mapping[str, Work]
    logs: Mapping[str, Log]
    logs_through_tap: Mapping[str, Log]
    outcome: TapOutcome
    written_through_tap: Mapping[str, int]
    errors_without_tap: Mapping[str, set[str]]


@pytest.fixture(scope="module")
def seen(
    lab: Lab, fetched_kafka: Callable[[str], KafkaJars], tmp_path_factory: pytest.TempPathFactory
) -> Seen:
    """All by the names of the clients, which are their topics', too."""
    folder, server = tmp_path_factory.mktemp("trace"), lab.bootstrap_server
    # A lab keeps no more than 32 MiB of a partition, unless the topic says otherwise.
    configs = {"max.message.bytes": str(MOST_BYTES), "retention.bytes": "-1"}
    create_topics(lab.access, NAMES, PARTITIONS, 3, configs=configs)
    with ExitStack() as stack, Cluster(lab.access) as cluster:
        await_topics(cluster, NAMES)
        clients = [
            *(stack.enter_context(java(fetched_kafka(version))) for version in ("3.6.0", "4.3.1")),
            Confluent(),
            stack.enter_context(KafkaPython().listening()),
        ]
        with running_tap(TapSpec(access=lab.access), folder) as tap:
            works = worked(tap.bootstrap_server, lab, clients)
            through = logs_of(tap.bootstrap_server)
            outcome = tap.stop()
        seen = Seen(
            {work.client.name: work for work in works},
            logs_of(server),
            through,
            outcome,
            written_through(outcome, folder),
            {work.client.name: errors_without_tap(lab, work) for work in works},
        )
        delete_topics(lab.access, NAMES)
        await_no_topics(cluster, NAMES)
    return seen


def errors_without_tap(lab: Lab, work: Work) -> set[str]:
    """The kinds of errors of a client that had some, when it works once more without the tap.

    What leaders that move do to a client differs from run to run: it has ten.
    """
    met: set[str] = set()
    for _ in range(10):
        if not kinds(work.errors) <= met:
            (without,) = worked(lab.bootstrap_server, lab, [work.client])
            met |= kinds(without.errors)
    return met


def kinds(errors: Iterable[str]) -> set[str]:
    """Errors without what is different each time: numbers."""
    return {re.sub(r"\d+", "#", error) for error in errors}


each_client = pytest.mark.parametrize("name", NAMES)


@each_client
def test_the_log_holds_what_was_written_once_and_is_the_same_without_the_tap(
    seen: Seen, name: str
) -> None:
    assert seen.logs_through_tap[name] == seen.logs[name]
    written = seen.works[name].written
    assert sorted(value for *_, value in seen.logs[name]) == sorted(written)
    large = [value for value in written if value.startswith(b"10485760 bytes")]
    assert len(large) == (ROTATIONS + 1) // 2


@each_client
def test_every_group_reads_all_of_it(seen: Seen, name: str) -> None:
    for read in seen.works[name].read.values():
        assert set(read) == set(seen.works[name].written)


@each_client
def test_it_has_only_errors_that_it_has_without_the_tap(seen: Seen, name: str) -> None:
    assert kinds(seen.works[name].errors) <= seen.errors_without_tap[name]


@each_client
def test_nobody_walks_around_the_tap_and_it_reads_all(seen: Seen, name: str) -> None:
    assert seen.outcome.messages == ()
    assert seen.written_through_tap[name] == len(seen.logs[name])
    own = [client for client in seen.outcome.clients if client.identity.client_id.startswith(name)]
    assert sum(client.counts.not_decoded for client in own) == 0
    assert sum(client.counts.leader_errors for client in own) > 0
    if name.startswith("java-"):
        assert {client.identity.software_version for client in own} == {name.removeprefix("java-")}


@each_client
def test_a_client_in_good_order_has_no_finding_but_notes(seen: Seen, name: str) -> None:
    findings = [
        (client.identity.client_id, finding)
        for client in seen.outcome.clients
        if client.identity.client_id.startswith(name)
        for finding in client.findings
        if FINDINGS[finding.id].severity is not Severity.NOTE
    ]
    assert findings == []
