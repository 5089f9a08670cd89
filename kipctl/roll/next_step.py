"""What comes next for a node of a roll: from how far it came and what is to be seen. Pure rules.

The same rules lead a roll that goes on and one that is resumed: each time the cluster is looked at,
and a step is done only if what it does has not happened.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kipctl.next_step import Command
from kipctl.roll.process_identity import ProcessLife, RestartVerdict

NOT_OBSERVED = RestartVerdict(ProcessLife.NOT_KNOWN, "nobody has looked")


class Phase(StrEnum):
    """How far a node's restart has come; each is written down before what it names begins.

    Controllers that are no brokers have no leaders to be moved.
    """

    WAITING = "waiting"
    LEADERS_OFF = "leaders off"
    RESTARTING = "restarting"
    RESTARTED = "restarted"
    LEADERS_BACK = "leaders back"
    DONE = "done"


class CommandState(StrEnum):
    """What is known of the command that restarts a broker (or of the operator who does).

    ENDED is well, or nobody knows how: it was called by a kipctl that is gone. ELSEWHERE: it was
    called on another machine, and may still run there.
    """

    NOT_CALLED = "not called"
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    ELSEWHERE = "elsewhere"


class Action(StrEnum):
    """What is to be done; WAIT is to look again a little later."""

    LEADERS_OFF = "leaders off"
    RESTART = "restart"
    NOTE_RESTARTED = "note that it is restarted"
    LEADERS_BACK = "leaders back"
    FINISH = "finish"
    WAIT = "wait"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class NodeState:
    """What is to be seen of a node and its cluster.

    `is_up` says that it is in Metadata and answers; of a controller that it takes connections,
    or follows the others where only they can connect to it. `unmet` says in words what is not in
    sync everywhere, or not shown alike by all brokers, or which controller is not caught up.
    `leaders` are those on it that others can take over. `is_called_here` is False after a kipctl
    that was ended has called the command. `said` is what the operator says of a restart that cannot
    be seen: True that it has happened.
    """

    is_up: bool
    unmet: str = ""
    leaders: int = 0
    command: CommandState = CommandState.NOT_CALLED
    is_called_here: bool = False
    judged: RestartVerdict = NOT_OBSERVED
    said: bool | None = None


@dataclass(frozen=True, slots=True)
class NextAction:
    """What to do, and why (for WAIT: what is waited for)."""

    act: Action
    why: str = ""


def next_action(phase: Phase, look: NodeState) -> NextAction:
    """What comes next. A pure function of how far the broker came and what is to be seen."""
    match phase:
        case Phase.WAITING | Phase.LEADERS_OFF:
            if not look.is_up:
                return NextAction(Action.WAIT, "it is away, and not by this roll")
            if look.unmet:
                return NextAction(Action.WAIT, look.unmet)
            return NextAction(Action.LEADERS_OFF if look.leaders else Action.RESTART)
        case Phase.RESTARTING:
            return _restarting(look)
        case Phase.RESTARTED | Phase.LEADERS_BACK:
            if not look.is_up:
                return NextAction(Action.WAIT, "it is not back")
            return (
                NextAction(Action.WAIT, look.unmet)
                if look.unmet
                else NextAction(Action.LEADERS_BACK)
            )
        case Phase.DONE:
            return NextAction(Action.FINISH)


def _restarting(look: NodeState) -> NextAction:
    if look.command is CommandState.FAILED:
        return NextAction(Action.STOP, "the command that restarts it has failed")
    if look.command is CommandState.RUNNING:
        return NextAction(Action.WAIT, "it is being restarted")
    if not look.is_up:
        return NextAction(Action.WAIT, "it is not back")
    if look.judged.life is ProcessLife.NEW:
        return NextAction(Action.NOTE_RESTARTED, look.judged.why)
    if look.is_called_here:
        return NextAction(
            Action.WAIT, f"it does not seem to have been restarted: {look.judged.why}"
        )
    if look.judged.life is ProcessLife.SAME:
        if look.command is CommandState.ELSEWHERE and look.said is not False:
            return NextAction(
                Action.STOP,
                f"{look.judged.why}, and the command that restarts it may still run on "
                "another machine. If it does not: " + Command("roll --resume --was-restarted no"),
            )
        return NextAction(Action.RESTART, look.judged.why)
    if look.said is not None:
        said = "the operator says so"
        return NextAction(Action.NOTE_RESTARTED if look.said else Action.RESTART, said)
    return NextAction(
        Action.STOP,
        "the command that restarts it was called, and whether it has been restarted cannot be seen:"
        f" {look.judged.why}",
    )


def next_node(left: Sequence[tuple[int, Phase]], active: int | None) -> int:
    """Which node of those that are left, in their order, is the next.

    The active controller has the last turn: if it is another one by now than when the order was
    made, the one after it comes first. What is begun is ended before. A pure function.
    """
    (first, phase), *others = left
    if first == active and phase is Phase.WAITING and others:
        return others[0][0]
    return first
