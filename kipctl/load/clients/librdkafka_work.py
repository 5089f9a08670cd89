"""librdkafka's producer and consumer at work: what the process of their own does."""

import os
import resource
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, libversion

from kipctl.counts import counted
from kipctl.errors import RefusedError, UnreachableError, UsageError
from kipctl.load.clients.client import Consumed, ConsumerLoad, Produced, ProducerLoad
from kipctl.load.clients.librdkafka_properties import consumer_properties, producer_properties
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access

SOFTWARE = "confluent-kafka-python"
"""By this name it introduces itself to brokers, with its own version and librdkafka's."""
_POLL_S = 0.001
"""It waits whole milliseconds."""
_CHECK_EVERY_US = 20_000
_STOP_TIMEOUT_S = 10.0
"""So long may records under way take when it is stopped."""
_INIT_TIMEOUT_S = 30.0
_CHUNK = 1 << 16
_UNREACHABLE_AFTER_S = 5.0

Started = Callable[[int], None]
ShouldStop = Callable[[], bool]


def version() -> str:
    """librdkafka's own."""
    return str(libversion()[0])


_PRODUCER = f"librdkafka's producer {version()}"


class _Errors:
    """What librdkafka says on its own account: the first lines of it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._unreachable_us = 0

    def note(self, error: KafkaError) -> None:
        """librdkafka calls this for errors that are no single record's."""
        if len(self.lines) < 20:
            self.lines.append(f"{error.name()}: {error.str()}")
        if error.code() == KafkaError._ALL_BROKERS_DOWN and not self._unreachable_us:
            self._unreachable_us = now_us()

    def log(self, level: int, message: str, *arguments: object) -> None:
        """librdkafka takes this object for a Logger; what it says is told here already."""

    def is_unreachable(self) -> bool:
        """No broker has been there for a while; to be asked while nothing has come through."""
        return bool(self._unreachable_us) and (
            now_us() - self._unreachable_us > _UNREACHABLE_AFTER_S * 1e6
        )

    def unreachable(self, who: str) -> UnreachableError:
        return UnreachableError(
            f"{who} reached no broker: {self.lines[0]}", "Check the bootstrap server."
        )


class _Deliveries:
    """Delivery reports, counted; latencies in microseconds from the intended time."""

    def __init__(self) -> None:
        self.latencies_us: array[int] = array("q")
        self.errors = Counter[str]()
        """How many records failed, by Kafka's names."""
        self.error = ""
        """Of the first."""
        self.last_us = 0

    @property
    def failed(self) -> int:
        return self.errors.total()

    def callback(self, late_us: int) -> Callable[[KafkaError | None, Message], None]:
        """For a record that was handed over so long after its time.

        librdkafka measures the rest itself, so that a busy Python is not taken for latency.
        """

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.latencies_us.append(late_us + round((message.latency() or 0) * 1e6))
                self.last_us = now_us()
            else:
                self.errors[error.name()] += 1
                self.error = self.error or f"{error.name()}: {error.str()}"

        return delivered


class PacedProducer:
    """librdkafka's producer, which is handed each record when it is due.

    `properties` are librdkafka's own. Raises UsageError for those that it refuses.
    """

    def __init__(self, properties: Mapping[str, Any], record_size: int) -> None:
        self.errors, self.deliveries = _Errors(), _Deliveries()
        self._values, self._size = os.urandom(record_size + _CHUNK), record_size
        self._is_transactional = "transactional.id" in properties
        try:
            self._producer = Producer(
                {**properties, "error_cb": self.errors.note}, logger=self.errors
            )
        except (KafkaException, ValueError) as error:
            raise UsageError(
                f"{_PRODUCER} did not start: {_reported(error)}", "Correct that property."
            ) from None

    def begin_transactions(self) -> None:
        """Once, before anything is sent. Raises KafkaException."""
        if self._is_transactional:
            self._producer.init_transactions(_INIT_TIMEOUT_S)

    @property
    def is_unreachable(self) -> bool:
        """Nothing was ever acknowledged, and no broker has been there for a while."""
        return not self.deliveries.latencies_us and self.errors.is_unreachable()

    def send(
        self,
        topics: Sequence[str],
        records: int,
        rate: float,
        start_us: int,
        should_stop: ShouldStop = lambda: False,
        transaction_us: int = 0,
    ) -> bool:
        """Hand so many records over, to the topics in turn, `rate` of them a second (0 or less: at
        full speed), and wait until all are settled; True if it was stopped.

        A transaction is committed when it is `transaction_us` old. Raises KafkaException.
        """
        producer, transaction_us = self._producer, transaction_us * self._is_transactional
        began_us = checked_us = 0
        stopped = False
        for number in range(records):
            due_us = start_us if rate <= 0 else start_us + int(number * 10**6 / rate)
            while True:
                now = now_us()
                if now - checked_us > _CHECK_EVERY_US:
                    checked_us = now
                    if should_stop() or self.is_unreachable:
                        stopped = True
                        break
                if now >= due_us:
                    break
                producer.poll(_POLL_S)
            if stopped:
                break
            if transaction_us and not began_us:
                producer.begin_transaction()
                began_us = now
            at = number % _CHUNK
            value = self._values[at : at + self._size]
            self._hand_over(topics[number % len(topics)], value, due_us if rate > 0 else None)
            producer.poll(0)
            if transaction_us and now - began_us >= transaction_us:
                producer.commit_transaction()
                began_us = 0
        if began_us:
            producer.commit_transaction()
        return self._settle(should_stop, stopped)

    def _hand_over(self, topic: str, value: bytes, due_us: int | None) -> None:
        while True:
            delivered = self.deliveries.callback(0 if due_us is None else now_us() - due_us)
            try:
                return self._producer.produce(topic, value, on_delivery=delivered)
            except BufferError:
                self._producer.poll(_POLL_S)

    def _settle(self, should_stop: ShouldStop, stopped: bool) -> bool:
        """Wait for the records under way; for a while only when it is stopped."""
        producer = self._producer
        deadline_us = now_us() + round(_STOP_TIMEOUT_S * 1e6) if stopped else None
        while len(producer):
            if self.is_unreachable:
                producer.purge()
                return False
            if deadline_us is None and should_stop():
                deadline_us = now_us() + round(_STOP_TIMEOUT_S * 1e6)
            if deadline_us is not None and now_us() > deadline_us:
                producer.purge()
            producer.flush(0.05)
        return deadline_us is not None


