"""Arms of an experiment: a client under test, and what the tap before it takes away from it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kipctl.errors import UsageError, did_you_mean
from kipctl.lab.properties import DEFAULT_KAFKA_VERSION
from kipctl.load.clients.command import parse_command
from kipctl.next_step import Command
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.protocol.api import ApiKey

T = TypeVar("T")
WITHOUT_HINTS = ((int(ApiKey.PRODUCE), 9), (int(ApiKey.FETCH), 15))
"""The newest versions that name no new leader in their errors (KIP-951, "Public Interfaces")."""
LAST_JAVA_BEFORE_KIP951 = "3.6.0"
"""3.6.1 has no hints either, but retries without a backoff once the leader epoch has advanced."""
NEWEST_JAVA = DEFAULT_KAFKA_VERSION


@dataclass(frozen=True, slots=True)
class ProbeClient:
    """kipctl's own client."""

    discovery: LeaderDiscovery


@dataclass(frozen=True, slots=True)
class JavaClient:
    """Apache Kafka's own client, of this release."""

    version: str


@dataclass(frozen=True, slots=True)
class LibrdkafkaClient:
    """librdkafka through confluent-kafka, of this release or the installed one; without a backoff
    of its own it has the default."""

    retry_backoff_ms: int | None = None
    version: str = ""


@dataclass(frozen=True, slots=True)
class CommandClient:
    """Any program: see `kipctl.load.clients.command`."""

    words: tuple[str, ...]


Client = ProbeClient | JavaClient | LibrdkafkaClient | CommandClient


@dataclass(frozen=True, slots=True)
class Arm:
    """A client, the highest API versions that it is shown, whether hints are taken out, and
    settings of its own by the client's own names."""

    name: str
    client: Client
    caps: tuple[tuple[int, int], ...] = ()
    drop_hints: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def properties(self) -> dict[str, str]:
        """What its client is configured with, by the client's own names."""
        match self.client:
            case LibrdkafkaClient(int(backoff_ms)):
                return {"retry.backoff.ms": str(backoff_ms), **dict(self.settings)}
            case _:
                return dict(self.settings)

    @property
    def takes_hints(self) -> bool:
        """Whether it gets leader hints, and sends to the leader that they name at once."""
        if self.caps or self.drop_hints:
            return False
        match self.client:
            case ProbeClient(discovery):
                return discovery is LeaderDiscovery.KIP951
            case JavaClient(version):
                return _numbers(version) >= (3, 7)
            case LibrdkafkaClient():
                return False  # it waits out its backoff first
            case CommandClient():
                return True  # it gets them: what it makes of them is what is asked

    @property
    def kip_arm(self) -> str:
        """Which arm of the KIP's micro-benchmark it is: a key of PUBLISHED; "" for none of them."""
        match self.client:
            case ProbeClient(LeaderDiscovery.REFRESH):
                return "rejected alternative"
            case ProbeClient(LeaderDiscovery.BASELINE):
                return "baseline"
            case JavaClient(version) if _numbers(version) < (3, 6, 1):
                return "baseline"
            case JavaClient() if not self.takes_hints:
                return "rejected alternative"
            case LibrdkafkaClient() | CommandClient():
                return ""
        return "with hints"


ARMS = (
    "probe-baseline",
    "probe-refresh",
    "probe-kip951",
    f"java-{LAST_JAVA_BEFORE_KIP951}",
    f"java-{NEWEST_JAVA}-capped",
    f"java-{NEWEST_JAVA}",
    "librdkafka",
    "librdkafka-1ms",
)
"""Those that are measured unless others are asked for."""

_UNHINTED = "-unhinted"
_JAVA = re.compile(r"java-(\d+\.\d+\.\d+)(-capped|-unhinted)?")
_COMMAND = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)", re.DOTALL)
_COMMA = re.compile(r""",(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""")
"""Outside of quotes."""
_LIBRDKAFKA = re.compile(r"librdkafka(?:-(\d+\.\d+\.\d+))?(?:-(\d+)ms)?")


