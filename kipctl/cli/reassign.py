"""`kipctl reassign`: rotate leaders, play a plan, go back, and look at what is under way."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from kipctl.cli.environment import Environment
from kipctl.cli.grouped import grouped
from kipctl.cli.guard import ROLLBACK, STOP, GuardOptions, guarded, read_guard
from kipctl.cli.options import (
    BatchOption,
    BetweenOption,
    BootstrapOption,
    OutputOption,
    TopicOption,
    YesOption,
    duration_option,
    parse_rate,
)
from kipctl.durations import Duration
from kipctl.errors import UsageError
from kipctl.report.formats import OutputFormat

_HELP_PAGE = "See `kipctl reassign --help`."

_COPYING = ("--drain", "--add", "--replace", "--replication-factor", "--rack-aware")
_WAYS = ("--leaders-off", "--leader", "--balance", *_COPYING)
_CHANGES = (
    "--rotate",
    *_WAYS,
    "--plan",
    "--resume",
    "--rollback",
    "--cancel",
    "--clear-throttles",
)
_GOES_WITH = {
    "--topic": ("--rotate", *_WAYS, "--list", "--cancel"),
    "--all-topics": ("--rotate",),
    "--all": ("--cancel",),
    "--entry": ("--rollback", "--resume", "--cancel"),
    "--journal": ("--rollback", "--resume"),
    "--dry-run": _CHANGES,
    "--measure": ("--rotate", "--plan"),
    "--force": (*_WAYS, "--plan", "--rollback", "--clear-throttles"),
    "--throttle": (*_COPYING, "--plan", "--rollback"),
    "--concurrent-moves": (*_COPYING, "--plan", "--rollback"),
    "--additional": ("--rotate", *_WAYS, "--plan", "--resume", "--rollback"),
    "--change-replication-factor": ("--plan",),
    "--guard": ("--rotate", *_WAYS, "--plan", "--resume", "--rollback"),
    "--guard-action": ("--rotate", *_WAYS, "--plan", "--resume"),
    "--metrics-url": ("--rotate", *_WAYS, "--plan", "--resume", "--rollback"),
}
"""The ways that an option is for."""


@grouped
def reassign(
    context: typer.Context,
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
            help="Let others lead what it leads; no data is copied. Repeatable.",
        ),
    ] = None,
    leader: Annotated[
        list[str] | None,
        typer.Option(
            "--leader",
            metavar="TOPIC:PARTITION=BROKER",
            help="Let this in-sync replica lead the partition; repeatable.",
        ),
    ] = None,
    balance: Annotated[
        str | None,
        typer.Option("--balance", metavar="leaders", help="Even out who leads; no data is copied."),
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
            help="Carry out Kafka's reassignment JSON; with --cancel: stop its partitions.",
        ),
    ] = None,
    rollback: Annotated[bool, typer.Option("--rollback", help="Undo the last change.")] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Carry out what is left of a change that was cut off."),
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="Show what is being reassigned.")] = False,
    verify: Annotated[
        Path | None,
        typer.Option(
            "--verify",
            metavar="FILE",
            help="Compare the cluster with such a JSON, or with the file of an entry; status 5 "
            "until all is as it says.",
        ),
    ] = None,
    cancel: Annotated[
        bool,
        typer.Option(
            "--cancel",
            help="Stop what kipctl's own last change still moves; put the old order back. "
            "--topic, --plan, --entry or --all choose others.",
        ),
    ] = False,
    history: Annotated[
        bool, typer.Option("--history", help="List what was changed, by whom, and its state.")
    ] = False,
    pause: Annotated[
        bool,
        typer.Option(
            "--pause",
            help="Let the kipctl that changes the cluster, on this machine, stop after its batch.",
        ),
    ] = False,
    entry: Annotated[
        str | None,
        typer.Option(
            "--entry",
            metavar="ENTRY",
            help="The entry of --history to undo or resume; its beginning will do.",
        ),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            "--journal",
            metavar="FILE",
            help="Undo or resume the entry in this file, as copied from another machine's journal.",
        ),
    ] = None,
    topic: TopicOption = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Rotate all topics but internal ones.")
    ] = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Cancel every reassignment, also those of other tools."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print the plan and change nothing; with -o json as Kafka's reassignment JSON.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Insist: roll back what others have changed since, go below "
            "min.insync.replicas, fill a disk.",
        ),
    ] = False,
    additional: Annotated[
        bool,
        typer.Option(
            "--additional",
            help="Go on while other partitions are being reassigned; these are left alone.",
        ),
    ] = False,
    change_factor: Annotated[
        bool,
        typer.Option(
            "--change-replication-factor",
            help="Carry out a plan that changes how many replicas partitions have.",
        ),
    ] = False,
    batch: BatchOption = 1000,
    between: BetweenOption = Duration(10),
    concurrent: Annotated[
        int | None,
        typer.Option(
            "--concurrent-moves",
            metavar="N",
            min=1,
            help="Copy at most N replicas at a time; as one arrives the next is submitted.",
        ),
    ] = None,
    throttle: Annotated[
        str | None,
        typer.Option(
            "--throttle",
            metavar="RATE",
            help="Copy at most so much, as 50MB/s, in and out of each broker; put back afterwards.",
        ),
    ] = None,
    clear: Annotated[
        bool,
        typer.Option(
            "--clear-throttles", help="Put back the throttles that cut-off changes have left."
        ),
    ] = False,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="With --rotate or --plan: produce to a topic of kipctl's own meanwhile and print "
            "what that cost the producer; --rotate rotates that topic along.",
        ),
    ] = False,
    guard_action: Annotated[
        str,
        typer.Option(
            "--guard-action",
            metavar="stop|rollback",
            help="After its patience: stop, or also undo what was changed.",
        ),
    ] = STOP,
    yes: YesOption = False,
    timeout: Annotated[
        Duration | None,
        duration_option(
            "--timeout",
            "How long all of it may take, pauses too. Default: 5m for each batch; while data "
            "is copied no limit, until it stands still for 5m.",
        ),
    ] = None,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Change which brokers hold partitions, in which order, and so who leads them.

    Exactly one of --rotate, --drain, --leaders-off, --leader, --balance, --add, --replace,
    --replication-factor, --rack-aware, --plan, --pause, --resume, --rollback, --list, --verify,
    --cancel, --history and --clear-throttles says what to do. What is changed is written down
    before anything is submitted; --rollback undoes it.
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
    if entry == "":
        raise UsageError("--entry is empty.", "List the entries: kipctl reassign --history")
    if entry and journal:
        raise UsageError("--entry and --journal exclude one another.", _HELP_PAGE)
    if cancel and sum((bool(topics), everything, bool(entry), plan is not None)) > 1:
        raise UsageError("--cancel takes one of --topic, --plan, --entry and --all.", _HELP_PAGE)
    rate = None if throttle is None else parse_rate(throttle)
    environment = context.ensure_object(Environment)
    from kipctl.cli import (
        reassign_back,
        reassign_request,
        reassign_resume,
        reassign_rollback,
        reassign_ways,
    )
    from kipctl.cluster.moves.pacing import Pace
    from kipctl.transport.request import Cluster

    way = reassign_ways.way_of(mode, given[mode], force)
    guard_settings = read_guard(guard, guard_action, moves_along=rotate or way is not None)
    if measure and any(one.kind.is_measured_by_canary for one in guard_settings.conditions):
        raise UsageError(
            "--measure and a --guard of latencies or waits exclude one another.",
            "Both produce to a topic of kipctl's own: measure, or guard.",
        )
    with Cluster(environment.access(bootstrap_server)) as cluster:
        request = reassign_request.ReassignRequest(
            environment,
            cluster,
            topics,
            entry or "",
            dry_run,
            yes,
            force,
            additional,
            change_factor,
            measure,
            timeout,
            Pace(batch, between, rate, concurrent),
            rate,
            journal,
            output,
            guarded(environment, cluster, guard_settings),
        )
        if rotate and not (topics or all_topics):
            reassign_request.show_rotations(request)
        elif rotate:
            reassign_ways.rotate(request)
        elif way is not None:
            reassign_ways.carry_out_way(request, way)
        elif cancel:
            reassign_back.cancel(request, plan, everything)
        elif plan is not None:
            reassign_ways.carry_out_plan(request, plan)
        elif rollback:
            reassign_rollback.roll_back(request)
        elif resume:
            reassign_resume.resume(request)
        elif verify is not None:
            reassign_request.verify(request, verify)
        elif pause:
            reassign_back.pause(request)
        elif clear:
            reassign_back.clear_throttles(request)
        elif history:
            reassign_back.history(request)
        else:
            reassign_request.show(request)


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
    all_of_them = (*_CHANGES, "--pause", "--list", "--verify", "--history")
    modes = [one for one in given if one in all_of_them]
    if "--cancel" in modes and "--plan" in modes:
        modes.remove("--plan")  # which says what is cancelled
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
