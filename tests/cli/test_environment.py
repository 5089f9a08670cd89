"""Where a command stands: what it asks, what it tells, and which cluster it means."""

import io
from types import SimpleNamespace

import pytest

from kipctl.cli.environment import Environment
from kipctl.errors import RefusedError, UsageError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def environment(
    typed: str | None = None, variables: dict[str, str] | None = None, terminal: bool = False
) -> Environment:
    """An environment with its own streams; `typed` is what a person at a terminal answers."""
    return Environment(
        stdin=io.StringIO() if typed is None else Terminal(typed),
        stdout=io.StringIO(),
        stderr=Terminal() if terminal else io.StringIO(),
        variables=variables or {},
    )


def told(where: Environment) -> str:
    assert isinstance(where.stderr, io.StringIO)
    return where.stderr.getvalue()


@pytest.mark.parametrize("answer", ["y\n", "yes\n", " YES \n", "y"])
def test_yes_goes_on(answer: str) -> None:
    where = environment(typed=answer)
    where.confirm("Move 100 leaders?", yes=False)
    assert told(where).startswith("Move 100 leaders? [y/N] ")


@pytest.mark.parametrize("answer", ["\n", "n\n", "no\n", "ye\n", "maybe\n", ""])
def test_any_other_answer_is_no(answer: str) -> None:
    with pytest.raises(RefusedError, match="Nothing was changed"):
        environment(typed=answer).confirm("Move 100 leaders?", yes=False)


def test_control_d_ends_the_line_of_the_question() -> None:
    where = environment(typed="")
    with pytest.raises(RefusedError):
        where.confirm("Move?", yes=False)
    assert told(where) == "Move? [y/N] \n"


def test_yes_beforehand_asks_nothing() -> None:
    where = environment()
    where.confirm("Move 100 leaders?", yes=True)
    assert told(where) == ""


def test_without_a_terminal_there_is_nobody_to_ask() -> None:
    with pytest.raises(UsageError, match="Repeat with --yes"):
        environment().confirm("Move 100 leaders?", yes=False)


def labs(monkeypatch: pytest.MonkeyPatch, *running: tuple[str, str]) -> None:
    found = [SimpleNamespace(name=name, bootstrap_server=server) for name, server in running]
    monkeypatch.setattr("kipctl.lab.cluster.running_labs", lambda: found)


def test_the_option_wins_over_the_variable_and_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    labs(monkeypatch, ("lab", "127.0.0.1:1"))
    where = environment(variables={"KIPCTL_BOOTSTRAP_SERVER": "variable:2"})
    assert where.bootstrap_server("option:3") == "option:3"
    assert where.bootstrap_server(None) == "variable:2"
    assert told(where) == ""


def test_the_one_running_lab_is_used_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    labs(monkeypatch, ("lab", "127.0.0.1:1"))
    where = environment()
    assert where.bootstrap_server(None) == "127.0.0.1:1"
    assert told(where) == "Using the running lab 'lab' at 127.0.0.1:1.\n"


def test_several_labs_are_named_and_none_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    labs(monkeypatch, ("one", "127.0.0.1:1"), ("two", "127.0.0.1:2"))
    with pytest.raises(UsageError, match=r"one \(127.0.0.1:1\), two \(127.0.0.1:2\)"):
        environment().bootstrap_server(None)


def test_no_cluster_at_all_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    labs(monkeypatch)
    with pytest.raises(UsageError, match="kipctl lab up"):
        environment().bootstrap_server(None)


def test_progress_off_a_terminal_is_plain_lines_on_stderr() -> None:
    where = environment()
    with where.progress("Starting") as tell:
        tell("broker 1")
    assert told(where) == "Starting\nbroker 1\n"


def test_a_message_during_progress_has_its_own_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    where = environment(terminal=True)
    with where.progress("Starting"):
        where.message("Using the running lab.")
    where.message("Done.")
    assert "Using the running lab.\n" in told(where)
    assert told(where).endswith("Done.\n")
