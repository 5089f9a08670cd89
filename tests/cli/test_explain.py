"""`kipctl explain`: the page of a finding or doubt, wherever kipctl is installed."""

import io
import json
import tomllib
from pathlib import Path

import pytest

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cli.explain import pages

REPOSITORY = Path(__file__).parents[2]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def explained(*words: str, stdout: io.StringIO | None = None) -> tuple[int, str, str]:
    out, err = stdout or io.StringIO(), io.StringIO()
    status = run(["explain", *words], Environment(io.StringIO(), out, err, {}))
    return status, out.getvalue(), err.getvalue()


def test_off_a_terminal_it_is_the_page_itself() -> None:
    text = (REPOSITORY / "docs" / "findings" / "under-min-isr.md").read_text()
    assert explained("under-min-isr") == (0, text, "")
    assert explained("under-min-isr", "-o", "markdown", stdout=Terminal()) == (0, text, "")


def test_on_a_terminal_it_is_drawn() -> None:
    status, page, err = explained("few-moves", stdout=Terminal())
    assert (status, err) == (0, "")
    assert "Fewer than 20 moved leaders were met in a run." in page
    assert "kipctl perf produce --during rotate --every 3s --partitions 200" in page
    for mark in ("**", "```", "](", "# few-moves"):
        assert mark not in page


def test_json_has_it_in_parts() -> None:
    status, out, _ = explained("few-moves", "-o", "json")
    shown = json.loads(out)
    assert status == 0
    assert shown["id"] == "few-moves"
    assert shown["title"] == "Fewer than 20 moved leaders were met in a run."
    assert shown["text"] == pages()["few-moves"]


def test_without_an_id_all_are_listed() -> None:
    status, out, _ = explained()
    assert status == 0
    for id in pages():
        assert f"\n{id} " in out
    listed = json.loads(explained("-o", "json")[1])["findings"]
    assert [one["id"] for one in listed] == list(pages())
    assert all(one["title"].endswith(".") for one in listed)


@pytest.mark.parametrize("given", ["under-min-irs", "UNDER-MIN-ISR", "../README"])
def test_what_is_no_id_is_wrong_usage(given: str) -> None:
    status, out, err = explained(given)
    assert (status, out) == (2, "")
    assert f"There is no finding and no doubt {given!r}." in err
    assert err.endswith("List them: kipctl explain\n")


def test_the_id_that_was_meant_is_named() -> None:
    assert "Did you mean 'under-min-isr'?" in explained("under-min-irs")[2]


def test_the_wheel_has_the_pages() -> None:
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        wheel = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {"docs/findings": "kipctl/findings"}
