"""Other people's producers and consumers, all behind the same few methods."""

import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, Producer
from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path, launch_gateway
from py4j.protocol import Py4JJavaError

from kipctl.clients.java_command import write_files
from kipctl.lab.jars import KafkaJars
from kipctl.lab.java import find_java
from kipctl.transport.access import Access

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how it loads its schemas
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.codec import has_gzip, has_lz4, has_snappy, has_zstd

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TRANSACTIONS = "transactions"
"""In place of a codec: a producer that commits what it is given at once as a transaction."""
MOST_BYTES = 12 * 1024 * 1024
"""A record may be of 10 MB."""
IN_FLIGHT = "max.in.flight.requests.per.connection"
"""All producers here have one request in flight. With five, an idempotent one can be left, by a
leader that moves, with batches that brokers refuse for good (OUT_OF_ORDER_SEQUENCE_NUMBER, until
`delivery.timeout.ms` is over): 1 in 6 to 1 in 14 runs of Java's, through the tap and without it.
"""
_COMPLAINT = re.compile(r"\b(ERROR|FATAL)\b|Exception")
_POLL_S = 0.2
_PATIENCE_S = 90


class Writer(Protocol):
    """An idempotent producer."""

    def send(self, values: Sequence[bytes]) -> None:
        """Hand them over; what becomes of them is known when it is closed."""

    def close(self) -> None:
        """Wait until all are delivered. What was not is among the client's errors."""


class Reader(Protocol):
    """A member of a group, which reads from the beginning."""

    def poll(self) -> list[bytes]:
        """What has come after a moment."""

    def close(self) -> None: ...


class StockClient:
    """A library. Its client ids begin with its name."""

    name: str
    codecs: Sequence[str] = CODECS
    groups: Sequence[str] = ("classic",)

    def __init__(self) -> None:
        self.errors: list[str] = []

    def writer(self, server: str, topic: str, codec: str) -> Writer:
        raise NotImplementedError

    def reader(self, server: str, topic: str, group: str, member: int) -> Reader:
        raise NotImplementedError

    def take_errors(self) -> list[str]:
        """In its own words, since they were taken last."""
        taken, self.errors = self.errors, []
        return taken

    # What Java's clients and librdkafka call alike.

    def producing(self, server: str, codec: str) -> dict[str, str]:
        return {
            "bootstrap.servers": server,
            "client.id": f"{self.name}-{codec}",
            "compression.type": codec,
            "enable.idempotence": "true",
            IN_FLIGHT: "1",
        }

    def reading(self, server: str, group: str) -> dict[str, str]:
        return {
            "bootstrap.servers": server,
            "client.id": f"{self.name}-reader",
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": "30000",
        }


# --- Java's classes, called through Py4J ---


class Java(StockClient):
    """The KafkaProducer and KafkaConsumer of one version, in a JVM."""

    codecs = (*CODECS, TRANSACTIONS)

    def __init__(self, version: str, jvm: Any, log: Path) -> None:
        super().__init__()
        self.name = f"java-{version}"
        self.groups = ("classic", "consumer") if version.startswith("4.") else ("classic",)
        self._jvm, self._log, self._lines_read = jvm, log, 0

    def writer(self, server: str, topic: str, codec: str) -> Writer:
        settings = self.producing(server, codec)
        if codec == TRANSACTIONS:
            settings |= {"transactional.id": topic, "compression.type": "lz4"}
        room = {"max.request.size": str(MOST_BYTES), "buffer.memory": str(64 * 1024 * 1024)}
        return _JavaWriter(self._jvm, topic, settings | room, self.errors)

    def reader(self, server: str, topic: str, group: str, member: int) -> Reader:
        settings = self.reading(server, f"{topic}-{group}")
        if group == "consumer":  # its session is the brokers' to set
            del settings["session.timeout.ms"]
            settings["group.protocol"] = group
        # No transaction here is aborted: both kinds of members read the same.
        settings["isolation.level"] = "read_committed" if member else "read_uncommitted"
        return _JavaReader(self._jvm, topic, settings)

    def take_errors(self) -> list[str]:
        lines = self._log.read_text().splitlines()[self._lines_read :]
        self._lines_read += len(lines)
        return super().take_errors() + list(filter(_COMPLAINT.search, lines))


