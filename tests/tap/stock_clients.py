"""Other people's producers and consumers, all behind the same few methods."""

import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer
from py4j.protocol import Py4JJavaError

from kipctl.lab.jars import KafkaJars
from kipctl.lab.java import find_java
from kipctl.load.clients.java import JavaClient

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


class Writer(NamedTuple):
    """An idempotent producer."""

    send: Callable[[Sequence[bytes]], None]
    """Hands them over; what becomes of them is known when it is closed."""
    close: Callable[[], None]
    """Waits until all are delivered. What was not is among the client's errors."""


class Reader(NamedTuple):
    """A member of a group, which reads from the beginning."""

    poll: Callable[[], list[bytes]]
    """What has come after a moment."""
    close: Callable[[], None]


class StockClient:
    """A library. It writes to the topic of its name, with which its client ids begin."""

    name: str
    codecs: Sequence[str] = CODECS
    groups: Sequence[str] = ("classic",)

    def __init__(self) -> None:
        self.errors: list[str] = []

    def writer(self, server: str, codec: str) -> Writer:
        raise NotImplementedError

    def reader(self, server: str, group: str, member: int) -> Reader:
        raise NotImplementedError

    def take_errors(self) -> list[str]:
        """In its own words, since they were taken last."""
        taken, self.errors = self.errors, []
        return taken

    def producing(self, server: str, codec: str) -> dict[str, str]:
        """What Java's producer and librdkafka's call alike."""
        return {
            "bootstrap.servers": server,
            "client.id": f"{self.name}-{codec}",
            "compression.type": codec,
            "enable.idempotence": "true",
            IN_FLIGHT: "1",
        }

    def reading(self, server: str, group: str) -> dict[str, str]:
        """What their consumers call alike."""
        return {
            "bootstrap.servers": server,
            "client.id": f"{self.name}-reader",
            "group.id": f"{self.name}-{group}",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": "30000",
        }


# --- Java's classes, called through Py4J ---


class Java(StockClient):
    """The KafkaProducer and KafkaConsumer of one version, in a JVM."""

    codecs = (*CODECS, TRANSACTIONS)

    def __init__(self, version: str, jvm: Any, new_log: Callable[[], str]) -> None:
        super().__init__()
        self.name = f"java-{version}"
        self.groups = ("classic", "consumer") if version.startswith("4.") else ("classic",)
        self._jvm, self._new_log = jvm, new_log

    def writer(self, server: str, codec: str) -> Writer:
        settings = self.producing(server, codec)
        if codec == TRANSACTIONS:
            settings |= {"transactional.id": self.name, "compression.type": "lz4"}
        room = {"max.request.size": str(MOST_BYTES), "buffer.memory": str(64 * 1024 * 1024)}
        clients = self._jvm.org.apache.kafka.clients.producer
        producer = clients.KafkaProducer(self._properties(settings | room, "Serializer"))
        sent: list[Any] = []

        def send(values: Sequence[bytes]) -> None:
            if codec == TRANSACTIONS:
                producer.beginTransaction()
            sent.extend(producer.send(clients.ProducerRecord(self.name, value)) for value in values)
            if codec == TRANSACTIONS:
                producer.commitTransaction()

        def close() -> None:
            producer.close()
            for record in sent:
                try:
                    record.get()
                except Py4JJavaError as error:
                    self.errors.append(str(error.java_exception))

        if codec == TRANSACTIONS:
            producer.initTransactions()
        return Writer(send, close)

    def reader(self, server: str, group: str, member: int) -> Reader:
        settings = self.reading(server, group)
        if group == "consumer":  # its session is the brokers' to set
            del settings["session.timeout.ms"]
            settings["group.protocol"] = group
        # No transaction here is aborted: both kinds of members read the same.
        settings["isolation.level"] = "read_committed" if member else "read_uncommitted"
        java, clients = self._jvm.java, self._jvm.org.apache.kafka.clients.consumer
        consumer = clients.KafkaConsumer(self._properties(settings, "Deserializer"))
        consumer.subscribe(java.util.Collections.singletonList(self.name))
        moment = java.time.Duration.ofMillis(round(_POLL_S * 1000))

        def poll() -> list[bytes]:
            return [bytes(record.value()) for record in consumer.poll(moment).iterator()]

        return Reader(poll, consumer.close)

    def take_errors(self) -> list[str]:
        complaints = filter(_COMPLAINT.search, self._new_log().splitlines())
        return super().take_errors() + list(complaints)

    def _properties(self, settings: Mapping[str, str], form: str) -> Any:
        """For keys and values that are bytes; `form` is Serializer or Deserializer."""
        properties = self._jvm.java.util.Properties()
        as_bytes = f"org.apache.kafka.common.serialization.ByteArray{form}"
        forms = dict.fromkeys((f"key.{form.lower()}", f"value.{form.lower()}"), as_bytes)
        for name, value in {**settings, **forms}.items():
            properties.setProperty(name, value)
        return properties


