"""The `kipctl` command: its groups, and the one place where errors become exit statuses."""

import sys
import traceback
from typing import Annotated

import typer

from kipctl import __version__
from kipctl.cli import lab
from kipctl.cli.environment import Environment
from kipctl.errors import ExitStatus, KipctlError

app = typer.Typer(
    name="kipctl",
    help="Move leaders on an Apache Kafka cluster and show what clients felt.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(lab.app, name="lab")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kipctl {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    context.ensure_object(Environment).debug = debug


def run(arguments: list[str], environment: Environment) -> int:
    """Run one command line and return its exit status; errors are told on stderr."""
    try:
        app(arguments, obj=environment, prog_name="kipctl")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else ExitStatus.FAULT
    except KipctlError as error:
        if environment.debug:
            traceback.print_exc(file=environment.stderr)
        environment.error(error)
        return error.status
    except Exception as fault:
        if environment.debug:
            traceback.print_exc(file=environment.stderr)
        environment.message(
            f"kipctl: a fault in kipctl: {type(fault).__name__}: {fault}\n"
            "Repeat with `kipctl --debug ...` for the traceback, and report it."
        )
        return ExitStatus.FAULT
    return ExitStatus.DONE


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run(sys.argv[1:], Environment()))