@contextmanager
def java(jars: KafkaJars, folder: Path) -> Iterator[Java]:
    """A JVM with these jars, which logs into the folder. It is gone after the block."""
    write_files(folder, {}, Access(""))
    log = folder / "stderr"
    options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    options += [f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}"]
    options += [f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"]
    with log.open("w") as stderr:
        port, token, process = launch_gateway(
            jarpath=find_jar_path(),
            classpath=jars.classpath,
            javaopts=options,
            java_path=str(find_java().path),
            redirect_stderr=stderr,
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
    with process:
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        try:
            yield Java(jars.version, gateway.jvm, log)
        finally:
            gateway.shutdown()
            process.kill()


def _properties(jvm: Any, settings: Mapping[str, str], form: str) -> Any:
    """For keys and values that are bytes; `form` is Serializer or Deserializer."""
    properties = jvm.java.util.Properties()
    as_bytes = f"org.apache.kafka.common.serialization.ByteArray{form}"
    forms = dict.fromkeys((f"key.{form.lower()}", f"value.{form.lower()}"), as_bytes)
    for name, value in {**settings, **forms}.items():
        properties.setProperty(name, value)
    return properties


class _JavaWriter:
    def __init__(
        self, jvm: Any, topic: str, settings: Mapping[str, str], errors: list[str]
    ) -> None:
        clients = jvm.org.apache.kafka.clients.producer
        self._producer = clients.KafkaProducer(_properties(jvm, settings, "Serializer"))
        self._record, self._topic, self._errors = clients.ProducerRecord, topic, errors
        self._is_transactional = "transactional.id" in settings
        self._sent: list[Any] = []
        if self._is_transactional:
            self._producer.initTransactions()

    def send(self, values: Sequence[bytes]) -> None:
        if self._is_transactional:
            self._producer.beginTransaction()
        self._sent += [self._producer.send(self._record(self._topic, value)) for value in values]
        if self._is_transactional:
            self._producer.commitTransaction()

    def close(self) -> None:
        self._producer.close()
        for sent in self._sent:
            try:
                sent.get()
            except Py4JJavaError as error:
                self._errors.append(str(error.java_exception))


class _JavaReader:
    def __init__(self, jvm: Any, topic: str, settings: Mapping[str, str]) -> None:
        consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer
        self._consumer = consumer(_properties(jvm, settings, "Deserializer"))
        self._consumer.subscribe(jvm.java.util.Collections.singletonList(topic))
        self._moment = jvm.java.time.Duration.ofMillis(round(_POLL_S * 1000))

    def poll(self) -> list[bytes]:
        records = self._consumer.poll(self._moment)
        return [bytes(record.value()) for record in records.iterator()]

    def close(self) -> None:
        self._consumer.close()


# --- confluent-kafka ---


class Confluent(StockClient):
    """librdkafka, from Python."""

    name = "confluent-kafka"

    def writer(self, server: str, topic: str, codec: str) -> Writer:
        room = {"message.max.bytes": str(MOST_BYTES), "log_level": "0"}
        return _ConfluentWriter(topic, self.producing(server, codec) | room, self.errors)

    def reader(self, server: str, topic: str, group: str, member: int) -> Reader:
        room = {"fetch.message.max.bytes": str(MOST_BYTES), "log_level": "0"}
        return _ConfluentReader(topic, self.reading(server, f"{topic}-{group}") | room, self.errors)


class _ConfluentWriter:
    def __init__(self, topic: str, settings: Mapping[str, str], errors: list[str]) -> None:
        self._producer, self._topic, self._errors = Producer(settings), topic, errors

    def send(self, values: Sequence[bytes]) -> None:
        for value in values:
            self._producer.produce(self._topic, value, on_delivery=self._delivered)
        self._producer.poll(0)

    def close(self) -> None:
        if left := self._producer.flush(_PATIENCE_S):
            self._errors.append(f"{left} were not delivered")

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error:
            self._errors.append(error.str())


class _ConfluentReader:
    def __init__(self, topic: str, settings: Mapping[str, str], errors: list[str]) -> None:
        self._consumer, self._errors = Consumer(settings), errors
        self._consumer.subscribe([topic])

    def poll(self) -> list[bytes]:
        messages = self._consumer.consume(100, _POLL_S)
        self._errors += [error.str() for message in messages if (error := message.error())]
        return [message.value() for message in messages if not message.error()]

    def close(self) -> None:
        self._consumer.close()


# --- kafka-python ---


class KafkaPython(StockClient):
    """All in Python, with the codecs that it has libraries for here."""

    name = "kafka-python"

    def __init__(self) -> None:
        super().__init__()
        has_library = {"gzip": has_gzip, "snappy": has_snappy, "lz4": has_lz4, "zstd": has_zstd}
        self.codecs = ("none", *(codec for codec, has in has_library.items() if has()))

    def writer(self, server: str, topic: str, codec: str) -> Writer:
        producer = KafkaProducer(
            bootstrap_servers=server,
            client_id=f"{self.name}-{codec}",
            compression_type=None if codec == "none" else codec,
            enable_idempotence=True,
            max_in_flight_requests_per_connection=1,
            acks="all",
            max_request_size=MOST_BYTES,
        )
        return _KafkaPythonWriter(topic, producer, self.errors)

    def reader(self, server: str, topic: str, group: str, member: int) -> Reader:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=server,
            client_id=f"{self.name}-reader",
            group_id=f"{topic}-{group}",
            auto_offset_reset="earliest",
            session_timeout_ms=30_000,
            max_partition_fetch_bytes=MOST_BYTES,
        )
        return _KafkaPythonReader(consumer)

    @contextmanager
    def listening(self) -> Iterator["KafkaPython"]:
        """What it logs as errors within the block is among its errors.

        But for a request of its own that it cancels as it closes: that depends on when it closes.
        And for what its group's coordinator tells it: a member that a busy machine lets expire
        joins again, and whether all was read is looked at.
        """

        def heard(record: logging.LogRecord) -> None:
            message = record.getMessage()
            if not (message.endswith("Cancelled") or record.name.startswith("kafka.coordinator")):
                self.errors.append(f"{record.name}: {message}")

        listener = logging.Handler(logging.ERROR)
        listener.emit = heard
        logging.getLogger("kafka").addHandler(listener)
        try:
            yield self
        finally:
            logging.getLogger("kafka").removeHandler(listener)


class _KafkaPythonWriter:
    def __init__(self, topic: str, producer: KafkaProducer, errors: list[str]) -> None:
        self._producer, self._topic, self._errors = producer, topic, errors
        self._sent: list[Any] = []

    def send(self, values: Sequence[bytes]) -> None:
        self._sent += [self._producer.send(self._topic, value) for value in values]

    def close(self) -> None:
        self._producer.close(timeout=_PATIENCE_S)
        failed = (sent.exception for sent in self._sent if not sent.succeeded())
        self._errors += [f"{type(error).__name__}: {error}" for error in failed]


class _KafkaPythonReader:
    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer

    def poll(self) -> list[bytes]:
        came = self._consumer.poll(timeout_ms=round(_POLL_S * 1000))
        return [record.value for records in came.values() for record in records]

    def close(self) -> None:
        self._consumer.close()
