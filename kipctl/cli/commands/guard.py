"""`--guard` of the commands that move leaders in batches: its options, read and checked."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kipctl.cli.options import MetricsUrlOption, duration_option, option, pause_option
from kipctl.durations import Duration
from kipctl.errors import UsageError
from kipctl.next_step import Command

if TYPE_CHECKING:
    from kipctl.changes.guard_interface import RecordedGuard

STOP, ROLLBACK = "stop", "rollback"


@dataclass(frozen=True)
class GuardOptions:
    """Of commands that a guard may hold up."""

    guard: Annotated[
        list[str] | None,
        option(
            "What pauses it: 'urp > 10', 'under-min-isr > 0', 'at-min-isr > 0', "
            "'offline > 0', 'metric NAME > 5', 'p99 > 50ms for 10s', 'p99 > 1.5x' (of what it was"
            " before), 'moved-wait p50 > 20ms'; repeatable.",
            value="CONDITION",
        ),
    ] = None
    guard_patience: Annotated[
        Duration, duration_option("After so long in a pause it gives up.")
    ] = Duration(600)
    guard_quiet: Annotated[Duration, pause_option("So long it is quiet before it goes on.")] = (
        Duration(30)
    )
    metrics_url: MetricsUrlOption = None


GuardActionOption = Annotated[str, option("What giving up does.", value="stop|rollback")]


def read_guard(
    options: GuardOptions, action: str = STOP, *, moves_along: bool, is_alone: bool = True
) -> "RecordedGuard":
    """The guard asked for. Raises UsageError, also for one that could see nothing.

    `moves_along` says that leaders of a canary's topic move with the change: else there is no wait
    for them. Unless it `is_alone` there may be conditions, and a use of metrics, beside these.
    """
    from kipctl.changes.guard_interface import RecordedGuard
    from kipctl.cluster.metrics_url import require_url
    from kipctl.guard.conditions import Kind, parse_guard

    conditions = tuple(dict.fromkeys(parse_guard(text) for text in options.guard or ()))
    urls = options.metrics_url or ()
    if action not in (STOP, ROLLBACK):
        raise UsageError(f"--guard-action {action!r} is none of {STOP}, {ROLLBACK}.")
    if is_alone and not conditions and (action != STOP or urls):
        option = "--metrics-url" if urls else "--guard-action"
        raise UsageError(f"{option} does nothing without --guard.")
    for condition in conditions:
        if condition.kind is Kind.MOVED_WAIT and not moves_along:
            raise UsageError(
                f"--guard {condition.text!r} would see nothing: "
                "no leader of the canary moves along.",
                "It goes with "
                + Command("reassign --rotate")
                + ", and with the ways that elect leaders.",
            )
    for url in urls:
        require_url(url)
    return RecordedGuard(
        tuple(condition.text for condition in conditions),
        options.guard_patience,
        options.guard_quiet,
        action,
        tuple(urls),
    )