@contextmanager
def java(jars: KafkaJars) -> Iterator[Java]:
    """A JVM with these jars. It is gone after the block."""
    client = JavaClient(jars.version, find_java().path, jars.paths, heap_mb=512)
    with client.gateway() as (gateway, child):
        yield Java(jars.version, gateway.jvm, child.new_stderr)


# --- confluent-kafka ---


class Confluent(StockClient):
    """librdkafka, from Python."""

    name = "confluent-kafka"

    def writer(self, server: str, codec: str) -> Writer:
        room = {"message.max.bytes": str(MOST_BYTES), "log_level": "0"}
        producer = Producer(self.producing(server, codec) | room)

        def delivered(error: KafkaError | None, _: object) -> None:
            if error:
                self.errors.append(error.str())

        def send(values: Sequence[bytes]) -> None:
            for value in values:
                producer.produce(self.name, value, on_delivery=delivered)
            producer.poll(0)

        def close() -> None:
            if left := producer.flush(_PATIENCE_S):
                self.errors.append(f"{left} were not delivered")

        return Writer(send, close)

    def reader(self, server: str, group: str, member: int) -> Reader:
        room = {"fetch.message.max.bytes": str(MOST_BYTES), "log_level": "0"}
        consumer = Consumer(self.reading(server, group) | room)
        consumer.subscribe([self.name])

        def poll() -> list[bytes]:
            messages = consumer.consume(100, _POLL_S)
            self.errors += [error.str() for message in messages if (error := message.error())]
            return [message.value() for message in messages if not message.error()]

        return Reader(poll, consumer.close)


# --- kafka-python ---


class KafkaPython(StockClient):
    """All in Python, with the codecs that it has libraries for here."""

    name = "kafka-python"

    def __init__(self) -> None:
        super().__init__()
        has_library = {"gzip": has_gzip, "snappy": has_snappy, "lz4": has_lz4, "zstd": has_zstd}
        self.codecs = ("none", *(codec for codec, has in has_library.items() if has()))

    def writer(self, server: str, codec: str) -> Writer:
        producer = KafkaProducer(
            bootstrap_servers=server,
            client_id=f"{self.name}-{codec}",
            compression_type=None if codec == "none" else codec,
            enable_idempotence=True,
            max_in_flight_requests_per_connection=1,
            acks="all",
            max_request_size=MOST_BYTES,
        )
        sent: list[Any] = []

        def send(values: Sequence[bytes]) -> None:
            sent.extend(producer.send(self.name, value) for value in values)

        def close() -> None:
            producer.close(timeout=_PATIENCE_S)
            failed = (record.exception for record in sent if not record.succeeded())
            self.errors += [f"{type(error).__name__}: {error}" for error in failed]

        return Writer(send, close)

    def reader(self, server: str, group: str, member: int) -> Reader:
        consumer = KafkaConsumer(
            self.name,
            bootstrap_servers=server,
            client_id=f"{self.name}-reader",
            group_id=f"{self.name}-{group}",
            auto_offset_reset="earliest",
            session_timeout_ms=30_000,
            max_partition_fetch_bytes=MOST_BYTES,
        )

        def poll() -> list[bytes]:
            came = consumer.poll(timeout_ms=round(_POLL_S * 1000))
            return [record.value for records in came.values() for record in records]

        return Reader(poll, consumer.close)

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
