"""Every kipctl command that a page names can be typed: its subcommand and its options exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from blocks import fences
from nothing_begun import NOT_HERE, make_named, outcome
from typer.core import TyperGroup

from kipctl.cli.app import root_command
from kipctl.cli.environment import Environment
from kipctl.cli.pairs import spread_pairs

REPOSITORY = Path(__file__).parents[2]
PAGES = [*REPOSITORY.glob("*.md"), *sorted((REPOSITORY / "docs").rglob("*.md"))]
ONLY_NAMED = re.compile("^kipctl: (Missing argument|Give one of|How are brokers)").search
PAGES.remove(REPOSITORY / "CHANGELOG.md")


def typed(page: str) -> Iterator[str]:
    """The commands of all blocks but those that were printed, and those inside sentences."""
    for _, kind, lines in fences(page):
        if kind == "console":
            yield from (line[2:] for line in lines if line.startswith("$ "))
        elif kind in ("", "sh", "yaml"):
            yield from re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    yield from re.findall(r"`(kipctl [^`]*)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))


def commands(line: str) -> Iterator[list[str]]:
    """The words after each `kipctl` of a shell's line."""
    parts = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    parts.whitespace_split = True
    words: list[str] | None = None
    for word in [*parts, ";"]:
        if word == "kipctl" or word.endswith("$(kipctl"):
            words = []
        elif words is not None and re.fullmatch(r"[();<>|&]+", word):
            yield words
            words = None
        elif words is not None and (word != "..." or words[-1][:2] == "--"):
            words.append("1" if word == "N" else word)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kipctl inspect brokers  # look", [["inspect", "brokers"]]),
        (
            "kipctl wait --until in-sync && kipctl elect",
            [["wait", "--until", "in-sync"], ["elect"]],
        ),
        ("id=$(kipctl reassign -o json | jq .) || exit", [["reassign", "-o", "json"]]),
        ("kipctl roll --exec 'a; b' > log", [["roll", "--exec", "a; b"]]),
        ("ssh HOST restart", []),
    ],
)
def test_the_commands_of_a_line(line: str, expected: list[list[str]]) -> None:
    assert list(commands(line)) == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_each_command_of_a_page_can_be_typed(page: Path) -> None:
    wrong = []
    for line in typed(page.read_text()):
        for words in commands(line):
            try:
                parsed(words)
            except Exception as error:
                wrong.append(f"kipctl {' '.join(words)}: {error}")
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_values_of_each_command_of_a_page_are_accepted(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that stand for others (NAME, {upstream}, $run) aside, and what only names a command."""
    monkeypatch.chdir(tmp_path)
    make_named(tmp_path)
    wrong = []
    for line in typed(page.read_text()):
        for words in commands(line):
            if words and not any(re.search(r"[A-Z]{2}|[{$]|\.\.\.", word) for word in words):
                said = outcome(words, tmp_path)
                if said.is_wrong_usage and not (NOT_HERE.search(said.err) or ONLY_NAMED(said.err)):
                    wrong.append(f"kipctl {' '.join(words)}: {said.err}")
    assert wrong == []


def test_each_page_of_a_task_or_a_command_begins_with_a_command() -> None:
    index, _, _ = (REPOSITORY / "docs/README.md").read_text().partition("## How it works")
    pages = {REPOSITORY / "docs" / name for name in re.findall(r"\]\(([\w/-]+\.md)", index)}
    assert len(pages) > 25
    for page in pages:
        first, _, _ = fences(page.read_text())[0]
        assert first < 12, page


def parsed(words: list[str]) -> None:
    command = root_command()
    if words[:1] == ["analyze"] and words[1:2] not in (["runs"], ["request-log"]):
        words = ["analyze", "runs", *words[1:]]
    while isinstance(command, TyperGroup) and words and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    if words and not isinstance(command, TyperGroup):
        command.make_context("kipctl", spread_pairs(words), obj=Environment())
    else:
        assert words in ([], ["--help"]), f"no such command: {words[0]}"
