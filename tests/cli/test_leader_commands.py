"""Commands on a cluster, before they reach it: what they refuse."""

import io
import socket
from pathlib import Path

import pytest

from kipctl.cli.app import run
from kipctl.cli.environment import Environment


def refused(arguments: list[str], bootstrap_server: str = "127.0.0.1:1") -> tuple[int, str]:
    """The exit status and stderr of a command that prints no result."""
    out, err = io.StringIO(), io.StringIO()
    variables = {"KIPCTL_BOOTSTRAP_SERVER": bootstrap_server}
    status = run(arguments, Environment(io.StringIO(), out, err, variables))
    assert out.getvalue() == ""
    assert len(err.getvalue().splitlines()) <= 3
    return status, err.getvalue()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("reassign", "Nothing to do was given"),
        ("reassign --topic t", "Nothing to do was given"),
        ("reassign --rotate --rollback", "--rotate and --rollback exclude one another"),
        ("reassign --list --verify f --cancel", "--list and --verify and --cancel exclude"),
        ("reassign --rotate --yes", "--rotate with --yes needs --topic or --all-topics"),
        ("reassign --rotate --topic t --all-topics", "--all-topics exclude one another"),
        ("reassign --rollback --all-topics", "--all-topics does not go with --rollback"),
        ("reassign --plan f --topic t", "--topic does not go with --plan"),
        ("reassign --list --dry-run", "--dry-run does not go with --list"),
        ("reassign --history --rotate", "--rotate and --history exclude one another"),
        ("reassign --rotate --topic t --all", "--all does not go with --rotate, only"),
        ("reassign --plan f --rollback", "--plan and --rollback exclude one another"),
        ("reassign --cancel --plan f --all", "takes one of --topic, --plan, --entry and --all"),
        ("reassign --cancel --force", "--force does not go with --cancel"),
        ("reassign --list --additional", "--additional does not go with --list"),
        ("reassign --list --entry 2026", "--entry does not go with --list"),
        ("reassign --rollback --entry=", "--entry is empty"),
        ("reassign --rotate --topic t --measure --dry-run", "--measure does not go with --dry-run"),
        ("reassign --rotate --topic t --batch 0", ": 0 is too small: 1 is the least."),
        ("reassign --rotate --topic t --batch 10001", ": 10001 is too large: 10000 is the most."),
        ("reassign --rotate --topic t --batch ten", ": 'ten' is not a whole number."),
        ("reassign --list --output xml", "': 'xml' is not one of 'auto', 'table', 'wide',"),
        ("elect preferred --broker one", ": 'one' is not a whole number."),
        ("inspect replica-selection --price-per-gb free", ": 'free' is not a number."),
        ("reassign --rotate --topic t --between soon", "not a duration"),
        ("reassign --rotate --topic t --timeout 0", "more than 0"),
        ("reassign --rotate --topic t --timeout -3", "not a duration"),
    ],
)
def test_wrong_options_are_refused_in_plain_words(arguments: str, message: str) -> None:
    status, err = refused(arguments.split())
    assert status == 2
    assert message in err


COMMANDS_THAT_ASK = [
    "reassign --rotate --all-topics --yes",
    "reassign --list",
    "reassign --rollback --yes",
    "reassign --cancel --yes",
    "elect preferred --all",
    "elect unclean --all --yes",
    "inspect leaders",
    "inspect hints",
    "inspect replica-selection",
    "request-log status",
    "request-log off",
    "request-log on --all-brokers --until-off --yes",
    "request-log on --all-brokers --for 5s --yes",
]


@pytest.mark.parametrize("arguments", COMMANDS_THAT_ASK)
def test_an_unreachable_cluster(arguments: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound but not listening: it refuses connections
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        status, err = refused(arguments.split(), address)
    assert status == 3
    assert address in err
    assert "Check --bootstrap-server" in err


@pytest.mark.parametrize("arguments", COMMANDS_THAT_ASK)
def test_a_bootstrap_server_that_is_none(arguments: str) -> None:
    status, err = refused(arguments.split(), "localhost")
    assert status == 2
    assert "localhost" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--for 5s", "Give --broker (repeatable) or --all-brokers"),
        ("--for 5s --broker 1 --all-brokers", "Give --broker (repeatable) or --all-brokers"),
        ("--all-brokers", "Give --for TIME"),
        ("--all-brokers --for 5s --until-off", "Give --for TIME"),
        ("--all-brokers --for soon", "'soon' is not a duration"),
    ],
)
def test_where_the_request_log_is_switched_on_and_for_how_long_has_to_be_said(
    arguments: str, message: str
) -> None:
    status, err = refused(["request-log", "on", *arguments.split()])
    assert status == 2
    assert message in err


def test_a_broken_plan_is_told_of_before_the_cluster_is_asked(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions": [}')
    for option in ("--plan", "--verify"):
        status, err = refused(["reassign", option, str(plan), "--yes"])
        assert status == 2
        assert f"{plan}: line 1 column 17: this is not JSON" in err
