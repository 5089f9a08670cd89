"""Clients that produce to many topics in turn, to be watched from outside (KIP-526)."""

from collections.abc import Sequence
from typing import Protocol

from confluent_kafka import libversion

from kipctl import __version__
from kipctl.probe.idle_eviction import TopicPolicy
from kipctl.probe.produce.config import ProducerConfig
from kipctl.protocol.produce_frames import Topic
from kipctl.runs.metadata.librdkafka import PacedProducer
from kipctl.runs.metadata.phases import PhaseLoad
from kipctl.runs.metadata.probe import ProbeClient
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

CLIENT_ID = "kipctl-experiment"
_ADMIN_TIMEOUT_S = 30.0


class Sender(Protocol):
    """A producer of many topics."""

    @property
    def software(self) -> str:
        """Its name and version."""

    def send(self, load: PhaseLoad) -> int:
        """Send the phase's records on time; returns how many failed, once all are settled."""

    def close(self) -> None:
        """Give up its connections."""


class ProbeSender:
    """kipctl's own producer under a policy."""

    software = f"kipctl {__version__}"

    def __init__(
        self,
        access: Access,
        config: ProducerConfig,
        policy: TopicPolicy,
        topics: Sequence[Topic],
        partitions: int,
        record_size: int,
    ) -> None:
        """Where to start it is told by the server itself, so that it stays behind a tap."""
        with Cluster(access, "kipctl", _ADMIN_TIMEOUT_S) as cluster:
            self._client = ProbeClient(config, policy, topics, partitions, record_size, cluster)

    def send(self, load: PhaseLoad) -> int:
        """See Sender."""
        return self._client.run(load).failed

    def close(self) -> None:
        self._client.close()


class LibrdkafkaSender(PacedProducer):
    """librdkafka through confluent-kafka. Its refresh interval is what is `max_age_ms` to others.

    It forgets no topic: there is nothing to set for `max_idle_ms`.
    """

    software = f"librdkafka {libversion()[0]}"

    def __init__(
        self, access: Access, names: Sequence[str], record_size: int, max_age_ms: int | None
    ) -> None:
        renewal = {} if max_age_ms is None else {"topic.metadata.refresh.interval.ms": max_age_ms}
        settings = {"client.id": CLIENT_ID, "acks": "1", "linger.ms": 0, "log_level": 0}
        super().__init__({**access.librdkafka(), **settings, **renewal}, names, record_size)

    def send(self, load: PhaseLoad) -> int:
        """See Sender."""
        return self.sent(load).errors.total()
