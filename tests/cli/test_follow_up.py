"""Commands that messages name go to the cluster that the message is about."""

import io

import pytest
from typer.core import TyperCommand

from kipctl.cli.app import root_command
from kipctl.cli.environment import Environment
from kipctl.cli.follow_up import FollowUp
from kipctl.cli.help import commands
from kipctl.errors import KipctlError, RefusedError
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report, Table

UNDO = "Undo: kipctl undo (saved in /a/b)"


@pytest.mark.parametrize(
    ("servers", "options", "expected"),
    [
        (None, {}, UNDO),
        ("a:1", {}, "Undo: kipctl undo --bootstrap-server a:1 (saved in /a/b)"),
        (
            None,
            {"cluster": "east"},
            "Undo: kipctl undo --cluster east (saved in /a/b)",
        ),
        (
            "a:1",
            {"command_config": "my file", "map": ["b:1=c:1", "b:2=c:2"], "expect_cluster": "x"},
            "Undo: kipctl undo --bootstrap-server a:1 --command-config 'my file' "
            "--map b:1=c:1 --map b:2=c:2 (saved in /a/b)",
        ),
    ],
)
def test_what_named_the_cluster_is_repeated(
    servers: str | None, options: dict[str, object], expected: str
) -> None:
    assert FollowUp.of(servers, options).on_this_cluster(UNDO) == expected


@pytest.mark.parametrize(
    "expected",
    [
        "See: kipctl reassign @ --list, kipctl inspect leaders @.",
        "Then kipctl elect preferred @ a b",
        "Off: kipctl request-log off @ --broker 1",
        "See `kipctl reassign --help`.",
        "kipctl runs list; kipctl lab up; kipctl analyze x",
        "kipctl reassigns",
        "As before kipctl reassign --cluster east --rotate, by me. kipctl tap @",
        "kipctl reassign @ --list, or kipctl tap --bootstrap-server a:1",
    ],
)
def test_only_commands_that_connect_get_them(expected: str) -> None:
    assert FollowUp("@").on_this_cluster(expected.replace(" @", "")) == expected


@pytest.mark.parametrize(("path", "command"), list(commands(root_command())))
def test_each_command_that_connects_is_known(path: str, command: TyperCommand) -> None:
    """Experiments make labs of their own, and `clusters test` has its cluster as an argument."""
    own = path.startswith(("experiment ", "clusters "))
    connects = "bootstrap_server" in {parameter.name for parameter in command.params}
    text = f"kipctl {path} --any"
    expected = f"kipctl {path} @ --any" if connects and not own else text
    assert FollowUp("@").on_this_cluster(text) == expected


def test_reports_messages_errors_and_notes_are_repeatable() -> None:
    out, err = io.StringIO(), io.StringIO()
    where = Environment(io.StringIO(), out, err, variables={})
    where.access("127.0.0.1:1")
    where.message(UNDO)
    where.error(RefusedError("No.", UNDO))
    failed = KipctlError("x")
    failed.add_note(UNDO)
    where.notes(failed)
    table = Table("Title", ("a",), ((1,),), notes=(UNDO,))
    where.report(Report("x", {}, (table,), (UNDO,)), OutputFormat.PLAIN)
    for stream, times in ((err, 3), (out, 2)):
        shown = stream.getvalue()
        assert shown.count("kipctl undo --bootstrap-server 127.0.0.1:1") == times
    where.forget_cluster()
    where.message("Look: kipctl inspect leaders")
    assert err.getvalue().endswith("Look: kipctl inspect leaders\n")
