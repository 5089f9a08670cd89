"""The `kipctl` command: its groups, and the one place where errors become exit statuses."""

import errno
import os
import re
import resource
import sys
import traceback
from collections.abc import Mapping
from copy import copy
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from kipctl.cleanup_failures import CleanupFailures
from kipctl.cli.environment import Environment
from kipctl.cli.grouped import grouped
from kipctl.cli.help import HELP_OPTION_NAMES, commands, laid_out
from kipctl.cli.help_page import with_pages
from kipctl.cli.mistyped import refuse_mistyped
from kipctl.cli.pairs import spread_pairs
from kipctl.errors import ExitStatus, KipctlError, PartlyDoneError, UsageError
from kipctl.extras import required_when_imported
from kipctl.next_step import Command
from kipctl.signals import Received, as_keyboard_interrupts

app = typer.Typer(
    name="kipctl",
    help=(
        "Move leaders on an Apache Kafka cluster and measure what that costs clients.\n\n"
        "`kipctl` alone shows how the cluster of KIPCTL_BOOTSTRAP_SERVER or KIPCTL_CLUSTER is, what"
        " moves, what was cut off, and what to type next."
    ),
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP_OPTION_NAMES},
)
COMMANDS: Mapping[str, str] = {
    "reassign": "Change which brokers hold partitions, in which order, and so who leads them.",
    "changes": "What kipctl has changed: list it, undo it, go on with it, stop it.",
    "throttle": "Throttle what brokers copy when they come back: set, adapt, show, clear.",
    "undo": "Bring partitions and leaders back to what they were before a change.",
    "wait": (
        "Wait until all partitions meet these conditions at once, as between two broker restarts."
    ),
    "roll": "Restart brokers one after the other, as safely as that can be done.",
    "report": (
        "Recorded runs as one HTML page: what happened when leaders moved, in pictures and tables."
    ),
    "tap": "Stand between clients and a cluster, and show what each client does when leaders move.",
    "demo": (
        "Start a cluster, rotate leaders under load, and show what moved leaders cost a client."
    ),
    "lab": "Run a real Apache Kafka cluster on this machine.",
    "clusters": "Name clusters, and see whether they can be reached.",
    "elect": "Hold a leader election.",
    "inspect": "What is wrong with a cluster, and which broker may stop; changes nothing unasked.",
    "conform": "Hold a Kafka client, any at all, against what the KIPs ask of it.",
    "explain": "Explain a finding of `inspect brokers`, a doubt of a run, or show another page.",
    "perf": "Measure producers and consumers, also while leaders move.",
    "experiment": "Reproduce what the KIPs claim, for any client.",
    "request-log": "Switch the request log of running brokers on and off.",
    "analyze": (
        "Compute tables from recorded runs or from brokers' request logs, of any size, on Spark."
    ),
    "runs": "List, show, compare, export and remove recorded runs.",
    "spark": "Keep a Spark JVM warm, so that analyses on this machine need not start one.",
}
"""What `kipctl --help` says of each command. Its module has a Typer `app`, or a function of its
name, and is imported when it is called: all of them take as long as the rest of the start."""
_MODULES = {"undo": "changes"}
"""Where the function of a command is in the module of another one."""


def _print_version(context: typer.Context, wanted: bool) -> None:
    if wanted:
        from kipctl import __version__

        context.ensure_object(Environment).stdout.write(f"kipctl {__version__}\n")
        raise typer.Exit()


