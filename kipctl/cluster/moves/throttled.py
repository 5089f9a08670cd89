"""A reassignment under a throttle: written down first, kept while data is copied, put back after.

What a throttle replaces is written to the journal's folder before it is set, so that any later
kipctl of this user and machine can put it back, however this one ended.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kipctl.cluster.moves.journal import Journal
from kipctl.cluster.moves.plan import Move
from kipctl.cluster.moves.reassign import ongoing
from kipctl.cluster.moves.throttle import (
    TOPIC,
    StillSet,
    Throttle,
    demand_put_back,
    prepare_throttle,
    put_back,
    read_throttle,
    set_throttle,
)
from kipctl.errors import KipctlError
from kipctl.transport.request import Cluster

_NAME = "throttle"
CLEAR = "kipctl reassign --clear-throttles"


@dataclass(frozen=True, slots=True)
class Left:
    """A throttle that is still written down."""

    path: Path
    throttle: Throttle


@contextmanager
def throttled(
    cluster: Cluster,
    kept: Journal,
    moves: Sequence[Move],
    rate: int,
    message: Callable[[str], None],
) -> Iterator[None]:
    """Let these moves copy at most `rate` bytes per second, in and out of each broker, inside.

    Afterwards every setting is what it was. While something is still being copied, as after
    Ctrl-C or at the end of a time allowed, the throttle stays, and it is said what removes it.
    Raises RefusedError, UnreachableError, TimedOutError, UsageError when it cannot be written down,
    and PartlyDoneError when it cannot be put back.
    """
    throttle = prepare_throttle(cluster, moves, rate)
    path = kept.note(_NAME, throttle.document())
    try:
        set_throttle(cluster, throttle)
    except BaseException:
        if not put_back(cluster, throttle):
            path.unlink(missing_ok=True)
        raise
    ended = False
    try:
        yield
        ended = True
    finally:
        if ended or not _is_copying(cluster, moves):
            still_set = put_back(cluster, throttle)
            if still_set:
                message(f"The throttle is not all put back. Try again: {CLEAR}")
                if ended:
                    demand_put_back(still_set)
            else:
                path.unlink(missing_ok=True)
        else:
            message(f"Data is still copied, so the throttle stays. When it is done: {CLEAR}")


def left(kept: Journal) -> list[Left]:
    """The throttles that were set from this machine and not put back. Raises UsageError."""
    return [Left(path, read_throttle(document)) for path, document in kept.notes(_NAME)]


def clear(cluster: Cluster, found: Sequence[Left], *, forget: bool = False) -> tuple[StillSet, ...]:
    """Put them back, the newest first; what could not be stays written down, unless `forget`."""
    still_set: list[StillSet] = []
    for one in found:
        these = put_back(cluster, one.throttle)
        if forget or not these:
            one.path.unlink(missing_ok=True)
        still_set += these
    return tuple(still_set)


def needed(cluster: Cluster, found: Sequence[Left]) -> bool:
    """Whether something that is being reassigned now is throttled by one of them."""
    settings = {change.setting for one in found for change in one.throttle.changes}
    topics = {setting.name for setting in settings if setting.kind == TOPIC}
    return any(one.id.topic in topics for one in ongoing(cluster))


def _is_copying(cluster: Cluster, moves: Sequence[Move]) -> bool:
    """True when it cannot be told, too."""
    try:
        return bool(ongoing(cluster, [move.id for move in moves]))
    except KipctlError:
        return True
