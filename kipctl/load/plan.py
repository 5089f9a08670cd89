"""What plans of all kinds of run have in common: actions meanwhile, workers, the record."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from kipctl.counts import counted
from kipctl.errors import RefusedError, UsageError
from kipctl.extras import require
from kipctl.load.actions import Action, ActionKind
from kipctl.own_topic_names import OWN_ONE, new_name
from kipctl.pipeline.place import START_TIMEOUT_S, Place
from kipctl.pipeline.settings import hides_what_it_sends
from kipctl.transport.access import Access

OWN_TOPIC = new_name(OWN_ONE)
"""Of this process: made for a run, and removed after it."""
USUAL_SECONDS, USUAL_WARMUP_SECONDS = 30, 5
USUAL_UNLIMITED = 1_000_000
"""How large a load is of which nobody says it: seconds, or records where the rate has no limit."""
USUAL_EVERY_S = 5.0
_RATE_OF_CORE = 150
_HIGHEST_RATE = 1500


def usual_rate(cores: int) -> int:
    """Records per second that a machine of so many cores has time for besides rotations.

    Nodes and clients share the cores: with none to spare, waits would be waits for them.
    """
    return min(_HIGHEST_RATE, _RATE_OF_CORE * cores)


def usual_records(throughput: float) -> tuple[int, int]:
    """How many records at this rate make a usual load, and how many of them warm it up."""
    records = round(throughput * USUAL_SECONDS) if throughput > 0 else USUAL_UNLIMITED
    return max(1, records), records * USUAL_WARMUP_SECONDS // USUAL_SECONDS


def default_every_s(num_records: int, throughput: float, count: int = 0) -> float:
    """Seconds between two actions where nobody says: `count` of them fit into the load, or two."""
    if throughput <= 0:
        return USUAL_EVERY_S
    return min(USUAL_EVERY_S, num_records / throughput / max(2, count + 1))


def check_topic(name: str, option: str = "--topic") -> None:
    """Raise UsageError for what cannot be a topic's name (Kafka's Topic.validate)."""
    if name in (".", "..") or not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name):
        raise UsageError(
            f"{option} {name!r} cannot be a topic.",
            "A topic's name is made of up to 249 letters, digits and . _ -",
        )


def check_least(*numbers: tuple[str, float, float]) -> None:
    """Raise UsageError for numbers that make no sense: (option, value, least)."""
    for option, value, least in numbers:
        if value < least:
            raise UsageError(f"{option} is {value}; it must be at least {least}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Times are in seconds. `count` 0 repeats the action as long as records are due. `command` is
    the command line, without `kipctl`, that the journal names.

    Several workers, or one where `master` says, are tasks of that Spark; without, the probe is a
    process of this machine.
    """

    during: Action | None = None
    every_s: float = USUAL_EVERY_S
    count: int = 0
    record: Path | None = None
    reporting_interval_s: float = 5.0
    workers: int = 1
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    force: bool = False
    start_timeout_s: float = START_TIMEOUT_S
    command: tuple[str, ...] = ()

    def place(self, tasks: int) -> Place:
        """The Spark that runs so many tasks at once: without a master, one of this machine."""
        master = f"local[{tasks}]" if self.master is None else self.master
        return Place(master, self.conf, self.start_timeout_s).without_connect(
            "Workers start together by a barrier stage, which Spark Connect has not."
        )

    @property
    def on_spark(self) -> bool:
        """Whether it is Spark that runs the workers."""
        return self.workers > 1 or self.master is not None

    @property
    def moves_leaders(self) -> bool:
        """Whether the action changes the topic's assignment."""
        return self.during is not None and self.during.kind is not ActionKind.RESTART

    @property
    def copies_data(self) -> bool:
        """Whether the action gives the topic's partitions other replicas, not only another order"""
        return self.during is not None and self.during.kind is ActionKind.REASSIGN

    @property
    def asked(self) -> dict[str, object]:
        """What is to be done meanwhile and by whom, for `run.json`."""
        actions = {"during": str(self.during), "every_s": self.every_s, "count": self.count}
        return {
            "workers": self.workers,
            "master": self.master,
            **(actions if self.during else {}),
        }

    def check(self, numbers: Iterable[tuple[str, int, int]], access: Access) -> None:
        """Raise UsageError for numbers that make no sense: (option, value, least).

        Raises RefusedError where Spark would send a login of the access for others to read.
        """
        place = self.place(max(1, self.workers))
        check_least(*numbers, ("--count", self.count, 0), ("--workers", self.workers, 1))
        if self.on_spark:
            require("pyspark", "A run with workers")
        if self.every_s <= 0 or self.reporting_interval_s <= 0:
            raise UsageError("--every and --reporting-interval must be above 0.")
        if access.security.is_authenticated and not (place.is_local or self.force):
            from kipctl.pipeline.start import configured

            if not hides_what_it_sends(configured(place)):
                raise RefusedError(
                    f"Spark would send the workers' login to {place.master} for the network to"
                    " read, and give it to whoever answers there.",
                    "Set spark.authenticate, and spark.network.crypto.enabled or"
                    " spark.ssl.rpc.enabled, to true in spark-defaults.conf here and there (or by"
                    " --conf), or insist with --force.",
                )

    def check_actions(self, lasts_s: float) -> None:
        """Raise UsageError when the load is over before its actions are due.

        An action takes time of its own, which nobody knows before: fewer may happen.
        """
        if not self.during:
            return
        if self.every_s >= lasts_s:
            raise UsageError(
                f"The load lasts {lasts_s:g} s, and the first {self.during} is due after "
                f"{self.every_s:g} s.",
                "Give a shorter --every, or more records.",
            )
        if self.count * self.every_s >= lasts_s:
            fitting = ceil(lasts_s / self.every_s) - 1
            raise UsageError(
                f"The load lasts {lasts_s:g} s, and --count {self.count} with one {self.during} "
                f"every {self.every_s:g} s takes {self.count * self.every_s:g} s: {fitting} fit.",
                f"Give --count {fitting}, a shorter --every, or more records.",
            )

    def check_partitions(self, topic: str, partitions: int) -> None:
        """Raise UsageError when there are too few for every worker to have one."""
        if self.workers > partitions:
            raise UsageError(
                f"{counted(self.workers, 'worker')} share {counted(partitions, 'partition')} of"
                f" {topic}.",
                f"Ask for at most {partitions} with --workers.",
            )
