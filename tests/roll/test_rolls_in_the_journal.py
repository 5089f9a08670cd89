"""A roll among the changes of a cluster: `kipctl changes list`, `show`, `resume` and `undo`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from commands import Commands
from reassigning import Reassigning, reassigning

from kipctl.changes.context import ChangeContext
from kipctl.changes.guard_interface import NO_GUARD
from kipctl.changes.journal.entry import EntryState, Origin
from kipctl.changes.journal.journal import Journal, journal
from kipctl.cluster.snapshot import PartitionId
from kipctl.roll.move_leaders import LeaderMover
from kipctl.roll.next_step import Phase
from kipctl.roll.plan import Node
from kipctl.roll.record import (
    Restarter,
    RollOptions,
    RollRecord,
    RollState,
    begin_roll,
    moved_leaders,
    read_roll,
)
from kipctl.transport.request import Cluster

T0, T1 = PartitionId("t", 0), PartitionId("t", 1)
ROTATE = "reassign --rotate --topic t --yes"


@dataclass
class World(Commands):
    """A cluster of three brokers, of which 1 leads T0 and 2 leads T1."""

    fake: Reassigning
    state: Path

    @property
    def bootstrap_server(self) -> str:
        return self.fake.bootstrap_server

    @property
    def kept(self) -> Journal:
        return journal("fake", {"XDG_STATE_HOME": str(self.state)})

    @property
    def leaders(self) -> list[int]:
        return [held.leader for held in self.fake.partitions.values()]

    def stopped(self, phase: Phase = Phase.LEADERS_OFF) -> RollRecord:
        """A roll that has ended broker 3, and stopped when the leader of T0 was off its broker."""
        how = RollOptions(Restarter.EXEC, ("false",), str(self.state), timeout_s=3)
        nodes = [Node(id, "127.0.0.1", 9, None, "broker") for id in (3, 1, 2)]
        broker = self.leaders[0]
        origin = Origin.here(("roll", "--exec", "false"))
        record = begin_roll(self.kept, origin, how, nodes)
        with Cluster(self.bootstrap_server) as cluster:
            variables = {"XDG_STATE_HOME": str(self.state)}
            context = ChangeContext(cluster=cluster, variables=variables)
            moved = LeaderMover(context, record, lambda _: None).move_off(broker, NO_GUARD)
        record = record.changed(record.step(3).begin(Phase.DONE))
        step = record.step(broker).begin(Phase.LEADERS_OFF, leaders_moved_off=moved)
        return record.changed(step.begin(phase)).mark(RollState.STOPPED, "interrupted")

    def told(self, line: str, status: int = 0) -> dict[str, Any]:
        return dict(json.loads(self.kipctl(f"{line} -o json", status=status).out))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with reassigning({T0: (1, 2, 3), T1: (2, 3, 1)}) as (fake, _):
        fake.brokers = (1, 2, 3)
        yield World(fake, tmp_path)


def test_a_roll_is_a_row_and_its_changes_are_shown_with_it(world: World) -> None:
    world.kipctl(ROTATE)
    record = world.stopped()
    [roll, rotation] = world.told("changes list")["entries"]
    assert (roll["id"], roll["kind"], roll["node_count"], roll["node_count_left"]) == (
        *(record.id, "roll"),
        *(3, 2),
    )
    assert rotation["kind"] == "reassign"
    listed = world.kipctl("changes list").out
    assert "stopped, 1 of 3 brokers is restarted" in listed
    assert "The last roll, less than a minute ago, was stopped before its end." in listed
    assert f"kipctl changes resume {record.id}" in listed
    [part] = moved_leaders(world.kept, record.id)
    for words in ("changes show", f"changes show {record.id}"):
        shown = world.kipctl(words).out
        assert "1 of 3 brokers is restarted; the roll is stopped." in shown
        assert f"Leaders moved by entry {part.id}" in shown
        assert f"kipctl undo {record.id}" in shown
    assert world.told(f"changes show {record.id}")["parts"] == [part.id]
    assert world.told(f"changes show {part.id}")["id"] == part.id


def test_the_newest_of_what_was_cut_off_is_resumed_be_it_a_roll(world: World) -> None:
    record = world.stopped()
    ran = world.kipctl("changes resume --yes --timeout 4s", status=5)
    assert "its status is 1" in ran.err
    assert read_roll(record.path).step(1).phase is Phase.RESTARTING
    assert read_roll(record.path).how.timeout_s == 4
    again = world.kipctl(f"changes resume {record.id} --dry-run")
    assert "Nothing was changed." in again.out
    ran = world.kipctl(f"changes resume {record.id} --guard 'urp > 1' --yes", status=2)
    assert "kipctl roll --resume --guard CONDITION" in ran.err
    read_roll(record.path).mark(RollState.DONE)
    assert "it is not to be resumed" in world.kipctl(f"changes resume {record.id}", status=4).err
    assert "Nothing is left to resume" in world.kipctl("changes resume").err


def test_undo_brings_the_leaders_of_a_roll_back_and_gives_it_up(world: World) -> None:
    record = world.stopped()
    assert world.leaders == [3, 2]
    shown = world.kipctl(f"undo {record.id} --dry-run")
    assert "A restart has no way back." in shown.out
    assert world.leaders == [3, 2]
    assert f"kipctl undo {record.id} --yes" in world.kipctl("undo --yes", status=4).err
    ran = world.kipctl("undo", typed="y\n")
    assert "1 leader is back." in ran.err
    assert "Broker 1 is as it was left (leaders off): see to it." in ran.out
    assert world.leaders == [1, 2]
    assert read_roll(record.path).state is RollState.ABANDONED
    again = world.kipctl(f"undo {record.id} --yes", status=4)
    assert "are back, and a restart has no way back" in again.err


def test_a_roll_whose_leaders_have_to_wait_stays_as_it_is(world: World) -> None:
    record = world.stopped(Phase.RESTARTING)
    moved = world.fake.partitions[T0]
    moved.target = moved.replicas
    ran = world.kipctl(f"undo {record.id} --yes", status=5)
    assert "Leaders are not all back: t-0: it is being reassigned already" in ran.err
    assert read_roll(record.path) == record


def test_a_change_after_the_roll_is_undone_first(world: World) -> None:
    record = world.stopped()
    record.mark(RollState.ABANDONED)
    world.kipctl(ROTATE)
    world.kipctl("undo --yes")
    assert world.leaders == [3, 2]
    [rotation] = (entry for entry in world.kept.entries() if entry.state is EntryState.UNDONE)
    assert rotation.id > record.id


def test_a_roll_that_is_damaged_is_passed_over_in_the_list(world: World) -> None:
    record = world.stopped()
    record.path.write_text("{}")
    ran = world.kipctl("changes list")
    assert f"Passed over: the journal's {record.path} is damaged" in ran.err
    assert moved_leaders(world.kept, record.id)[0].id in ran.out


def test_bare_kipctl_names_the_roll_and_none_of_its_changes(world: World) -> None:
    record = world.stopped()
    [part] = moved_leaders(world.kept, record.id)
    replace(part, state=EntryState.SUBMITTED).mark(EntryState.SUBMITTED)
    said = world.kipctl("").out
    assert "A rolling restart has not ended: 1 of 3 brokers is restarted." in said
    assert part.id not in said
    assert said.index("kipctl roll --resume") < said.index("kipctl inspect")
