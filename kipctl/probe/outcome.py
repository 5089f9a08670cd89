"""What every probe is told, and what it comes to, whether it produces or consumes."""

import json
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

from kipctl.probe.client import ProbeClient
from kipctl.probe.config import ClientConfig
from kipctl.probe.health import HEALTHY, Health, all_healths
from kipctl.probe.schedule import Schedule, Share
from kipctl.probe.undisturbed import cpu_s, undisturbed
from kipctl.trace.clock import now_us
from kipctl.trace.names import names_in

_BEGUN_FILE = "begun"
_LEAD_US = 20_000
"""Between the end of the preparations and the start."""


def start_soon() -> int:
    """The start of a run that need not wait for anybody, monotonic microseconds."""
    return now_us() + _LEAD_US


def write_whole(path: Path, content: bytes) -> None:
    """Write the file so that who sees it sees it whole."""
    unfinished = path.with_suffix(".part")
    unfinished.write_bytes(content)
    unfinished.replace(path)


@dataclass(frozen=True, slots=True)
class Begun:
    """Where and when a probe started: `start_us` on its machine's monotonic clock."""

    host: str
    start_us: int
    wall_start_us: int

    @classmethod
    def here(cls, start_us: int) -> "Begun":
        """Of a probe of this machine that starts then."""
        wall_start_us = time.time_ns() // 1000 + start_us - now_us()
        return cls(socket.gethostname(), start_us, wall_start_us)

    def write(self, directory: Path) -> None:
        """Leave it beside the rows."""
        write_whole(directory / _BEGUN_FILE, json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, directory: Path) -> "Begun | None":
        """What was left there; None when the probe did not start, yet or ever."""
        try:
            return cls(**json.loads((directory / _BEGUN_FILE).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run came to; its rows are in its folder. Times are monotonic microseconds."""

    datasets: ClassVar[tuple[str, ...]]
    """Those that it writes."""
    api: ClassVar[str]
    """`produce` or `fetch`: what its redirects are of."""

    spec: "Spec[Any]"
    cluster_id: str
    start_us: int
    end_us: int
    wall_start_us: int
    """Wall clock (Unix epoch, microseconds) at `start_us`."""
    errors: dict[str, int]
    """What failed, by the error's name."""
    topics: tuple[str, ...]
    endpoints: tuple[str, ...]
    cpu_s: float
    """User and system CPU time of the probe during the run."""
    stopped: bool
    failure: str = ""
    """Why it broke off, when nobody asked it to; then it counts what is known of."""
    host: str = ""
    """The machine that it ran on."""
    health: Health = HEALTHY

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Names that columns of its rows give by position."""
        return {"topic": self.topics, "hint_endpoint": self.endpoints}

    @property
    def constants(self) -> dict[str, str | None]:
        """Columns that have one value in all its rows."""
        return {"api": self.api}


Config = TypeVar("Config", bound=ClientConfig)
AnyOutcome = TypeVar("AnyOutcome", bound=Outcome)


class Spec(Protocol[AnyOutcome]):
    """What a probe is to do; several workers can do it together, each its share."""

    @property
    def topic(self) -> str: ...

    @property
    def config(self) -> ClientConfig: ...

    @property
    def share(self) -> Share: ...

    def run(
        self,
        directory: Path,
        on_start: Callable[[Schedule], None],
        should_stop: Callable[[], bool],
        agree_on_start: Callable[[], int] = start_soon,
    ) -> AnyOutcome:
        """Do it, and write the row files into `directory`.

        `agree_on_start` is called when all is prepared, and says when the run starts (monotonic
        microseconds). `on_start` is called when that is settled, `should_stop` every 50 ms or so.
        Raises UnreachableError, RefusedError or UsageError when the run cannot begin, and what
        `agree_on_start` raises.
        """

    def of_worker(self, share: Share) -> Self:
        """What one worker is to do: it is a client of its own, with a client id of its own."""

    def schedule(self, start_us: int) -> Schedule:
        """What it follows from its start on (monotonic microseconds)."""

    def together(self, outcomes: Sequence[AnyOutcome], start_us: int) -> AnyOutcome:
        """What at least one worker's outcomes come to as one run of this, which started then.

        It ends with the last of them, and fails if one of them did.
        """

    def salvaged(self, begun: Begun, directory: Path, failure: str) -> AnyOutcome:
        """What a probe came to that did this and ended without a word, by its rows.

        That is what it had settled. `failure` is empty where it was given up.
        """


def config_of_worker(config: Config, share: Share) -> Config:
    """The settings of one worker: those of all, with a client id of its own."""
    return replace(config, client_id=f"{config.client_id}-{share.worker}")


def as_one_run(
    spec: Spec[AnyOutcome], outcomes: Sequence[AnyOutcome], start_us: int
) -> dict[str, Any]:
    """What outcomes of any kind come to together, by the names of Outcome's fields."""
    return {
        "spec": spec,
        "start_us": start_us,
        "end_us": start_us + max(outcome.end_us - outcome.start_us for outcome in outcomes),
        "errors": dict(sum((Counter(outcome.errors) for outcome in outcomes), Counter())),
        "endpoints": tuple(sorted({name for outcome in outcomes for name in outcome.endpoints})),
        "cpu_s": sum(outcome.cpu_s for outcome in outcomes),
        "health": all_healths([outcome.health for outcome in outcomes]),
        "stopped": any(outcome.stopped for outcome in outcomes),
        "host": ", ".join(dict.fromkeys(outcome.host for outcome in outcomes)),
        "failure": next((outcome.failure for outcome in outcomes if outcome.failure), ""),
    }


def as_run(
    spec: Spec[AnyOutcome],
    client: ProbeClient[Any, Any],
    run: Callable[[Schedule], None],
    on_start: Callable[[Schedule], None],
    agree_on_start: Callable[[], int],
) -> dict[str, Any]:
    """What a prepared client's run comes to, which is done now, by the names of Outcome's fields.

    Nothing disturbs it from its start to its end.
    """
    with undisturbed():
        schedule = spec.schedule(agree_on_start())
        on_start(schedule)
        begun = Begun.here(schedule.start_us)
        cpu_before = cpu_s()
        run(schedule)
    return {
        **asdict(begun),
        "spec": spec,
        "end_us": now_us(),
        "errors": dict(client.errors),
        "topics": (spec.topic,),
        "endpoints": tuple(client.endpoints),
        "cpu_s": cpu_s() - cpu_before,
        "health": client.health(schedule.start_us),
    }


def as_salvaged(
    spec: Spec[AnyOutcome], begun: Begun, directory: Path, end_us: int, failure: str
) -> dict[str, Any]:
    """What is known of a probe of any kind that died, by the names of Outcome's fields."""
    return {
        **asdict(begun),
        "spec": spec,
        "cluster_id": "",
        "end_us": max(begun.start_us, end_us),
        "topics": (spec.topic,),
        "endpoints": names_in(directory).get("hint_endpoint", ()),
        "cpu_s": 0.0,
        "stopped": True,
        "failure": failure,
    }
