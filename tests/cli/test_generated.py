"""The man pages and completions in the repository are those of the commands."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kipctl.generate import generated_files

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


def test_they_are_the_same_every_time(files: dict[str, str]) -> None:
    program = (
        "import json; from kipctl.generate import generated_files as f; print(json.dumps(f()))"
    )
    for seed in "12":
        ran = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            check=True,
        )
        assert json.loads(ran.stdout) == files


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
