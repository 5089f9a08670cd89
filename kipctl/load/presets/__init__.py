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

PRODUCER, CONSUMER = "producer", "consumer"
"""What a client can be started as."""
JAVAS_AGE_MS = 300_000
"""Java's default for how old Metadata may become."""


@dataclass(frozen=True)
class Preset:
    """A client library of one version. It is built with `tools`, at first use.

    `metadata_ms` is for how long it takes Metadata to be right by itself; `acks` what it asks for
    where it takes no other, else "". It can be told that age as one of `told_age`, and else is not
    held against rules about it.
    """

    name: str
    version: str
    program: Program
    tools: tuple[str, ...] = ()
    roles: frozenset[str] = frozenset((PRODUCER, CONSUMER))
    metadata_ms: int = JAVAS_AGE_MS
    acks: str = ""
    told_age: frozenset[str] = frozenset((PRODUCER, CONSUMER))

    @property
    def is_here(self) -> bool:
        """Whether this machine has what it takes to build it."""
        return all(map(shutil.which, self.tools))

    def words(self, role: str, say: Say = lambda text: None) -> tuple[str, ...]:
        """Its command line, in which {role}, {bootstrap}, {topic}, {partitions}, {rate}, {acks},
        {rack} and {metadata_ms} stand for what it is given; builds it.

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
        arguments = ("{role}", "{bootstrap}", "{topic}", "{partitions}", "{rate}", "{acks}")
        age = "{metadata_ms}" if role in self.told_age else str(JAVAS_AGE_MS)
        return (*program, *arguments, self.name, "{rack}", age)


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
        Preset("sarama", "1.61.1", go("sarama", "sarama"), ("go",), metadata_ms=600_000),
        # It speaks the versions of Kafka 2.8 unless told otherwise: those before hints.
        Preset(
            "sarama-as-4.3.1",
            "1.61.1",
            go("sarama-as-4.3.1", "sarama", "go.mod", "SARAMA_VERSION=4.3.1"),
            ("go",),
            metadata_ms=600_000,
        ),
        Preset(
            "kafka-go",
            "0.4.51",
            go("kafka-go", "kafka_go"),
            ("go",),
            metadata_ms=6_000,
            told_age=frozenset((PRODUCER,)),  # its reader keeps no Metadata
        ),
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
            metadata_ms=5_000,
        ),
        Preset("rskafka", "0.6.0", rust("rskafka"), ("cargo",), acks="all", told_age=frozenset()),
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
