"""`kipctl roll`: nodes restarted one after the other, with brokers' leaders off them meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from kipctl.cli.combinations import combined
from kipctl.cli.commands.guard import STOP, GuardOptions, read_guard
from kipctl.cli.environment import Environment
from kipctl.cli.options import (
    BatchOption,
    BetweenOption,
    ClusterOptions,
    YesOption,
    duration_option,
    option,
)
from kipctl.durations import Duration
from kipctl.errors import UsageError
from kipctl.next_step import Command

_HELP_PAGE = "See `" + Command("roll --help") + "`."
_NONE = "none"
_ANSWER_S = 10.0
"""For each answer of a broker."""
_FIELDS = {
    "--guard": "conditions",
    "--guard-action": "action",
    "--guard-patience": "patience_s",
    "--guard-quiet": "quiet_s",
    "--metrics-url": "urls",
    "--timeout": "timeout_s",
    "--exec-timeout": "exec_timeout_s",
    "--between": "between_s",
    "--batch": "batch",
    "--force": "force",
    "--spare": "spare",
}
"""The field of RollOptions, or of its guard, that each option sets."""


@dataclass(frozen=True)
@combined(exclusive=(("--exec", "--manual", "--lab"),))
class RestarterOptions:
    """Who restarts the nodes."""

    command: Annotated[
        str | None,
        option(
            "--exec",
            "What restarts a broker, as 'ssh {host} systemctl restart kafka'; {host}, {port}, "
            "{broker} (its id), {rack} and {role} are put in. No shell runs it; its status has to "
            "be 0.",
            value="COMMAND",
        ),
    ] = None
    manual: Annotated[bool, option("Ask for each restart, and wait until Enter is pressed.")] = (
        False
    )
    lab: Annotated[bool, option("The cluster is a lab of kipctl's, which restarts them.")] = False

    @property
    def restarter(self) -> str:
        """As `kipctl.roll.record.Restarter` has it; "" for none."""
        given = {"exec": self.command is not None, "manual": self.manual, "lab": self.lab}
        return next((name for name, is_given in given.items() if is_given), "")


@combined(
    exclusive=(("--dry-run", "--resume", "--abandon"),), needs={"--was-restarted": "--resume"}
)
def roll(
    environment: Environment,
    guard: GuardOptions,
    by: RestarterOptions,
    options: ClusterOptions,
    broker: Annotated[
        list[str] | None,
        option(
            "Only this broker; repeatable. Default: all. `none`, with --controllers: these alone.",
            value="BROKER",
        ),
    ] = None,
    controllers: Annotated[
        bool,
        option("After the brokers also controllers that are not brokers, the active one last."),
    ] = False,
    dry_run: Annotated[
        bool, option("Show the order and what each restart risks; do nothing.")
    ] = False,
    resume: Annotated[
        bool, option("As `kipctl changes resume`: go on with the last roll.")
    ] = False,
    abandon: Annotated[bool, option("Give the last roll up for good; nothing is done.")] = False,
    was_restarted: Annotated[
        str | None,
        option(
            "With --resume: whether the broker in hand was, where that cannot be seen.",
            value="yes|no",
        ),
    ] = None,
    guard_action: Annotated[
        str,
        option("After its patience: stop, or also put the leaders back.", value="stop|rollback"),
    ] = STOP,
    force: Annotated[
        bool, option("Restart brokers though partitions cannot be written meanwhile.")
    ] = False,
    spare: Annotated[
        int,
        option(
            "Only where partitions keep N replicas above min.insync.replicas meanwhile.",
            value="N",
            min=0,
        ),
    ] = 0,
    timeout: Annotated[
        Duration, duration_option("For each wait, as until a broker is in sync.")
    ] = Duration(600),
    exec_timeout: Annotated[Duration, duration_option("After it the command is ended.")] = Duration(
        300
    ),
    batch: BatchOption = 1000,
    between: BetweenOption = Duration(0),
    yes: YesOption = False,
) -> None:
    """Restart brokers one after the other, as safely as that can be done.

    For each: leaders off it, the restart, a wait until it is in sync everywhere, leaders back. One
    of --exec, --manual and --lab says how. Racks come one by one, controllers after brokers, the
    active one last; those that are no brokers with --controllers only. It stops at the first doubt,
    and says where; --resume goes on, also after a kipctl that was killed.
    """
    if not (by.restarter or dry_run or resume or abandon):
        raise UsageError("How are brokers restarted? Give --exec, --manual or --lab.", _HELP_PAGE)
    if was_restarted not in (None, "yes", "no"):
        raise UsageError("--was-restarted is yes or no.", _HELP_PAGE)
    if broker == [_NONE] and not controllers:
        raise UsageError("--broker none goes with --controllers.", _HELP_PAGE)
    if by.manual and not dry_run and not environment.stdin.isatty():
        raise UsageError("--manual asks, and there is no terminal to ask on.", "Use --exec.")
    asked = read_guard(guard, guard_action, moves_along=True, is_alone=False)
    from kipctl.changes.journal.entry import Origin
    from kipctl.cli.commands.roll_ui import TerminalRollUi
    from kipctl.roll import roll as rolls
    from kipctl.roll.context import RollContext
    from kipctl.roll.record import Restarter, RollOptions
    from kipctl.roll.restart_command import parse_command, working_folder

    with options.connected(environment, timeout_s=_ANSWER_S) as cluster:
        how = RollOptions(
            Restarter(by.restarter) if by.restarter else None,
            parse_command(by.command) if by.command is not None else (),
            working_folder() if by.command is not None else "",
            guard=replace(asked, urls=environment.metrics_urls(guard.metrics_url)),
            timeout_s=timeout,
            exec_timeout_s=exec_timeout,
            between_s=between,
            batch=batch,
            force=force,
            spare=spare,
        )
        rolling = RollContext(
            cluster=cluster,
            ui=TerminalRollUi(environment, cluster, options.output, yes),
            origin=Origin.here(environment.arguments),
            variables=environment.variables,
            dry_run=dry_run,
            how=how,
            brokers=_ids(broker or ()),
            controllers=controllers,
            given=[field for option, field in _FIELDS.items() if option in environment.given],
            was_restarted=None if was_restarted is None else was_restarted == "yes",
            stdin=environment.stdin,
        )
        (rolls.resume if resume else rolls.abandon if abandon else rolls.roll)(rolling)


def _ids(words: Sequence[str]) -> tuple[int, ...] | None:
    """() is all of them, None is none."""
    if words == [_NONE]:
        return None
    for word in words:
        if not (word.isascii() and word.isdigit()):
            raise UsageError(f"--broker {word!r} is no broker's id.", "Write --broker 1 --broker 2")
    return tuple(dict.fromkeys(map(int, words)))
