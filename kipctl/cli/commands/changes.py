"""`kipctl changes`: what kipctl has changed, the way back, and what goes on or was cut off."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kipctl.cli.combinations import combined
from kipctl.cli.commands.change_options import (
    AdditionalOption,
    ChangeOptions,
    ChangeTimeoutOption,
    PaceOptions,
    changing,
)
from kipctl.cli.commands.guard import STOP, GuardActionOption, GuardOptions, read_guard
from kipctl.cli.environment import Environment
from kipctl.cli.grouped import Commands
from kipctl.cli.options import (
    BootstrapOption,
    ClusterOptions,
    DryRunOption,
    TopicOption,
    argument,
    option,
)

app = Commands()


@combined(exclusive=(("ENTRY", "--journal"),))
@dataclass(frozen=True)
class EntryOptions:
    """Which change is meant."""

    entry: Annotated[
        str | None,
        argument(
            "[ENTRY]",
            "An id of `kipctl changes list`, or its beginning. Default: the last that fits.",
        ),
    ] = None
    journal: Annotated[
        Path | None, option("An entry's file, as of another machine's journal.", value="FILE")
    ] = None


@app.command("list")
def list_changes(environment: Environment, options: ClusterOptions) -> None:
    """List what was changed on this cluster from here, by whom, and what became of it."""
    from kipctl.cli.commands.changes_shown import history

    with changing(environment, options) as (change, ui):
        history(change, ui)


@app.command()
def show(environment: Environment, which: EntryOptions, options: ClusterOptions) -> None:
    """Show one change: its partitions before, as planned, and now, and what is left of it.

    Of a roll its nodes, and how far each has come.
    """
    from kipctl.cli.commands.changes_shown import show_entry

    with changing(environment, options, entry=which.entry, file=which.journal) as (change, ui):
        show_entry(change, ui)


@app.command()
@combined(exclusive=(("--throttle", "--no-throttle"),))
def undo(
    environment: Environment,
    which: EntryOptions,
    pace: PaceOptions,
    guard: GuardOptions,
    options: ChangeOptions,
    no_throttle: Annotated[
        bool, option("Copy as fast as brokers can, though the change was throttled.")
    ] = False,
    force: Annotated[
        bool,
        option(
            "Insist: on what others have changed since, below min.insync.replicas, on a full disk."
        ),
    ] = False,
    additional: AdditionalOption = False,
    timeout: ChangeTimeoutOption = None,
) -> None:
    """Bring partitions and leaders back to what they were before a change.

    What still moves is cancelled, what was moved is moved back as slowly (of a roll: the leaders),
    throttles are removed. An undo that was cut off is gone on with.

    Without ENTRY it is the last change that has a way back: elections have none. --yes alone undoes
    only one of the last hour.
    """
    from kipctl.changes.undo import undo as undo_change
    from kipctl.cli.commands.changes_shown import undo_roll

    with changing(
        environment,
        options,
        guard=read_guard(guard, moves_along=False),
        pace=pace.read(),
        entry=which.entry,
        file=which.journal,
        force=force,
        no_throttle=no_throttle,
        additional=additional,
        timeout_s=timeout,
    ) as (change, ui):
        if not undo_roll(change, ui):
            undo_change(change)


@app.command()
def resume(
    environment: Environment,
    which: EntryOptions,
    guard: GuardOptions,
    options: ChangeOptions,
    additional: AdditionalOption = False,
    guard_action: GuardActionOption = STOP,
    timeout: ChangeTimeoutOption = None,
) -> None:
    """Carry out what is left of a change, or a roll, that was stopped: paused, interrupted, killed.

    It goes on as it was begun: batches, pauses, throttle and guard are those of its entry.
    """
    from kipctl.changes.resume import resume as resume_change
    from kipctl.cli.commands.changes_shown import resume_roll

    with changing(
        environment,
        options,
        guard=read_guard(guard, guard_action, moves_along=False),
        entry=which.entry,
        file=which.journal,
        additional=additional,
        timeout_s=timeout,
    ) as (change, ui):
        if not resume_roll(change, ui):
            resume_change(change)


@app.command()
def pause(
    environment: Environment,
    bootstrap_server: BootstrapOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Let the kipctl that changes the cluster, on this machine, begin no further batch.

    What is under way is still copied: `kipctl changes cancel` stops that. `kipctl changes resume`
    goes on. It has to be of your own user. A change of one batch has none that could be left.
    """
    from kipctl.cli.commands.changes_shown import pause as pause_change

    with changing(environment, ChangeOptions(bootstrap_server, dry_run=dry_run)) as (change, _):
        pause_change(change)


@app.command()
@combined(exclusive=(("ENTRY", "--topic", "--plan", "--all"),))
def cancel(
    environment: Environment,
    options: ChangeOptions,
    entry: Annotated[
        str | None,
        argument("[ENTRY]", "Whose moves: an id of `kipctl changes list`. Default: kipctl's last."),
    ] = None,
    topic: TopicOption = None,
    plan: Annotated[
        Path | None, option("The partitions of a reassignment JSON.", value="FILE")
    ] = None,
    everything: Annotated[
        bool, option("--all", "Everything that is under way, also of other tools.")
    ] = False,
    timeout: ChangeTimeoutOption = None,
) -> None:
    """Stop reassignments that are under way, and put the old order of replicas back.

    So are copies between disks given up; what has been moved stays.
    """
    from kipctl.changes.cancel import cancel as cancel_change

    with changing(environment, options, topics=topic or [], entry=entry, timeout_s=timeout) as (
        change,
        _,
    ):
        cancel_change(change, plan, everything)


@app.command("clear-throttles")
def clear_throttles(
    environment: Environment,
    options: ChangeOptions,
    everything: Annotated[
        bool, option("--all", "Every throttle, also those of others: of any broker and topic.")
    ] = False,
    force: Annotated[
        bool, option("Insist: also while they are needed, and where a broker is away for good.")
    ] = False,
) -> None:
    """Remove the throttles that changes which were cut off have left, and set what was before them.

    What something needs is refused: a reassignment, a broker that catches up under it, or copies
    between its disks.
    """
    from kipctl.changes.carry_out import carry_out
    from kipctl.changes.clear_throttles import ClearLeft

    with changing(environment, options, force=force) as (change, _):
        carry_out(change, ClearLeft(takes_all=everything))
