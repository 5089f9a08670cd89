"""The `kipctl` command: its groups, and the one place where errors become exit statuses."""

import resource
import sys
import traceback
from functools import cache
from typing import Annotated

import typer
from typer.core import TyperGroup

from kipctl import __version__
from kipctl.cli import (
    analyze,
    clusters,
    elect,
    experiment,
    inspect,
    lab,
    overview,
    perf,
    request_log,
    runs,
    spark,
)
from kipctl.cli.connecting import with_connecting_options
from kipctl.cli.demo import demo
from kipctl.cli.environment import Environment
from kipctl.cli.help import laid_out
from kipctl.cli.perf import spread_pairs
from kipctl.cli.reassign import reassign
from kipctl.cli.report import report
from kipctl.cli.roll import roll
from kipctl.cli.tap import tap
from kipctl.cli.wait import wait
from kipctl.errors import ExitStatus, KipctlError, UsageError, did_you_mean
from kipctl.left_behind import LeftBehind
from kipctl.signals import Received, as_keyboard_interrupts

app = typer.Typer(
    name="kipctl",
    help="Move leaders on an Apache Kafka cluster and measure what that costs clients.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(lab.app, name="lab")
app.add_typer(clusters.app, name="clusters")
app.command()(reassign)
app.add_typer(elect.app, name="elect")
app.command()(wait)
app.command()(roll)
app.add_typer(inspect.app, name="inspect")
app.add_typer(perf.app, name="perf")
app.add_typer(experiment.app, name="experiment")
app.add_typer(request_log.app, name="request-log")
app.add_typer(analyze.app, name="analyze")
app.command()(report)
app.add_typer(runs.app, name="runs")
app.add_typer(spark.app, name="spark")
app.command()(tap)
app.command()(demo)


def _print_version(context: typer.Context, wanted: bool) -> None:
    if wanted:
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
        overview.show(environment)


@cache
def root_command() -> TyperGroup:
    """All commands: reading their options takes 45 ms, and who runs several needs it once."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    return laid_out(with_connecting_options(root))


def run(arguments: list[str], environment: Environment) -> int:
    """Run one command line and return its exit status; errors are told on stderr.

    A signal to end ends every command as Ctrl-C does: what it has begun is undone. The status
    then tells which signal it was, 128 and its number, as shells have it.
    """
    Received.first = None
    LeftBehind.errors.clear()
    with as_keyboard_interrupts():
        status = _run(arguments, environment)
    for left in LeftBehind.errors:
        environment.error(left)
    if LeftBehind.errors and status == ExitStatus.DONE:
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
    try:
        # Not `app()`: it words errors its own way, and takes any EPIPE for a closed stdout, also
        # one of a broker's socket.
        with root_command().make_context(
            "kipctl", spread_pairs(arguments), obj=environment
        ) as context:
            root_command().invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except typer.TyperException as wrong:
        return _wrong_usage(wrong, environment)
    except (KeyboardInterrupt, typer.Abort) as interrupted:
        environment.message("\nkipctl: interrupted.")
        environment.notes(interrupted)
        return ExitStatus.INTERRUPTED
    except KipctlError as error:
        if environment.debug:
            traceback.print_exc(file=environment.stderr)
        environment.error(error)
        environment.notes(error)
        return error.status
    except Exception as fault:
        if isinstance(fault, BrokenPipeError) and environment.stdout_is_closed():
            environment.discard_stdout()
            return ExitStatus.DONE
        if environment.debug:
            traceback.print_exc(file=environment.stderr)
        environment.message(
            f"kipctl: a fault in kipctl: {type(fault).__name__}: {fault}\n"
            "Repeat with `kipctl --debug ...` for the traceback, and report it."
        )
        environment.notes(fault)
        return ExitStatus.FAULT
    return ExitStatus.DONE


def _wrong_usage(wrong: typer.TyperException, environment: Environment) -> int:
    """Tell in two lines what was wrong with the command line, and which help page to read."""
    # Without any arguments the help page has just been printed, and there is no message.
    if message := " ".join(wrong.format_message().split()):
        if near := getattr(wrong, "possibilities", None):
            option = getattr(wrong, "option_name", "")
            message = f"There is no option {option}.{did_you_mean(option, near)}"
        context: typer.Context | None = getattr(wrong, "ctx", None)
        command = context.command_path if context else "kipctl"
        environment.error(UsageError(message, f"See `{command} --help`."))
    return ExitStatus.USAGE


def main() -> None:
    """Run the command line of this process. It leaves no core, which would hold its passwords."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(run(sys.argv[1:], Environment()))
