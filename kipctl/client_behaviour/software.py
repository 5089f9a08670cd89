"""What is known of software's versions: facts with their source. What was seen comes first."""

import re
from enum import StrEnum
from typing import NamedTuple

Version = tuple[int, ...]
LIBRDKAFKA = "librdkafka"
_RDKAFKA = re.compile(r"rdkafka-v?(\d+(?:\.\d+)*)")


class Software(NamedTuple):
    """What a client says of itself in ApiVersions (KIP-511); "" where it does not say."""

    name: str = ""
    version: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in self if part)


class HintUse(StrEnum):
    """What a software makes of leader hints when a leader has moved."""

    FOLLOWS = "follows"
    WAITS = "waits"
    """It goes where they say, after its backoff."""
    IGNORES = "ignores"
    """It asks for the versions that have them, and does not read them."""
    NONE = "none"
    """It does not ask for versions that have them."""


class Known(NamedTuple):
    """Of versions `since` (included) to `until` (excluded; None: the newest that was looked at)."""

    software: str
    """How it names itself, or what is built on it (librdkafka)."""
    since: Version
    until: Version | None
    hints: HintUse
    source: str


KNOWN = (
    Known("apache-kafka-java", (0,), (3, 7), HintUse.NONE, "KAFKA-15868"),
    Known("apache-kafka-java", (3, 7), None, HintUse.FOLLOWS, "KAFKA-15868"),
    Known("kgo", (0,), (1, 17), HintUse.NONE, "franz-go's changelog"),
    Known("kgo", (1, 17), None, HintUse.FOLLOWS, "twmb/franz-go#1412"),
    Known(LIBRDKAFKA, (0,), (2, 5), HintUse.NONE, "librdkafka's changelog"),
    Known(LIBRDKAFKA, (2, 5), None, HintUse.WAITS, "librdkafka's changelog, docs/request-log.md"),
    Known("sarama", (0,), None, HintUse.IGNORES, "IBM/sarama#3637"),
)


def version_numbers(version: str) -> Version:
    """The leading numbers of a version: (3, 7, 1) of `v3.7.1-rc1`; () of none."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(number) for number in match[1].split(".")) if match else ()


def name_and_numbers(software: Software) -> tuple[str, Version]:
    """What a software is, or is built on, and the numbers of its version.

    librdkafka, and what is built on it, has that in its version: `2.16.1-rdkafka-2.16.0`.
    """
    name, version = software
    if built_on := _RDKAFKA.search(version):
        name, version = LIBRDKAFKA, built_on[1]
    return name, version_numbers(version)


def known_of(software: Software) -> Known | None:
    """What it makes of hints, as far as that is known; None of others."""
    name, numbers = name_and_numbers(software)
    return next(
        (
            known
            for known in KNOWN
            if known.software == name
            and known.since <= numbers
            and (known.until is None or numbers < known.until)
        ),
        None,
    )
