"""The man pages and completions in the repository are those of the commands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kipctl.cli.generate import generated_files
from kipctl.report.formats import OutputFormat

REPOSITORY = Path(__file__).parents[2]
AGAIN = "the commands have changed: run `make generate`, and commit man/ and completions/"


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return generated_files()


def test_they_are_up_to_date(files: dict[str, str]) -> None:
    drifted = [
        path
        for path, text in files.items()
        if not (REPOSITORY / path).is_file() or (REPOSITORY / path).read_text() != text
    ]
    assert not drifted, AGAIN


def test_they_are_the_same_every_time() -> None:
    program = "from kipctl.cli.generate import generated_files; print(generated_files())"
    runs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for seed in "1234"
    }
    assert len(runs) == 1


def test_no_stale_file_is_left(files: dict[str, str]) -> None:
    there = {
        path.relative_to(REPOSITORY).as_posix()
        for folder in ("man", "completions")
        for path in (REPOSITORY / folder).iterdir()
    }
    assert there <= set(files), AGAIN


def test_every_page_has_its_sections(files: dict[str, str]) -> None:
    needed = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT", "EXIT STATUS"]
    for path, page in files.items():
        if path.startswith("man/"):
            sections = re.findall(r"^\.SH (.*)$", page, re.MULTILINE)
            assert [section for section in sections if section in needed] == needed, path
            assert re.search(r"^\S+ \\- \S", page, re.MULTILINE), f"{path}: no summary"


def test_every_option_is_explained(files: dict[str, str]) -> None:
    for path, page in files.items():
        unexplained = re.findall(r"^\.TP\n(\\fB\\-.*)\n(?:\.|$)", page, re.MULTILINE)
        assert not unexplained, path


def complete(line: str, files: dict[str, str]) -> list[str]:
    """What bash offers at the end of the line; "=" is a word of its own, as in bash."""
    words = re.split(r" |(?==)|(?<==)", line)
    program = (
        f"{files['completions/kipctl.bash']}\n"
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kipctl; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    shown = subprocess.run(
        ["bash", "-u", "-c", program, "bash", *words], capture_output=True, text=True, check=True
    )
    assert shown.stderr == ""
    return shown.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("kipctl la", ["lab"]),
        ("kipctl --v", ["--version"]),
        ("kipctl --debug lab stat", ["status"]),
        ("kipctl lab status --out", ["--output"]),
        ("kipctl lab status --output ", [*OutputFormat]),
        ("kipctl lab status -o j", ["json"]),
        ("kipctl lab status --output=c", ["csv"]),
        ("kipctl lab status --output=", [*OutputFormat]),
        ("kipctl lab up --kafka-version ", []),
        ("kipctl no-such-command --x", []),
    ],
)
def test_bash_completes(line: str, offered: list[str], files: dict[str, str]) -> None:
    assert complete(line, files) == offered
