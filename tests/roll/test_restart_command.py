"""Commands that restart brokers: how they are read, run, and told of. With real processes."""

import os
import pty
import select
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from kipctl import process
from kipctl.errors import UsageError
from kipctl.roll.next_step import CommandState
from kipctl.roll.plan import Node
from kipctl.roll.restart_command import (
    CommandOfDeadKipctl,
    ManualRestart,
    Restart,
    RunningCommand,
    command_for,
    lab_command,
    parse_command,
    require_program,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ssh {host} systemctl restart kafka", "ssh|a.example|systemctl|restart|kafka"),
        (
            "ssh -p 22 admin@{host} 'restart {broker}; true'",
            "ssh|-p|22|admin@a.example|restart 7; true",
        ),
        ("r {port} {rack}", "r|9092|r-1"),
        ("awk '{{print}}' {broker}", "awk|{print}|7"),
        ("r '$HOME' *", "r|$HOME|*"),
    ],
)
def test_words_are_a_shells_and_run_by_none(text: str, words: str) -> None:
    assert (
        "|".join(command_for(parse_command(text), Node(7, "a.example", 9092, "r-1", "broker")))
        == words
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "ssh {hots}", "ssh {}", "ssh {0}", "ssh '{host", "a '{host'", "a }"),
        *("a {host.x}", "a {host:>9}", "a {host!r}", "a {host:{rack}}", "a {host:{nobody}}"),
    ],
)
def test_what_cannot_be_a_command(text: str) -> None:
    with pytest.raises(UsageError):
        parse_command(text)


@pytest.mark.parametrize(
    ("host", "rack", "text"),
    [
        ("-oProxyCommand=x", "r", "ssh {host}"),
        ("a;reboot", "r", "ssh {host}"),
        ("a b", "r", "ssh {host}"),
        ("$(x)", "r", "sh -c 'ssh {host}'"),
        ("", "r", "ssh {host}"),
        ("a", None, "r {rack}"),
        ("a", "b\nc", "r {rack}"),
    ],
)
def test_what_a_cluster_calls_its_brokers_is_no_part_of_a_command_unless_plain(
    host: str, rack: str | None, text: str
) -> None:
    words = parse_command(text)
    with pytest.raises(UsageError, match="broker 7"):
        command_for(words, Node(7, host, 1, rack, "broker"))
    command_for(parse_command("r {broker}"), Node(7, host, 1, rack, "broker"))


def until_ended(command: Restart) -> CommandState:
    assert process.wait_until(lambda: command.look() is not CommandState.RUNNING, 300)
    return command.look()


def called(tmp_path: Path, *words: str) -> tuple[RunningCommand, list[str]]:
    said: list[str] = []
    return RunningCommand(words, tmp_path, tmp_path / "said.log", 60, said.append), said


@pytest.mark.parametrize(
    ("script", "state", "outcome"),
    [
        ("printf 'well\\ndone'", CommandState.ENDED, "status is 0"),
        ("echo well; echo done; exit 3", CommandState.FAILED, "status is 3"),
        ("echo well; echo done; kill $$", CommandState.FAILED, "signal 15"),
    ],
)
def test_how_it_ended_and_what_it_said(
    tmp_path: Path, script: str, state: CommandState, outcome: str
) -> None:
    command, said = called(tmp_path, "sh", "-c", script)
    command.prepare()
    command.go()
    assert until_ended(command) is state
    assert outcome in command.outcome
    assert said == ["  well", "  done"]
    command.end()
    assert command.look() is state


def test_a_command_that_is_not_there_has_failed(tmp_path: Path) -> None:
    command, said = called(tmp_path, "no-such-program")
    command.prepare()
    command.go()
    assert until_ended(command) is CommandState.FAILED
    assert "status is 127" in command.outcome
    assert "not found" in " ".join(said)


def script(folder: Path, mode: int = 0o755) -> Path:
    """One that can be run, by default, and says where."""
    path = folder / "restart.sh"
    path.write_text("#!/bin/sh\npwd\n")
    path.chmod(mode)
    return path


