"""Each option and input of each command is checked before anything is fetched, started or made."""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from in_process import kipctl
from nothing_begun import outcome
from typer.core import TyperCommand, TyperOption
from wrong_options import ALONE, ANY, ARGUMENTS, NEEDS_LAB, QUIET, VALID, WRONG, WRONG_HERE

from kipctl.cli.app import root_command
from kipctl.cli.help import argument_name, commands
from kipctl.generate.commands import Command, Parameter, command_tree

COMMANDS = {" ".join(c.path[1:]): c for c in command_tree().walk() if not c.commands}


def name_of(command: str, option: Parameter) -> str:
    """The spelling by which its wrong values are listed."""
    listed = [n for n in option.names if (command, n) in WRONG_HERE or n in WRONG or n in ANY]
    return listed[0] if listed else option.names[-1]


def options(command: Command) -> Iterator[Parameter]:
    """Those that take a value."""
    return (option for option in command.options if option.value)


def wrong_options() -> dict[str, list[tuple[str, str]]]:
    """By command, options with wrong values: each value of an option once, and each command's own.

    Where several commands have an option with the same wrong values, they take turns with these.
    """
    commands_with: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for name, command in COMMANDS.items():
        for option in options(command):
            spelling = name_of(name, option)
            values = WRONG_HERE.get((name, spelling), WRONG.get(spelling, ()))
            if values:
                commands_with[spelling, values].append(name)
    given: dict[str, list[tuple[str, str]]] = {name: [] for name in COMMANDS}
    for (spelling, values), names in commands_with.items():
        for turn in range(max(len(names), len(values))):
            value = values[turn % len(values)]
            given[names[turn % len(names)]].append((spelling, value))
    return given


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
    arms = (f'[[arm]]\nname = "{name}"\nclient = "probe-kip951"\n' for name in "ab")
    (folder / "experiment").write_text("".join(arms))
    (folder / "log").write_text("a line\n")
    names = ("run", "other", "folder", "broken", "log", "experiment", "new", "none")
    return {name: str(folder / name) for name in names}


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


def not_wrong(lines: Iterable[str], folder: Path) -> list[object]:
    """Of these command lines the ones that are not told to be wrong before anything begins."""
    ended = [(line, outcome(shlex.split(line), folder)) for line in lines]
    return [result for result in ended if not result[1].is_wrong_usage]


@pytest.mark.parametrize(("command", "wrong"), wrong_options().items(), ids=wrong_options())
def test_a_wrong_option_is_told_before_anything_begins(
    command: str, wrong: list[tuple[str, str]], places: dict[str, str], tmp_path: Path
) -> None:
    lines = []
    for option, value in wrong:
        rest = ALONE.get((command, option), VALID[command])
        lines.append(f"{command} {rest} {shlex.quote(f'{option}={value}')}".format(**places))
    assert not_wrong(lines, tmp_path) == []


@pytest.mark.parametrize(("path", "command"), list(commands(root_command())))
def test_an_option_that_takes_one_value_is_refused_when_it_is_given_twice(
    path: str, command: TyperCommand
) -> None:
    """The parser takes the last, silently: `--plan A --plan B` would be half of what is meant."""
    for option in command.params:
        if not isinstance(option, TyperOption) or option.is_eager:
            continue
        for spelling in option.opts:
            words = [spelling] if option.is_flag else [spelling, "1"]
            # What may be given twice would begin: it shows its page instead.
            said = kipctl(*path.split(), *words, *words, "--help")
            is_refused = f"{option.opts[0]} is given twice; it can be given once." in said.err
            assert is_refused is not option.multiple, (spelling, said)


@pytest.mark.parametrize("command", ARGUMENTS)
def test_a_wrong_argument_is_told_before_anything_begins(
    command: str, places: dict[str, str], tmp_path: Path
) -> None:
    lines = (f"{command} {given}".format(**places) for given in ARGUMENTS[command])
    assert not_wrong(lines, tmp_path) == []


@pytest.mark.parametrize("command", sorted(VALID.keys() - QUIET - NEEDS_LAB))
def test_what_is_right_begins(command: str, places: dict[str, str], tmp_path: Path) -> None:
    """The command lines that the wrong values are put into are right by themselves."""
    words = [*command.split(), *shlex.split(VALID[command].format(**places))]
    ended = outcome(words, tmp_path)
    assert ended.begun != [], ended


@pytest.mark.parametrize(("path", "command"), list(commands(root_command())))
def test_an_empty_value_is_refused_by_every_option_and_argument(
    path: str, command: TyperCommand
) -> None:
    """A variable of the shell that is not set: nothing else may be meant in its place."""
    others: list[str] = []
    for option in command.params:
        if not isinstance(option, TyperOption):
            said = kipctl(*path.split(), *others, "")
            others.append("1")
            assert f"{argument_name(option)} is empty." in said.err
        elif not (option.is_flag or option.is_eager):
            for words in ((option.opts[-1], ""), (f"{option.opts[0]}=",)):
                said = kipctl(*path.split(), *words)
                assert (said.status, f"{option.opts[0]} is empty." in said.err) == (2, True), said
