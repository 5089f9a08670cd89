"""What may hold a change up: a guard, which `kipctl.guard` has; without one nothing does."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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
    def redacted(self) -> "RecordedGuard":
        """Without the logins in its URLs."""
        return replace(self, urls=tuple(map(without_login, self.urls)))


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
