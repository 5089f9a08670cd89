"""`kipctl reassign`: rotate leaders, carry out a plan, and look at what is under way."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from kipctl.cli.change_options import (
    AdditionalOption,
    ChangeTimeoutOption,
    PaceOptions,
    changing,
)
from kipctl.cli.grouped import grouped
from kipctl.cli.guard import ROLLBACK, STOP, GuardActionOption, GuardOptions, read_guard
from kipctl.cli.options import (
    BootstrapOption,
    OutputOption,
    TopicOption,
    YesOption,
)
from kipctl.errors import UsageError
from kipctl.next_step import Command
from kipctl.report.formats import OutputFormat

_HELP_PAGE = "See `" + Command("reassign --help") + "`."

_COPYING = ("--drain", "--add", "--replace", "--replication-factor", "--rack-aware")
_PLANNERS = ("--leaders-off", "--leader", "--balance", *_COPYING)
_CHANGES = ("--rotate", *_PLANNERS, "--plan")
_GOES_WITH = {
    **dict.fromkeys(("--dry-run", "--additional", "--guard", "--guard-action"), _CHANGES),
    "--metrics-url": _CHANGES,
    "--topic": ("--rotate", *_PLANNERS, "--list"),
    "--all-topics": ("--rotate",),
    "--measure": ("--rotate", "--plan"),
    "--force": _CHANGES,
    "--throttle": (*_COPYING, "--plan"),
    "--concurrent-moves": (*_COPYING, "--plan"),
    "--change-replication-factor": ("--plan",),
    "--spare": ("--leaders-off",),
}
"""What has to be done for an option to have a meaning."""


@grouped
def reassign(
    context: typer.Context,
    pace: PaceOptions,
    guard: GuardOptions,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Move every leader to its next replica.")
    ] = False,
    drain: Annotated[
        list[str] | None,
        typer.Option(
            "--drain", metavar="BROKER", help="Leave no replica on this broker; repeatable."
        ),
    ] = None,
    leaders_off: Annotated[
        list[str] | None,
        typer.Option(
            "--leaders-off",
            metavar="BROKER|RACK",
            help="Let others lead what it leads; repeatable.",
        ),
    ] = None,
    leader: Annotated[
        list[str] | None,
        typer.Option(
            "--leader",
            metavar="TOPIC:PARTITION=BROKER",
            help="Let this replica lead it; repeatable.",
        ),
    ] = None,
    balance: Annotated[
        str | None,
        typer.Option(
            "--balance",
            metavar="leaders|bytes",
            help="Even out who leads, by number or by what comes in; no data is copied.",
        ),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option("--add", metavar="BROKER", help="Give a new broker its share; repeatable."),
    ] = None,
    replaced: Annotated[
        list[str] | None,
        typer.Option("--replace", metavar="A=B", help="Let broker B take A's places; repeatable."),
    ] = None,
    factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", metavar="N", min=1, help="Give each partition N replicas."
        ),
    ] = None,
    rack_aware: Annotated[
        bool,
        typer.Option("--rack-aware", help="Spread replicas over racks, by the fewest moves."),
    ] = False,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="Carry out Kafka's reassignment JSON, or a CSV of replicas or leaders.",
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Show what is being reassigned.")] = False,
    verify: Annotated[
        Path | None,
        typer.Option(
            "--verify",
            metavar="FILE",
            help="Is all as in this JSON, or entry? Status 5 until it is.",
        ),
    ] = None,
    topic: TopicOption = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Rotate all topics but internal ones.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print the plan (-o json: Kafka's); change nothing.",
        ),
    ] = False,
    spare: Annotated[
        int,
        typer.Option(
            "--spare",
            metavar="N",
            min=0,
            help="Only where N replicas above min.insync.replicas are left without the brokers.",
        ),
    ] = 0,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Insist: go below min.insync.replicas, fill a disk, see no broker.",
        ),
    ] = False,
    additional: AdditionalOption = False,
    change_factor: Annotated[
        bool,
        typer.Option(
            "--change-replication-factor",
            help="Let --plan do so.",
        ),
    ] = False,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Print what it cost a producer (with --rotate, --plan).",
        ),
    ] = False,
    guard_action: GuardActionOption = STOP,
    yes: YesOption = False,
    timeout: ChangeTimeoutOption = None,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Change which brokers hold partitions, in which order, and so who leads them.

    What is changed is written down before anything is submitted: `kipctl changes` lists, undoes,
    resumes and cancels it.
    """
    # A way to plan is read from here by its name, so not all parameters stand below.
    given = _given(context)
    if guard_action != ROLLBACK:
        given.pop("--guard-action", None)
    mode = _mode(given)
    topics = topic or []
    if rotate and topics and all_topics:
        raise UsageError("--topic and --all-topics exclude one another.", _HELP_PAGE)
    if rotate and yes and not (topics or all_topics):
        raise UsageError("--rotate with --yes needs --topic or --all-topics.", _HELP_PAGE)
    if measure and dry_run:
        raise UsageError(
            "--measure does not go with --dry-run, which changes nothing to measure.", _HELP_PAGE
        )
    from kipctl.changes import planned
    from kipctl.changes.plans.planners.options import planner_for
    from kipctl.cli.reassign_looks import show_ongoing, show_rotations, verify_plan
    from kipctl.guard.conditions import parse_guard

    planner = planner_for(mode, given[mode], force, spare)
    guard_settings = read_guard(guard, guard_action, moves_along=rotate or planner is not None)
    if measure and any(
        parse_guard(text).kind.is_measured_by_canary for text in guard_settings.conditions
    ):
        raise UsageError(
            "--measure and a --guard of latencies or waits exclude one another.",
            "Both produce to a topic of kipctl's own: measure, or guard.",
        )
    with changing(
        context,
        bootstrap_server,
        guard=guard_settings,
        pace=pace.read(),
        topics=topics,
        dry_run=dry_run,
        yes=yes,
        force=force,
        additional=additional,
        change_factor=change_factor,
        measures=measure,
        timeout_s=timeout,
        output=output,
    ) as (change, ui):
        if rotate and not (topics or all_topics):
            show_rotations(change, ui)
        elif rotate:
            planned.rotate(change)
        elif planner is not None:
            planned.carry_out_planned(change, planner)
        elif plan is not None:
            planned.carry_out_plan(change, plan)
        elif verify is not None:
            verify_plan(change, ui, verify)
        else:
            show_ongoing(change, ui)


def _given(context: typer.Context) -> dict[str, Any]:
    """The options that stand in the command line, with their values."""
    parameters = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    sources = {name: context.get_parameter_source(name) for name in parameters}
    return {
        option: context.params.get(name)
        for name, option in parameters.items()
        if (source := sources[name]) and source.name == "COMMANDLINE"
    }


def _mode(given: Collection[str]) -> str:
    """The one mode that is given. Raises UsageError, also for options that do not go with it."""
    all_of_them = (*_CHANGES, "--list", "--verify")
    modes = [one for one in given if one in all_of_them]
    if len(modes) != 1:
        what = " and ".join(modes) + " exclude one another" if modes else "Nothing to do was given"
        raise UsageError(f"{what}. Give one of {', '.join(all_of_them)}.", _HELP_PAGE)
    mode = modes[0]
    for option, ways in _GOES_WITH.items():
        if option in given and mode not in ways:
            raise UsageError(
                f"{option} does not go with {mode}, only with {' or '.join(ways)}.", _HELP_PAGE
            )
    return mode
