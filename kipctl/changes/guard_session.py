"""What may hold a change up, and have it undone: `--guard` is `kipctl.cli.active_guard`."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from kipctl.changes.guard_interface import NO_GUARD, ChangeGuard, RecordedGuard
from kipctl.changes.plans.plan import Plan
from kipctl.cluster.snapshot import Snapshot


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
