"""`kipctl reassign`: rotate leaders, play a plan, go back, and look at what is under way."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kipctl.cli.environment import Environment
from kipctl.cli.leader_reports import (
    REASSIGN,
    cancelled_report,
    in_short,
    moved_report,
    ongoing_report,
    plan_report,
    reassigned_report,
    verified_report,
)
from kipctl.cli.options import BootstrapOption, OutputOption, YesOption, finite
from kipctl.errors import RefusedError, UsageError
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report

if TYPE_CHECKING:
    from kipctl.cluster.reassign import Ongoing
    from kipctl.transport.request import Cluster

_HELP_PAGE = "See `kipctl reassign --help`."

T = TypeVar("T")


def reassign(
    context: typer.Context,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Move every leader to its next replica.")
    ] = False,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Carry out Kafka's reassignment JSON."),
    ] = None,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Undo the last --rotate or --plan.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="Show what is being reassigned.")] = False,
    verify: Annotated[
        Path | None,
        typer.Option(
            "--verify",
            metavar="FILE",
            help="Compare the cluster with such a JSON; status 5 until all is as it says.",
        ),
    ] = None,
    cancel: Annotated[
        bool,
        typer.Option("--cancel", help="Stop what is being reassigned; put the old order back."),
    ] = False,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="A topic or glob; repeatable."),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Rotate all topics but internal ones.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print the plan and change nothing; with -o json as Kafka's reassignment JSON.",
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
    yes: YesOption = False,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0.1, callback=finite, help="How long to wait."
        ),
    ] = 300.0,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Change which brokers hold partitions, in which order, and so who leads them.

    Exactly one of --rotate, --plan, --rollback, --list, --verify and --cancel says what to do.
    The current assignment is saved before anything is submitted; --rollback brings it back.
    """
    modes = {
        "--rotate": rotate,
        "--plan": plan is not None,
        "--rollback": rollback,
        "--list": show,
        "--verify": verify is not None,
        "--cancel": cancel,
    }
    topics = topic or []
    _check_options([name for name, given in modes.items() if given], topics, all_topics, dry_run)
    if measure and not (rotate or plan is not None):
        raise UsageError("--measure goes with --rotate or --plan.", _HELP_PAGE)
    environment = context.ensure_object(Environment)
    from kipctl.transport.request import Cluster

    measure = measure and not dry_run
    with Cluster(environment.access(bootstrap_server)) as cluster:
        if rotate:
            _rotate(environment, cluster, topics, dry_run, yes, timeout, output, measure)
        elif plan is not None:
            _carry_out(environment, cluster, plan, dry_run, yes, timeout, output, measure)
        elif rollback:
            _roll_back(environment, cluster, dry_run, yes, timeout, output)
        elif verify is not None:
            _verify(environment, cluster, verify, output)
        elif cancel:
            _cancel(environment, cluster, topics, dry_run, yes, timeout, output)
        else:
            environment.report(ongoing_report(_ongoing(cluster, topics)), output)


def _check_options(
    modes: Sequence[str], topics: Sequence[str], all_topics: bool, dry_run: bool
) -> None:
    if len(modes) != 1:
        given = " and ".join(modes) + " exclude one another" if modes else "Nothing to do was given"
        raise UsageError(
            f"{given}. Give one of --rotate, --plan, --rollback, --list, --verify, --cancel.",
            _HELP_PAGE,
        )
    (mode,) = modes
    if mode == "--rotate" and bool(topics) == all_topics:
        raise UsageError("--rotate needs either --topic or --all-topics.", _HELP_PAGE)
    if mode != "--rotate" and all_topics:
        raise UsageError(f"--all-topics does not go with {mode}.", _HELP_PAGE)
    if mode in ("--plan", "--rollback", "--verify") and topics:
        raise UsageError(f"--topic does not go with {mode}.", _HELP_PAGE)
    if mode in ("--list", "--verify") and dry_run:
        raise UsageError(f"--dry-run does not go with {mode}, which changes nothing.", _HELP_PAGE)


def _rotate(
    environment: Environment,
    cluster: "Cluster",
    topics: Sequence[str],
    dry_run: bool,
    yes: bool,
    timeout_s: float,
    output: OutputFormat,
    measure: bool,
) -> None:
    from kipctl.cluster.change import LeadersMoved, demand_all_done, rotate_leaders
    from kipctl.cluster.journal import journal
    from kipctl.cluster.plan import demand_moves, rotate
    from kipctl.cluster.snapshot import select, take_snapshot

    before = select(take_snapshot(cluster, named=topics), topics)
    plan = rotate(before)
    demand_moves(plan, topics)
    if dry_run:
        environment.report(plan_report(plan), output)
        return
    environment.message(in_short(plan))
    environment.confirm(f"Rotate the leaders of {len(plan.moves)} partitions?", yes)
    kept = journal(before.cluster_id, environment.variables)
    if measure:
        from kipctl.experiments.plan import OWN_TOPIC

        topics = [*(topics or before.topics), OWN_TOPIC]

    def carry_out() -> LeadersMoved:
        now = select(take_snapshot(cluster), topics)
        with environment.progress(f"Rotating {len(plan.moves)} partitions") as progress:
            return rotate_leaders(
                cluster, rotate(now), now, journal=kept, progress=progress, timeout_s=timeout_s
            )

    moved, measured_load = _measured(carry_out, environment, cluster, measure)
    report = moved_report(REASSIGN, moved, before, take_snapshot(cluster, before.topics))
    environment.report(_with_measured_load(report, measured_load), output)
    done = len(moved.held.outcomes) - len(moved.failures)
    demand_all_done(moved.failures, done, "Undo: kipctl reassign --rollback")


