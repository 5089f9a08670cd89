"""librdkafka's producer as a client of `perf metadata`.

What it asks for is in its own words: with `debug` metadata and protocol it logs each request, its
reason, how many topics it is for, and the bytes of it and of its answer. Its statistics would count
the requests alone, and not those over connections to bootstrap servers, which it gives up.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, Message, Producer, libversion

from kipctl.errors import RefusedError
from kipctl.probe.produce.config import ProducerConfig, producer_properties
from kipctl.runs.metadata.phases import RENEWED_MS, PhaseLoad, PhaseResult, Rpc
from kipctl.trace.clock import now_us
from kipctl.trace.codes import MetadataCause
from kipctl.transport.access import Access

_LENGTH_AND_CORRELATION_ID = 8
"""Bytes of a response that its log does not count."""
_SETTLED_S = 10.0
_QUIET_S = 0.2
_LEAST_POLL_US = 1_000
"""It waits whole milliseconds."""
_SAME_NAME = ("acks", "client.id", "compression.type", "linger.ms")
_QUERIES = ("partition leader query", "leader query", "refresh unavailable topics")
_SENT_AGAIN = "sent again"
"""kipctl's own word: a request that fails on the way is sent once more without a line before it."""
_CAUSES = {
    "connected": MetadataCause.START,
    "bootstrap servers added": MetadataCause.START,
    "periodic topic and broker list refresh": MetadataCause.MAX_AGE,
    "periodic broker list refresh": MetadataCause.MAX_AGE,
    "broker down": MetadataCause.ERROR_RETRY,
    _SENT_AGAIN: MetadataCause.ERROR_RETRY,
}
"""Reasons by librdkafka's words (rd_kafka_metadata_refresh_* of 2.16)."""
_WANTED = re.compile(r"(\S+): Request metadata for (?:(\d+) topic\(s\)|(\S+) \S+): (.+)")
_SKIPPED = re.compile(r"(\S+): Skipping metadata request: (.+): full request already in-transit")
_SENT = re.compile(r"(\S+): Sent MetadataRequest \(v\d+, (\d+) bytes @ \d+, CorrId (\d+)\)")
_RECEIVED = re.compile(
    r"(\S+): Received MetadataResponse \(v\d+, (\d+) bytes, CorrId (\d+), rtt ([\d.]+)ms\)"
)
_TAKEN = re.compile(r"(\S+): =+ Received metadata\b")
_TOPIC = re.compile(r"(\S+):   Topic (\S+) with \d+ partitions")


@dataclass(slots=True)
class _Request:
    """A request as the log tells of it, line by line."""

    reason: str
    topics: int | None
    bytes: int
    known: int
    """How many topics answers had shown when it was sent."""
    response_bytes: int | None = None
    us: int | None = None
    names: list[str] = field(default_factory=list)
    """The topics that the answer shows."""


class RequestLines:
    """Reads the lines that librdkafka logs about Metadata requests."""

    def __init__(self) -> None:
        self._wanted: dict[str, list[tuple[str, int | None]]] = {}
        self._in_flight: dict[tuple[str, str], _Request] = {}
        self._answered: dict[str, list[_Request]] = {}
        self._taken: _Request | None = None
        self._shown: dict[str, int] = {}
        """Each topic's number, in the order in which answers first showed them."""
        self._reported = 0
        self.requests: list[_Request] = []
        self.lines = 0
        """How many were read."""

    def read(self, line: str) -> None:
        """Take one line: `[thrd:NAME]: BROKER: ...`. Others are passed over."""
        self.lines += 1
        text = line.split("]: ", 1)[-1]
        if found := _TOPIC.match(text):
            if self._taken:
                self._taken.names.append(found[2])
                self._shown.setdefault(found[2], len(self._shown))
        elif found := _WANTED.match(text):
            asked = int(found[2]) if found[2] else (0 if found[3] == "brokers" else None)
            self._wanted.setdefault(_address(found[1]), []).append((found[4], asked))
        elif found := _SKIPPED.match(text):
            wanted = self._wanted.get(_address(found[1]), [])
            for place in reversed(range(len(wanted))):
                if wanted[place][0] == found[2]:
                    del wanted[place]
                    break
        elif found := _SENT.match(text):
            address = _address(found[1])
            wanted = self._wanted.get(address, [])
            reason, asked = wanted.pop(0) if wanted else (_SENT_AGAIN, None)
            request = _Request(reason, asked, int(found[2]), len(self._shown))
            self._in_flight[address, found[3]] = request
            self.requests.append(request)
        elif found := _RECEIVED.match(text):
            answered = self._in_flight.pop((_address(found[1]), found[3]), None)
            if answered:
                answered.response_bytes = int(found[2]) + _LENGTH_AND_CORRELATION_ID
                answered.us = round(float(found[4]) * 1000)
                self._answered.setdefault(_address(found[1]), []).append(answered)
        elif found := _TAKEN.match(text):
            waiting = self._answered.get(_address(found[1]))
            self._taken = waiting.pop(0) if waiting else None

    @property
    def is_waiting(self) -> bool:
        """A request has no answer yet."""
        return bool(self._in_flight)

    def new_rpcs(self) -> list[Rpc]:
        """The requests since the last call, with their causes.

        A leader is asked for where a topic is new and where it moved, in the same words: it was for
        a new topic if the answer shows one that none had shown when it was asked for.
        """
        rpcs = []
        for request in self.requests[self._reported :]:
            cause = _CAUSES.get(request.reason)
            if request.reason in _QUERIES:
                is_new = any(self._shown[name] >= request.known for name in request.names)
                cause = MetadataCause.NEW_TOPIC if is_new else MetadataCause.LEADER_CHANGE
            rpcs.append(
                Rpc(
                    None if cause is None else cause.name.lower(),
                    request.topics,
                    request.bytes,
                    request.response_bytes,
                    request.us,
                )
            )
        self._reported = len(self.requests)
        return rpcs


