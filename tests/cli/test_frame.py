"""What every command has in common: exit statuses, messages, pipes and Ctrl-C."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from in_process import kipctl
from one_process import Said
from typer.models import CommandInfo

from kipctl import __version__, errors
from kipctl.cli.app import app
from kipctl.errors import ExitStatus, KipctlError

# A whole kipctl in a process of its own, with one more command, `test`, whose body is put in.
PROGRAM = """
import signal
import typer
from kipctl.cli.app import app, main
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report, Table
from kipctl.errors import RefusedError

@app.command("test")
def test(context: typer.Context) -> None:
    environment = context.obj
    {body}

main()
"""


NOT_THERE = "kipctl: Topic 'orders' does not exist.\nList them first.\n"
FAULT = (
    "kipctl: a fault in kipctl: {}\n"
    "Repeat with `kipctl --debug ...` for the traceback, and report it.\n"
)


def add_command(monkeypatch: pytest.MonkeyPatch, body: Callable[[], None]) -> None:
    """Put a command named `test` beside kipctl's own, for the length of one test."""
    added = CommandInfo(name="test", callback=body)
    monkeypatch.setattr(app, "registered_commands", [*app.registered_commands, added])
    anew = typer.main.get_command(app)
    monkeypatch.setattr("kipctl.cli.app.lazy_root_command", lambda: anew)


def program(body: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(body=body), "test"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        *(
            (kind("Topic 'orders' does not exist.", "List them first."), status, NOT_THERE)
            for kind, status in (
                *((errors.KipctlError, 1), (errors.UsageError, 2), (errors.UnreachableError, 3)),
                *((errors.RefusedError, 4), (errors.PartlyDoneError, 5), (errors.TimedOutError, 6)),
                *((errors.ThresholdError, 7), (errors.PipelineError, 8)),
                (errors.InterruptedRunError, 130),
            )
        ),
        (KeyboardInterrupt(), 130, "\nkipctl: interrupted.\n"),
        (ZeroDivisionError("by zero"), 1, FAULT.format("ZeroDivisionError: by zero")),
        # A broken socket is not taken for a closed stdout.
        (BrokenPipeError("broken"), 1, FAULT.format("BrokenPipeError: broken")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_how_each_error_is_told_and_its_exit_status(
    error: BaseException, status: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    add_command(monkeypatch, fail)
    assert kipctl("test") == Said(status, "", told)
    debugged = kipctl("--debug", "test")
    assert (debugged.status, debugged.out) == (status, "")
    for shown in ("Traceback", "in fail"):
        assert (shown in debugged.err) is not isinstance(error, KeyboardInterrupt)
    assert debugged.err.endswith(told) or not isinstance(error, KipctlError)


def test_no_core_is_left_that_could_hold_a_password() -> None:
    shown = "import resource; environment.message(str(resource.getrlimit(resource.RLIMIT_CORE)))"
    with program(shown) as process:
        assert process.communicate(timeout=60)[1] == "(0, 0)\n"


def test_every_exit_status_has_an_error_that_ends_in_it() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    statuses = {kind.status for kind in kinds if issubclass(kind, KipctlError)}
    assert statuses == set(ExitStatus) - {
        ExitStatus.DONE,
        ExitStatus.HUNG_UP,
        ExitStatus.TERMINATED,
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--no-such-option", "There is no option --no-such-option.\nSee `kipctl --help`"),
        ("no-such-command", "No such command 'no-such-command'.\nSee `kipctl --help`"),
        ("lab -x", "There is no option -x.\nSee `kipctl lab --help`"),
    ],
)
def test_wrong_usage_names_the_help_page_to_read(words: str, said: str) -> None:
    assert kipctl(*words.split()) == Said(ExitStatus.USAGE, "", f"kipctl: {said}.\n")


def test_no_arguments_show_the_state_and_what_to_type_next() -> None:
    said = kipctl()
    assert (said.status, said.err) == (ExitStatus.DONE, "")
    assert "No cluster was named, and no lab runs." in said.out
    assert "  kipctl demo " in said.out


def test_version() -> None:
    assert kipctl("--version") == Said(ExitStatus.DONE, f"kipctl {__version__}\n", "")


def test_control_c_ends_the_process_with_130_and_no_traceback() -> None:
    # It works until the signal: one that comes just before signal.pause() would not end that.
    process = program("print('ready', flush=True); [0 for _ in iter(int, 1) if False]")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert (process.returncode, told) == (130, "\nkipctl: interrupted.\n")


LONG_REPORT = (
    "rows = tuple(('t' * 100, n) for n in range(2_000)); "
    "report = Report('test', {'rows': rows}, (Table('', ('topic', 'n'), rows),)); "
    "environment.report(report, OutputFormat('%s')); %s"
)


def outcome_for_a_reader_of_one_line(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Do as `| head -1`, and return the process's exit status and what it told on stderr."""
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read()
    return process.returncode, told


@pytest.mark.parametrize(
    ("output", "last", "status", "err"),
    [
        ("table", "", 0, ""),
        ("plain", "raise RefusedError('No.')", 4, "kipctl: No.\n"),
        ("json", "raise RefusedError('No.')", 4, "kipctl: No.\n"),
        ("csv", "", 0, ""),
    ],
)
def test_a_reader_that_leaves_early_changes_nothing(
    output: str, last: str, status: int, err: str
) -> None:
    process = program(LONG_REPORT % (output, last))
    assert outcome_for_a_reader_of_one_line(process) == (status, err)


def test_lines_written_as_they_come_end_with_their_reader() -> None:
    process = program("while True: print('line')")
    assert outcome_for_a_reader_of_one_line(process) == (0, "")


def ended_by(program: str, folder: Path) -> tuple[int, str]:
    """How a Python program ends, run as `python -m`: as shells have it; and its stderr."""
    (folder / "a_program.py").write_text(program)
    process = subprocess.run(
        [sys.executable, "-m", "a_program"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
        capture_output=True,
        text=True,
    )
    status = process.returncode
    return status if status >= 0 else 128 - status, process.stderr


def test_ctrl_c_while_it_is_loaded_ends_it_without_a_word(tmp_path: Path) -> None:
    program = """
import signal, sys
class CtrlC:
    def find_spec(self, name, *_):
        if name == "kipctl.cli.app":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, CtrlC())
from kipctl.__main__ import main
main()
"""
    assert ended_by(program, tmp_path) == (130, "")


def test_the_status_is_the_signals_also_where_python_would_end_itself(tmp_path: Path) -> None:
    """CPython ends itself by SIGINT when Ctrl-C came out of an exec(), as a dataclass makes one."""
    program = """
import kipctl.cli.app as app
app.lazy_root_command = lambda: exec("import signal; signal.raise_signal(signal.SIGTERM)")
app.main()
"""
    assert ended_by(program, tmp_path) == (143, "\nkipctl: interrupted.\n")
