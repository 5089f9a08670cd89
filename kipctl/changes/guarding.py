"""What may hold a change up, and have it undone: `--guard` is `kipctl.cli.active_guard`."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from kipctl.changes.guard_interface import NO_GUARD, ChangeGuard
from kipctl.changes.journal.entry import Entry
from kipctl.changes.plans.plan import Plan
from kipctl.cluster.snapshot import Snapshot


class Guarding:
    """Nothing is looked at, and nothing held up."""

    entry: Entry | None = None
    """That of the change that is guarded, once there is one."""

    @property
    def is_set(self) -> bool:
        """Whether anything is looked at."""
        return False

    @property
    def rolls_back(self) -> bool:
        """Whether it has given up, and the change is to be undone."""
        return False

    @property
    def looking(self) -> ChangeGuard:
        """What is asked before each step of a change."""
        return NO_GUARD

    def begin(self, entry: Entry, progress: Callable[[str], None]) -> ChangeGuard:
        """The change of this entry begins: what is asked before each of its steps."""
        self.entry = entry
        return self.looking

    def canary(self, batches: int = 0) -> AbstractContextManager[None]:
        """Inside, what it takes to look runs, where a change goes on in so many batches."""
        return nullcontext()

    def without_canary(self, now: Snapshot) -> Snapshot:
        """What is planned for: what runs to look is none of it."""
        return now

    def with_canary_moves(self, plan: Plan, batch: int) -> tuple[Plan, int]:
        """The plan with what moves along to be looked at, and how large its batches are then."""
        return plan, batch
