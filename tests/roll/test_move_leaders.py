"""Leaders that a roll moves off a broker, and back: of its own changes, and of no others."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from reassigning import Reassigning, Replicas, reassigning

from kipctl.changes.journal.entry import EntryState, Origin
from kipctl.changes.journal.journal import Journal
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import PartlyDoneError
from kipctl.roll.move_leaders import LeaderMover
from kipctl.transport.request import Cluster

T0, T1 = PartitionId("t", 0), PartitionId("t", 1)


@dataclass
class Rolled:
    """A cluster whose broker 1 leads T0; each of its rolls has an origin of its own."""

    fake: Reassigning
    cluster: Cluster
    journal: Journal
    said: list[str] = field(default_factory=list)

    def mover(self, roll: str = "mine") -> LeaderMover:
        origin = Origin(("roll", roll))
        return LeaderMover(self.cluster, self.journal, origin, 10, 60.0, self.said.append)

    @property
    def replicas(self) -> list[Replicas]:
        return [held.replicas for held in self.fake.partitions.values()]


@pytest.fixture
def rolled(tmp_path: Path) -> Iterator[Rolled]:
    with reassigning({T0: (1, 2, 3), T1: (2, 3, 1)}) as (fake, broker):
        fake.brokers = (1, 2, 3)
        with Cluster(broker.address, timeout_s=60) as cluster:
            yield Rolled(fake, cluster, Journal(tmp_path / "journal"))


def test_leaders_are_moved_off_and_come_back_once(rolled: Rolled) -> None:
    before = rolled.replicas
    assert rolled.mover().newest_entry() == ""
    assert rolled.mover().move_off(1, lambda: None) == 1
    assert [held.leader for held in rolled.fake.partitions.values()] == [3, 2]
    assert rolled.mover().bring_back("") == 1
    assert rolled.replicas == before
    assert rolled.fake.partitions[T0].leader == 1
    [undoing, moved] = rolled.journal.entries()
    assert (undoing.undoes, moved.state) == (moved.id, EntryState.UNDONE)
    assert rolled.mover().newest_entry() == undoing.id
    assert rolled.mover().bring_back("") == 0


def test_changes_of_others_and_those_of_before_are_left_alone(rolled: Rolled) -> None:
    rolled.mover("another").move_off(1, lambda: None)
    assert rolled.mover().bring_back("") == 0
    rolled.mover().move_off(2, lambda: None)
    assert rolled.mover().bring_back(rolled.mover().newest_entry()) == 0
    assert rolled.mover().bring_back("") == 1


def test_what_is_being_reassigned_has_to_come_back_later(rolled: Rolled) -> None:
    rolled.mover().move_off(1, lambda: None)
    moved = rolled.fake.partitions[T0]
    moved.target = moved.replicas
    with pytest.raises(PartlyDoneError, match="Leaders are not all back: t-0: "):
        rolled.mover().bring_back("")
    moved.target = None
    assert rolled.mover().bring_back("") == 1
