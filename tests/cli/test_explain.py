"""`kipctl explain`: the pages of the documentation, wherever kipctl is installed."""

import io
import json
import re
import tomllib
from pathlib import Path

import pytest
from in_process import Terminal, kipctl

from kipctl.report.pages import findings, other_pages

REPOSITORY = Path(__file__).parents[2]


def explained(*words: str, status: int = 0, stdout: io.StringIO | None = None) -> str:
    """What is printed, or the error."""
    said = kipctl("explain", *words, stdout=stdout)
    assert said.status == status
    assert "" in (said.out, said.err)
    return said.out + said.err


@pytest.mark.parametrize("page", ["findings/under-min-isr", "tasks/undo"])
def test_off_a_terminal_it_is_the_page_itself(page: str) -> None:
    text = (REPOSITORY / "docs" / f"{page}.md").read_text()
    name = page.partition("/")[2]
    assert explained(name) == explained(name, "-o", "markdown", stdout=Terminal()) == text


def test_on_a_terminal_it_is_drawn() -> None:
    page = explained("few-moves", stdout=Terminal())
    assert "Fewer than 20 moved leaders were met in a run." in page
    assert "kipctl perf produce --during rotate --every 3s --partitions 200" in page
    for mark in ("**", "```", "](", "# few-moves"):
        assert mark not in page


def test_json_has_it_in_parts() -> None:
    shown = json.loads(explained("few-moves", "-o", "json"))
    assert shown["id"] == "few-moves"
    assert shown["title"] == "Fewer than 20 moved leaders were met in a run."
    assert shown["text"] == findings()["few-moves"]


def test_without_an_id_all_are_listed() -> None:
    out = explained()
    for id in (*findings(), *other_pages()):
        assert f"\n{id} " in out
    listed = json.loads(explained("-o", "json"))
    assert [finding["id"] for finding in listed["findings"]] == list(findings())
    assert all(finding["title"].endswith(".") for finding in listed["findings"])
    assert [page["id"] for page in listed["pages"]] == list(other_pages())
    assert {"id": "undo", "title": "Undo"} in listed["pages"]


def test_each_page_is_shown_by_one_name() -> None:
    names = [*findings(), *other_pages()]
    there = [page for page in (REPOSITORY / "docs").rglob("*.md") if page.stem != "README"]
    assert len(names) == len(set(names)) == len(there)
    assert {page.stem for page in there} == set(names)


def test_links_on_a_terminal_are_commands_that_show_what_is_linked() -> None:
    linked = set()
    for name in (*findings(), *other_pages()):
        page = re.sub(r"\x1b\[[\d;]*m", "", explained(name, stdout=Terminal()))
        assert "](" not in page, name
        linked |= set(re.findall(r"\(kipctl\s+explain\s+([\w-]+)\)", page))
    assert {"measuring", "when-a-leader-moves", "brokers"} <= linked
    assert linked <= {*findings(), *other_pages()}


@pytest.mark.parametrize("given", ["under-min-irs", "UNDER-MIN-ISR", "../README"])
def test_what_is_no_id_is_wrong_usage(given: str) -> None:
    err = explained(given, status=2)
    assert f"There is no finding, doubt or page {given!r}." in err
    assert ("Did you mean 'under-min-isr'?" in err) or given != "under-min-irs"
    assert err.endswith("List them: kipctl explain\n")


def test_the_wheel_has_the_pages() -> None:
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        wheel = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert "docs" in wheel["only-include"]
    assert wheel["sources"] == {"docs": "kipctl/docs"}


@pytest.mark.parametrize(
    ("word", "page"),
    [("drain", "drain-or-replace-a-broker"), ("Restart", "roll"), ("pause", "reassign")],
)
def test_a_word_leads_to_the_pages_that_have_it(word: str, page: str) -> None:
    err = explained(word, status=2)
    (pages,) = re.findall("Pages that have the word: (.*)", err)
    assert f"kipctl explain {page}" in pages
    assert "Pages that" not in explained("xyzzy", status=2)