def _address(broker: str) -> str:
    """A broker is HOST:PORT/bootstrap first, and HOST:PORT/ID once its id is known."""
    return broker.split("/", 1)[0]


class _Log:
    """What librdkafka takes for a Logger; Python's own costs more than what is measured here."""

    def __init__(self, read: Callable[[str], None]) -> None:
        self._read = read

    def log(self, level: int, message: str, *arguments: object) -> None:
        """Called with the facility, the client's name and the text."""
        self._read(str(arguments[-1]))


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of records: latencies of those acknowledged, in microseconds from when they were
    due, and how many failed, by Kafka's names."""

    latencies_us: list[int] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)


class PacedProducer:
    """A producer of confluent-kafka with these settings, that sends records when they are due."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        names: Sequence[str],
        record_size: int,
        log: Callable[[str], None] | None = None,
    ) -> None:
        """`log` gets the lines that `debug` in the settings asks for."""
        self._names = names
        self._value = b"x" * record_size
        self._producer = Producer(dict(settings), **({"logger": _Log(log)} if log else {}))

    def sent(self, load: PhaseLoad) -> Delivered:
        """Produce the phase's records in turn, and wait until all are settled."""
        delivered = Delivered()
        for segment in load.segments:
            start_us = now_us()
            for k in range(segment.records):
                due_us = start_us + round(k * 1e6 / segment.rate)
                while (left_us := due_us - now_us()) > 0:
                    self._producer.poll(max(left_us, _LEAST_POLL_US) / 1e6)
                topic = self._names[segment.topics[k % len(segment.topics)]]
                self._produce(topic, due_us, delivered)
                self._producer.poll(0)
            self._producer.flush()
        return delivered

    def close(self) -> None:
        """What is left of it ends with the object."""
        self._producer.flush()

    def _produce(self, topic: str, due_us: int, delivered: Delivered) -> None:
        late_us = now_us() - due_us

        def settled(error: KafkaError | None, message: Message) -> None:
            if error:
                delivered.errors[error.name()] += 1
            else:
                latency_us = round((message.latency() or 0) * 1e6)
                delivered.latencies_us.append(late_us + latency_us)

        while True:
            try:
                self._producer.produce(topic, self._value, on_delivery=settled)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return


class Librdkafka(PacedProducer):
    """One producer for all phases. It renews Metadata every 2 s in all of them."""

    version = libversion()[0]

    def __init__(
        self, access: Access, config: ProducerConfig, names: Sequence[str], record_size: int
    ) -> None:
        self._lines = RequestLines()
        shared = producer_properties(config)
        super().__init__(
            {
                **access.librdkafka(),
                **{name: shared[name] for name in _SAME_NAME},
                "debug": "metadata,protocol",
                "topic.metadata.refresh.interval.ms": RENEWED_MS,
                "metadata.max.age.ms": config.metadata_max_age_ms,
            },
            names,
            record_size,
            self._lines.read,
        )

    def run(self, load: PhaseLoad) -> PhaseResult:
        """Produce the phase's records in turn; librdkafka waits for nothing meanwhile.

        Raises RefusedError when its log is not as expected.
        """
        began_us = now_us()
        delivered = self.sent(load)
        seconds = (now_us() - began_us) / 1e6
        return PhaseResult(
            sum(segment.records for segment in load.segments),
            delivered.errors.total(),
            seconds,
            delivered.latencies_us,
            None,
            self._settled_rpcs(),
            delivered.errors,
        )

    def _settled_rpcs(self) -> list[Rpc]:
        """The requests since the last time, once all are answered and the log says no more.

        Its lines wait in a queue that polling empties, many seconds of them on a busy machine.
        """
        deadline = time.monotonic() + _SETTLED_S
        quiet_since, reported = time.monotonic(), self._lines.lines
        while (now := time.monotonic()) < deadline:
            self._producer.poll(0.05)
            if self._lines.lines != reported:
                quiet_since, reported = now, self._lines.lines
            elif not self._lines.is_waiting and now - quiet_since > _QUIET_S:
                break
        if not self._lines.requests:
            raise RefusedError(
                f"librdkafka {self.version} does not log its Metadata requests as kipctl knows it.",
                "Install another confluent-kafka, or leave --client librdkafka out.",
            )
        return self._lines.new_rpcs()
