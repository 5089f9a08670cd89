"""What comes next for a broker, also after a kipctl that was killed at any moment: by table."""

import pytest

from kipctl.roll.next_step import Action, CommandState, NodeState, Phase, next_action, next_node
from kipctl.roll.process_identity import ProcessLife, RestartVerdict

THERE = NodeState(True)
AWAY = NodeState(False, unmet="3 partitions are not all in sync")
NEW, SAME, NOT_KNOWN = (RestartVerdict(life, f"it is {life}") for life in ProcessLife)
ENDED, RUNNING, FAILED = CommandState.ENDED, CommandState.RUNNING, CommandState.FAILED
ELSEWHERE = CommandState.ELSEWHERE


@pytest.mark.parametrize(
    ("phase", "look", "act"),
    [
        # Before its restart: only a cluster that is whole, and no leaders on it.
        (Phase.WAITING, NodeState(True, leaders=4), Action.LEADERS_OFF),
        (Phase.WAITING, THERE, Action.RESTART),
        (Phase.WAITING, NodeState(True, "2 partitions are behind", 4), Action.WAIT),
        (Phase.WAITING, AWAY, Action.WAIT),
        (Phase.LEADERS_OFF, NodeState(True, leaders=1), Action.LEADERS_OFF),
        (Phase.LEADERS_OFF, THERE, Action.RESTART),
        (Phase.LEADERS_OFF, AWAY, Action.WAIT),
        # While this kipctl restarts it: it is never called twice.
        (Phase.RESTARTING, NodeState(True, command=RUNNING, is_called_here=True), Action.WAIT),
        (Phase.RESTARTING, NodeState(False, command=RUNNING, is_called_here=True), Action.WAIT),
        (Phase.RESTARTING, NodeState(False, command=ENDED, is_called_here=True), Action.WAIT),
        (Phase.RESTARTING, NodeState(True, "", 0, ENDED, True, SAME), Action.WAIT),
        (Phase.RESTARTING, NodeState(True, "", 0, ENDED, True, NOT_KNOWN), Action.WAIT),
        (Phase.RESTARTING, NodeState(True, "", 0, ENDED, True, NOT_KNOWN, True), Action.WAIT),
        (Phase.RESTARTING, NodeState(True, "", 0, ENDED, True, NEW), Action.NOTE_RESTARTED),
        (Phase.RESTARTING, NodeState(True, "", 0, FAILED, True, NEW), Action.STOP),
        # After a kipctl that was killed: the command may still run, or never have run.
        (Phase.RESTARTING, NodeState(True, command=RUNNING), Action.WAIT),
        (Phase.RESTARTING, NodeState(False, command=ENDED), Action.WAIT),
        (Phase.RESTARTING, NodeState(False), Action.WAIT),
        (Phase.RESTARTING, NodeState(True, "", 0, ENDED, False, NEW), Action.NOTE_RESTARTED),
        (Phase.RESTARTING, NodeState(True, judged=NEW), Action.NOTE_RESTARTED),
        (Phase.RESTARTING, NodeState(True, judged=SAME), Action.RESTART),
        (Phase.RESTARTING, NodeState(True, "", 0, ENDED, False, SAME), Action.RESTART),
        (Phase.RESTARTING, NodeState(True, judged=NOT_KNOWN), Action.STOP),
        (Phase.RESTARTING, NodeState(True, judged=NOT_KNOWN, said=True), Action.NOTE_RESTARTED),
        (Phase.RESTARTING, NodeState(True, judged=NOT_KNOWN, said=False), Action.RESTART),
        (
            Phase.RESTARTING,
            NodeState(True, judged=SAME, said=True),
            Action.RESTART,
        ),  # it is to be seen
        # It may still run on the machine where it was called: it is not called again unasked.
        (Phase.RESTARTING, NodeState(False, command=ELSEWHERE), Action.WAIT),
        (Phase.RESTARTING, NodeState(True, "", 0, ELSEWHERE, False, NEW), Action.NOTE_RESTARTED),
        (Phase.RESTARTING, NodeState(True, "", 0, ELSEWHERE, False, SAME), Action.STOP),
        (Phase.RESTARTING, NodeState(True, "", 0, ELSEWHERE, False, SAME, True), Action.STOP),
        (Phase.RESTARTING, NodeState(True, "", 0, ELSEWHERE, False, SAME, False), Action.RESTART),
        (Phase.RESTARTING, NodeState(True, "", 0, ELSEWHERE, False, NOT_KNOWN), Action.STOP),
        # Afterwards: leaders come back to a broker that is in sync only.
        (Phase.RESTARTED, AWAY, Action.WAIT),
        (Phase.RESTARTED, NodeState(True, "2 partitions are behind"), Action.WAIT),
        (Phase.RESTARTED, THERE, Action.LEADERS_BACK),
        (Phase.LEADERS_BACK, AWAY, Action.WAIT),
        (Phase.LEADERS_BACK, NodeState(True, leaders=3), Action.LEADERS_BACK),
        (Phase.DONE, AWAY, Action.FINISH),
    ],
)
def test_what_comes_next(phase: Phase, look: NodeState, act: Action) -> None:
    what = next_action(phase, look)
    assert what.act is act
    assert what.why or act not in (Action.WAIT, Action.STOP)


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
    assert next_node(left, active) == expected
