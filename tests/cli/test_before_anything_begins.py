"""Each option and input of each command is checked before anything is fetched, started or made."""

import io
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from nothing_begun import nothing_begins
from wrong_options import ALONE, ANY, ARGUMENTS, NEEDS_LAB, QUIET, VALID, WRONG, WRONG_HERE

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cli.generate.commands import Command, Parameter, command_tree

COMMANDS = {" ".join(c.path[1:]): c for c in command_tree().walk() if not c.commands}


def name_of(command: str, option: Parameter) -> str:
    """The spelling by which its wrong values are listed."""
    listed = [n for n in option.names if (command, n) in WRONG_HERE or n in WRONG or n in ANY]
    return listed[0] if listed else option.names[-1]


def options(command: Command) -> Iterator[Parameter]:
    """Those that take a value."""
    return (option for option in command.options if option.value)


def wrong_values() -> Iterator[tuple[str, str, str]]:
    for name, command in COMMANDS.items():
        for option in options(command):
            spelling = name_of(name, option)
            values = WRONG_HERE.get((name, spelling), WRONG.get(spelling, ()))
            for value in values:
                yield name, spelling, value


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Paths that command lines name."""
    folder = tmp_path_factory.mktemp("places")
    for run_name in ("run", "other"):
        (folder / run_name / "batches").mkdir(parents=True)
        (folder / run_name / "run.json").write_text('{"schema_version": 1, "summary": {}}')
    (folder / "folder").mkdir()
    (folder / "folder" / "file").write_text("no run")
    (folder / "broken").write_text('{"partitions": [}')
    (folder / "log").write_text("a line\n")
    names = ("run", "other", "folder", "broken", "log", "new", "none")
    return {name: str(folder / name) for name in names}


def outcome(words: list[str], tmp_path: Path) -> tuple[int, str, list[str]]:
    """The exit status, stderr, and what was about to begin."""
    err = io.StringIO()
    environment = Environment(
        stdin=io.StringIO(),
        stdout=io.StringIO(),
        stderr=err,
        variables={
            "KIPCTL_BOOTSTRAP_SERVER": "127.0.0.1:1",
            "KIPCTL_RUNS": str(tmp_path / "runs"),
            "XDG_STATE_HOME": str(tmp_path / "state"),
        },
    )
    with nothing_begins() as begun:
        status = run(words, environment)
    return status, err.getvalue(), begun


def test_each_option_has_values_that_are_wrong() -> None:
    assert VALID.keys() == COMMANDS.keys()
    missing = [
        (name, option.names)
        for name, command in COMMANDS.items()
        for option in options(command)
        if name_of(name, option) not in WRONG.keys() | ANY
    ]
    assert missing == []
    with_arguments = {name for name, command in COMMANDS.items() if command.arguments}
    assert ARGUMENTS.keys() == with_arguments


@pytest.mark.parametrize(("command", "option", "value"), list(wrong_values()))
def test_a_wrong_option_is_told_before_anything_begins(
    command: str, option: str, value: str, places: dict[str, str], tmp_path: Path
) -> None:
    rest = ALONE.get((command, option), VALID[command]).format(**places)
    given = value.format(**places)
    words = [*command.split(), *shlex.split(rest), f"{option}={given}"]
    status, err, begun = outcome(words, tmp_path)
    assert begun == []
    assert status == 2, err
    assert len(err.splitlines()) <= 3


@pytest.mark.parametrize(
    ("command", "given"), [(name, given) for name, all_ in ARGUMENTS.items() for given in all_]
)
def test_a_wrong_argument_is_told_before_anything_begins(
    command: str, given: str, places: dict[str, str], tmp_path: Path
) -> None:
    words = [*command.split(), *shlex.split(given.format(**places))]
    status, err, begun = outcome(words, tmp_path)
    assert begun == []
    assert status == 2, err
    assert len(err.splitlines()) <= 3


@pytest.mark.parametrize("command", sorted(VALID.keys() - QUIET - NEEDS_LAB))
def test_what_is_right_begins(command: str, places: dict[str, str], tmp_path: Path) -> None:
    """The command lines that the wrong values are put into are right by themselves."""
    words = [*command.split(), *shlex.split(VALID[command].format(**places))]
    status, err, begun = outcome(words, tmp_path)
    assert begun != [], (status, err)
