"""Leaders that a roll moves off a broker, and back: of its own changes, and of no others."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from reassigning import Reassigning, Replicas, reassigning

from kipctl.changes.context import ChangeContext
from kipctl.changes.guard_interface import NO_GUARD, ChangeGuard, GivenUpError
from kipctl.changes.journal.entry import EntryState, Origin
from kipctl.changes.journal.journal import Journal, journal
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import PartlyDoneError, RefusedError
from kipctl.roll.move_leaders import LeaderMover
from kipctl.roll.record import Restarter, RollOptions, begin_roll, moved_leaders
from kipctl.transport.request import Cluster

T0, T1, T2 = (PartitionId("t", number) for number in range(3))


@dataclass
class Rolled:
    """A cluster whose broker 1 leads T0 and T2; each of its rolls has a record of its own."""

    fake: Reassigning
    context: ChangeContext
    said: list[str] = field(default_factory=list)

    @property
    def kept(self) -> Journal:
        return journal("fake", self.context.variables)

    def mover(self, batch: int = 10) -> LeaderMover:
        how = RollOptions(Restarter.LAB, batch=batch, timeout_s=60)
        record = begin_roll(self.kept, Origin(("roll",), "me", "here"), how, ())
        return LeaderMover(self.context, record, self.said.append)

    @property
    def replicas(self) -> list[Replicas]:
        return [held.replicas for held in self.fake.partitions.values()]

    @property
    def leaders(self) -> list[int]:
        return [held.leader for held in self.fake.partitions.values()]


@pytest.fixture
def rolled(tmp_path: Path) -> Iterator[Rolled]:
    with reassigning({T0: (1, 2, 3), T1: (2, 3, 1), T2: (1, 3, 2)}) as (fake, broker):
        fake.brokers = (1, 2, 3)
        with Cluster(broker.address, timeout_s=60) as cluster:
            variables = {"XDG_STATE_HOME": str(tmp_path)}
            yield Rolled(fake, ChangeContext(cluster=cluster, variables=variables))


def test_leaders_are_moved_off_and_come_back_once(rolled: Rolled) -> None:
    before, mover = rolled.replicas, rolled.mover()
    assert mover.move_off(1, NO_GUARD) == 2
    assert 1 not in rolled.leaders
    [moved] = moved_leaders(rolled.kept, mover.record.id)
    assert moved.origin == replace(mover.record.origin, part_of=mover.record.id)
    assert mover.bring_back(NO_GUARD) == 2
    assert rolled.replicas == before
    assert rolled.leaders == [1, 2, 1]
    [undoing, moved] = rolled.kept.entries()
    assert (undoing.undoes, moved.state) == (moved.id, EntryState.UNDONE)
    assert undoing.origin.part_of == mover.record.id
    assert mover.bring_back(NO_GUARD) == 0
    assert not list(rolled.kept.unfinished())


def test_changes_of_another_roll_are_left_alone(rolled: Rolled) -> None:
    rolled.mover().move_off(1, NO_GUARD)
    mine = rolled.mover()
    assert mine.bring_back(NO_GUARD) == 0
    assert mine.move_off(2, NO_GUARD) > 0
    assert mine.bring_back(NO_GUARD) > 0
    assert 1 not in rolled.leaders


def test_what_is_being_reassigned_has_to_come_back_later(rolled: Rolled) -> None:
    mover = rolled.mover()
    mover.move_off(1, NO_GUARD)
    moved = rolled.fake.partitions[T0]
    moved.target = moved.replicas
    with pytest.raises(PartlyDoneError, match="Leaders are not all back: t-0: "):
        mover.bring_back(NO_GUARD)
    moved.target = None
    assert mover.bring_back(NO_GUARD) == 1
    assert rolled.leaders == [1, 2, 1]


def test_what_somebody_else_has_changed_meanwhile_is_left_alone(rolled: Rolled) -> None:
    mover = rolled.mover()
    mover.move_off(1, NO_GUARD)
    changed = rolled.fake.partitions[T0]
    changed.replicas, changed.leader = (2, 1, 3), 2
    assert mover.bring_back(NO_GUARD) == 1
    assert rolled.leaders == [2, 2, 1]
    assert not moved_leaders(rolled.kept, mover.record.id)


class GivesUp(ChangeGuard):
    """At the second question."""

    asked = 0

    def require_quiet(self, *, until: float = 0, anew: bool = True) -> None:
        self.asked += 1
        if self.asked == 2:
            raise GivenUpError("Given up.")


@pytest.mark.parametrize(("batch", "error"), [(1, PartlyDoneError), (10, PartlyDoneError)])
def test_the_guard_is_asked_before_each_batch_and_each_election(
    rolled: Rolled, batch: int, error: type[Exception]
) -> None:
    mover = rolled.mover(batch)
    with pytest.raises(error, match="Given up"):
        mover.move_off(1, GivesUp())
    assert moved_leaders(rolled.kept, mover.record.id)
    mover.bring_back(NO_GUARD)
    assert rolled.leaders == [1, 2, 1]


def test_a_pause_stops_it_before_the_next_batch(rolled: Rolled) -> None:
    mover = rolled.mover()
    (rolled.kept.folder / "pause").touch()
    with pytest.raises(PartlyDoneError, match="Paused"):
        mover.move_off(1, NO_GUARD)
    assert rolled.leaders == [1, 2, 1]


def test_a_cluster_that_refuses_all_of_it_stops_it(rolled: Rolled) -> None:
    rolled.fake.refused = {T0, T1, T2}
    with pytest.raises(RefusedError):
        rolled.mover().move_off(1, NO_GUARD)
