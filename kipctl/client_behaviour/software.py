"""What is known of software's versions: facts with their source. What was seen comes first."""

import re
from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from kipctl.protocol.leader_hints import FIRST_FETCH_WITH_HINTS, FIRST_PRODUCE_WITH_HINTS

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
    bug: str = ""
    """What it does wrong when leaders move; "" if nothing is known."""
    mended: str = ""
    """The first version without any of that, if it is not `until`."""

    @property
    def mended_in(self) -> str:
        """The first version without the bug, or after these; "" if there is none."""
        return self.mended or ".".join(map(str, self.until or ()))


KNOWN = (
    Known("apache-kafka-java", (0,), (3, 7), HintUse.NONE, "KAFKA-15868"),
    Known("apache-kafka-java", (3, 7), None, HintUse.FOLLOWS, "KAFKA-15868"),
    Known("kgo", (0,), (1, 17), HintUse.NONE, "franz-go's changelog"),
    Known(
        "kgo",
        (1, 17),
        (1, 21),
        HintUse.FOLLOWS,
        "twmb/franz-go#1412, twmb/franz-go@af5abf66",
        "asks again without a backoff when a hint is no news, and closes its connections to other"
        " brokers when it gets one",
        "1.21.7",
    ),
    Known(
        "kgo",
        (1, 21),
        (1, 21, 7),
        HintUse.FOLLOWS,
        "twmb/franz-go#1412",
        "asks again without a backoff when a hint is no news",
    ),
    Known("kgo", (1, 21, 7), None, HintUse.FOLLOWS, "twmb/franz-go#1412"),
    Known(
        LIBRDKAFKA,
        (2, 1),
        (2, 4),
        HintUse.NONE,
        "confluentinc/librdkafka#4577",
        "asks for Metadata again and again for what it was just told",
    ),
    Known(LIBRDKAFKA, (0,), (2, 5), HintUse.NONE, "librdkafka's changelog"),
    Known(LIBRDKAFKA, (2, 5), None, HintUse.WAITS, "librdkafka's changelog, docs/request-log.md"),
    Known(
        "sarama",
        (0,),
        None,
        HintUse.IGNORES,
        "IBM/sarama#3637",
        "does not read the hints that it asks for",
    ),
)


def version_numbers(version: str) -> Version:
    """The leading numbers of a version: (3, 7, 1) of `v3.7.1-rc1`; () of none."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(number) for number in found[1].split(".")) if found else ()


def known_of(software: Software) -> Known | None:
    """What is known of a software; None of others.

    librdkafka, and what is built on it, has that in its version: `2.16.1-rdkafka-2.16.0`.
    """
    name, version = software
    if built_on := _RDKAFKA.search(version):
        name, version = LIBRDKAFKA, built_on[1]
    numbers = version_numbers(version)
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


def known_bug(software: Software) -> str:
    """What is known to be wrong with it when leaders move, as a sentence; "" if nothing is."""
    known = known_of(software)
    if known is None or not known.bug:
        return ""
    mended = f"mended in {known.mended_in}" if known.mended_in else "not mended in any version yet"
    return f"Known of {software}: {known.bug} ({known.source}; {mended})."


def expected(
    software: Software, produce_versions: Collection[int], fetch_versions: Collection[int]
) -> str:
    """In a few words what a client will make of hints that met no moved leader yet, by the versions
    that it was seen to use (the most able one counts) and by what is known of its software."""
    if not produce_versions and not fetch_versions:
        return "-"
    is_sent = (
        max(produce_versions, default=-1) >= FIRST_PRODUCE_WITH_HINTS
        or max(fetch_versions, default=-1) >= FIRST_FETCH_WITH_HINTS
    )
    known = known_of(software)
    if not is_sent or (known is not None and known.hints is HintUse.NONE):
        return "too old for them"
    if known is None:
        return "not known"
    if known.bug and known.hints is HintUse.FOLLOWS:
        return f"known to loop: update to {known.mended_in}"
    return f"known to {known.hints.value.removesuffix('s')}"