def _carry_out(
    environment: Environment,
    cluster: "Cluster",
    path: Path,
    dry_run: bool,
    yes: bool,
    timeout_s: float,
    output: OutputFormat,
    measure: bool,
) -> None:
    from kipctl.cluster.change import Reassigned, demand_all_done, reassign
    from kipctl.cluster.journal import journal
    from kipctl.cluster.kafka_json import check_against, read_reassignment
    from kipctl.cluster.plan import reach
    from kipctl.cluster.snapshot import take_snapshot

    file = read_reassignment(path)
    before = take_snapshot(cluster)
    check_against(file, before)
    plan = reach(before, file.assignment)
    if file.names_log_dirs:
        environment.message(f"The log_dirs of {path} are ignored: brokers place new replicas.")
    if dry_run or not plan.moves:
        environment.report(plan_report(plan), output)
        return
    environment.message(in_short(plan))
    environment.confirm(f"Reassign {len(plan.moves)} partitions?", yes)
    kept = journal(before.cluster_id, environment.variables)

    def carry_out() -> Reassigned:
        with environment.progress(f"Reassigning {len(plan.moves)} partitions") as progress:
            return reassign(cluster, plan, journal=kept, progress=progress, timeout_s=timeout_s)

    done, measured_load = _measured(carry_out, environment, cluster, measure)
    report = reassigned_report(done, take_snapshot(cluster, plan.topics))
    environment.report(_with_measured_load(report, measured_load), output)
    demand_all_done(done.refused, len(done.plan.moves), "Undo: kipctl reassign --rollback")


def _measured(
    act: Callable[[], T], environment: Environment, cluster: "Cluster", measure: bool
) -> tuple[T, Mapping[str, object] | None]:
    """Act; to be measured, also the document of what it cost a producer."""
    if not measure:
        return act(), None
    from kipctl.experiments.conduct import Listeners
    from kipctl.experiments.perf import measured_during

    done, measured_load = measured_during(act, cluster, Listeners(environment.message))
    return done, measured_load.document


def _with_measured_load(report: Report, measured_load: Mapping[str, object] | None) -> Report:
    if measured_load is None:
        return report
    from kipctl.report.perf_tables import perf_tables

    return replace(
        report,
        document={**report.document, "measured": measured_load},
        tables=report.tables + perf_tables(measured_load),
    )


def _roll_back(
    environment: Environment,
    cluster: "Cluster",
    dry_run: bool,
    yes: bool,
    timeout_s: float,
    output: OutputFormat,
) -> None:
    from kipctl.cluster.change import demand_all_done, roll_back
    from kipctl.cluster.journal import journal
    from kipctl.cluster.plan import reach
    from kipctl.cluster.snapshot import take_snapshot

    before = take_snapshot(cluster)
    kept = journal(before.cluster_id, environment.variables)
    entry = kept.last()
    if entry is None:
        raise RefusedError(
            "There is nothing to roll back: no reassignment of this cluster is saved in"
            f" {kept.folder}.",
            "Play an assignment of your own back with --plan FILE.",
        )
    saved = entry.assignment()
    plan = reach(before, saved)
    if dry_run:
        environment.report(plan_report(plan), output)
        return
    environment.message(f"Back to {entry.path}. {in_short(plan)}")
    environment.confirm(f"Roll back {len(saved)} partitions?", yes)
    with environment.progress(f"Rolling back {len(plan.moves)} partitions") as progress:
        moved = roll_back(cluster, entry, before, progress=progress, timeout_s=timeout_s)
    known = before.only(saved)
    after = take_snapshot(cluster, known.topics)
    environment.report(moved_report(REASSIGN, moved, known, after), output)
    demand_all_done(
        moved.failures,
        len(known.partitions) - len(moved.failures),
        "Try again: kipctl reassign --rollback",
    )


def _verify(environment: Environment, cluster: "Cluster", path: Path, output: OutputFormat) -> None:
    from kipctl.cluster.kafka_json import check_against, read_reassignment
    from kipctl.cluster.reassign import demand_as_planned, verify
    from kipctl.cluster.snapshot import take_snapshot

    file = read_reassignment(path)
    check_against(file, take_snapshot(cluster), brokers_alive=False)
    verified = verify(cluster, file.assignment)
    environment.report(verified_report(verified, file.assignment), output)
    demand_as_planned(verified)


def _ongoing(cluster: "Cluster", topics: Sequence[str]) -> tuple["Ongoing", ...]:
    from kipctl.cluster.reassign import ongoing
    from kipctl.cluster.snapshot import select, take_snapshot

    busy = ongoing(cluster)
    if not topics:
        return busy
    chosen = select(take_snapshot(cluster, named=topics), topics).topics
    return tuple(one for one in busy if one.id.topic in chosen)


def _cancel(
    environment: Environment,
    cluster: "Cluster",
    topics: Sequence[str],
    dry_run: bool,
    yes: bool,
    timeout_s: float,
    output: OutputFormat,
) -> None:
    from kipctl.cluster.change import demand_all_done
    from kipctl.cluster.journal import journal
    from kipctl.cluster.reassign import cancel
    from kipctl.cluster.snapshot import take_snapshot

    busy = _ongoing(cluster, topics)
    if dry_run or not busy:
        environment.report(ongoing_report(busy), output)
        return
    environment.confirm(f"Cancel the reassignment of {len(busy)} partitions?", yes)
    kept = journal(take_snapshot(cluster, ()).cluster_id, environment.variables)
    with environment.progress(f"Cancelling {len(busy)} reassignments"):
        cancelled = cancel(cluster, busy, kept, timeout_s)
    environment.report(cancelled_report(cancelled, take_snapshot(cluster)), output)
    demand_all_done(cancelled.refused, len(cancelled.cancelled), "See: kipctl reassign --list")
