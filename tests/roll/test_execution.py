"""A roll that is killed at any moment is ended by the next; no broker is restarted twice."""

import errno
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from campaigns import as_many, campaign, chance
from rolled_world import KilledError, World

from kipctl.counts import counted
from kipctl.errors import (
    InterruptedRunError,
    KipctlError,
    PartlyDoneError,
    TimedOutError,
    UsageError,
)
from kipctl.process import Process
from kipctl.roll import execution, record, restart_command
from kipctl.roll.next_step import Phase
from kipctl.roll.process_identity import BLOCK, ProcessMark
from kipctl.roll.record import Restarter, RollRecord, RollState, unfinished_roll

MakeWorld = Callable[..., World]


@pytest.fixture
def make_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeWorld:
    """Make a world, in a folder of its own; rolls go by its clock."""

    def make(**how: object) -> World:
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        folder.mkdir()
        world = World(folder, **how)
        monkeypatch.setattr(execution, "time", world)
        return world

    return make


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world()


def ask_for_pause(world: World) -> Path:
    """As `kipctl changes pause` does; the next that takes the lock removes the file."""
    pause = world.folder / "journal" / "pause"
    pause.parent.mkdir(exist_ok=True)
    pause.touch()
    return pause


def stops(
    world: World, record: RollRecord, match: str, error: type[KipctlError] = PartlyDoneError
) -> KipctlError:
    """The roll is stopped with this error."""
    with pytest.raises(error, match=match) as stopped:
        world.roll(record).run()
    return stopped.value


def ends(world: World, record: RollRecord, *restarts: int, said: bool | None = None) -> RollRecord:
    """The next kipctl ends the roll: these nodes have been restarted, and all leaders are back."""
    done = world.roll(world.again(record), said).run()
    assert done.state is RollState.DONE
    assert world.again(done) == done
    assert world.restarts == [*restarts]
    assert not world.off
    return done


def test_brokers_are_restarted_one_after_the_other_with_leaders_off(world: World) -> None:
    record = ends(world, world.begin(), 1, 2, 3)
    assert world.history == ["off 1", "off 2", "off 3"]
    assert [(s.phase, s.leaders_moved_off, s.leaders_brought_back) for s in record.steps] == [
        (Phase.DONE, 1, 1)
    ] * 3


def kill_at_moments(make_world: MakeWorld, least: int, **nodes: object) -> None:
    """Roll these nodes, killed at some of the moments there are, and go on each time."""
    whole = make_world()
    whole.roll(whole.begin(**nodes)).run()
    moments = range(1, whole.moments + 1)
    assert len(moments) > least
    for number in chance(f"moments {nodes}").sample(moments, as_many(8, len(moments))):
        world = make_world(dies_at=number)
        record = world.begin(**nodes)
        with suppress(KilledError):  # it may have a moment less than the whole one had
            world.roll(record).run()
        world.roll(world.again(record)).run()
        assert world.again(record).state is RollState.DONE, number
        assert sorted(world.restarts) == sorted(whole.restarts), number
        assert not world.off, number


@campaign
def test_killed_at_any_moment_it_is_gone_on_with(make_world: MakeWorld) -> None:
    kill_at_moments(make_world, 15, brokers=(1, 2))


@campaign
def test_killed_at_any_moment_controllers_are_gone_on_with(make_world: MakeWorld) -> None:
    kill_at_moments(make_world, 10, brokers=None, controllers=True)


@pytest.mark.parametrize(("said", "restarts"), [(True, (2, 3)), (False, (1, 2, 3))])
def test_a_restart_that_cannot_be_seen_is_asked_for(
    make_world: MakeWorld, said: bool, restarts: tuple[int, ...]
) -> None:
    world = make_world(tells_ids=False)
    record = world.begin()
    record = record.changed(record.step(1).begin(Phase.RESTARTING)).written()
    stopped = stops(world, record, "cannot be seen")
    assert "Stopped at broker 1 (restarting); 0 of 3 brokers are restarted" in stopped.what
    assert stopped.next_step == "Go on: kipctl roll --resume"
    assert not world.restarts
    assert world.again(record).state is RollState.STOPPED
    ends(world, record, *restarts, said=said)


def test_a_command_that_fails_stops_it_and_is_looked_at_before_it_is_repeated(
    make_world: MakeWorld,
) -> None:
    world = make_world(status=3)
    record = world.begin()
    stopped = stops(world, record, "has failed: its status is 3")
    assert str(record.output_path(1)) in stopped.what
    # It has restarted broker 1 all the same, and leads no partitions yet.
    assert world.off == {1}
    stops(world, world.again(record), r"Stopped at broker 2 .* left: 2, 3")
    assert world.restarts == [1, 2]


