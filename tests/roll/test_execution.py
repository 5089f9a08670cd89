"""A roll that is killed at any moment is ended by the next; no broker is restarted twice."""

import os
import sys
from pathlib import Path

import pytest
from rolled_world import KilledError, World

from kipctl.errors import InterruptedRunError, PartlyDoneError, TimedOutError
from kipctl.roll import execution
from kipctl.roll.next_step import Phase
from kipctl.roll.process_identity import BLOCK, ProcessMark
from kipctl.roll.record import RollRecord, RollState


def test_brokers_are_restarted_one_after_the_other_with_leaders_off(tmp_path: Path) -> None:
    world = World(tmp_path)
    record = world.roll(world.begin()).run()
    assert record.state is RollState.DONE
    assert world.restarts == [1, 2, 3]
    assert world.history == ["off 1", "off 2", "off 3"]
    assert not world.off
    assert [(s.phase, s.moved, s.brought_back) for s in record.steps] == [(Phase.DONE, 1, 1)] * 3
    assert world.again(record) == record


def test_killed_at_any_moment_it_is_gone_on_with(tmp_path: Path) -> None:
    number = deaths = 0
    while deaths == number:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        world = World(folder, dies_at=number)
        record = world.begin(brokers=(1, 2))
        try:
            world.roll(record).run()
        except KilledError:
            deaths += 1
        done = world.roll(world.again(record)).run() if deaths == number else world.again(record)
        assert done.state is RollState.DONE, number
        assert world.restarts == [1, 2], number
        assert not world.off, number
    assert deaths > 15  # it has come to its end once


@pytest.mark.parametrize(("said", "restarts"), [(True, [2, 3]), (False, [1, 2, 3])])
def test_a_restart_that_cannot_be_seen_is_asked_for(
    tmp_path: Path, said: bool, restarts: list[int]
) -> None:
    world = World(tmp_path, tells_ids=False)
    record = world.begin()
    record = record.with_step(record.step(1).begin(Phase.RESTARTING))
    with pytest.raises(PartlyDoneError, match="cannot be seen") as stopped:
        world.roll(record).run()
    assert "Stopped at broker 1 (restarting); 0 of 3 brokers are done" in stopped.value.what
    assert stopped.value.next_step == "Go on: kipctl roll --resume"
    assert not world.restarts
    stopped_record = world.again(record)
    assert stopped_record.state is RollState.STOPPED
    world.roll(stopped_record, said).run()
    assert world.restarts == restarts


def test_a_command_that_fails_stops_it_and_is_looked_at_before_it_is_repeated(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, status=3)
    record = world.begin()
    with pytest.raises(PartlyDoneError, match="has failed: its status is 3") as stopped:
        world.roll(record).run()
    assert str(record.output_path(1)) in stopped.value.what
    # It has restarted broker 1 all the same, and leads no partitions yet.
    assert world.off == {1}
    with pytest.raises(PartlyDoneError, match=r"Stopped at broker 2 .* left: 2, 3"):
        world.roll(world.again(record)).run()
    assert world.restarts == [1, 2]


def test_a_command_that_does_nothing_is_not_believed(tmp_path: Path) -> None:
    world = World(tmp_path)
    record = world.begin(sys.executable, "-c", "", timeout_s=0.0)
    with pytest.raises(TimedOutError, match="producer ids of the same block as before"):
        world.roll(record).run()
    assert world.again(record).left == world.again(record).steps


def test_leaders_that_somebody_brings_back_end_it(tmp_path: Path) -> None:
    world = World(tmp_path, brings_back=True)
    record = world.begin()
    with pytest.raises(PartlyDoneError, match="still leads partitions after 3 times"):
        world.roll(record).run()
    assert not world.restarts


@pytest.mark.parametrize(
    ("action", "asked", "off", "phase", "restarts"),
    [
        ("stop", 1, set(), Phase.LEADERS_OFF, []),
        ("stop", 2, {1}, Phase.LEADERS_OFF, []),
        ("stop", 3, {1}, Phase.RESTARTED, [1]),
        ("rollback", 1, set(), Phase.WAITING, []),
        ("rollback", 2, set(), Phase.WAITING, []),
        ("rollback", 3, set(), Phase.DONE, [1]),
    ],
)
def test_a_guard_that_gives_up_stops_it_or_puts_leaders_back_too(
    tmp_path: Path, action: str, asked: int, off: set[int], phase: Phase, restarts: list[int]
) -> None:
    world = World(tmp_path, gives_up_at=asked)
    record = world.begin(guard_action=action)
    with pytest.raises(PartlyDoneError, match=r"Given up\..*Stopped at broker 1") as stopped:
        world.roll(record).run()
    assert ("were put back" in stopped.value.what) == (action == "rollback")
    left = world.again(record)
    assert (left.state, left.step(1).phase) == (RollState.STOPPED, phase)
    assert world.off == off
    assert world.restarts == restarts
    world.gives_up_at = -1
    assert world.roll(left).run().state is RollState.DONE
    assert world.restarts == [1, 2, 3]
    assert not world.off


