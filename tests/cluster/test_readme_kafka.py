"""The README's blocks on a real cluster: each command prints what the page says that it prints.

Times, ports and ids differ from run to run; `...` stands for lines that are not shown.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from on_lab import Kipctl, MakeTopic

from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec

README = Path(__file__).parents[2] / "README.md"

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def lab(guard: None) -> Iterator[Lab]:
    """Of its own: what the page shows of brokers is of one topic."""
    lab = Lab.up(LabSpec(name="readme", c1_only=True), lambda text: None)
    yield lab
    lab.down()


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each command of the page, without its `$`, and the lines that are said to follow."""
    for block in re.findall(r"```console\n(.*?)```", README.read_text(), re.DOTALL):
        _, *parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
        for part in parts:
            command, *shown = part.splitlines()
            yield command, shown


def comparable(line: str) -> str:
    """The line without what differs from run to run."""
    line = re.sub(r"--entry \S+ \(saved in .*\)", "--entry ... (saved in ...)", line)
    line = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", line)
    line = re.sub(r"\d[\d,]*\.\d+|\d+(?= ms)|\b\d+ of \d+(?= were met)", "#", line)
    return " ".join(line.split())


def shows(printed: Sequence[str], said: Sequence[str]) -> bool:
    """Whether the lines are those that are said; `...` stands for any number of lines."""
    if not said:
        return not printed
    if said[0] == "...":
        return any(shows(printed[skipped:], said[1:]) for skipped in range(len(printed) + 1))
    return bool(printed) and printed[0] == said[0] and shows(printed[1:], said[1:])


@pytest.mark.parametrize(
    ("printed", "said", "is_so"),
    [
        ("a b", "a b", True),
        ("a b", "a", False),
        ("a b c", "a ...", True),
        ("a b c", "... c", True),
        ("a b c", "... b", False),
        ("a b c", "a ... x", False),
    ],
)
def test_what_counts_as_shown(printed: str, said: str, is_so: bool) -> None:
    assert shows(printed.split(), said.split()) is is_so


@pytest.mark.timeout(300)
def test_each_command_prints_what_the_page_says(kipctl: Kipctl, make_topic: MakeTopic) -> None:
    make_topic("orders", [[1, 2], [2, 3], [3, 1]] * 2)
    ran = 0
    for command, shown in commands():
        words = shlex.split(command)[1:]
        if words[:2] == ["perf", "produce"]:
            words += ["--num-records", "1500", "--throughput", "100", "--every", "5"]
        outcome = kipctl(*words)
        assert outcome.status == 0, outcome.err
        # Which cluster it was is told where it has been asked; the page leaves that out.
        printed = [line for line in outcome.out.splitlines() if not line.startswith("Cluster: ")]
        printed = [comparable(line) for line in printed if line.strip()]
        said = [comparable(line) for line in shown if line.strip()]
        assert shows(printed, said), f"{command} printed:\n{outcome.out}"
        ran += 1
    assert ran >= 6
