"""Leaders off a broker before its restart, and back to where they were after it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kipctl.changes.execution.pacing import Pace
from kipctl.changes.execution.plan_execution import roll_back, rotate_leaders
from kipctl.changes.execution.plan_result import require_all_done
from kipctl.changes.execution.reassign import Progress, topic_ids
from kipctl.changes.execution.rollback import ALREADY_BACK, DELETED, plan_rollback
from kipctl.changes.execution.safety_checks import survey
from kipctl.changes.journal.entry import Entry, EntryState, Origin
from kipctl.changes.journal.journal import Journal
from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.planners.preferred_leaders import leaders_off
from kipctl.cluster.reassignments import list_reassignments
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.errors import PartlyDoneError
from kipctl.transport.request import Cluster


@dataclass(frozen=True, slots=True)
class LeaderMover:
    """Moves a roll's leaders; each change is in the journal, as the roll's own."""

    cluster: Cluster
    journal: Journal
    origin: Origin
    batch: int
    timeout_s: float
    progress: Progress

    def newest_entry(self) -> str:
        """The id of the last change in the journal; "" without any."""
        return next((entry.id for entry in self.journal.entries()), "")

    def move_off(self, broker: int, before_each: Callable[[], None]) -> int:
        """Let in-sync replicas elsewhere lead what the broker leads; returns how many were moved.

        In batches; `before_each` comes before each. What is being reassigned is left alone, and of
        what fails the first is reported: whether leaders are left is to be looked at. Raises what
        `rotate_leaders` does.
        """
        plan = survey(self.cluster, lambda now: leaders_off(now, [broker])).plan
        moved = 0
        for part in plan.batches(self.batch):
            before_each()
            done = rotate_leaders(
                self.cluster,
                part,
                entry=self._saved(part),
                progress=self.progress,
                timeout_s=self.timeout_s,
                pace=Pace(),
            )
            if done.failures:
                self.progress(f"{len(done.failures):,} were not moved: {done.failures[0]}")
            moved += done.done
        return moved

    def _saved(self, plan: Plan, undoes: str = "") -> Entry:
        return self.journal.save(
            {move.id: move.before for move in plan.moves},
            plan.target,
            self.origin,
            topic_ids(self.cluster, plan.topics),
            undoes,
        )

    def bring_back(self, since: str) -> int:
        """Undo what this roll has changed since that entry; returns how many leaders came back.

        What somebody else has changed meanwhile is left alone. Raises what `roll_back` does, and
        PartlyDoneError when something has to wait: it is still there to be undone then.
        """
        brought = 0
        for entry in list(entries_of(self.journal, self.origin, since)):
            now = take_snapshot(self.cluster)
            topics = sorted({p.topic for p in entry.before} & set(now.topics))
            busy = [one.id for one in list_reassignments(self.cluster)]
            way = plan_rollback(entry, now, topic_ids(self.cluster, topics), busy)
            if way.plan.moves or way.in_place:
                back = roll_back(
                    self.cluster,
                    way.plan,
                    way.in_place,
                    entry=self._saved(way.plan, entry.id),
                    progress=self.progress,
                    timeout_s=self.timeout_s,
                )
                require_all_done(back.failures, back.done, "", has_changed=back.has_changed)
                brought += back.done
            if not way.is_whole:
                held = next(
                    one for one in way.plan.skipped if one.reason not in (ALREADY_BACK, DELETED)
                )
                raise PartlyDoneError(f"Leaders are not all back: {held.id}: {held.reason}.")
            entry.mark(EntryState.UNDONE)
        return brought


def entries_of(journal: Journal, origin: Origin, since: str) -> Iterator[Entry]:
    """What this origin has changed since that entry and has not undone, the newest first."""
    for entry in journal.entries():
        if entry.id <= since:
            return
        if entry.origin == origin and not entry.undoes and entry.may_be_undone:
            yield entry


def movable_leaders(now: Snapshot, broker: int) -> int:
    """How many partitions the broker leads that another in-sync replica could lead."""
    alive = frozenset(now.broker_ids)
    return sum(
        partition.leader == broker and bool(frozenset(partition.isr) & alive - {broker})
        for partition in now.partitions
    )
