"""Leaders that rotate while somebody looks on: how often, how they are left, and the way back."""

from collections.abc import Callable

import pytest
from reassigning import Reassigning

from kipctl.changes.context import ChangeContext
from kipctl.changes.repeated_rotation import Rotation, rotate_while
from kipctl.changes.ui import ChangeUi
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import PartlyDoneError, RefusedError
from kipctl.roll.in_journal import not_ended
from kipctl.transport.request import Cluster

T = [PartitionId("t", n) for n in range(2)]
OTHER = PartitionId("u", 0)
REPLICAS = {**dict.fromkeys(T, (1, 2, 3)), OTHER: (1, 2, 3)}


class Ui(ChangeUi):
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def confirm(self, question: str, typed: str = "") -> None:
        self.asked.append(question)
        if "no" in self.asked:
            raise RefusedError("Nothing was changed.")


def rotated(fake: Reassigning, act: Callable[[Rotation], None], ui: ChangeUi | None = None) -> None:
    with Cluster(fake.bootstrap_server) as cluster:
        context = ChangeContext(
            cluster=cluster,
            ui=ui or Ui(),
            topics=["t"],
            variables={"XDG_STATE_HOME": str(fake.state)},
        )
        rotate_while(context, act, "Rotate {}?")


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_leaders_move_once_a_call_and_are_back_afterwards(fake: Reassigning, times: int) -> None:
    seen = []

    def act(rotate: Callable[[], None]) -> None:
        for _ in range(times):
            rotate()
            seen.append(fake.leaders()[T[0]])
            assert fake.leaders()[OTHER] == 1

    ui = Ui()
    rotated(fake, act, ui)
    assert seen == [2, 3, 1, 2][:times]
    assert (fake.replicas(), set(fake.leaders().values())) == (REPLICAS, {1})
    assert ui.asked == ["Rotate 2 partitions?"]
    assert ui.said[-1] == "Replicas are in the order of before, and the first of each leads."
    # One entry for all of it, of which nothing is to be undone.
    assert fake.states() == ["undone"]


def test_nobody_else_changes_the_cluster_meanwhile(fake: Reassigning) -> None:
    def act(rotate: Callable[[], None]) -> None:
        rotate()
        assert (
            "Another kipctl is changing"
            in fake.kipctl("reassign --rotate -y --topic t", status=4).err
        )

    rotated(fake, act)


def test_an_error_meanwhile_leaves_leaders_where_they_were(fake: Reassigning) -> None:
    def act(rotate: Callable[[], None]) -> None:
        rotate()
        raise RefusedError("The client broke off.")

    with pytest.raises(RefusedError, match="broke off"):
        rotated(fake, act)
    assert (fake.replicas(), set(fake.leaders().values())) == (REPLICAS, {1})


def test_what_cannot_be_put_back_has_its_way_back(fake: Reassigning) -> None:
    def act(rotate: Callable[[], None]) -> None:
        rotate()
        fake.refused = set(T)

    with pytest.raises(PartlyDoneError, match="not all put back") as left:
        rotated(fake, act)
    assert f"kipctl undo {fake.entries()[0].id}" in left.value.next_step
    assert fake.states() == ["submitted"]
    fake.refused = set()
    fake.kipctl("undo --yes")
    assert (fake.replicas(), set(fake.leaders().values())) == (REPLICAS, {1})


def test_a_partition_that_could_not_be_rotated_at_first_is_left_alone(fake: Reassigning) -> None:
    fake.partitions[T[1]].isr = (1,)

    def act(rotate: Callable[[], None]) -> None:
        rotate()
        fake.partitions[T[1]].isr = None
        rotate()
        assert fake.replicas()[T[1]] == (1, 2, 3)

    rotated(fake, act)
    assert (fake.replicas(), set(fake.leaders().values())) == (REPLICAS, {1})


def test_leaders_are_elected_where_the_order_is_as_before(fake: Reassigning) -> None:
    """After a full turn, the last election of which has failed."""
    ui = Ui()

    def act(rotate: Callable[[], None]) -> None:
        rotate()
        rotate()
        fake.unelected = set(T)
        rotate()
        fake.unelected = set()
        assert (fake.replicas(), set(fake.leaders().values())) == (REPLICAS, {1, 3})
        assert any("Not all leaders moved: t-0" in said for said in ui.said)

    rotated(fake, act, ui)
    assert set(fake.leaders().values()) == {1}


