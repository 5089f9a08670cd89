"""What the repository promises: exact versions, no registry hosts, no machine's own paths."""

import re
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
FOLDERS = ("kipctl", "tests", "docs", "man", "completions", "benchmarks", ".ci")


def texts() -> Iterator[tuple[str, str]]:
    """Each file that belongs to the repository, with its text."""
    # In a second work tree .git is a file, which says where the first one is.
    files = [path for path in REPOSITORY.iterdir() if path.is_file() and path.name != ".git"]
    for folder in FOLDERS:
        files += [path for path in (REPOSITORY / folder).rglob("*") if path.is_file()]
    for path in files:
        if path.suffix in {
            "",
            ".py",
            ".md",
            ".toml",
            ".txt",
            ".json",
            ".csv",
            ".1",
            ".bash",
            ".fish",
        }:
            yield path.relative_to(REPOSITORY).as_posix(), path.read_text()


def test_constraints_are_exact_versions_and_nothing_else() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_no_registry_host_is_named() -> None:
    hosts = re.compile("|".join((r"repo1?\.maven", r"pypi\.(org|io)", "pythonhosted", "sonatype")))
    assert [
        path for path, text in texts() if path != "tests/test_house.py" and hosts.search(text)
    ] == []


def test_no_path_of_one_machine_is_named() -> None:
    homes = re.compile(r"(?<![\w.])/(work|root|home/\w+|Users/\w+|tmp/\w+)/")
    assert [
        path for path, text in texts() if path != "tests/test_house.py" and homes.search(text)
    ] == []


def test_each_place_that_the_pages_for_engineers_name_exists() -> None:
    named = re.compile(r"`([\w./]+(?:\.(?:py|md|toml)|/))`")
    for page in ("CONTRIBUTING.md", "docs/glossary.md", "docs/architecture.md"):
        text = (REPOSITORY / page).read_text()
        roots = [REPOSITORY, REPOSITORY / "kipctl", REPOSITORY / "kipctl" / "probe"]
        roots += [REPOSITORY / "kipctl" / "cluster" / "moves", REPOSITORY / "tests"]
        lost = [
            one for one in named.findall(text) if not any((root / one).exists() for root in roots)
        ]
        assert lost == [], page