def test_a_command_that_does_nothing_is_not_believed(world: World) -> None:
    record = world.begin(sys.executable, "-c", "")
    stops(world, record, "producer ids of the same block as before", TimedOutError)
    assert world.again(record).left == world.again(record).steps


def test_leaders_that_somebody_brings_back_end_it(make_world: MakeWorld) -> None:
    world = make_world(brings_back=True)
    stops(world, world.begin(), "still leads partitions after 3 times")
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
    make_world: MakeWorld, action: str, asked: int, off: set[int], phase: Phase, restarts: list[int]
) -> None:
    world = make_world(gives_up_at=asked)
    record = world.begin(guard_action=action)
    stopped = stops(world, record, r"Given up\..*Stopped at broker 1")
    assert ("put back" in stopped.what) == (action == "rollback")
    left = world.again(record)
    assert (left.state, left.step(1).phase) == (RollState.STOPPED, phase)
    assert world.off == off
    assert world.restarts == restarts
    world.gives_up_at = -1
    ends(world, record, 1, 2, 3)


def test_ctrl_c_says_where_and_is_gone_on_with(make_world: MakeWorld) -> None:
    world = make_world(interrupted_at=3)
    record = world.begin()
    stopped = stops(world, record, r"Interrupted\. Stopped at broker 1", InterruptedRunError)
    assert stopped.next_step == "Go on: kipctl roll --resume"
    assert world.again(record).why == "interrupted"
    ends(world, record, 1, 2, 3)


def test_an_operator_restarts_each_and_presses_enter(make_world: MakeWorld) -> None:
    read, write = os.pipe()
    with os.fdopen(read) as stdin:
        world = make_world(stdin=stdin, types_to=write)
        record = ends(world, world.begin(restarter=Restarter.MANUAL), 1, 2, 3)
    os.close(write)
    assert [step.process for step in record.steps] == [None] * 3


def test_an_operator_who_goes_away_stops_it(make_world: MakeWorld) -> None:
    read, write = os.pipe()
    os.close(write)
    with os.fdopen(read) as stdin:
        world = make_world(stdin=stdin)
        stops(world, world.begin(restarter=Restarter.MANUAL), "nobody said that it was done")


def test_leaders_come_back_only_to_a_broker_that_is_whole(make_world: MakeWorld) -> None:
    """What other topics lack counts, too."""
    lacks = "1 partition is not all in sync, such as big-0: it lacks broker 1"
    world = make_world(copies=[lacks] * 3)
    ends(world, world.begin(), 1, 2, 3)
    assert not world.copies
    waits = world.said.index(f"Broker 1: {lacks}")
    back = [line.startswith("Broker 1: 1 leader is back") for line in world.said]
    assert waits < back.index(True)


def test_a_pause_that_is_asked_for_stops_it_before_the_next_step(world: World) -> None:
    record = world.begin()
    pause = ask_for_pause(world)
    stopped = stops(world, record, r"Paused.* 0 of 3 brokers are restarted")
    assert stopped.next_step == "Go on: kipctl roll --resume"
    assert not world.restarts
    assert not world.history
    pause.unlink()
    ends(world, record, 1, 2, 3)


def test_a_pause_does_not_leave_a_broker_whose_restart_is_called(world: World) -> None:
    pause = ask_for_pause(world)
    pause.unlink()
    record = world.begin("sh", "-c", f'echo 1 >> "{world.ran}"; touch "{pause}"')
    stops(world, record, "Paused")
    assert world.restarts == [1]
    assert world.again(record).step(1).phase is Phase.RESTARTED


def test_what_the_last_look_before_a_restart_does_not_know_is_said_once(
    make_world: MakeWorld,
) -> None:
    world = make_world(not_known=("Which brokers are fenced.",))
    ends(world, world.begin(), 1, 2, 3)
    assert world.said.count("Not known: Which brokers are fenced.") == 1


def test_controllers_come_after_brokers_and_the_active_one_last(world: World) -> None:
    record = ends(world, world.begin(controllers=True), 1, 2, 3, 102, 103, 101)
    names = [step.name for step in record.steps[3:]]
    assert names == ["controller 102", "controller 103", "controller 101"]
    assert world.history == ["off 1", "off 2", "off 3"]
    assert world.quorum.active == 102
    assert "Controller 101 is restarted: its metrics show another start." in world.said


