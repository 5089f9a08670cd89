"""librdkafka's producer of many topics."""

from collections import Counter
from collections.abc import Mapping, Sequence

from kipctl.load.clients.librdkafka_work import PacedProducer, version
from kipctl.load.metadata.phases import PhaseLoad
from kipctl.probe.produce.config import ProducerConfig, producer_properties
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access

_SAME_NAME = ("acks", "client.id", "compression.type", "linger.ms")


class LibrdkafkaSender:
    """librdkafka through confluent-kafka. Its refresh interval is what is `max_age_ms` to others.

    It forgets no topic: there is nothing to set for `max_idle_ms`.
    """

    version = version()
    software = f"librdkafka {version}"

    def __init__(
        self,
        access: Access,
        config: ProducerConfig,
        names: Sequence[str],
        record_size: int,
        max_age_ms: int | None,
    ) -> None:
        shared = producer_properties(config)
        renewal = {} if max_age_ms is None else {"topic.metadata.refresh.interval.ms": max_age_ms}
        settings = {name: shared[name] for name in _SAME_NAME} | renewal | {"log_level": 0}
        self._names = names
        self._producer = PacedProducer({**access.librdkafka(), **settings}, record_size)

    def send(self, load: PhaseLoad) -> Mapping[str, int]:
        """See Sender."""
        before = Counter(self._producer.deliveries.errors)
        for segment in load.segments:
            topics = [self._names[number] for number in segment.topics]
            self._producer.send(topics, segment.records, segment.rate, now_us())
        return self._producer.deliveries.errors - before

    def close(self) -> None:
        """It ends with the object."""
