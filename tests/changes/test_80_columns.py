"""What commands say fits a terminal of 80 columns: lines end at words, and commands stay whole."""

import io
from itertools import count

import pytest
from reassigning import Held, Reassigning

from kipctl.changes.journal.entry import Entry
from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cluster.snapshot import PartitionId

REPLICAS = {
    PartitionId("orders-of-the-northern-hemisphere", number): (1, 2, 3) for number in range(12)
} | {PartitionId("t", 0): (2, 1, 4)}
LINES = (
    "",
    "inspect leaders",
    "inspect brokers --look-again 0s",
    "inspect metadata",
    "inspect hints",
    "wait",
    "wait --until preferred --timeout 1s",
    "reassign --rotate",
    "reassign --rotate --all-topics --dry-run",
    "reassign --drain 3 --yes",
    "reassign --list",
    "reassign --leaders-off 7",
    "changes list",
    "changes show",
    "changes cancel --dry-run",
    "changes clear-throttles --dry-run",
    "undo --yes",
    "elect preferred --all",
    "elect unclean --all --dry-run",
    "perf consume",
    "perf consume --topic never",
    "reassign --drain",
    "reassign --rotate --plan f",
    "clusters test",
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_every_line_ends_at_a_word_of_the_80_columns(
    fake: Reassigning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")  # nothing is drawn there
    fake.partitions[PartitionId("t", 0)] = Held((2, 1, 4), 1)
    servers = ",".join([fake.bootstrap_server] * 4)
    variables = {"KIPCTL_BOOTSTRAP_SERVER": servers, "XDG_STATE_HOME": str(fake.state)}
    for line in LINES:
        screen = Terminal()
        run(line.split(), Environment(Terminal("no\n"), screen, screen, variables))
        shown = screen.getvalue().replace("[y/N] ", "[y/N]\n")  # as what is typed does
        too_long = [one for one in shown.splitlines() if len(one) > 80]
        # A command that is longer than the line is copied as it is.
        assert [one for one in too_long if not one.strip().startswith("kipctl ")] == [], line
        assert servers not in shown, line
        assert shown, line


def test_a_list_of_changes_says_when_each_was_made(
    fake: Reassigning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for batch in range(1, 9):
        fake.kipctl(f"reassign --rotate --topic t --yes --batch {batch} --between 10s")
    minutes = count(3)
    monkeypatch.setattr(Entry, "age", lambda entry, now, **_: f"{next(minutes)} min ago")
    screen = Terminal()
    fake.kipctl("changes list", stdout=screen)
    assert screen.getvalue().count(" min ago") >= 8
