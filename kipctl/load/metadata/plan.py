"""What `perf metadata` is asked to do."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from kipctl.cluster.metrics_url import require_url
from kipctl.errors import UsageError
from kipctl.own_topic_names import OWN_MANY, new_name
from kipctl.probe.idle_eviction import TopicPolicy
from kipctl.probe.produce.config import ProducerConfig

if TYPE_CHECKING:  # the commands know the phases without it, and begin sooner
    from kipctl.transport.access import Access

OWN_TOPICS = new_name(OWN_MANY)
"""Of this process; their numbers come behind it."""
POLICIES = (TopicPolicy.KIP526, TopicPolicy.LEGACY)
"""Those that are measured unless others are asked for."""


class ClientKind(StrEnum):
    """Whose Metadata requests are looked at."""

    PROBE = "probe"
    LIBRDKAFKA = "librdkafka"


class Phase(StrEnum):
    """What is done, one after the other, by one client."""

    STARTUP = "startup"
    """Each topic gets its first record."""
    STEADY = "steady"
    """All topics get records in turn, Metadata is renewed every 2 s."""
    LEADER_CHANGES = "leader-changes"
    """The same, without renewal, while leaders of some topics are moved."""
    IDLE_RETURN = "idle-return"
    """A tenth of the topics gets records until the others are idle; then those come back."""


@dataclass(frozen=True, slots=True)
class MetadataPlan:
    """A run: its topics, each with so many `partitions`, and what clients do to them.

    `throughput` is in records per second, `seconds` the length of a phase. Metrics are those of the
    brokers (JMX exporter); the run must be the only one that asks for Metadata then.
    """

    access: "Access"
    topics: int = 1000
    partitions: int = 3
    throughput: float = 500
    record_size: int = 100
    seconds: float = 6
    phases: tuple[Phase, ...] = tuple(Phase)
    clients: tuple[ClientKind, ...] = (ClientKind.PROBE,)
    policies: tuple[TopicPolicy, ...] = POLICIES
    config: ProducerConfig = field(default_factory=ProducerConfig)
    metrics_urls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises UsageError for numbers that make no sense, for what is no URL, and for a login
        that librdkafka cannot make where it is to."""
        if ClientKind.LIBRDKAFKA in self.clients:
            self.access.librdkafka()
        for name, value, least in (
            ("--topics", self.topics, 2),
            ("--partitions", self.partitions, 1),
            ("--record-size", self.record_size, 1),
        ):
            if value < least:
                raise UsageError(f"{name} is {value}; it must be at least {least}.")
        if not self.throughput > 0 or not self.seconds > 0:
            raise UsageError("--throughput and --for must be above 0.")
        for url in self.metrics_urls:
            require_url(url)

    @property
    def names(self) -> tuple[str, ...]:
        """The run's own topics."""
        digits = max(4, len(str(self.topics)))
        return tuple(f"{OWN_TOPICS}-{n:0{digits}}" for n in range(1, self.topics + 1))

    @property
    def arms(self) -> tuple[tuple[ClientKind, TopicPolicy | None], ...]:
        """Each client, and the policy where it can be chosen."""
        return tuple(
            (client, policy)
            for client in self.clients
            for policy in (self.policies if client is ClientKind.PROBE else (None,))
        )