def test_a_command_runs_where_the_operator_stood(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    script(folder)
    command, said = called(tmp_path, "./restart.sh")
    command.folder = folder
    command.prepare()
    command.go()
    assert until_ended(command) is CommandState.ENDED
    assert said == [f"  {folder}"]


def test_a_command_that_ended_before_it_was_called_has_failed(tmp_path: Path) -> None:
    command, _ = called(tmp_path, "true")
    pid = command.prepare().pid
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    command.go()
    assert until_ended(command) is CommandState.FAILED


@pytest.mark.parametrize("program", ["true", "sh", "./restart.sh", "/bin/sh", "bin/../restart.sh"])
def test_a_program_is_found_as_the_command_finds_it(tmp_path: Path, program: str) -> None:
    script(tmp_path)
    (tmp_path / "bin").mkdir()
    require_program((program, "-x"), tmp_path)


@pytest.mark.parametrize("program", ["no-such-program", "./gone.sh", "./restart.sh", "/etc", "."])
def test_what_cannot_be_run_is_no_command(tmp_path: Path, program: str) -> None:
    script(tmp_path, 0o644)
    with pytest.raises(UsageError, match=f"{program} is no program that can be run"):
        require_program((program,), tmp_path)
    with pytest.raises(UsageError, match="gone, where --exec is to run, is no folder"):
        require_program(("true",), tmp_path / "gone")


def test_one_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"sleep 1000 & echo $! > {child}.new; mv {child}.new {child}; wait"
    command, _ = called(tmp_path, "sh", "-c", script)
    command.prepare()
    command.go()
    assert process.wait_until(child.exists, 300)
    assert command.look() is CommandState.RUNNING
    started = process.identify(int(child.read_text()))
    command.timeout_s = 0.0
    assert until_ended(command) is CommandState.FAILED
    assert "was ended" in command.outcome
    assert process.wait_for_exit(started, 60)


def test_a_command_of_a_kipctl_that_is_gone_is_waited_for(tmp_path: Path) -> None:
    command, _ = called(tmp_path, "cat")
    earlier = CommandOfDeadKipctl(command.prepare(), socket.gethostname())
    elsewhere = replace(earlier, host="elsewhere")  # where this process id means another
    assert earlier.look() is CommandState.RUNNING
    assert elsewhere.look() is CommandState.ELSEWHERE
    assert "called on elsewhere" in elsewhere.outcome
    command.go()
    assert until_ended(command) is CommandState.ENDED
    assert earlier.look() is CommandState.ENDED
    assert "not known" in earlier.outcome


@pytest.mark.parametrize(
    ("typed", "state"), [(b"\n", CommandState.ENDED), (b"", CommandState.FAILED)]
)
def test_an_operator_says_when_it_is_done(typed: bytes, state: CommandState) -> None:
    read, write = os.pipe()
    with os.fdopen(read) as stdin, os.fdopen(write, "wb") as terminal:
        operator = ManualRestart(stdin)
        operator.ask()
        assert [operator.look(), operator.look()] == [CommandState.RUNNING] * 2
        terminal.write(typed)
        terminal.close()
        assert until_ended(operator) is state
        assert operator.look() is state


def test_an_enter_from_before_the_question_is_no_answer() -> None:
    terminal, theirs = pty.openpty()
    with os.fdopen(theirs) as stdin:
        os.write(terminal, b"\n")
        while not select.select([stdin], [], [], 0)[0]:
            pass
        operator = ManualRestart(stdin)
        operator.ask()
        assert operator.look() is CommandState.RUNNING
        os.write(terminal, b"\n")
        assert until_ended(operator) is CommandState.ENDED
    os.close(terminal)


def test_a_labs_command_is_kipctls_own() -> None:
    words = command_for(lab_command("mine"), Node(2, "127.0.0.1", 9092, None, "broker"))
    assert words[1:] == ("-m", "kipctl", "lab", "restart", "2", "--name", "mine")
