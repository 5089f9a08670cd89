"""`kipctl changes`: what kipctl has changed, the way back, and what goes on or was cut off."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kipctl.cli.change_options import (
    AdditionalOption,
    ChangeTimeoutOption,
    PaceOptions,
    changing,
)
from kipctl.cli.grouped import grouped
from kipctl.cli.guard import STOP, GuardActionOption, GuardOptions, read_guard
from kipctl.cli.options import (
    BootstrapOption,
    DryRunOption,
    OutputOption,
    TopicOption,
    YesOption,
)
from kipctl.errors import UsageError
from kipctl.next_step import Command
from kipctl.report.formats import OutputFormat

app = typer.Typer(
    help="What kipctl has changed: list it, undo it, go on with it, stop it.",
    no_args_is_help=True,
)


@dataclass(frozen=True)
class EntryOptions:
    """Which change is meant."""

    entry: Annotated[
        str | None,
        typer.Argument(
            metavar="[ENTRY]",
            help="An id of `kipctl changes list`, or its beginning. Default: the last that fits.",
            show_default=False,
        ),
    ] = None
    journal: Annotated[
        Path | None,
        typer.Option(
            "--journal",
            metavar="FILE",
            help="An entry's file, as of another machine's journal.",
        ),
    ] = None

    def read(self) -> tuple[str | None, Path | None]:
        """The beginning of its id, and its file. Raises UsageError."""
        if self.entry and self.journal:
            raise UsageError("ENTRY and --journal exclude one another.")
        return self.entry, self.journal


@app.command("list")
def list_changes(
    context: typer.Context,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """List what was changed on this cluster from here, by whom, and what became of it."""
    from kipctl.cli.changes_shown import history

    with changing(context, bootstrap_server, output=output) as (change, ui):
        history(change, ui)


@app.command()
@grouped
def show(
    context: typer.Context,
    which: EntryOptions,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Show one change: its partitions before, as planned, and now, and what is left of it.

    Of a roll its nodes, and how far each has come.
    """
    from kipctl.cli.changes_shown import show_entry

    entry, file = which.read()
    with changing(context, bootstrap_server, output=output, entry=entry, file=file) as (change, ui):
        show_entry(change, ui)


@grouped
def undo(
    context: typer.Context,
    which: EntryOptions,
    pace: PaceOptions,
    guard: GuardOptions,
    no_throttle: Annotated[
        bool,
        typer.Option(
            "--no-throttle", help="Copy as fast as brokers can, though the change was throttled."
        ),
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Insist: on what others have changed since, below min.insync.replicas, on a full"
            " disk.",
        ),
    ] = False,
    additional: AdditionalOption = False,
    timeout: ChangeTimeoutOption = None,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Bring partitions and leaders back to what they were before a change.

    What still moves is cancelled, what was moved is moved back as slowly (of a roll: the leaders),
    throttles are put back. An undo that was cut off is gone on with.
    """
    from kipctl.changes.undo import undo as undo_change
    from kipctl.cli.changes_shown import undo_roll

    entry, file = which.read()
    if no_throttle and pace.throttle:
        raise UsageError("--throttle and --no-throttle exclude one another.")
    with changing(
        context,
        bootstrap_server,
        guard=read_guard(guard, moves_along=False),
        pace=pace.read(),
        entry=entry,
        file=file,
        dry_run=dry_run,
        yes=yes,
        force=force,
        no_throttle=no_throttle,
        additional=additional,
        timeout_s=timeout,
        output=output,
    ) as (change, ui):
        if not undo_roll(change, ui):
            undo_change(change)


app.command()(undo)


@app.command()
@grouped
def resume(
    context: typer.Context,
    which: EntryOptions,
    guard: GuardOptions,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    additional: AdditionalOption = False,
    guard_action: GuardActionOption = STOP,
    timeout: ChangeTimeoutOption = None,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Carry out what is left of a change, or a roll, that was stopped: paused, interrupted, killed.

    It goes on as it was begun: batches, pauses, throttle and guard are those of its entry.
    """
    from kipctl.changes.resume import resume as resume_change
    from kipctl.cli.changes_shown import resume_roll

    entry, file = which.read()
    with changing(
        context,
        bootstrap_server,
        guard=read_guard(guard, guard_action, moves_along=False),
        entry=entry,
        file=file,
        dry_run=dry_run,
        yes=yes,
        additional=additional,
        timeout_s=timeout,
        output=output,
    ) as (change, ui):
        if not resume_roll(change, ui):
            resume_change(change)


@app.command()
def pause(
    context: typer.Context,
    bootstrap_server: BootstrapOption = None,
) -> None:
    """Let the kipctl that changes the cluster, on this machine, stop after its batch."""
    from kipctl.cli.changes_shown import pause as pause_change

    with changing(context, bootstrap_server) as (change, _):
        pause_change(change)


@app.command()
def cancel(
    context: typer.Context,
    entry: Annotated[
        str | None,
        typer.Argument(
            metavar="[ENTRY]",
            help="Whose moves: an id of `kipctl changes list`. Default: kipctl's last.",
            show_default=False,
        ),
    ] = None,
    topic: TopicOption = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="The partitions of a reassignment JSON."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every reassignment, also those of other tools.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    timeout: ChangeTimeoutOption = None,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Stop reassignments that are under way, and put the old order of replicas back."""
    if sum((bool(topic), everything, bool(entry), plan is not None)) > 1:
        raise UsageError(
            "Choose in one way: ENTRY, --topic, --plan or --all.",
            "See `" + Command("changes cancel --help") + "`.",
        )
    from kipctl.changes.cancel import cancel as cancel_change

    with changing(
        context,
        bootstrap_server,
        topics=topic or [],
        entry=entry,
        dry_run=dry_run,
        yes=yes,
        timeout_s=timeout,
        output=output,
    ) as (change, _):
        cancel_change(change, plan, everything)


@app.command("clear-throttles")
def clear_throttles(
    context: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", help="Take off those of others, too: of any broker and topic.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Insist: also while they are needed, and where a broker is away for good.",
        ),
    ] = False,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Put back the throttles that changes which were cut off have left.

    What something needs is refused: a reassignment, or a broker that catches up under it.
    """
    from kipctl.cli.throttles_shown import clear

    with changing(
        context, bootstrap_server, dry_run=dry_run, yes=yes, force=force, output=output
    ) as (change, ui):
        clear(change, ui, everything=everything)
