"""Clients that can be started by a name: a small program each, in their languages.

Each has the arguments that `programs/python/driver.py` tells of.
"""

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import libversion

from kipctl import __version__
from kipctl.errors import UsageError, did_you_mean
from kipctl.load.presets.build import Program, Say, go, java, node, python, rust
from kipctl.next_step import Command

_RATE = 50
PRODUCER, CONSUMER = "producer", "consumer"
"""What a client can be started as."""


@dataclass(frozen=True)
class Preset:
    """A client library of one version. It is built with `tools`, at first use."""

    name: str
    version: str
    program: Program
    tools: tuple[str, ...] = ()
    roles: frozenset[str] = frozenset((PRODUCER, CONSUMER))

    @property
    def is_here(self) -> bool:
        """Whether this machine has what it takes to build it."""
        return all(map(shutil.which, self.tools))

    def words(
        self, role: str, say: Say = lambda text: None, rate: str = str(_RATE), acks: str = "all"
    ) -> tuple[str, ...]:
        """Its command line, in which {role} and its like stand for what it is given; builds it.

        Raises UsageError where this machine lacks it.
        """
        if role not in self.roles:
            known = ", ".join(sorted(self.roles))
            raise UsageError(f"The preset {self.name} is no {role}.", f"It is held as {known}.")
        try:
            program = self.program(say)
        except UsageError as error:
            raise UsageError(
                f"The preset {self.name} cannot be had here: {error.what}",
                error.next_step or "Give a command of your own.",
            ) from error
        arguments = ("{role}", "{bootstrap}", "{topic}", "{partitions}", rate, acks)
        return (*program, *arguments, self.name, "{rack}", "{metadata_ms}")


def _own(say: Say) -> Sequence[str]:
    return sys.executable, "-m", f"{__name__}.own"


OWN = Preset("kipctl", __version__, _own)
PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        OWN,
        Preset("java-4.3.1", "4.3.1", java("4.3.1"), ("javac",)),
        Preset("java-3.9.1", "3.9.1", java("3.9.1"), ("javac",)),
        Preset("java-3.6.0", "3.6.0", java("3.6.0"), ("javac",)),
        Preset(
            "librdkafka",
            libversion()[0],
            python("librdkafka", "with_confluent_kafka.py"),
        ),
        Preset(
            "confluent-kafka-javascript",
            "1.10.1",
            node("confluent-kafka-javascript", "confluent"),
            ("node", "npm"),
        ),
        Preset(
            "franz-go-1.21.6", "1.21.6", go("franz-go-1.21.6", "franz_go", "1.21.6.mod"), ("go",)
        ),
        Preset("franz-go-1.22.3", "1.22.3", go("franz-go-1.22.3", "franz_go"), ("go",)),
        Preset("sarama", "1.61.1", go("sarama", "sarama"), ("go",)),
        # It speaks the versions of Kafka 2.8 unless told otherwise: those before hints.
        Preset(
            "sarama-as-4.3.1",
            "1.61.1",
            go("sarama-as-4.3.1", "sarama", "go.mod", "SARAMA_VERSION=4.3.1"),
            ("go",),
        ),
        Preset("kafka-go", "0.4.51", go("kafka-go", "kafka_go"), ("go",)),
        Preset(
            "kafka-python",
            "3.0.12",
            python("kafka-python", "with_kafka_python.py", "kafka-python==3.0.12"),
        ),
        Preset("aiokafka", "0.14.0", python("aiokafka", "with_aiokafka.py", "aiokafka==0.14.0")),
        Preset("kafkajs", "2.2.4", node("kafkajs", "kafkajs"), ("node", "npm")),
        Preset(
            "platformatic-kafka",
            "2.12.1",
            node("platformatic-kafka", "platformatic"),
            ("node", "npm"),
        ),
        Preset("rskafka", "0.6.0", rust("rskafka"), ("cargo",)),
    )
}


def preset_of(name: str) -> Preset:
    """By its name. Raises UsageError."""
    if name not in PRESETS:
        raise UsageError(
            f"There is no preset {name!r}.{did_you_mean(name, PRESETS)}",
            "List them: " + Command("conform list"),
        )
    return PRESETS[name]
