"""Java's KafkaProducer itself, of any version, told from here what to send to which topic.

Kafka's tools produce to one topic. What the class is told to send it sends as it always does.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from kipctl.errors import RefusedError
from kipctl.load.clients.java_command import system_properties
from kipctl.load.metadata.phases import PhaseLoad
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access

_SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer"
_ERRORS = "record-error-total"


class JavaSender:
    """A KafkaProducer in a JVM of `JavaClient.gateway`."""

    def __init__(
        self,
        gateway: JavaGateway,
        version: str,
        access: Access,
        names: Sequence[str],
        record_size: int,
        settings: Mapping[str, str],
    ) -> None:
        """`settings` are properties of its own. Raises RefusedError when it refuses them, and what
        `Access.java` raises."""
        self.software = f"apache-kafka-java {version}"
        self._names = names
        self._jvm: Any = gateway.jvm
        for name, value in system_properties(access).items():
            self._jvm.java.lang.System.setProperty(name, value)
        properties = self._jvm.java.util.Properties()
        for name, value in {
            **access.java(),
            "acks": "1",
            "enable.idempotence": "false",
            "key.serializer": _SERIALIZER,
            "value.serializer": _SERIALIZER,
            **settings,
        }.items():
            properties.setProperty(name, value)
        self._value = bytes(record_size)
        try:
            self._producer = self._jvm.org.apache.kafka.clients.producer.KafkaProducer(properties)
        except Py4JJavaError as error:
            raise RefusedError(f"Java's producer did not start: {error.java_exception}.") from None

    def send(self, load: PhaseLoad) -> Mapping[str, int]:
        """See Sender; why records failed it does not say.

        Raises RefusedError when a record could not be handed over.
        """
        before = self._errors()
        record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord
        try:
            for segment in load.segments:
                start_us = now_us()
                for k in range(segment.records):
                    due_us = start_us + round(k * 1e6 / segment.rate)
                    time.sleep(max(0, due_us - now_us()) / 1e6)
                    topic = self._names[segment.topics[k % len(segment.topics)]]
                    self._producer.send(record(topic, self._value))
                self._producer.flush()
        except Py4JJavaError as error:
            raise RefusedError(f"Java's producer failed: {error.java_exception}.") from None
        failed = self._errors() - before
        return {"not known": failed} if failed else {}

    def close(self) -> None:
        self._producer.close()

    def _errors(self) -> int:
        """How many records it says have failed since it was made."""
        for entry in self._producer.metrics().entrySet():
            name = entry.getKey()
            if name.name() == _ERRORS and name.group() == "producer-metrics":
                return int(entry.getValue().metricValue())
        raise RefusedError("Java's producer does not say how many records failed.")
