"""Other people's producers and consumers, and what they have to show: errors, and content."""

import hashlib
import logging
import os
import random
import re
import signal
import string
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from kipctl.clients.java_command import write_files
from kipctl.lab.jars import fetched_jars
from kipctl.lab.java import find_java
from kipctl.runs.actions import Action, ActionKind, Performer
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how it loads its schemas
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.codec import has_gzip, has_lz4, has_snappy, has_zstd

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MEGABYTES_10 = 10 * 1024 * 1024
ROOM = {
    "max.request.size": str(12 * 1024 * 1024),
    "buffer.memory": str(64 * 1024 * 1024),
}
"""What a Java producer needs for messages of 10 MB."""
_CONSOLE = {
    3: ("kafka.tools.ConsoleProducer", "kafka.tools.ConsoleConsumer"),
    4: (
        "org.apache.kafka.tools.ConsoleProducer",
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
    ),
}
IN_FLIGHT = "max.in.flight.requests.per.connection"
"""All producers here have one request in flight. With five, an idempotent one can be left, by a
leader that moves, with batches that brokers refuse for good (OUT_OF_ORDER_SEQUENCE_NUMBER, until
`delivery.timeout.ms` is over): 1 in 6 to 1 in 14 runs of Java's, through the tap and without it.
"""
_COMPLAINT = re.compile(r"\b(ERROR|FATAL)\b|Exception|^WARNING: Exiting")
_EVERY_S = 2.0
_PATIENCE_S = 90.0


@dataclass(slots=True)
class Done:
    """What clients wrote, what a group of them read, and what went wrong, in their words."""

    written: list[bytes] = field(default_factory=list)
    read: list[bytes] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    """Nobody need read on: all that was written has been, or somebody failed."""
    _is_written: bool = False
    _different: set[bytes] = field(default_factory=set)

    def took(self, values: Sequence[bytes]) -> None:
        """A reader has read these."""
        self.read += values
        self._different.update(values)
        if self._is_written and len(self._different) >= len(self.written):
            self.over.set()

    def await_readers(self) -> None:
        """Nothing more is written: wait until all has been read, or for long enough."""
        self._is_written = True
        self.took(())
        self.over.wait(_PATIENCE_S)
        self.over.set()


