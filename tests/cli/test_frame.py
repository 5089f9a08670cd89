"""What every command has in common: exit statuses, messages, pipes and Ctrl-C."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.models import CommandInfo

from kipctl import __version__, errors
from kipctl.cli.app import app, run
from kipctl.cli.environment import Environment
from kipctl.errors import ExitStatus, InterruptedRunError, KipctlError, UnreachableError

AddCommand = Callable[[Callable[[], None]], None]

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


@pytest.fixture
def add_command(monkeypatch: pytest.MonkeyPatch) -> AddCommand:
    """Put a command named `test` beside kipctl's own, for the length of one test."""

    def add(callback: Callable[[], None]) -> None:
        added = CommandInfo(name="test", callback=callback)
        monkeypatch.setattr(app, "registered_commands", [*app.registered_commands, added])
        anew = typer.main.get_command(app)
        monkeypatch.setattr("kipctl.cli.app.lazy_root_command", lambda: anew)

    return add


def outcome(*arguments: str) -> tuple[int, str, str]:
    environment = Environment(stdin=io.StringIO(), stdout=io.StringIO(), stderr=io.StringIO())
    status = run(list(arguments), environment)
    return status, environment.stdout.getvalue(), environment.stderr.getvalue()


def program(body: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(body=body), "test"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("KipctlError", 1),
        ("UsageError", 2),
        ("UnreachableError", 3),
        ("RefusedError", 4),
        ("PartlyDoneError", 5),
        ("TimedOutError", 6),
        ("ThresholdError", 7),
        ("PipelineError", 8),
        ("InterruptedRunError", 130),
    ],
)
def test_each_error_has_its_exit_status(name: str, status: int, add_command: AddCommand) -> None:
    def fail() -> None:
        raise getattr(errors, name)("Topic 'orders' does not exist.", "List them first.")

    add_command(fail)
    assert outcome("test") == (
        status,
        "",
        "kipctl: Topic 'orders' does not exist.\nList them first.\n",
    )


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


def test_a_traceback_only_with_debug(add_command: AddCommand) -> None:
    def fail() -> None:
        raise UnreachableError("No broker answered.")

    add_command(fail)
    assert "Traceback" not in outcome("test")[2]
    status, _, told = outcome("--debug", "test")
    assert status == ExitStatus.UNREACHABLE
    assert "Traceback" in told
    assert told.endswith("kipctl: No broker answered.\n")


def test_a_fault_says_how_to_see_more(add_command: AddCommand) -> None:
    def fail() -> None:
        raise ZeroDivisionError("division by zero")

    add_command(fail)
    status, _, told = outcome("test")
    assert status == ExitStatus.FAULT
    assert told == (
        "kipctl: a fault in kipctl: ZeroDivisionError: division by zero\n"
        "Repeat with `kipctl --debug ...` for the traceback, and report it.\n"
    )
    assert "in fail" in outcome("--debug", "test")[2]


def test_a_broken_socket_is_not_taken_for_a_closed_stdout(add_command: AddCommand) -> None:
    def fail() -> None:
        raise BrokenPipeError(32, "Broken pipe")

    add_command(fail)
    status, _, told = outcome("test")
    assert status == ExitStatus.FAULT
    assert "BrokenPipeError" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--no-such-option",), "kipctl: No such option: --no-such-option\nSee `kipctl --help`.\n"),
        (
            ("no-such-command",),
            "kipctl: No such command 'no-such-command'.\nSee `kipctl --help`.\n",
        ),
        (("lab", "-x"), "kipctl: No such option: -x\nSee `kipctl lab --help`.\n"),
    ],
)
def test_wrong_usage_names_the_help_page_to_read(arguments: tuple[str, ...], told: str) -> None:
    assert outcome(*arguments) == (ExitStatus.USAGE, "", told)


def test_a_wrong_value_names_what_is_allowed_in_one_line() -> None:
    status, _, told = outcome("lab", "status", "--output", "xml")
    assert status == ExitStatus.USAGE
    assert len(told.splitlines()) == 2
    assert all(word in told for word in ("--output", "xml", "json", "csv"))


def test_no_arguments_show_the_state_and_what_to_type_next() -> None:
    status, shown, told = outcome()
    assert (status, told) == (ExitStatus.DONE, "")
    assert "No cluster was named, and no lab runs." in shown
    assert "  kipctl demo " in shown


def test_version() -> None:
    assert outcome("--version") == (ExitStatus.DONE, f"kipctl {__version__}\n", "")


def test_an_interrupt_is_told_and_is_130(add_command: AddCommand) -> None:
    def fail() -> None:
        raise KeyboardInterrupt

    add_command(fail)
    assert outcome("test") == (130, "", "\nkipctl: interrupted.\n")


def test_an_interrupted_command_says_what_was_done(add_command: AddCommand) -> None:
    def fail() -> None:
        raise InterruptedRunError("3 of 5 moved.", "Undo: kipctl reassign --rollback")

    add_command(fail)
    assert outcome("test")[::2] == (
        130,
        "kipctl: 3 of 5 moved.\nUndo: kipctl reassign --rollback\n",
    )


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


@pytest.mark.parametrize("output", ["table", "plain", "json", "csv"])
@pytest.mark.parametrize(
    ("last", "ended"), [("", (0, "")), ("raise RefusedError('No.')", (4, "kipctl: No.\n"))]
)
def test_a_reader_that_leaves_early_changes_nothing(
    output: str, last: str, ended: tuple[int, str]
) -> None:
    process = program(LONG_REPORT % (output, last))
    assert outcome_for_a_reader_of_one_line(process) == ended


def test_lines_written_as_they_come_end_with_their_reader() -> None:
    process = program("while True: print('line')")
    assert outcome_for_a_reader_of_one_line(process) == (0, "")


def test_help_loads_none_of_the_heavy_libraries() -> None:
    heavy = {"pyspark", "pyarrow", "confluent_kafka", "numpy", "httpx", "kafka", "kio", "uvloop"}
    heavy |= {"matplotlib"}
    heavy |= {"kipctl.protocol.message", "rich.live"}  # needed by some commands only
    program = (
        "import sys; from kipctl.cli.app import run, Environment;"
        f"run(['--help'], Environment()); print(sorted({heavy} & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "Move leaders" in shown.stdout
    assert shown.stdout.splitlines()[-1] == "[]"


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