def parse_arm(name: str) -> Arm:
    """The arm of that name. Raises UsageError.

    `probe-DISCOVERY`; `java-X.Y.Z`, with `-capped` shown no version that has hints, with
    `-unhinted` their hints taken out; `librdkafka` or `librdkafka-X.Y.Z`, with `-Nms` its
    `retry.backoff.ms`.
    """
    for discovery in LeaderDiscovery:
        if name == f"probe-{discovery}":
            return Arm(name, ProbeClient(discovery))
    if java := _JAVA.fullmatch(name):
        caps = WITHOUT_HINTS if java[2] == "-capped" else ()
        return Arm(name, JavaClient(java[1]), caps, java[2] == "-unhinted")
    if librdkafka := _LIBRDKAFKA.fullmatch(name):
        backoff_ms = int(librdkafka[2]) if librdkafka[2] else None
        return Arm(name, LibrdkafkaClient(backoff_ms, librdkafka[1] or ""))
    raise UsageError(
        f"{name!r} is no arm.{did_you_mean(name, ARMS)}",
        f"There are {', '.join(ARMS)}, and java-X.Y.Z, java-X.Y.Z-unhinted, librdkafka-X.Y.Z,"
        " librdkafka-Nms.",
    )


def parse_arms(text: str, *, takes_commands: bool = False) -> tuple[Arm, ...]:
    """Arms by their names, separated by commas, each once. Raises UsageError.

    Where it `takes_commands`, `NAME=COMMAND` is any program (`kipctl.load.clients.command`), and
    makes two arms: as it is, and with hints taken out, which it is compared with. A comma in a
    command is quoted.
    """
    arms: list[Arm] = []
    for part in map(str.strip, _COMMA.split(text)):
        command = _COMMAND.fullmatch(part)
        if command is None:
            arms.append(parse_arm(part))
        elif takes_commands:
            client = CommandClient(parse_command(command[2], f"--arms {command[1]}"))
            arms += [
                Arm(f"{command[1]}{_UNHINTED}", client, drop_hints=True),
                Arm(command[1], client),
            ]
        else:
            raise UsageError(
                f"{part!r}: a command is no arm here.",
                "It is one of `"
                + Command("experiment redirect")
                + "`, and of a file: `"
                + Command("experiment run FILE")
                + "`.",
            )
    names = [arm.name for arm in arms]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"The arm {min(twice)} is named twice.")
    return tuple(arms)


def java_versions(arms: Iterable[Arm]) -> tuple[str, ...]:
    """The releases whose Java client is needed."""
    return tuple(
        dict.fromkeys(arm.client.version for arm in arms if isinstance(arm.client, JavaClient))
    )


def librdkafka_versions(arms: Iterable[Arm]) -> tuple[str, ...]:
    """The releases of librdkafka that are needed beside the installed one."""
    clients = (arm.client for arm in arms)
    found = (client.version for client in clients if isinstance(client, LibrdkafkaClient))
    return tuple(dict.fromkeys(filter(None, found)))


def pairs(arms: Sequence[Arm]) -> tuple[tuple[Arm, Arm], ...]:
    """Which arms are compared: (without, with), of one kind of client.

    Each with the one of its kind that does the least (the reference), and one that takes hints
    with each of the same kind that is the rejected alternative.
    """
    found = []
    for arm in arms:
        reference = _reference(arm, arms)
        if reference is not None and reference != arm:
            found.append((reference, arm))
        if arm.takes_hints:
            found += [
                (other, arm)
                for other in arms
                if type(other.client) is type(arm.client)
                and other.kip_arm == "rejected alternative"
                and other != reference
            ]
    return tuple(found)


def _reference(arm: Arm, arms: Sequence[Arm]) -> Arm | None:
    """Of the same kind of client the one that does the least: baseline, oldest, default."""
    alike = [other for other in arms if type(other.client) is type(arm.client)]
    match arm.client:
        case ProbeClient():
            return next((other for other in alike if other.kip_arm == "baseline"), None)
        case JavaClient():
            return min(alike, key=_age)
        case LibrdkafkaClient():
            return next((o for o in alike if o.client == LibrdkafkaClient()), None)
        case CommandClient():
            unhinted = f"{arm.name}{_UNHINTED}"  # two arms may be of the same command
            return next((other for other in alike if other.name == unhinted), None)


def _age(arm: Arm) -> tuple[tuple[int, ...], bool]:
    """Sorts Java's arms: the oldest first, and of one release the one without hints."""
    assert isinstance(arm.client, JavaClient)
    return _numbers(arm.client.version), arm.takes_hints


def in_turn(arms: Sequence[T], runs: int) -> tuple[tuple[T, int], ...]:
    """The order of all runs, each an arm and its run's number from 1.

    Arms take turns, and every other turn goes the other way round, so that no arm always follows
    the same one and a machine that slows down slows all alike.
    """
    return tuple(
        (arm, number)
        for number in range(1, runs + 1)
        for arm in (arms if number % 2 else reversed(arms))
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
