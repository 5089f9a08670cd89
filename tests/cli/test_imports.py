"""Help is there at once: it imports the command that it is about, and nothing heavy."""

import subprocess
import sys

from kipctl.cli.app import COMMANDS

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
    "kipctl.cli.connecting",
    "kipctl.cli.environment",
    "kipctl.cli.help",
    "kipctl.cli.pairs",
    "kipctl.errors",
    "kipctl.left_behind",
    "kipctl.report",
    "kipctl.report.formats",
    "kipctl.report.printable",
    "kipctl.report.tables",
    "kipctl.signals",
}
OF_REASSIGN = OF_ALL | {
    "kipctl.cli.guarding",
    "kipctl.cli.options",
    "kipctl.cli.reassign",
    "kipctl.durations",
    "kipctl.pipeline",
    "kipctl.pipeline.place",
    "kipctl.probe",
    "kipctl.probe.leadership",
    "kipctl.protocol",
    "kipctl.protocol.address",
    "kipctl.report.guard_tables",
    "kipctl.trace",
    "kipctl.trace.codes",
}
HEAVY = {
    "confluent_kafka",
    "crc32c",
    "cramjam",
    "cryptography",
    "httpx",
    "lz4",
    "matplotlib",
    "numpy",
    "prometheus_client",
    "py4j",
    "pyarrow",
    "pyspark",
    "uvloop",
}
"""All that kipctl depends on but typer and rich, which are what help is made with."""


def imported(*lines: str) -> set[str]:
    """The modules that these command lines import, one after the other in a new Python."""
    run = subprocess.run(
        [sys.executable, "-c", HELPED, *lines], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def own(modules: set[str]) -> set[str]:
    return {module for module in modules if module.partition(".")[0] == "kipctl"}


def test_the_first_page_of_help_imports_no_command() -> None:
    assert own(imported("--help")) <= OF_ALL


def test_the_help_of_a_command_imports_that_command() -> None:
    assert own(imported("reassign --help")) <= OF_REASSIGN


def test_help_imports_nothing_heavy() -> None:
    modules = imported("--help", *(f"{command} --help" for command in COMMANDS))
    assert {module.partition(".")[0] for module in modules} & HEAVY == set()
