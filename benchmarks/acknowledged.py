"""An acks=all load by librdkafka, and whether each acknowledged record is in the log once.

The reading is independent of kipctl: every partition from where it ended before to its end.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

DELIVERY_TIMEOUT_MS = 120_000
SETTLES_S = 60.0
_SHOWN = 3


@dataclass(slots=True)
class Load:
    """What became of the records: how often each value was acknowledged, and why some were not."""

    acknowledged: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def missing(self, counts: Mapping[str, int]) -> str:
        """What is not in the log exactly once of what was acknowledged; "" for nothing."""
        lost = [value for value in self.acknowledged if not counts.get(value)]
        twice = [value for value in self.acknowledged if counts.get(value, 0) > 1]
        parts = []
        if lost:
            parts.append(f"{len(lost)} acknowledged records are lost, such as {lost[:_SHOWN]}")
        if twice:
            parts.append(f"{len(twice)} are in the log twice, such as {twice[:_SHOWN]}")
        return "; ".join(parts)


@contextmanager
def load(
    bootstrap: str, topic: str, partitions: int, *, rate: float = 200.0, prefix: str = ""
) -> Iterator[Load]:
    """An idempotent producer of so many records a second while the block lasts.

    Values are the prefix and a number. After the block all is settled.
    """
    settled = Load()
    over = threading.Event()

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            settled.failed.append(str(error))
        else:
            settled.acknowledged[(message.value() or b"").decode()] += 1

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
            # With more, what follows a refused batch makes it begin a new epoch of its producer id,
            # and send again what another leader may have (librdkafka's issue 4953).
            "max.in.flight.requests.per.connection": 1,
            "log_level": 0,
        }
    )

    def produce() -> None:
        number = 0
        while not over.wait(1 / rate):
            value = f"{prefix}{number}"
            producer.produce(topic, value, partition=number % partitions, on_delivery=delivered)
            producer.poll(0)
            number += 1
        producer.flush()

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield settled
    finally:
        over.set()
        thread.join()


class Reader:
    """Reads a topic on from where it came to the last time."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "acknowledged",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
        self._topic = topic
        self._next = dict.fromkeys(range(partitions), 0)

    def to_the_end(self) -> Counter[str]:
        """How often each value was there."""
        counts: Counter[str] = Counter()
        consumer = Consumer(self._settings)
        consumer.assign([TopicPartition(self._topic, *position) for position in self._next.items()])
        left = set(self._next)
        while left:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if (error := message.error()) is None:
                counts[(message.value() or b"").decode(errors="replace")] += 1
                self._next[message.partition()] = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                raise RuntimeError(f"{self._topic} cannot be read: {error}")
        consumer.close()
        return counts


def check(settled: Load, reader: Reader) -> str:
    """What is wrong with the log; "" for nothing.

    A leader that is new may not show all of it yet: what seems lost is looked for again a while.
    """
    deadline = time.monotonic() + SETTLES_S
    counts: Counter[str] = Counter()
    while True:
        counts += reader.to_the_end()
        missing = settled.missing(counts)
        if not missing or time.monotonic() > deadline:
            return missing
        time.sleep(0.5)
