"""What may hold a change up: a guard, which `kipctl.guard` has; without one nothing does."""

import math
import time
from dataclasses import dataclass
from typing import Protocol

from kipctl.errors import PartlyDoneError


class GivenUpError(PartlyDoneError):
    """The guard was crossed for longer than its patience."""


class ChangeGuard(Protocol):
    """Looks on while a cluster is changed. Each of its methods may raise GivenUpError."""

    def look(self) -> None:
        """Look, if the last time is long enough ago."""

    def demand_quiet(self, *, until: float = math.inf, anew: bool = True) -> None:
        """Return when nothing is crossed; `anew` looks in any case before.

        Raises TimedOutError when it is still crossed at `until`, on the clock of time.monotonic.
        """

    def sleep(self, seconds: float) -> None:
        """Wait so long, looking on."""


class NoGuard:
    """Holds nothing up."""

    def look(self) -> None:
        """There is nothing to look at."""

    def demand_quiet(self, *, until: float = math.inf, anew: bool = True) -> None:
        """It is always quiet."""

    def sleep(self, seconds: float) -> None:
        """Wait so long."""
        time.sleep(seconds)


NO_GUARD = NoGuard()


@dataclass(frozen=True, slots=True)
class NeverPauses:
    """The same guard, for a step that has been allowed already: it looks, and holds nothing up."""

    guard: ChangeGuard

    def look(self) -> None:
        """As the guard does."""
        self.guard.look()

    def demand_quiet(self, *, until: float = math.inf, anew: bool = True) -> None:
        """It was quiet when the step began."""

    def sleep(self, seconds: float) -> None:
        """As the guard does."""
        self.guard.sleep(seconds)
