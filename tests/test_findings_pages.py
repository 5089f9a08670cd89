"""Findings and doubts have names that never change, and each a page: no page without, none more."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kipctl.client_behaviour.findings.catalogue import FINDINGS as OF_CLIENTS
from kipctl.report.pages import findings

REPOSITORY = Path(__file__).parents[1]
PAGES = REPOSITORY / "docs" / "findings"

FINDINGS = """
at-min-isr broker-not-alive broker-silent broker-without-rack
brokers-not-reached-from-here controlled-shutdown-off
default-replication-1 diskless-topics eligible-leader-replicas feature-level-behind follower-backoff
follower-wait-above-lag hanging-transaction heartbeat-too-slow lag-time-long leader-rebalance-off
leader-skew log-directories-not-known log-directory-cordoned log-directory-failed metadata-behind
metrics-not-readable metrics-of-another-cluster min-insync-1 min-insync-not-known no-leader
no-leader-hints no-leader-none-eligible no-leader-one-eligible no-preferred-read-replica no-racks
no-reassignment-api no-spare-replica not-preferred-leader reassignment-in-progress
reassignment-stands-still reassignments-not-known releases-differ replica-selector-not-set
replicas-in-one-rack session-timeout-long settings-differ settings-not-known single-replica
throttle-in-use throttle-left-behind unclean-election-allowed under-min-isr under-replicated
"""
DOUBTS = "acks-0 brokers-cold client-late few-moves machine-busy"
CLIENTS = """
dead-leader-retried endpoint-differs epoch-loop fenced-ignored hint-hot-loop hint-ignored
hint-no-refresh hint-same-epoch-followed hint-to-refuser hint-undone hint-waited
metadata-all-for-one metadata-everything metadata-storm no-metadata-after-6 other-connections-cut
position-loop rebootstrap-ignored recreated-ignored refetch-after-recheck replica-flip-flop
replica-ignored replica-kept retries-exhausted sequence-trouble session-churn
"""
"""Names that people have written down: none is taken away, none gets another meaning."""
NAMES = [*FINDINGS.split(), *DOUBTS.split(), *CLIENTS.split()]


def called(name: str, file: Path) -> Iterator[object]:
    """The first argument of each call of that function, where it is a constant."""
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Call(func=ast.Name(id=of), args=[ast.Constant(value=first), *_]):
                if of == name:
                    yield first


def found_in_rules() -> set[object]:
    files = (REPOSITORY / "kipctl" / "cluster" / "inspect" / "findings").glob("*.py")
    made_by = ("Finding", "problem", "warning", "note")
    return {name for file in files for function in made_by for name in called(function, file)}


def found_in_doubts() -> set[object]:
    file = REPOSITORY / "kipctl" / "measure" / "doubts.py"
    pairs = (
        node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Yield)
    )
    yielded = {ast.literal_eval(pair.elts[0]) for pair in pairs if isinstance(pair, ast.Tuple)}
    return yielded | set(called("_more", file))


def test_names_in_the_code_are_those_that_people_know() -> None:
    assert found_in_rules() == set(FINDINGS.split())
    assert found_in_doubts() == set(DOUBTS.split())
    assert OF_CLIENTS.keys() == set(CLIENTS.split())


def test_each_has_a_page_and_a_row_in_the_index() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {"README"}
    assert pages == set(NAMES) == findings().keys()
    index = (PAGES / "README.md").read_text()
    rows = re.findall(r"^\| \[([\w-]+)\]\(([\w-]+)\.md\) \|", index, re.MULTILINE)
    assert all(name == target for name, target in rows)
    assert [name for name, _ in rows] == list(dict.fromkeys(name for name, _ in rows))
    assert {name for name, _ in rows} == pages


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_all_that_a_reader_asks(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text()
    assert text.startswith(f"# {name}\n")
    questions = ("How kipctl knows", "What follows", "What to do", "It is gone when", "Source")
    at = [text.index(f"\n**{question}") for question in questions]
    assert at == sorted(at)
    # What to type, as tests/docs/test_typed.py does; of a client what passed the wire, too.
    assert text.count("\n```") == (4 if name in OF_CLIENTS else 2)


@pytest.mark.parametrize("name", OF_CLIENTS)
def test_a_page_of_a_client_says_what_is_declared(name: str) -> None:
    finding, text = OF_CLIENTS[name], (PAGES / f"{name}.md").read_text()
    assert f"\n**{finding.severity.capitalize()}.** " in text
    assert finding.costs in text
    assert finding.change in text
    for known in finding.known:
        assert f"[{known.source}]({known.address})" in text
        assert known.mended_in in text
