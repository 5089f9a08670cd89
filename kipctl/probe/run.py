"""What every probe is to do, and its outcome, whether it produces or consumes."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from kipctl.probe.client import ProbeClient
from kipctl.probe.config import ClientConfig
from kipctl.probe.health import Health
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.process_tuning import cpu_s, without_pauses
from kipctl.probe.schedule import WHOLE, Schedule, Share
from kipctl.trace.clock import now_us
from kipctl.trace.run_start import RunStart
from kipctl.transport.access import Access

_START_DELAY_US = 20_000
"""Between the end of the preparations and the start."""


def default_start_us() -> int:
    """The start of a run that need not wait for anybody, monotonic microseconds."""
    return now_us() + _START_DELAY_US


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a run; its rows are in its folder. Times are monotonic microseconds."""

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
    """User and system CPU time during the run; None where the probe ended before its report."""
    stopped: bool
    failure: str = ""
    """Why it broke off, when nobody asked it to; then it counts what is known of."""
    host: str = ""
    """The machine that it ran on."""
    health: Health | None = None
    """None where it ended before its report."""

    @property
    def cpu_seconds(self) -> float | None:
        """`cpu_s` as documents have it."""
        return None if self.cpu_s is None else round(self.cpu_s, 3)

    @property
    def sent_or_settled(self) -> str:
        """What is known of records that are counted: of a probe that ended before its report, only
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


AnyOutcome = TypeVar("AnyOutcome", bound=Outcome)
AnyOutcome_co = TypeVar("AnyOutcome_co", bound=Outcome, covariant=True)


@dataclass(frozen=True, slots=True)
class Spec(Generic[AnyOutcome_co]):
    """What a probe is to do; several workers can do it together, each its `share`.

    `num_records` are those of the whole run. With `rotate_us` its rows go on in other files every
    so many microseconds.
    """

    access: Access
    topic: str
    num_records: int
    config: ClientConfig = field(kw_only=True)
    discovery: LeaderDiscovery = field(default=LeaderDiscovery.KIP951, kw_only=True)
    share: Share = field(default=WHOLE, kw_only=True)
    rotate_us: int = field(default=0, kw_only=True)

    def run(
        self,
        directory: Path,
        on_start: Callable[[Schedule], None],
        should_stop: Callable[[], bool],
        agree_on_start: Callable[[], int] = default_start_us,
    ) -> AnyOutcome_co:
        """Do it, and write the row files into `directory`.

        `agree_on_start` is called when all is prepared, and says when the run starts (monotonic
        microseconds). `on_start` is called when that is settled, `should_stop` every 50 ms or so.
        Raises UnreachableError, RefusedError or UsageError when the run cannot begin, and what
        `agree_on_start` raises.
        """
        raise NotImplementedError

    def schedule(self, start_us: int) -> Schedule:
        """What it follows from its start on (monotonic microseconds)."""
        raise NotImplementedError

    def of_record(self) -> Self:
        """The same without what it takes to connect: fit for a folder that others may read."""
        return replace(self, access=Access(str(self.access)))

    def of_worker(self, share: Share) -> Self:
        """What one worker is to do: it is a client of its own, with a client id of its own."""
        config = replace(self.config, client_id=f"{self.config.client_id}-{share.worker}")
        return replace(self, share=share, config=config)


def run_prepared(
    spec: Spec[AnyOutcome],
    client: ProbeClient[Any, Any],
    run: Callable[[Schedule], None],
    on_start: Callable[[Schedule], None],
    agree_on_start: Callable[[], int],
) -> dict[str, Any]:
    """What a prepared client's run comes to, which is done now, by the names of Outcome's fields.

    Nothing disturbs it from its start to its end.
    """
    with without_pauses():
        schedule = spec.schedule(agree_on_start())
        on_start(schedule)
        begun = RunStart.on_this_machine(schedule.start_us)
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