def test_ctrl_c_says_where_and_is_gone_on_with(tmp_path: Path) -> None:
    world = World(tmp_path, interrupted_at=3)
    record = world.begin()
    with pytest.raises(InterruptedRunError, match=r"Interrupted\. Stopped at broker 1") as stopped:
        world.roll(record).run()
    assert stopped.value.next_step == "Go on: kipctl roll --resume"
    assert world.again(record).why == "interrupted"
    assert world.roll(world.again(record)).run().state is RollState.DONE
    assert world.restarts == [1, 2, 3]


def test_an_operator_restarts_each_and_presses_enter(tmp_path: Path) -> None:
    read, write = os.pipe()
    with os.fdopen(read) as stdin:
        world = World(tmp_path, stdin=stdin, types_to=write)
        record = world.roll(world.begin(way="manual")).run()
    os.close(write)
    assert record.state is RollState.DONE
    assert world.restarts == [1, 2, 3]
    assert [step.process for step in record.steps] == [None] * 3


def test_an_operator_who_goes_away_stops_it(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(write)
    with os.fdopen(read) as stdin:
        world = World(tmp_path, stdin=stdin)
        with pytest.raises(PartlyDoneError, match="nobody said that it was done"):
            world.roll(world.begin(way="manual")).run()


def test_a_pause_that_is_asked_for_stops_it_before_the_next_step(tmp_path: Path) -> None:
    world = World(tmp_path)
    record = world.begin()
    pause = tmp_path / "journal" / "pause"
    pause.parent.mkdir()
    pause.touch()
    with pytest.raises(PartlyDoneError, match=r"Paused.* 0 of 3 brokers are done") as stopped:
        world.roll(record).run()
    assert stopped.value.next_step == "Go on: kipctl roll --resume"
    assert not world.restarts
    assert not world.history
    pause.unlink()  # as the next that takes the lock does
    assert world.roll(world.again(record)).run().state is RollState.DONE
    assert world.restarts == [1, 2, 3]


def test_a_pause_does_not_leave_a_broker_whose_restart_is_called(tmp_path: Path) -> None:
    world = World(tmp_path)
    pause = tmp_path / "journal" / "pause"
    pause.parent.mkdir()
    record = world.begin("sh", "-c", f'echo 1 >> "{world.ran}"; touch "{pause}"', timeout_s=5)
    with pytest.raises(PartlyDoneError, match="Paused"):
        world.roll(record).run()
    assert world.restarts == [1]
    assert world.again(record).step(1).phase is Phase.RESTARTED


def test_what_the_last_look_before_a_restart_does_not_know_is_said_once(tmp_path: Path) -> None:
    world = World(tmp_path, not_known=("Which brokers are fenced.",))
    world.roll(world.begin()).run()
    unknown = [one for one in world.said if one == "Not known: Which brokers are fenced."]
    assert len(unknown) == 1


def test_controllers_come_after_brokers_and_the_active_one_last(tmp_path: Path) -> None:
    world = World(tmp_path)
    record = world.roll(world.begin(controllers=True)).run()
    assert record.state is RollState.DONE
    assert world.restarts == [1, 2, 3, 102, 103, 101]
    assert [step.name for step in record.steps[3:]] == [
        "controller 102",
        "controller 103",
        "controller 101",
    ]
    assert world.history == ["off 1", "off 2", "off 3"]
    assert world.quorum.active == 102
    assert "Controller 101 is restarted: its metrics show another start." in world.said


def test_a_controller_that_has_become_the_active_one_is_restarted_last(tmp_path: Path) -> None:
    world = World(tmp_path)
    record = world.begin(brokers=None, controllers=True)
    assert [step.broker for step in record.steps] == [102, 103, 101]
    world.ran.write_text("101\n")  # by somebody else: 102 is the active one now
    world.roll(record).run()
    assert world.restarts[1:] == [103, 101, 102]


def test_killed_at_any_moment_controllers_are_gone_on_with(tmp_path: Path) -> None:
    number = deaths = 0
    while deaths == number:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        world = World(folder, dies_at=number)
        record = world.begin(brokers=None, controllers=True)
        try:
            world.roll(record).run()
        except KilledError:
            deaths += 1
        done = world.roll(world.again(record)).run() if deaths == number else world.again(record)
        assert done.state is RollState.DONE, number
        assert sorted(world.restarts) == [101, 102, 103], number
    assert deaths > 10  # it has come to its end once


def test_without_metrics_a_resumed_roll_asks_for_a_standby_and_sees_the_active_one(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, tells_starts=False)
    record = world.begin(brokers=None, controllers=True)
    mark = ProcessMark(None, None, None)
    record = record.with_step(record.step(102).begin(Phase.RESTARTING, mark=mark))
    with pytest.raises(PartlyDoneError, match="cannot be seen") as stopped:
        world.roll(record).run()
    assert "Stopped at controller 102 (restarting); 0 of 3 nodes are done" in stopped.value.what
    assert not world.restarts
    world.roll(world.again(record), said=False).run()
    assert world.restarts == [102, 103, 101]
    # The active one leads in the same epoch: it is the same process.
    folder = tmp_path / "active"
    folder.mkdir()
    world = World(folder, tells_starts=False)
    record = world.begin(brokers=None, controllers=True)
    record = record.with_step(
        record.step(101).begin(Phase.RESTARTING, mark=ProcessMark(led_epoch=1))
    )
    world.roll(record).run()
    assert world.restarts == [102, 103, 101]


def test_what_a_canary_waited_is_told_by_node_also_after_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kipctl.roll.execution._CANARY_DELAY_S", 0.0)
    world = World(tmp_path, gives_up_at=4)
    record = world.begin(brokers=(1, 2))
    waits = iter([(0.25,), (0.5,)])
    rolling = world.roll(record)
    rolling.new_waits = lambda: next(waits, ())
    with pytest.raises(PartlyDoneError, match="Stopped at broker 2"):
        rolling.run()
    assert [step.waits_s for step in world.again(record).steps] == [(0.25, 0.5), ()]
    again = world.roll(world.again(record))
    late = iter([(0.125,)])
    again.new_waits = lambda: next(late, ())
    again.run()
    assert [step.waits_s for step in world.again(record).steps] == [(0.25, 0.5), (0.125,)]


def test_while_a_controller_is_not_caught_up_none_is_restarted(tmp_path: Path) -> None:
    world = World(tmp_path, late_looks=2)
    world.roll(world.begin(brokers=(1,), controllers=True)).run()
    assert world.restarts == [1, 102, 103, 101]
    waited = world.said.index("Controller 102: controller 103 is not caught up")
    assert waited < world.said.index("Restarting controller 102 (c:9).")
    world = World(tmp_path / "never", late_looks=10**6)
    world.folder.mkdir()
    record = world.begin(brokers=None, controllers=True, timeout_s=0.0)
    with pytest.raises(TimedOutError, match="controller 103 is not caught up") as stopped:
        world.roll(record).run()
    assert "Stopped at controller 102 (waiting); 0 of 3 nodes are done" in stopped.value.what
    assert not world.restarts


def test_a_replica_that_falls_behind_before_a_restart_is_waited_for(tmp_path: Path) -> None:
    world = World(tmp_path, short_looks=range(2))
    ended = world.roll(world.begin()).run()
    assert ended.state is RollState.DONE
    assert world.restarts == [1, 2, 3]
    waited = [said for said in world.said if "not all in sync" in said]
    assert waited == [
        "Broker 1: 1 partition is not all in sync, such as t-0 (not in sync: broker 2, 3)"
    ]


def test_a_cluster_that_does_not_answer_before_a_restart_is_asked_again(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, silent_looks=range(1))
    assert world.roll(world.begin()).run().state is RollState.DONE
    assert world.restarts == [1, 2, 3]
    assert "Broker 1: No broker answered." in world.said


def test_a_replica_that_stays_behind_ends_the_wait_before_a_restart(tmp_path: Path) -> None:
    world = World(tmp_path, short_looks=range(10**6))
    with pytest.raises(TimedOutError, match=r"After 0\.3 s: broker 1: 1 partition is"):
        world.roll(world.begin(timeout_s=0.3)).run()
    assert world.restarts == []


def test_what_a_guard_pauses_before_a_restart_is_not_waited_for_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replica falls behind while the guard pauses: from then on it is waited for."""
    world = World(tmp_path, guard_pause_s=90.0, short_looks=range(1, 2))
    monkeypatch.setattr(execution, "time", world)
    assert world.roll(world.begin(brokers=(1,), timeout_s=60.0)).run().state is RollState.DONE
    assert world.restarts == [1]


def test_a_restart_that_was_about_to_be_called_is_not_waited_with(tmp_path: Path) -> None:
    """A look takes producer ids: after a thousand of them the process would seem to be another."""
    world = World(tmp_path)
    record = killed_as_it_calls_a_restart(world)
    world.short_looks = range(1)
    with pytest.raises(PartlyDoneError, match="not all in sync"):
        world.roll(world.again(record)).run()
    assert world.restarts == []
    assert world.roll(world.again(record)).run().state is RollState.DONE
    assert world.restarts == [1, 2, 3]


def test_a_pause_comes_before_a_restart_that_was_about_to_be_called(tmp_path: Path) -> None:
    world = World(tmp_path)
    record = killed_as_it_calls_a_restart(world)
    pause = tmp_path / "journal" / "pause"
    pause.parent.mkdir(exist_ok=True)
    pause.touch()
    with pytest.raises(PartlyDoneError, match="Paused"):
        world.roll(world.again(record)).run()
    assert world.restarts == []


def killed_as_it_calls_a_restart(world: World) -> RollRecord:
    """A roll whose kipctl is gone when the restart is written down and not called."""
    record = world.begin()
    step = record.step(1).begin(Phase.LEADERS_OFF, since="", moved=1)
    world.off.add(1)
    mark = ProcessMark(1 * BLOCK)
    return record.with_step(step.begin(Phase.RESTARTING, mark=mark, process=None, output=""))