@app.callback()
def _root(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    environment = context.ensure_object(Environment)
    environment.debug = debug
    if context.invoked_subcommand is None:
        from kipctl.cli.commands import overview

        raise typer.Exit(overview.show(environment))


class _Summary(TyperCommand):
    """Stands for a command until that is called."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """The command's own."""
        return command(self.name).make_context(*arguments, **options)


@cache
def command(name: str) -> TyperCommand | TyperGroup:
    """One of COMMANDS with its options, or its commands."""
    from kipctl.cli.connecting import with_connecting_options

    held = vars(import_module(f"kipctl.cli.commands.{_MODULES.get(name, name.replace('-', '_'))}"))
    alone = typer.Typer(add_completion=False)
    alone.callback()(_root)  # which makes it a group, as `kipctl` is
    if "app" in held and name not in _MODULES:
        page = (COMMANDS[name], *getattr(held["app"], "paragraphs", ()))
        alone.add_typer(held["app"], name=name, help="\n\n".join(page))
    else:
        alone.command()(grouped(held[name]))
    root = typer.main.get_command(alone)
    assert isinstance(root, TyperGroup)
    whole = with_pages(laid_out(with_connecting_options(root)))
    typer_command = refuse_mistyped(whole).commands[name]
    assert isinstance(typer_command, TyperCommand | TyperGroup)
    return typer_command


@cache
def lazy_root_command() -> TyperGroup:
    """`kipctl`, with a summary in place of each command until that is called."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    for name, text in COMMANDS.items():
        root.add_command(_Summary(name, help=text))
    return with_pages(laid_out(root))


def root_command() -> TyperGroup:
    """`kipctl` with all its commands, for what walks through them."""
    whole = copy(lazy_root_command())
    whole.commands = {name: command(name) for name in COMMANDS}
    return whole


_NAMES_A_CLUSTER = {"--bootstrap-server", "--cluster"}


def takes_cluster(named: Command) -> bool:
    """Whether the command goes to a cluster that its options name, and it does not name one yet."""
    first, *others = named.name.split() or ("",)
    current: object = command(first) if first in COMMANDS else None
    for word in others:
        current = current.commands.get(word) if isinstance(current, TyperGroup) else None
    if not isinstance(current, TyperCommand) or "--help" in named.words:
        return False
    connects = "bootstrap_server" in {parameter.name for parameter in current.params}
    return connects and _NAMES_A_CLUSTER.isdisjoint(named.words)


def run(arguments: list[str], environment: Environment) -> int:
    """Run one command line and return its exit status; errors are printed on stderr.

    A signal to end ends every command as Ctrl-C does: what it has begun is undone. The status
    is then 128 and the signal's number, as shells have it.
    """
    Received.first = None
    CleanupFailures.errors.clear()
    with as_keyboard_interrupts():
        status = _run(arguments, environment)
    for left in CleanupFailures.errors:
        environment.error(left)
    if CleanupFailures.errors and status == ExitStatus.DONE:
        status = ExitStatus.PARTLY_DONE
    environment.warn_of_request_log()
    # Where it came out of an exec(), CPython would end itself by SIGINT though it was caught, until
    # another one.
    exec("")
    if status == ExitStatus.INTERRUPTED and Received.first:
        return 128 + Received.first
    return status


def _run(arguments: list[str], environment: Environment) -> int:
    environment.forget_cluster()
    environment.arguments = tuple(arguments)
    environment.takes_cluster = takes_cluster
    try:
        # Not `app()`: it words errors its own way, and takes any EPIPE for a closed stdout, also
        # one of a broker's socket.
        words, root = spread_pairs(arguments), lazy_root_command()
        with (
            root.make_context("kipctl", words, obj=environment) as context,
            required_when_imported(),
        ):
            root.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except typer.TyperException as wrong:
        return _wrong_usage(wrong, environment)
    except (KeyboardInterrupt, typer.Abort) as interrupted:
        environment.message("", "kipctl: interrupted.")
        environment.notes(interrupted)
        return ExitStatus.INTERRUPTED
    except (KipctlError, OSError) as failed:
        error = failed if isinstance(failed, KipctlError) else _of_disk(failed)
        if error is None:
            return _fault(failed, environment)
        if environment.debug:
            traceback.print_exc(file=environment.stderr)
        environment.error(error)
        environment.notes(failed)
        if os.strerror(errno.ECONNREFUSED) in error.what:
            environment.report_running_labs()
        return error.status
    except Exception as fault:
        return _fault(fault, environment)
    return ExitStatus.DONE


_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_OF_FILES = (errno.EACCES, errno.EPERM, *_OF_DISKS)


def _of_disk(failed: OSError) -> KipctlError | None:
    """What no disk takes any more, in the middle of whatever is being done; None for all else.

    Who can say how far it had come, and what is to be done, has said so instead: this is the rule
    for the others.
    """
    if failed.errno not in (_OF_DISKS if failed.filename is None else _OF_FILES):
        return None
    where = (
        f"{failed.filename} cannot be written" if failed.filename else "A file cannot be written"
    )
    return PartlyDoneError(
        f"{where}: {failed.strerror}. What was done before stays done.",
        "Make room, or see who may write there, and begin again.",
    )


def _fault(fault: Exception, environment: Environment) -> ExitStatus:
    if isinstance(fault, BrokenPipeError) and environment.stdout_is_closed():
        environment.discard_stdout()
        return ExitStatus.DONE
    if environment.debug:
        traceback.print_exc(file=environment.stderr)
    environment.message(
        f"kipctl: a fault in kipctl: {type(fault).__name__}: {fault}",
        "Repeat with `kipctl --debug ...` for the traceback, and report it.",
    )
    environment.notes(fault)
    return ExitStatus.FAULT


_WRONG_VALUES: Mapping[str, str] = {
    "int_parsing": "{input!r} is not a whole number.",
    "int_from_float": "{input!r} is not a whole number.",
    "int_parsing_size": "{input!r} is too large.",
    "float_parsing": "{input!r} is not a number.",
    "bool_parsing": "{input!r} is neither true nor false.",
    "greater_than_equal": "{input} is too small: {ge} is the least.",
    "less_than_equal": "{input} is too large: {le} is the most.",
    "value_error": "{error}",
}
"""What is wrong with a value, by the type of Pydantic's error, which checks it."""


def _options(command: Any) -> list[str]:
    return [name for parameter in command.params for name in parameter.opts]


def _is_of_a_command(option: str) -> bool:
    return any(option in _options(command) for _, command in commands(root_command()))


_UNKNOWN_WORD = re.compile(
    r"No such command '(.+?)'\.|Got unexpected extra argument(?:s|\(s\))? \((\S+?)\)"
)
"""How Click names a word that is no command, or one argument too many."""


def _wrong_usage(wrong: typer.TyperException, environment: Environment) -> int:
    """Tell in two lines what was wrong with the command line, and which help page to read."""
    from kipctl.cli.suggestions import suggest_for_option, suggest_for_word

    if isinstance(cause := wrong.__cause__, ValueError) and hasattr(cause, "errors"):
        error = cause.errors()[0]
        if words := _WRONG_VALUES.get(error["type"]):
            wrong.message = words.format(input=error["input"], **error.get("ctx", {}))
    context: typer.Context | None = getattr(wrong, "ctx", None)
    if type(wrong).__name__ == "NoArgsIsHelpError":  # its message is the page
        environment.stdout.write(re.sub(r"\x1b\[\d*m", "", wrong.format_message()) + "\n")
    elif message := " ".join(wrong.format_message().split()):
        page = context.command_path.partition(" ")[2] if context else ""
        options = _options(context.command) if context else []
        # Of an option without its value, which is known, nothing is possible.
        is_unknown = hasattr(wrong, "possibilities")
        if is_unknown and (option := getattr(wrong, "option_name", "")):
            suggestion = suggest_for_option(page, option, options, _subcommands())
            if not (suggestion or page) and _is_of_a_command(option):
                suggestion = f" It stands behind its command, as in: kipctl COMMAND {option} ..."
            message = f"There is no option {option}." + suggestion
        elif (unknown := _UNKNOWN_WORD.match(message)) and (
            suggestion := suggest_for_word(page, unknown[1] or unknown[2], options, _subcommands())
        ):
            message = unknown[0].rstrip(".") + "." + suggestion
        elif message.startswith(("Missing option", "Missing argument")):
            message = f"{message} {getattr(getattr(wrong, 'param', None), 'help', '')}".strip()
        environment.error(UsageError(message, "See `" + Command(f"{page} --help") + "`."))
    return ExitStatus.USAGE


def _subcommands() -> dict[str, list[str]]:
    """By the name of the command that has them; of `reassign` its options, which say what to do."""
    names = {name: [*getattr(command(name), "commands", ())] for name in COMMANDS}
    return names | {"reassign": _options(command("reassign"))}


def main() -> None:
    """Run the command line of this process. It leaves no core, which would hold its passwords."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(run(sys.argv[1:], Environment()))
