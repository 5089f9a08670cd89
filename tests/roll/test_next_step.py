"""What comes next for a broker, also after a kipctl that was killed at any moment: by table."""

import pytest

from kipctl.roll.next_step import Act, Command, Look, Phase, next_act, which_next
from kipctl.roll.process_identity import Judged, Life

THERE = Look(True)
AWAY = Look(False, unmet="3 partitions are not all in sync")
NEW, SAME, NOT_KNOWN = (Judged(life, f"it is {life}") for life in Life)
ENDED, RUNNING, FAILED = Command.ENDED, Command.RUNNING, Command.FAILED


@pytest.mark.parametrize(
    ("phase", "look", "act"),
    [
        # Before its restart: only a cluster that is whole, and no leaders on it.
        (Phase.WAITING, Look(True, leaders=4), Act.LEADERS_OFF),
        (Phase.WAITING, THERE, Act.RESTART),
        (Phase.WAITING, Look(True, "2 partitions are behind", 4), Act.WAIT),
        (Phase.WAITING, AWAY, Act.WAIT),
        (Phase.LEADERS_OFF, Look(True, leaders=1), Act.LEADERS_OFF),
        (Phase.LEADERS_OFF, THERE, Act.RESTART),
        (Phase.LEADERS_OFF, AWAY, Act.WAIT),
        # While this kipctl restarts it: it is never called twice.
        (Phase.RESTARTING, Look(True, command=RUNNING, is_called_here=True), Act.WAIT),
        (Phase.RESTARTING, Look(False, command=RUNNING, is_called_here=True), Act.WAIT),
        (Phase.RESTARTING, Look(False, command=ENDED, is_called_here=True), Act.WAIT),
        (Phase.RESTARTING, Look(True, "", 0, ENDED, True, SAME), Act.WAIT),
        (Phase.RESTARTING, Look(True, "", 0, ENDED, True, NOT_KNOWN), Act.WAIT),
        (Phase.RESTARTING, Look(True, "", 0, ENDED, True, NOT_KNOWN, True), Act.WAIT),
        (Phase.RESTARTING, Look(True, "", 0, ENDED, True, NEW), Act.NOTE_RESTARTED),
        (Phase.RESTARTING, Look(True, "", 0, FAILED, True, NEW), Act.STOP),
        # After a kipctl that was killed: the command may still run, or never have run.
        (Phase.RESTARTING, Look(True, command=RUNNING), Act.WAIT),
        (Phase.RESTARTING, Look(False, command=ENDED), Act.WAIT),
        (Phase.RESTARTING, Look(False), Act.WAIT),
        (Phase.RESTARTING, Look(True, "", 0, ENDED, False, NEW), Act.NOTE_RESTARTED),
        (Phase.RESTARTING, Look(True, judged=NEW), Act.NOTE_RESTARTED),
        (Phase.RESTARTING, Look(True, judged=SAME), Act.RESTART),
        (Phase.RESTARTING, Look(True, "", 0, ENDED, False, SAME), Act.RESTART),
        (Phase.RESTARTING, Look(True, judged=NOT_KNOWN), Act.STOP),
        (Phase.RESTARTING, Look(True, judged=NOT_KNOWN, said=True), Act.NOTE_RESTARTED),
        (Phase.RESTARTING, Look(True, judged=NOT_KNOWN, said=False), Act.RESTART),
        (Phase.RESTARTING, Look(True, judged=SAME, said=True), Act.RESTART),  # it is to be seen
        # Afterwards: leaders come back to a broker that is in sync only.
        (Phase.RESTARTED, AWAY, Act.WAIT),
        (Phase.RESTARTED, Look(True, "2 partitions are behind"), Act.WAIT),
        (Phase.RESTARTED, THERE, Act.LEADERS_BACK),
        (Phase.LEADERS_BACK, AWAY, Act.WAIT),
        (Phase.LEADERS_BACK, Look(True, leaders=3), Act.LEADERS_BACK),
        (Phase.DONE, AWAY, Act.FINISH),
    ],
)
def test_what_comes_next(phase: Phase, look: Look, act: Act) -> None:
    what = next_act(phase, look)
    assert what.act is act
    assert what.why or act not in (Act.WAIT, Act.STOP)


W, R = Phase.WAITING, Phase.RESTARTING


@pytest.mark.parametrize(
    ("left", "active", "expected"),
    [
        ([(102, W), (103, W), (101, W)], 101, 102),
        ([(102, W), (103, W), (101, W)], 102, 103),  # it is the active one by now: its turn is last
        ([(102, R), (103, W)], 102, 102),  # what is begun is ended
        ([(101, W)], 101, 101),
        ([(1, W), (2, W)], None, 1),
        ([(102, W), (101, W)], None, 102),
    ],
)
def test_the_active_controller_has_the_last_turn(
    left: list[tuple[int, Phase]], active: int | None, expected: int
) -> None:
    assert which_next(left, active) == expected
