"""What a client under test is given to do, and what comes of it by its own account."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from kipctl.documents.common import Latency
from kipctl.transport.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerLoad:
    """`num_records` records of `record_size` bytes, `throughput` of them a second, to a topic of so
    many partitions.

    `throughput` is a whole number, as in Java's tool before Kafka 3.7; 0 or less is full speed.
    `properties` have the names that Java's producer gives them. With `transaction_ms` above 0 a
    transaction is committed as soon as it is so old; `transactional.id` may be among the
    properties. kipctl's own leaves the first `warmup_records` out of its latencies.
    """

    topic: str
    num_records: int
    throughput: int
    record_size: int
    partitions: int = 1
    properties: Mapping[str, str] = field(default_factory=dict)
    transaction_ms: int = 0
    warmup_records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerLoad:
    """Read `num_records` records as a member of `group`, from the beginning unless `properties`
    (named as Java's consumer names them) say otherwise; give up `timeout_s` seconds after the last,
    or after the start, joining the group included, if none comes.
    """

    topic: str
    num_records: int
    group: str
    properties: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """What a producer says it did.

    `software` is the name by which it introduces itself to brokers. `failed` counts the records
    that were not acknowledged; it and `records` are None where nobody says. `error` is the client's
    own message for the first that failed, else "". `seconds` is from its start to its last
    acknowledgement. `latency_ms` has "avg", "max", "p50", "p95", "p99" and "p99.9": Java's tool
    counts from the call of `send`, the driver of librdkafka from the intended time. `cpu_s` is of
    its whole process. Of one that was stopped only what it had told by then is known.
    """

    software: str
    version: str
    records: int | None
    failed: int | None
    seconds: float
    latency_ms: Mapping[str, float] | Latency
    cpu_s: float | None
    lines: tuple[str, ...] = ()
    error: str = ""
    stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed:
    """What a consumer says it read. `records` and `bytes` are None if it had no time to say so.

    `error` is what kept it from reading all that was asked for, else "".
    """

    software: str
    version: str
    records: int | None
    bytes: int | None
    seconds: float
    cpu_s: float
    lines: tuple[str, ...] = ()
    error: str = ""
    stopped: bool = False


Result_co = TypeVar("Result_co", covariant=True)


class RunningClient(Protocol[Result_co]):
    """A client at work, in a process of its own."""

    @property
    def start_us(self) -> int:
        """When it was ready to send or to read, in microseconds of the monotonic clock."""

    def is_done_by(self, time_us: int) -> bool:
        """Whether it is done; waits for it until a moment of the monotonic clock."""

    def stop(self) -> None:
        """Ask it to end early."""

    def outcome(self) -> Result_co:
        """Wait until it is done. Raises KipctlError with the client's own words if it failed."""


class Client(Protocol):
    """A client that can be put under test. In both cases the process is gone after the block."""

    @property
    def version(self) -> str:
        """The client library's."""

    def producer(
        self, load: ProducerLoad, access: Access
    ) -> AbstractContextManager[RunningClient[Produced]]:
        """A producer that has started. Raises KipctlError when it does not start."""

    def consumer(
        self, load: ConsumerLoad, access: Access
    ) -> AbstractContextManager[RunningClient[Consumed]]:
        """A consumer that has started. Raises KipctlError when it does not start."""
