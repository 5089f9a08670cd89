"""Help: every command has examples, they can be typed, and options stand under their purpose."""

import io
import re
import shlex
from pathlib import Path

import pytest
from nothing_begun import NOT_HERE, make_named, outcome
from typer import Context
from typer.core import TyperOption

from kipctl.cli.app import COMMANDS as SUMMARIES
from kipctl.cli.app import root_command, run
from kipctl.cli.environment import Environment
from kipctl.cli.help import EXAMPLES, PANELS, commands
from kipctl.cli.help_page import TWO_SCREENS, page
from kipctl.cli.pairs import spread_pairs

COMMANDS = dict(commands(root_command()))


def test_every_command_has_examples() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()


@pytest.mark.parametrize(
    ("path", "example"), [(path, example) for path, lines in EXAMPLES.items() for example in lines]
)
def test_an_example_can_be_typed(path: str, example: str) -> None:
    words = shlex.split(example)
    assert words[: 1 + len(path.split())] == ["kipctl", *path.split()]
    words = spread_pairs(words[1 + len(path.split()) :])
    COMMANDS[path].make_context("kipctl", words, obj=Environment())


@pytest.mark.parametrize("example", [example for lines in EXAMPLES.values() for example in lines])
def test_values_of_an_example_are_accepted(example: str, examples_folder: Path) -> None:
    """Where it is refused, then for what is not on this machine."""
    said = outcome(shlex.split(example)[1:], examples_folder)
    assert not said.is_wrong_usage or NOT_HERE.search(said.err), said.err


@pytest.fixture
def examples_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What examples name, where they name it."""
    monkeypatch.chdir(tmp_path)
    make_named(tmp_path)
    return tmp_path


def test_each_summary_is_the_commands_own() -> None:
    texts = {name: command.help or "" for name, command in root_command().commands.items()}
    own = {name: " ".join(text.partition("\n\n")[0].split()) for name, text in texts.items()}
    assert own == SUMMARIES


def test_each_option_that_a_panel_names_exists() -> None:
    for first, panels in PANELS.items():
        there = {
            parameter.name
            for path, command in COMMANDS.items()
            if not first or path.split()[0] == first
            for parameter in command.params
        }
        named = [name for names in panels.values() for name in names.split()]
        assert set(named) <= there | {"help"}
        assert len(named) == len(set(named))


SEVERAL = {
    "--controllers": {"", "INTEGER"},  # a roll takes them in too; a lab has so many
    "--fail-if": {"CONDITION", "FINDING"},  # each of what its command finds
    "--metrics": {"", "[HOST:]PORT"},  # a lab's brokers have them; a canary offers them here
    "--partitions": {"INTEGER", "N,..."},  # some experiments measure several numbers of them
    "--throughput": {"INTEGER", "NUMBER"},
    "--rotate": {"", "TOPIC"},  # a tap takes one topic, and no other way to move leaders
    "--timeout": {"DURATION", "MS|DURATION"},  # as in Kafka's tool, milliseconds
    "--topic": {"TOPIC", "TOPIC[:PARTITIONS[:REPLICAS]]"},  # a lab makes them
    "--until": {"STATE,...", "WORD"},  # waits for conditions, or for one
}
"""Options that take something else in one command than in another. One of several words, given
as `one|other`, has the words of its command."""


def test_an_option_takes_the_same_in_every_command() -> None:
    taken: dict[str, set[str]] = {}
    for command in COMMANDS.values():
        for option in command.params:
            if isinstance(option, TyperOption) and not option.hidden:
                value = "" if option.is_flag else str(option.metavar)
                is_one_of_words = value.islower() or ("|" in value and "DURATION" not in value)
                name = max(option.opts, key=len)
                taken.setdefault(name, set()).add("WORD" if is_one_of_words else value)
    assert {name: values for name, values in taken.items() if len(values) > 1} == SEVERAL
    assert (taken["--all"], taken["--for"], taken["--plan"]) == ({""}, {"DURATION"}, {"FILE"})
    assert taken["--partition"] == {"TOPIC:PARTITION"}


def test_all_is_everything() -> None:
    """Nowhere a part of it, or something else."""
    meant = {
        " ".join(option.help.split())
        for command in COMMANDS.values()
        for option in command.params
        if isinstance(option, TyperOption) and "--all" in option.opts and option.help
    }
    assert len(meant) > 3
    assert [text for text in meant if not re.match("Every(thing)? ", text)] == []


@pytest.mark.parametrize("path", COMMANDS)
def test_a_page_fits_80_columns(path: str) -> None:
    context = Context(COMMANDS[path], info_name=f"kipctl {path}")
    whole, on_terminal = (page(COMMANDS[path], context, 80, most) for most in (None, TWO_SCREENS))
    plain = [re.sub(r"\x1b\[\d*m", "", line) for line in (*whole, *on_terminal)]
    assert [line for line in plain if len(line) > 80] == []
    assert len(on_terminal) <= 48  # of 24 lines
    for option in COMMANDS[path].get_params(context):
        if isinstance(option, TyperOption) and not option.hidden:
            name = max(option.opts, key=len)
            assert all(any(name in line for line in lines) for lines in (whole, on_terminal))


@pytest.mark.parametrize("path", ["", "lab", "perf produce"])
def test_values_are_named_and_flags_have_none(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*path.split(), "--help"], Environment(io.StringIO())) == 0
    assert "<" not in capsys.readouterr().out


def test_a_page_of_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["perf", "produce", "--help"], Environment(io.StringIO())) == 0
    page = capsys.readouterr().out
    for shown in ("While it runs", "Spark", "Examples:", "--during rotate --record"):
        assert shown in page
