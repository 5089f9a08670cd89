"""Commands that messages name go to the cluster that the message is about."""

import io
import json

import pytest
from typer.core import TyperCommand

from kipctl.cli.app import root_command, takes_cluster
from kipctl.cli.environment import Environment
from kipctl.cli.help import commands
from kipctl.errors import KipctlError, RefusedError
from kipctl.next_step import Command
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report, Table, paragraphs
from kipctl.transport.target import repeated_options

CITED = "It began as kipctl undo --yes, by me."
UNDO = "Undo: " + Command("undo", "an entry") + " (saved in /a/b)"


@pytest.mark.parametrize(
    ("servers", "options", "expected"),
    [
        (None, {}, ()),
        ("a:1", {}, ("--bootstrap-server", "a:1")),
        (None, {"cluster": "east"}, ("--cluster", "east")),
        (
            "a:1",
            {"command_config": "my file", "map": ["b:1=c:1", "b:2=c:2"], "expect_cluster": "x"},
            (
                *("--bootstrap-server", "a:1", "--command-config", "my file"),
                *("--map", "b:1=c:1", "--map", "b:2=c:2"),
            ),
        ),
    ],
)
def test_what_named_the_cluster_is_repeated(
    servers: str | None, options: dict[str, object], expected: tuple[str, ...]
) -> None:
    assert repeated_options(servers, options) == expected


@pytest.mark.parametrize(("path", "command"), list(commands(root_command())))
def test_commands_that_connect_are_known_from_their_options(
    path: str, command: TyperCommand
) -> None:
    connects = "bootstrap_server" in {parameter.name for parameter in command.params}
    assert takes_cluster(Command(path)) is connects
    assert not takes_cluster(Command(f"{path} --help"))
    assert not takes_cluster(Command(f"{path} --cluster east"))


@pytest.mark.parametrize("name", ["elect", "inspect nothing", "runs", "x", "undo x"])
def test_what_is_no_command_is_given_nothing(name: str) -> None:
    assert not takes_cluster(Command(name))


def test_all_that_is_printed_names_the_cluster() -> None:
    out, err = io.StringIO(), io.StringIO()
    where = Environment(io.StringIO(), out, err, variables={}, takes_cluster=takes_cluster)
    where.access("127.0.0.1:1")
    where.message(UNDO)
    where.message(CITED)
    where.error(RefusedError("No.", UNDO))
    failed = KipctlError("x")
    failed.add_note(UNDO)
    where.notes(failed)
    table = Table("Title", ("a",), ((UNDO,),), notes=(UNDO,))
    report = Report(
        "x",
        {"next": {"text": UNDO, "commands": list(UNDO.commands)}},
        (table,),
        (UNDO, CITED),
        paragraphs(UNDO),
    )
    where.report(report, OutputFormat.PLAIN)
    command = "kipctl undo --bootstrap-server 127.0.0.1:1 'an entry'"
    assert err.getvalue().count(command) == 3
    assert out.getvalue().count(command) == 4
    assert all(stream.getvalue().count(CITED) == 1 for stream in (out, err))
    out.truncate(0)
    where.report(report, OutputFormat.JSON)
    assert json.loads(out.getvalue().strip("\0"))["next"] == {
        "text": f"Undo: {command} (saved in /a/b)",
        "commands": [["kipctl", "undo", "--bootstrap-server", "127.0.0.1:1", "an entry"]],
    }
    where.forget_cluster()
    where.message(UNDO)
    assert err.getvalue().endswith("Undo: kipctl undo 'an entry' (saved in /a/b)\n")