def test_a_controller_that_has_become_the_active_one_is_restarted_last(world: World) -> None:
    record = world.begin(brokers=None, controllers=True)
    assert [step.broker for step in record.steps] == [102, 103, 101]
    world.ran.write_text("101\n")  # by somebody else: 102 is the active one now
    ends(world, record, 101, 103, 101, 102)


def test_without_metrics_a_resumed_roll_asks_for_a_standby_and_sees_the_active_one(
    make_world: MakeWorld,
) -> None:
    world = make_world(tells_starts=False)
    record = world.begin(brokers=None, controllers=True)
    mark = ProcessMark(None, None, None)
    record = record.changed(record.step(102).begin(Phase.RESTARTING, mark=mark)).written()
    stopped = stops(world, record, "cannot be seen")
    assert "Stopped at controller 102 (restarting); 0 of 3 nodes are restarted" in stopped.what
    assert not world.restarts
    ends(world, record, 102, 103, 101, said=False)
    # The active one leads in the same epoch: it is the same process.
    world = make_world(tells_starts=False)
    record = world.begin(brokers=None, controllers=True)
    mark = ProcessMark(led_epoch=1)
    record = record.changed(record.step(101).begin(Phase.RESTARTING, mark=mark)).written()
    ends(world, record, 102, 103, 101)


def test_what_a_canary_waited_is_told_by_node_also_after_a_stop(make_world: MakeWorld) -> None:
    world = make_world(gives_up_at=4)
    record = world.begin(brokers=(1, 2))
    waits = iter([(0.25,), (0.5,)])
    rolling = world.roll(record)
    rolling.new_waits = lambda: next(waits, ())
    with pytest.raises(PartlyDoneError, match="Stopped at broker 2"):
        rolling.run()
    assert [step.waits_seconds for step in world.again(record).steps] == [(0.25, 0.5), ()]
    again = world.roll(world.again(record))
    late = iter([(0.125,)])
    again.new_waits = lambda: next(late, ())
    again.run()
    assert [step.waits_seconds for step in world.again(record).steps] == [(0.25, 0.5), (0.125,)]


def test_while_a_controller_is_not_caught_up_none_is_restarted(make_world: MakeWorld) -> None:
    world = make_world(late_looks=2)
    ends(world, world.begin(brokers=(1,), controllers=True), 1, 102, 103, 101)
    waited = world.said.index("Controller 102: controller 103 is not caught up")
    assert waited < world.said.index("Restarting controller 102 (c:9).")
    world = make_world(late_looks=10**6)
    record = world.begin(brokers=None, controllers=True)
    stopped = stops(world, record, "controller 103 is not caught up", TimedOutError)
    assert "Stopped at controller 102 (waiting); 0 of 3 nodes are restarted" in stopped.what
    assert not world.restarts


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        (
            {"short_looks": range(2)},
            "Broker 1: 1 partition is not all in sync, such as t-0: it lacks broker 2, broker 3",
        ),
        ({"silent_looks": range(1)}, "Broker 1: No broker answered."),
    ],
    ids=["behind", "silent"],
)
def test_a_replica_that_falls_behind_before_a_restart_is_waited_for(
    make_world: MakeWorld, looks: dict[str, range], said: str
) -> None:
    """So is a cluster that does not answer."""
    world = make_world(**looks)
    ends(world, world.begin(), 1, 2, 3)
    assert world.said.count(said) == 1


def test_a_replica_that_stays_behind_ends_the_wait_before_a_restart(make_world: MakeWorld) -> None:
    world = make_world(short_looks=range(10**6))
    record = world.begin(timeout_s=0.3)
    stops(world, record, r"After 0\.3 s: broker 1: 1 partition is", TimedOutError)
    assert 0.3 < world.now_s < 0.5
    assert world.restarts == []


def test_what_a_guard_pauses_before_a_restart_is_not_waited_for_the_node(
    make_world: MakeWorld,
) -> None:
    """The replica falls behind while the guard pauses: from then on it is waited for."""
    world = make_world(guard_pause_s=90.0, short_looks=range(1, 2))
    ends(world, world.begin(brokers=(1,), timeout_s=60.0), 1)


def killed_as_it_calls_a_restart(world: World) -> RollRecord:
    """A roll whose kipctl is gone when the restart is written down and not called."""
    record = world.begin()
    step = record.step(1).begin(Phase.LEADERS_OFF, leaders_moved_off=1)
    world.off.add(1)
    mark = ProcessMark(1 * BLOCK)
    return record.changed(
        step.begin(Phase.RESTARTING, mark=mark, process=None, output="")
    ).written()


