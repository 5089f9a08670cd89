"""What every probe is told, and what it comes to, whether it produces or consumes."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

from kipctl.probe.client import ProbeClient
from kipctl.probe.config import ClientConfig
from kipctl.probe.health import Health
from kipctl.probe.schedule import Schedule, Share
from kipctl.probe.undisturbed import cpu_s, undisturbed
from kipctl.trace.begun import Begun
from kipctl.trace.clock import now_us

_LEAD_US = 20_000
"""Between the end of the preparations and the start."""


def start_soon() -> int:
    """The start of a run that need not wait for anybody, monotonic microseconds."""
    return now_us() + _LEAD_US


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
    cpu_s: float | None
    """User and system CPU time of the probe during the run; None where it did not come to tell."""
    stopped: bool
    failure: str = ""
    """Why it broke off, when nobody asked it to; then it counts what is known of."""
    host: str = ""
    """The machine that it ran on."""
    health: Health | None = None
    """None where it did not come to tell."""

    @property
    def cpu_seconds(self) -> float | None:
        """`cpu_s` as documents have it."""
        return None if self.cpu_s is None else round(self.cpu_s, 3)

    @property
    def sent(self) -> str:
        """What is known of records that are counted: of a probe that did not come to tell, only
        those that it had settled are.
        """
        return "settled" if self.health is None else "sent"

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
AnyOutcome_co = TypeVar("AnyOutcome_co", bound=Outcome, covariant=True)


class Spec(Protocol[AnyOutcome_co]):
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
    ) -> AnyOutcome_co:
        """Do it, and write the row files into `directory`.

        `agree_on_start` is called when all is prepared, and says when the run starts (monotonic
        microseconds). `on_start` is called when that is settled, `should_stop` every 50 ms or so.
        Raises UnreachableError, RefusedError or UsageError when the run cannot begin, and what
        `agree_on_start` raises.
        """

    def of_record(self) -> Self:
        """The same without what it takes to connect: fit for a folder that others may read."""

    def of_worker(self, share: Share) -> Self:
        """What one worker is to do: it is a client of its own, with a client id of its own."""

    def schedule(self, start_us: int) -> Schedule:
        """What it follows from its start on (monotonic microseconds)."""


def config_of_worker(config: Config, share: Share) -> Config:
    """The settings of one worker: those of all, with a client id of its own."""
    return replace(config, client_id=f"{config.client_id}-{share.worker}")


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