def values(seconds: float, per_second: int, size: int, name: str) -> Iterator[tuple[float, bytes]]:
    """Values that are all different and compress a little, each with its time in seconds."""
    chance = random.Random(name)
    filling = "".join(chance.choices(string.ascii_letters, k=4096)) * (size // 4096 + 2)
    for number in range(int(seconds * per_second)):
        at = chance.randrange(4096)
        yield number / per_second, f"{name} {number} {filling[at : at + size]}".encode()[:size]


def paced(timed: Iterable[tuple[float, bytes]]) -> Iterator[bytes]:
    """Each value when its time has come: clients take what they get as fast as they can."""
    start = time.monotonic()
    for at, value in timed:
        time.sleep(max(0.0, start + at - time.monotonic()))
        yield value


def kept(value: bytes) -> bytes:
    """A value, or of a large one its length and its SHA-256."""
    if len(value) < 65536:
        return value
    return f"{len(value)} bytes {hashlib.sha256(value).hexdigest()}".encode()


def digest(parts: Iterable[bytes]) -> str:
    """Of the values in their order, and where each begins."""
    sum_ = hashlib.sha256()
    for part in parts:
        sum_.update(len(part).to_bytes(4, "big") + part)
    return sum_.hexdigest()


@contextmanager
def rotating(bootstrap_server: str, topic: str) -> Iterator[list[str | None]]:
    """While inside, leaders of the topic rotate, every 2 s. Yields the errors of each rotation."""
    over, came = threading.Event(), []

    def rotate() -> None:
        with Cluster(bootstrap_server) as cluster:
            performer = Performer(cluster, topic, Action(ActionKind.ROTATE))
            while not over.wait(_EVERY_S):
                came.append(performer.perform().error)

    thread = threading.Thread(target=rotate)
    thread.start()
    try:
        yield came
    finally:
        over.set()
        thread.join()


def log_of(bootstrap_server: str, topic: str, partitions: int) -> list[tuple[int, int, bytes]]:
    """All that is committed in a topic: partition, offset, value (as `kept`), in that order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_server,
            "group.id": "log",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found = []
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        ended = 0
        while ended < partitions:
            message = consumer.poll(_PATIENCE_S)
            assert message is not None
            if (error := message.error()) is None:
                found.append((message.partition(), message.offset(), kept(message.value())))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error.str()
                ended += 1
    finally:
        consumer.close()
    return sorted(found)


# --- Java's console tools ---


@contextmanager
def _java(
    version: str, is_producer: bool, arguments: Sequence[str], folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A console tool; what it complains of is in the folder. It is gone when the block is left."""
    folder.mkdir(parents=True)
    write_files(folder, {}, Access(""))
    java = find_java()
    jars = fetched_jars(version, java, lambda text: None)
    main = _CONSOLE[int(version.split(".")[0])][0 if is_producer else 1]
    command = [str(java.path), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command += [f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}"]
    command += [f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"]
    with (
        (folder / "stderr").open("wb") as stderr,
        subprocess.Popen(
            [*command, "-cp", jars.classpath, main, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL if is_producer else subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            with suppress(OSError):
                if process.stdin:
                    process.stdin.close()
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()


def _complaints(folder: Path) -> list[str]:
    lines = (folder / "stderr").read_text().splitlines()
    return [line for line in lines if _COMPLAINT.search(line)]


def console_producer(
    version: str, server: str, topic: str, codec: str, lines: Iterable[bytes], folder: Path
) -> Done:
    """Java's console producer, fed with lines at their times; its own limits on retries are
    lifted: it gives up after three.
    """
    arguments = ["--bootstrap-server", server, "--topic", topic, "--compression-codec", codec]
    arguments += ["--message-send-max-retries", str(2**31 - 1), "--request-timeout-ms", "30000"]
    arguments += ["--timeout", "10"]  # its linger.ms
    option = "--command-property" if version == "4.3.1" else "--producer-property"
    arguments += [option, f"{IN_FLIGHT}=1"]
    done = Done()
    with _java(version, True, arguments, folder) as process:
        assert process.stdin is not None
        for line in lines:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            done.written.append(line)
        process.stdin.close()
        process.wait(_PATIENCE_S)
    done.errors = _complaints(folder)
    if process.returncode:
        done.errors.append(f"exit status {process.returncode}")
    return done


@contextmanager
def console_consumers(
    version: str, server: str, topic: str, members: int, properties: Sequence[str], folder: Path
) -> Iterator[Done]:
    """A group of Java's console consumers. What they read, and their errors, is there once the
    block is left; it is left when all that `Done.written` holds by then has been read.
    """
    option = "--command-property" if version == "4.3.1" else "--consumer-property"
    arguments = ["--bootstrap-server", server, "--topic", topic, "--group", f"{topic}-readers"]
    arguments += ["--from-beginning"]
    arguments += [part for text in properties for part in (option, text)]
    done, folders = Done(), [folder / f"reader-{number}" for number in range(members)]

    def read(lines: IO[bytes]) -> None:
        for line in lines:
            done.took([line.removesuffix(b"\n")])

    threads = []
    with ExitStack() as stack:
        for one in folders:
            consumer = stack.enter_context(_java(version, False, arguments, one))
            threads.append(threading.Thread(target=read, args=(consumer.stdout,)))
            threads[-1].start()
        yield done
        done.await_readers()
    for thread in threads:
        thread.join()
    for one in folders:
        done.errors += _complaints(one)


# --- confluent-kafka ---


def confluent_producer(
    server: str, topic: str, codec: str, timed: Iterable[bytes], done: Done
) -> None:
    """An idempotent producer, for a thread of its own."""
    producer = Producer(
        {
            "bootstrap.servers": server,
            "client.id": f"confluent-{codec}",
            "compression.type": codec,
            "enable.idempotence": True,
            IN_FLIGHT: 1,
            "message.max.bytes": 12 * 1024 * 1024,
            "log_level": 0,
        }
    )

    def delivered(error: KafkaError | None, _: object) -> None:
        if error:
            done.errors.append(f"{codec}: {error.str()}")

    for value in timed:
        producer.produce(topic, value, on_delivery=delivered)
        done.written.append(kept(value))
        producer.poll(0)
    left = producer.flush(_PATIENCE_S)
    if left:
        done.errors.append(f"{codec}: {left} were not delivered")


def confluent_consumer(server: str, topic: str, done: Done) -> None:
    """A member of a group, for a thread of its own."""
    consumer = Consumer(
        {
            "bootstrap.servers": server,
            "client.id": "confluent-reader",
            "group.id": f"{topic}-readers",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 30_000,
            "fetch.message.max.bytes": 12 * 1024 * 1024,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    while not done.over.is_set():
        message = consumer.poll(0.2)
        if message is None:
            continue
        if error := message.error():
            done.errors.append(f"reader: {error.str()}")
        else:
            done.took([kept(message.value())])
    consumer.close()


# --- kafka-python ---


def kafka_python_codecs() -> list[str]:
    """Those that it has libraries for here."""
    has = {"gzip": has_gzip, "snappy": has_snappy, "lz4": has_lz4, "zstd": has_zstd}
    return ["none", *(codec for codec, there in has.items() if there())]


def kafka_python_producer(
    server: str, topic: str, codec: str, timed: Iterable[bytes], done: Done
) -> None:
    """An idempotent producer, for a thread of its own."""
    producer = KafkaProducer(
        bootstrap_servers=server,
        client_id=f"kafka-python-{codec}",
        compression_type=None if codec == "none" else codec,
        enable_idempotence=True,
        max_in_flight_requests_per_connection=1,
        acks="all",
        max_request_size=12 * 1024 * 1024,
    )
    futures = []
    for value in timed:
        futures.append(producer.send(topic, value))
        done.written.append(kept(value))
    producer.flush(timeout=_PATIENCE_S)
    for future in futures:
        try:
            future.get(timeout=_PATIENCE_S)
        except Exception as error:
            done.errors.append(f"{codec}: {type(error).__name__}: {error}")
    producer.close()


def kafka_python_consumer(server: str, topic: str, done: Done) -> None:
    """A member of a group, for a thread of its own."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=server,
        client_id="kafka-python-reader",
        group_id=f"{topic}-readers",
        auto_offset_reset="earliest",
        session_timeout_ms=30_000,
        max_partition_fetch_bytes=12 * 1024 * 1024,
    )
    while not done.over.is_set():
        for records in consumer.poll(timeout_ms=200).values():
            done.took([kept(record.value) for record in records])
    consumer.close()


Writer = Callable[[str, str, str, Iterable[bytes], Done], None]
Reader = Callable[[str, str, Done], None]


def in_threads(
    server: str,
    topic: str,
    write: Writer,
    read: Reader,
    loads: dict[str, list[Iterator[bytes]]],
    members: int,
) -> Done:
    """Producers, by codec, and a group of consumers, each in a thread, until all has been read."""
    done = Done()

    def guarded(work: Callable[..., None], *arguments: Any) -> threading.Thread:
        def run() -> None:
            try:
                work(*arguments)
            except BaseException as failure:
                done.errors.append(f"{type(failure).__name__}: {failure}")
                done.over.set()

        thread = threading.Thread(target=run, name=work.__name__)
        thread.start()
        return thread

    with complaints_of("kafka", done):
        readers = [guarded(read, server, topic, done) for _ in range(members)]
        writers = [
            guarded(write, server, topic, codec, timed, done)
            for codec, several in loads.items()
            for timed in several
        ]
        for thread in writers:
            thread.join()
        done.await_readers()
        for thread in readers:
            thread.join()
    return done


@contextmanager
def complaints_of(logger: str, done: Done) -> Iterator[None]:
    """What a Python client logs as errors is among `Done.errors`.

    But for a request of its own that it cancels as it closes: that depends on when it closes. And
    for what its group's coordinator tells it: a member that a busy machine lets expire joins again,
    and whether all was read is looked at.
    """

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            message = record.getMessage()
            if not (message.endswith("Cancelled") or record.name.startswith("kafka.coordinator")):
                done.errors.append(f"{record.name}: {message}")

    listener = Listener(logging.ERROR)
    logging.getLogger(logger).addHandler(listener)
    try:
        yield
    finally:
        logging.getLogger(logger).removeHandler(listener)


def seconds_of_test() -> float:
    """How long clients work: KIPCTL_TAP_SECONDS, by default 8."""
    return float(os.environ.get("KIPCTL_TAP_SECONDS", "8"))