def test_a_restart_that_another_machine_has_called_is_not_called_again_unasked(
    world: World,
) -> None:
    """With a home that both share: the process id is of the other one."""
    record = killed_as_it_calls_a_restart(world)
    step = record.step(1).begin(Phase.RESTARTING, process=Process(1, "7"), called_on="elsewhere")
    stopped = stops(world, record.changed(step).written(), "called on elsewhere")
    assert "kipctl roll --resume --was-restarted no" in stopped.what
    assert world.restarts == []
    done = ends(world, record, 1, 2, 3, said=False)
    assert {step.called_on for step in done.steps} == {socket.gethostname()}


def test_a_restart_that_was_about_to_be_called_is_not_waited_with(world: World) -> None:
    """A look takes producer ids: after a thousand of them the process would seem to be another."""
    record = killed_as_it_calls_a_restart(world)
    world.short_looks = range(1)
    stops(world, record, "not all in sync")
    assert world.restarts == []
    ends(world, record, 1, 2, 3)


def test_a_pause_comes_before_a_restart_that_was_about_to_be_called(world: World) -> None:
    record = killed_as_it_calls_a_restart(world)
    ask_for_pause(world)
    stops(world, record, "Paused")
    assert world.restarts == []


@contextmanager
def full_disk(full: Callable[[int], bool]) -> Iterator[list[int]]:
    """The writes of a roll, its record's and that of a command's output, fail where it is full, by
    their number from 1 on; yields those numbers so far."""
    writes: list[int] = []

    def before(write: Callable[..., object]) -> Callable[..., object]:
        def counted(*given: object) -> object:
            writes.append(len(writes) + 1)
            if full(writes[-1]):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(*given)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "write_whole", before(record.write_whole))
        patch.setattr(restart_command, "Launch", before(restart_command.Launch))
        yield writes


def require_true(world: World, error: KipctlError, left: RollRecord) -> None:
    """Status and message of a roll whose record could not be written say what was done, and what
    that record, `left`, says."""
    is_behind = "Its record still says: " in error.what
    if is_behind or "Given up." not in error.what:
        assert "No space left on device" in error.what
    done, restarted = len(set(world.history)) - len(world.off), set(world.restarts)
    if not (world.history or restarted):
        assert error.status in (UsageError.status, PartlyDoneError.status)
    else:
        assert error.status is PartlyDoneError.status
    if error.status is UsageError.status:
        is_over = left.state is RollState.ABANDONED
        assert is_over or "kipctl roll --abandon" in error.next_step
        assert not is_over or left.how == left.how.redacted
        return
    assert error.next_step == "Go on: kipctl roll --resume"
    assert f" {counted(done, 'broker', 'are', total=2)} restarted" in error.what
    at = next((step for step in left.steps if f"Stopped at {step.name} " in error.what), None)
    assert at is not None
    if is_behind:
        assert f"still says: {left.state}, {at.name} ({at.phase})." in error.what
    else:
        assert f"Stopped at {at.name} ({at.phase})" in error.what
        assert left.state is RollState.STOPPED
    assert (at.broker in restarted) == any(
        f"Stopped at {at.name} ({phase})" in error.what
        for phase in (Phase.RESTARTED, Phase.LEADERS_BACK, Phase.DONE)
    )


@campaign
@pytest.mark.parametrize("is_full_again", [True, False])
@pytest.mark.parametrize("guarding", [{}, {"gives_up_at": 6}])
def test_a_disk_that_is_full_at_any_write_ends_it_with_what_is_true(
    make_world: MakeWorld, is_full_again: bool, guarding: Mapping[str, int]
) -> None:
    """For good from that write on, or for that one alone; also while leaders are put back for a
    guard that gave up."""
    action = "rollback" if guarding else "stop"
    number, failed_at = 0, [0]
    while failed_at:
        number, failed_at = number + 1, []

        def full(write: int, first: int = number, failed: list[int] = failed_at) -> bool:
            is_full = write == first or (is_full_again and write > first)
            failed += [write] * is_full
            return is_full

        world = make_world(**guarding)
        begun = None
        with full_disk(full):
            try:
                begun = world.begin(brokers=(1, 2), guard_action=action)
                world.roll(begun).run()
            except KipctlError as stopped:
                error = stopped
            else:
                break
        world.gives_up_at = -1
        if begun is None:
            assert error.status is UsageError.status
            assert unfinished_roll(world.journal) is None
            continue
        left = world.again(begun)
        if failed_at:
            require_true(world, error, left)
        if left.state is not RollState.ABANDONED:
            ends(world, begun, 1, 2)
    assert number > 15