def test_leaders_that_are_not_elected_again_keep_the_entry_open(fake: Reassigning) -> None:
    def act(rotate: Callable[[], None]) -> None:
        rotate()
        fake.unelected = set(T)

    ui = Ui()
    with pytest.raises(PartlyDoneError, match="2 partitions are not put back: t-0") as left:
        rotated(fake, act, ui)
    [entry] = fake.entries()
    assert "kipctl elect preferred --topic t" in left.value.next_step
    assert f"kipctl undo {entry.id}" in left.value.next_step
    assert (fake.replicas(), fake.leaders()[T[0]], entry.state) == (REPLICAS, 2, "submitted")
    assert not any("first of each leads" in said for said in ui.said)
    fake.unelected = set()
    fake.kipctl(f"undo {entry.id} --yes")
    assert (set(fake.leaders().values()), fake.states()[-1]) == ({1}, "undone")


def test_what_a_broker_that_is_not_in_sync_holds_up_is_named(fake: Reassigning) -> None:
    """And the rest is put back; what stopped the rotations is told too."""

    def act(rotate: Callable[[], None]) -> None:
        rotate()
        fake.partitions[T[0]].isr = (2, 3)
        raise RefusedError("The client broke off.")

    with pytest.raises(PartlyDoneError) as left:
        rotated(fake, act)
    assert left.value.what.startswith("The client broke off. Leaders are not all put back.")
    assert "broker 1 is not in sync" in left.value.what
    [entry] = fake.entries()
    assert f"kipctl undo {entry.id}" in left.value.next_step
    assert (fake.leaders(), entry.state) == ({T[0]: 2, T[1]: 1, OTHER: 1}, "submitted")
    fake.partitions[T[0]].isr = None
    fake.kipctl(f"undo {entry.id} --yes")
    assert (fake.replicas(), set(fake.leaders().values())) == (REPLICAS, {1})


def test_what_is_not_put_back_after_ctrl_c_is_told_with_it(fake: Reassigning) -> None:
    def act(rotate: Callable[[], None]) -> None:
        rotate()
        fake.refused = set(T)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        rotated(fake, act)
    assert f"kipctl undo {fake.entries()[0].id}" in stopped.value.__notes__[0]


def test_what_was_cut_off_is_told_of_and_its_undo_is_named(fake: Reassigning) -> None:
    """As after kill -9: its entry is open."""

    def act(rotate: Callable[[], None]) -> None:
        rotate()
        assert fake.kept.locked_by()
        assert [entry.state for entry in fake.kept.unfinished_changes()] == ["submitted"]
        fake.refused = set(T)

    with pytest.raises(PartlyDoneError):
        rotated(fake, act)
    [entry] = fake.entries()
    told = not_ended("fake", {"XDG_STATE_HOME": str(fake.state)})
    assert told.entry.startswith(f"was stopped before its end: entry {entry.id}")
    refused = fake.kipctl("changes resume --yes", status=4).err
    assert f"kipctl undo {entry.id}" in refused
    fake.refused = set()
    other = fake.kipctl("reassign --rotate --topic u --yes").err
    assert f"Undo it: kipctl undo {entry.id}" in other
    assert f"changes resume {entry.id}" not in other
    fake.kipctl(f"undo {entry.id} --yes")
    assert not list(fake.kept.unfinished_changes())


def test_a_pause_is_promised_as_it_is_and_can_be_seen(fake: Reassigning) -> None:
    def act(rotate: Rotation) -> None:
        rotate()
        assert not rotate.is_to_pause
        said = fake.kipctl("changes pause")
        assert "It ends, and puts back what it has moved" in said.out + said.err
        assert rotate.is_to_pause

    rotated(fake, act)
    assert set(fake.leaders().values()) == {1}


def test_where_nothing_was_rotated_nothing_is_elected(fake: Reassigning) -> None:
    fake.partitions[T[0]].leader = 2
    rotated(fake, lambda rotate: None)
    assert (fake.leaders()[T[0]], fake.elected, fake.states()) == (2, [], ["refused"])


def test_who_says_no_has_nothing_changed(fake: Reassigning) -> None:
    ui = Ui()
    ui.asked.append("no")
    with pytest.raises(RefusedError):
        rotated(fake, lambda rotate: rotate(), ui)
    assert (fake.altered, fake.states()) == ([], [])
