"""What may hold a change up: a guard, which `kipctl.guard` has; without one nothing does."""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from kipctl.changes.plans.plan import Plan
from kipctl.cluster.snapshot import Snapshot
from kipctl.errors import PartlyDoneError
from kipctl.urls import without_login


@dataclass(frozen=True, slots=True)
class RecordedGuard:
    """A guard as it is asked for; and as the journal keeps it, for whoever goes on with the change
    or the roll.

    `conditions` are as the user wrote them; without any there is no guard. `action` is what giving
    up does ("stop", "rollback"). `urls`, of metrics, are kept without logins, but for a roll that
    may be gone on with. `undisturbed` are seconds that latencies were before the change began, by
    the condition that compares with them.
    """

    conditions: tuple[str, ...] = ()
    patience_s: float = 600.0
    quiet_s: float = 30.0
    action: str = "stop"
    urls: tuple[str, ...] = ()
    undisturbed: Mapping[str, float] = field(default_factory=dict)

    @property
    def rolls_back(self) -> bool:
        """Whether a change that it gives up is undone."""
        return self.action == "rollback"

    @property
    def redacted(self) -> "RecordedGuard":
        """Without the logins in its URLs."""
        return replace(self, urls=tuple(map(without_login, self.urls)))


_LOOK_S = 0.5


class GivenUpError(PartlyDoneError):
    """The guard was crossed for longer than its patience."""


class ChangeGuard:
    """Looks on while a cluster is changed; this one sees nothing, and holds nothing up.

    Each method of a guard that looks may raise GivenUpError.
    """

    def look(self) -> None:
        """Look, if the last time is long enough ago."""

    def crossed(self) -> str:
        """Look, if the last time is long enough ago: what is crossed now, in words; "" for
        nothing."""
        self.look()
        return ""

    def require_quiet(self, *, until: float = math.inf, anew: bool = True) -> None:
        """Return when nothing is crossed; `anew` looks in any case before.

        Raises TimedOutError when it is still crossed at `until`, on the clock of time.monotonic.
        """

    def sleep(self, seconds: float) -> None:
        """Wait so long, looking on."""
        time.sleep(seconds)


NO_GUARD = ChangeGuard()


@dataclass(frozen=True)
class NeverPauses(ChangeGuard):
    """The same guard, for a step that has been allowed already: it looks, and holds nothing up."""

    guard: ChangeGuard

    def look(self) -> None:
        self.guard.look()

    def sleep(self, seconds: float) -> None:
        self.guard.sleep(seconds)


@dataclass(frozen=True)
class Pausable(ChangeGuard):
    """The same guard; `require_no_pause` raises while somebody asks for a pause."""

    guard: ChangeGuard
    require_no_pause: Callable[[], None]

    def look(self) -> None:
        self.guard.look()

    def require_quiet(self, *, until: float = math.inf, anew: bool = True) -> None:
        self.require_no_pause()
        self.guard.require_quiet(until=until, anew=anew)

    def sleep(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while (left_s := ends - time.monotonic()) > 0:
            self.require_no_pause()
            self.guard.sleep(min(left_s, _LOOK_S))


class GuardSession:
    """Nothing is looked at, and nothing held up."""

    @property
    def is_set(self) -> bool:
        """Whether anything is looked at."""
        return False

    @property
    def rolls_back(self) -> bool:
        """Whether it has given up, and the change is to be undone."""
        return False

    @property
    def record(self) -> RecordedGuard | None:
        """What the entry of the change keeps of it; None where nothing is looked at."""
        return None

    def restore(self, record: RecordedGuard) -> None:
        """Guard by what an entry has kept, unless another guard was asked for."""

    def begin(self, progress: Callable[[str], None]) -> ChangeGuard:
        """The change begins: what is asked before each of its steps."""
        return NO_GUARD

    @property
    def is_to_compare(self) -> bool:
        """Whether a canary is to measure first what is undisturbed."""
        return False

    def canary(
        self, batches: int = 0, window_s: float | None = None
    ) -> AbstractContextManager[None]:
        """Inside, what it takes to look runs, where a change goes on in so many batches. Latencies
        are of the last `window_s` seconds, None for the usual window."""
        return nullcontext()

    def without_canary(self, now: Snapshot) -> Snapshot:
        """What is planned for: what runs to look is none of it."""
        return now

    def with_canary_moves(self, plan: Plan, batch: int) -> tuple[Plan, int]:
        """The plan with what moves along to be looked at, and how large its batches are then."""
        return plan, batch