def produce(
    load: ProducerLoad, access: Access, started: Started, should_stop: ShouldStop
) -> Produced:
    """Send the load's records on their schedule. Raises KipctlError."""
    producer = PacedProducer(producer_properties(load.properties, access), load.record_size)
    errors, deliveries = producer.errors, producer.deliveries
    try:
        producer.begin_transactions()
        start_us = now_us()
        started(start_us)
        stopped = producer.send(
            (load.topic,),
            load.num_records,
            load.throughput,
            start_us,
            should_stop,
            1000 * load.transaction_ms,
        )
    except KafkaException as error:
        raise RefusedError(f"{_PRODUCER} failed: {_reported(error)}") from None
    records = len(deliveries.latencies_us)
    if not records and errors.lines and not deliveries.failed and not stopped:
        raise errors.unreachable(_PRODUCER)
    failed = load.num_records - records if not stopped else deliveries.failed
    if not records and failed:
        raise RefusedError(
            f"{_PRODUCER}: all {counted(failed, 'record')} failed: {deliveries.error}"
        )
    return Produced(
        software=SOFTWARE,
        version=version(),
        records=records,
        failed=failed,
        seconds=(deliveries.last_us - start_us) / 1e6 if records else 0.0,
        latency_ms=latency_ms(deliveries.latencies_us),
        cpu_s=_cpu_s(),
        lines=tuple(errors.lines),
        error=deliveries.error,
        stopped=stopped,
    )


def consume(
    load: ConsumerLoad, access: Access, started: Started, should_stop: ShouldStop
) -> Consumed:
    """Read the load's records. Raises KipctlError."""
    errors = _Errors()
    who = f"librdkafka's consumer {version()}"
    properties = consumer_properties(load.properties, load.group, access)
    try:
        consumer = Consumer({**properties, "error_cb": errors.note}, logger=errors)
    except (KafkaException, ValueError) as error:
        raise UsageError(
            f"{who} did not start: {_reported(error)}", "Correct that property."
        ) from None
    records = size = 0
    failed, stopped = "", False
    start_us = last_us = now_us()
    try:
        consumer.subscribe([load.topic])
        started(start_us)
        while records < load.num_records and not (stopped := should_stop()):
            if not records and errors.is_unreachable():
                raise errors.unreachable(who)
            for message in consumer.consume(500, _CHECK_EVERY_US / 1e6):
                if (refused := message.error()) is None:
                    records += 1
                    size += len(message.value() or b"") + len(message.key() or b"")
                    last_us = now_us()
                else:
                    failed = failed or f"{refused.name()}: {refused.str()}"
            if now_us() - last_us > load.timeout_s * 1e6:
                failed = failed or f"nothing new came for {load.timeout_s:g} s"
                break
    except KafkaException as error:
        raise RefusedError(f"{who} failed: {_reported(error)}") from None
    finally:
        consumer.close()
    return Consumed(
        software=SOFTWARE,
        version=version(),
        records=records,
        bytes=size,
        seconds=(last_us - start_us) / 1e6,
        cpu_s=_cpu_s(),
        lines=tuple(errors.lines),
        error=failed,
        stopped=stopped,
    )


def latency_ms(latencies_us: "array[int]") -> dict[str, float]:
    """The names and the rank that Java's tool has: the value at index `share * count`."""
    count = len(latencies_us)
    if not count:
        return {}
    ordered = np.sort(np.frombuffer(latencies_us, dtype=np.int64)) / 1000
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
    return {
        "avg": round(float(ordered.mean()), 3),
        "max": float(ordered[-1]),
        **{name: float(ordered[int(share * count)]) for name, share in shares.items()},
    }


def _reported(error: BaseException) -> str:
    """librdkafka's own words, without Python's around them."""
    inner = error.args[0] if error.args else error
    return str(inner.str() if isinstance(inner, KafkaError) else inner)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
