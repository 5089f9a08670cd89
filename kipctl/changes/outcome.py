"""The way back from a change, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from kipctl.changes.execution.cancellation import Cancelled
from kipctl.changes.execution.plan_result import LeadersMoved
from kipctl.changes.execution.rollback import RollbackPlan
from kipctl.changes.throttle import NotRestored
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class WayBack:
    """The way back as the cluster is now. `own` are moves of the entry that are still under way:
    they are cancelled, which is their way back.
    """

    own: tuple[Reassignment, ...]
    others: tuple[Reassignment, ...]
    snapshot: Snapshot
    way: RollbackPlan

    @property
    def count(self) -> int:
        return len(self.way.plan.moves) + len(self.way.in_place) + len(self.own)


@dataclass(frozen=True, slots=True)
class Undone:
    """The outcome of a rollback: what was seen `again` before it, `known` of what it changes.

    `cancelled` is None where nothing was on its way, `moved` where nothing was to be moved.
    """

    again: WayBack
    known: Snapshot
    cancelled: Cancelled | None
    moved: LeadersMoved | None
    not_restored: Sequence[NotRestored]

    @property
    def topics(self) -> tuple[str, ...]:
        """Of what was moved; where nothing was, of what was cancelled."""
        if self.moved is not None:
            return tuple(self.known.topics)
        done = self.cancelled.cancelled if self.cancelled else ()
        return tuple(sorted({one.topic for one in done}))
