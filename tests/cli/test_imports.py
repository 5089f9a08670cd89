"""Help is there at once: it imports the command that it is about, and nothing heavy."""

import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

from kipctl.cli.app import COMMANDS
from kipctl.extras import MODULES

HELPED = """
import contextlib, io, sys
before = set(sys.modules)
from kipctl.cli.app import run
from kipctl.cli.environment import Environment
for line in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as page:
        assert run(line.split(), Environment()) == 0
    assert "Usage: kipctl" in page.getvalue()
print(*(set(sys.modules) - before))
"""
OF_ALL = {
    "kipctl",
    "kipctl.cli",
    "kipctl.cli.app",
    "kipctl.cli.combinations",
    "kipctl.cli.connecting",
    "kipctl.cli.environment",
    "kipctl.cli.grouped",
    "kipctl.cli.help",
    "kipctl.cli.help_page",
    "kipctl.cli.mistyped",
    "kipctl.cli.pairs",
    "kipctl.cli.streams",
    "kipctl.counts",
    "kipctl.errors",
    "kipctl.extras",
    "kipctl.cleanup_failures",
    "kipctl.next_step",
    "kipctl.progress",
    "kipctl.protocol",
    "kipctl.protocol.address",
    "kipctl.report",
    "kipctl.report.formats",
    "kipctl.report.layout",
    "kipctl.report.markdown",
    "kipctl.report.printable",
    "kipctl.report.progress_bar",
    "kipctl.report.tables",
    "kipctl.report.terminal",
    "kipctl.signals",
    "kipctl.urls",
}
OF_REASSIGN = OF_ALL | {
    "kipctl.cli.commands",
    "kipctl.cli.commands.guard",
    "kipctl.cli.options",
    "kipctl.cli.commands.reassign",
    "kipctl.durations",
    "kipctl.pipeline",
    "kipctl.pipeline.place",
    "kipctl.probe",
    "kipctl.probe.leadership",
    "kipctl.protocol",
    "kipctl.protocol.address",
    "kipctl.cli.commands.change_options",
    "kipctl.report.guard_tables",
    "kipctl.trace",
    "kipctl.trace.codes",
}
HELP_IS_MADE_WITH = {"typer", "rich"}


def imported(*lines: str) -> set[str]:
    """The modules that these command lines import, one after the other in a new Python."""
    run = subprocess.run(
        [sys.executable, "-c", HELPED, *lines], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def own(modules: set[str]) -> set[str]:
    return {module for module in modules if module.partition(".")[0] == "kipctl"}


def test_the_first_page_of_help_imports_no_command() -> None:
    modules = imported("--help")
    assert own(modules) <= OF_ALL
    assert "rich.live" not in modules  # some commands need it


def test_the_help_of_a_command_imports_that_command() -> None:
    assert own(imported("reassign --help")) <= OF_REASSIGN


def test_of_what_kipctl_depends_on_help_imports_only_what_it_is_made_with() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = (project["optional-dependencies"][extra] for extra in MODULES)
    needed = [*project["dependencies"], *chain.from_iterable(extras)]
    names = {re.match(r"[\w-]+", requirement)[0].replace("-", "_") for requirement in needed}
    modules = imported("--help", *(f"{command} --help" for command in COMMANDS))
    assert {module.partition(".")[0] for module in modules} & names == HELP_IS_MADE_WITH
