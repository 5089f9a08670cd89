"""What the commands of `kipctl perf` share: their properties, and how a result is printed."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from typer import Exit

from kipctl.cli.commands.confirm import confirm_moves
from kipctl.cli.environment import Environment
from kipctl.cli.options import RunOptions
from kipctl.counts import counted
from kipctl.errors import ExitStatus, PartlyDoneError, ThresholdError
from kipctl.next_step import Command, NextStep
from kipctl.report.tables import Paragraph, Report, Table

if TYPE_CHECKING:
    from kipctl.documents.runs import Run
    from kipctl.load.actions import Action
    from kipctl.load.measure import AnyDocument, Load, RunResult
    from kipctl.probe.run import AnyOutcome
    from kipctl.protocol.api import ApiKey
    from kipctl.transport.access import Access

_DENIED = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
"""Kafka's errors for rights that are missing, in the order in which they are said."""


def given_properties(file: Path | None, pairs: Sequence[str] | None) -> dict[str, str]:
    """The properties of a file, and those of the command line, which win. Raises UsageError."""
    from kipctl.java_properties import read
    from kipctl.probe.config import parse_pairs

    return (read(file) if file else {}) | parse_pairs(list(pairs or []))


def carry_out(
    environment: Environment,
    options: RunOptions,
    load: "Load[AnyOutcome, AnyDocument]",
    answer: Callable[["AnyDocument"], tuple[Paragraph, ...]],
    tables: Callable[["AnyDocument"], tuple[Table, ...]],
    *,
    draws: bool = True,
    leaves_out: int = 0,
) -> "RunResult[AnyOutcome, AnyDocument]":
    """Ask before leaders of somebody's topic move, run the load, and print what it came to; with
    --print-metrics every number of it. It `draws` on a terminal, and `leaves_out` so many of the
    lines that Kafka's own tool begins with."""
    from kipctl.load.execute import Listeners
    from kipctl.load.measure import run
    from kipctl.report.live import RunScreen
    from kipctl.report.perf_tables import metrics_table

    plan = load.plan
    confirm_moves(environment, load.specs[-1].access, load.topic, plan.during, options.yes)
    listeners = Listeners(environment.message, environment.message)
    with environment.live() if draws and not plan.on_spark else nullcontext() as draw:
        if draw:
            listeners.screen = lambda run: draw(RunScreen(run))
        result = run(load, listeners)
    document = result.document
    metrics = (metrics_table(document),) if options.print_metrics else ()
    report = Report(
        load.command,
        document,
        (*tables(document), *metrics),
        result.kafka_lines[leaves_out:],
        answer(document),
        fits_screen=not metrics,
    )
    environment.report(report, options.output)
    if record := options.record:
        environment.message(
            NextStep("Recorded: ", Command("runs show", record), ", ", Command("report", record))
        )
    return result


def raise_for_failed(
    environment: Environment,
    errors: Mapping[str, int],
    request: "ApiKey",
    access: "Access",
    topic: str,
    *,
    done: int,
    acted: bool,
) -> NoReturn:
    """Raise the status of a run in which something failed, and say which right was missing, if any.

    `errors`, `done` and `acted` are those of `status_of_failed`.
    """
    from kipctl.protocol.error_codes import ErrorCode
    from kipctl.transport.acl_errors import refusal

    for name in _DENIED:
        if name in errors:
            environment.error(refusal(f"Topic {topic!r}", ErrorCode[name], request, access, topic))
    raise Exit(status_of_failed(errors, done, acted))


def status_of_failed(errors: Mapping[str, int], done: int, acted: bool) -> ExitStatus:
    """Of a run in which something failed: refused, if no right to any of it was there.

    `errors` counts what failed, by Kafka's names; `done` is how much did not; the run has `acted`
    if its actions changed something of the cluster, such as leaders.
    """
    is_denied = not done and not acted and set(errors) <= set(_DENIED)
    return ExitStatus.REFUSED if is_denied else ExitStatus.PARTLY_DONE


def raise_for_run(document: "Run", during: "Action | None", options: RunOptions) -> None:
    """Raise PartlyDoneError when an action failed, or none happened of those asked for.

    Raises ThresholdError when something spoilt the run, with --strict.
    """
    actions = document["actions"]
    if during is not None and not actions:
        raise PartlyDoneError(
            f"--during {during}: nothing happened before the records were through.",
            "Give more records, or a shorter --every.",
        )
    if wrong := [action for action in actions if action["error"]]:
        raise PartlyDoneError(
            f"{counted(len(wrong), 'action', total=len(actions))} failed: {wrong[0]['error']}",
            "Look: " + Command("inspect leaders"),
        )
    if options.strict and (doubts := document["doubts"]):
        raise ThresholdError(f"Something spoils this run (--strict): {' '.join(doubts)}")
