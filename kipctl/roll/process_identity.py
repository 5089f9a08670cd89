"""What tells one life of a node's process from the next, and whether it has been restarted.

Kafka does not show a broker's epoch to its clients. These live no longer than the process:

- the block of producer ids that it hands out from. It takes 1,000 at a time from the controller,
  which gives none twice (`ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`, KIP-730): an id of the same
  block as before is proof of the same process. Another block is what a new process has, or an old
  one that has used up its block;
- the epoch in which it leads the controllers, if it does. A new process never leads in an epoch of
  the one before it, and who leads in the same epoch as before is the same process;
- the time of its start, which its metrics show (`process_start_time_seconds`).
"""

from dataclasses import dataclass
from enum import StrEnum

BLOCK = 1000
_SAME_START_S = 1.0
"""Two readings of one start differ by less, of two starts by more."""


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """What identifies a node's process at one moment; None is what it did not show.

    `producer_id` is one that it has just given, `started_at` the start of its process (seconds
    since 1970), `led_epoch` the epoch in which it led the controllers.
    """

    producer_id: int | None = None
    started_at: float | None = None
    led_epoch: int | None = None


class ProcessLife(StrEnum):
    """Whether a node's process is a new one."""

    NEW = "new"
    SAME = "same"
    NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True)
class RestartVerdict:
    """Whether a process is a new one; `why` says what shows it."""

    life: ProcessLife
    why: str


def judge_restart(
    before: ProcessMark, now: ProcessMark, *, was_away: bool, is_watched: bool
) -> RestartVerdict:
    """Whether the process is another one than before. A pure function.

    `was_away` says that it has been seen to be gone since; `is_watched` that it would have been
    seen. A node that was gone need not be a new process: its network may have been. Nor is one that
    leads the controllers no more: it may have lost an election.
    """
    if before.started_at is not None and now.started_at is not None:
        if abs(now.started_at - before.started_at) > _SAME_START_S:
            return RestartVerdict(ProcessLife.NEW, "its metrics show another start")
        return RestartVerdict(ProcessLife.SAME, "its metrics show the same start as before")
    is_same: bool | None = None
    if before.producer_id is not None and now.producer_id is not None:
        is_same = before.producer_id // BLOCK == now.producer_id // BLOCK
        same = "gives producer ids of the same block as before"
        other = "gives producer ids of another block"
    elif before.led_epoch is not None:
        is_same = before.led_epoch == now.led_epoch
        same = "leads the controllers in the same epoch as before"
        other = "no longer leads the controllers as before"
    if is_same:
        return RestartVerdict(ProcessLife.SAME, f"it {same}")
    if is_same is False and (was_away or not is_watched):
        away = "was away, and " if was_away else ""
        return RestartVerdict(ProcessLife.NEW, f"it {away}{other}")
    if was_away:
        return RestartVerdict(ProcessLife.NEW, "it was away; nothing else of it can be seen")
    return RestartVerdict(
        ProcessLife.NOT_KNOWN,
        "it has not been away" if is_watched else "it shows nothing that a restart would change",
    )
