"""A run under way: actions on the cluster on time, until the probe is done or Ctrl-C ends it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from kipctl.errors import InterruptedRunError
from kipctl.experiments.actions import Performed, Performer
from kipctl.experiments.begin import Probe
from kipctl.probe.outcome import AnyOutcome
from kipctl.probe.schedule import Schedule
from kipctl.trace.clock import now_us


@dataclass(slots=True)
class Listeners:
    """Who is told while it runs: `message` of steps, `interval` of Kafka's interval lines."""

    message: Callable[[str], None] = field(default=lambda _: None)
    interval: Callable[[str], None] = field(default=lambda _: None)


class Timing(Protocol):
    """When actions happen: every so many seconds, `count` times, or 0 for as long as it runs."""

    @property
    def every_s(self) -> float: ...

    @property
    def count(self) -> int: ...


def conduct(
    probe: Probe[AnyOutcome],
    performer: Performer | None,
    timing: Timing,
    message: Callable[[str], None],
) -> tuple[AnyOutcome, str]:
    """Perform the actions on time until the probe is done. Ctrl-C stops the probe in good order.

    Returns the outcome, which is `stopped` after Ctrl-C also when all was sent by then, and how far
    the action came that Ctrl-C cut off.
    """
    try:
        number, free_us = 0, probe.schedule.start_us
        while performer and (not timing.count or number < timing.count):
            number += 1
            begins_us = action_begins_us(probe.schedule, number, timing.every_s, free_us)
            if begins_us is None or probe.is_done_by(begins_us):
                break
            message(_told(number, performer.perform()))
            free_us = now_us()
        return probe.outcome(), ""
    except (KeyboardInterrupt, InterruptedRunError) as interrupted:
        probe.stop()
        told = interrupted.what if isinstance(interrupted, InterruptedRunError) else ""
        return replace(probe.outcome(), stopped=True), told.removeprefix("Interrupted. ")


def action_begins_us(schedule: Schedule, number: int, every_s: float, free_us: int) -> int | None:
    """When action `number` (from 1) begins, in monotonic microseconds; None if it does not.

    It is due every so many seconds after the start, and waits for the one before it, which was over
    at `free_us`. Without load there is nothing to measure: none begins when the last record is
    due, or later. Unthrottled nobody knows when that is.
    """
    begins_us = max(schedule.start_us + round(number * every_s * 1e6), free_us)
    if schedule.throttled and begins_us >= schedule.intended_us(schedule.num_records - 1):
        return None
    return begins_us


def _told(number: int, done: Performed) -> str:
    if done.error:
        return f"{done.action} {number}: {done.error}"
    took_ms = (done.answered_us - done.called_us) / 1000
    spread_ms = (done.converged_us - done.answered_us) / 1000
    return (
        f"{done.action} {number}: {done.partitions} partitions in {took_ms:.0f} ms, "
        f"known to every broker {spread_ms:.0f} ms later."
    )


def tell_of_missing(happened: int, timing: Timing, message: Callable[[str], None]) -> None:
    """Say so when fewer actions happened than were asked for."""
    wanted = timing.count or 1
    if happened < wanted:
        message(
            f"{happened} of {wanted} actions happened before the records were sent: "
            f"send more of them, or act more often than every {timing.every_s:g} s (--every)."
        )
