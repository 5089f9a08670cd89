"""What commands say fits 80 columns: lines end at words, commands stay whole, and can be typed."""

import csv
import io
import re
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
LINES = {
    "": 0,
    "inspect leaders": 0,
    "inspect brokers --look-again 0s": 0,
    "inspect metadata": 0,
    "inspect hints": 0,
    "wait": 0,
    "wait --until preferred --timeout 1s": 6,
    "reassign --rotate": 0,
    "reassign --rotate --all-topics --dry-run": 0,
    "reassign --drain 3 --yes": 0,
    "reassign --list": 0,
    "reassign --leaders-off 7": 2,
    "changes list": 0,
    "changes show": 0,
    "changes cancel --dry-run": 0,
    "changes clear-throttles --dry-run": 0,
    "undo --yes": 0,
    "elect preferred --all": 4,
    "elect unclean --all --dry-run": 0,
    "perf consume": 2,
    "perf consume --topic never": 2,
    "reassign --drain": 2,
    "reassign --rotate --plan f": 2,
    "clusters test": 0,
    "clusters list": 0,
    "conform explain 951-1": 0,
    "conform list": 0,
    "elect preferred --all --dry-run": 0,
    "explain": 0,
    "inspect replica-selection": 4,
    "lab status": 0,
    "perf produce --topic t": 4,
    "request-log on": 2,
    "request-log status": 4,
    "roll --manual --dry-run": 0,
    "runs list": 0,
    "spark status": 0,
    "tap --rotate nothing": 2,
    "throttle show": 0,
    "undo --dry-run": 4,
}
"""Command lines, with the status that each ends with."""
STANDS_FOR = re.compile(r"kipctl [^.,]* [A-Z]{2,}\b.*")
"""A command that cannot be typed as it stands."""
NOT_KNOWN = {
    "kipctl reassign --plan FILE",  # of one's own
    "kipctl clusters add NAME --bootstrap-server HOST:PORT",
}


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
    for line, status in LINES.items():
        screen = Terminal()
        environment = Environment(Terminal("no\n"), screen, screen, variables)
        assert run(line.split(), environment) == status, screen.getvalue()
        shown = screen.getvalue().replace("[y/N] ", "[y/N]\n")  # as what is typed does
        too_long = [row for row in shown.splitlines() if len(row) > 80]
        # A command that is longer than the line is copied as it is.
        assert [row for row in too_long if not row.strip().startswith("kipctl ")] == [], line
        assert servers not in shown, line
        assert {*STANDS_FOR.findall(shown)} <= NOT_KNOWN, line
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
    rows = csv.DictReader(fake.kipctl("changes list -o csv").out.splitlines())
    listed = fake.kipctl("changes list -o json").document["entries"]
    assert [row["Made"] for row in rows] == [entry["made_at"] for entry in listed]
    assert all(entry["age"].endswith(" min ago") for entry in listed)
