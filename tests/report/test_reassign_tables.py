"""The history of changes on a narrow terminal: what says which entry to undo has room."""

import socket
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from kipctl.changes.journal.entry import Entry, EntryState, ExecutionOptions, Origin
from kipctl.cluster.snapshot import PartitionId
from kipctl.report.change_tables import history_report
from kipctl.report.layout import laid_out

COMMANDS = (
    ("reassign", "--rotate", "--topic", "orders", "--bootstrap-server", "broker-1:9092", "--yes"),
    ("perf", "produce", "--during", "rotate", "--topic", "orders", "--force"),
    ("reassign", "--drain", "3"),
)


def entry(day: int, command: tuple[str, ...], state: EntryState) -> Entry:
    entry_id = f"202601{day:02}T081500.123456Z"
    before = {PartitionId("orders", number): (1, 2, 3) for number in range(day)}
    origin = Origin(command, "operator", "machine-7")
    return Entry(Path(entry_id), entry_id, "cluster", before, before, state, origin)


def test_80_columns_have_room_for_the_command_of_each_change() -> None:
    states = (EntryState.DONE, EntryState.SUBMITTED, EntryState.UNDONE)
    for count in range(1, 13):
        entries = [entry(day, COMMANDS[day % 3], states[day % 3]) for day in range(1, count + 1)]
        made_at = entries[-1].made_at
        assert made_at
        for later_s in (1, 59 * 60, 23 * 3600, 1000 * 86400):
            now = made_at + timedelta(seconds=later_s)
            lines = laid_out(history_report(entries, 0, "journal", now).tables[0], 80)
            shown = (*lines.headings, *lines.rows)
            assert max(map(len, shown)) <= 80
            words = " ".join(shown).split()
            assert "Command" in words
            assert {change.id for change in entries} <= set(words)
            assert {word for change in entries for word in change.origin.command} <= set(words)


def test_a_change_that_was_stopped_is_told_from_one_that_may_go_on() -> None:
    how = ExecutionOptions(1, 0.0, True)
    open_here = replace(
        entry(1, COMMANDS[0], EntryState.SUBMITTED),
        how=how,
        origin=Origin(COMMANDS[0], "operator", socket.gethostname()),
    )
    open_there = replace(open_here, origin=Origin(COMMANDS[0], "operator", "machine-7"))
    done = replace(open_here, state=EntryState.DONE)
    for change, changed_by, state in (
        (open_here, "", "stopped"),
        (open_here, "process 7", "not over"),
        (open_there, "", "not over"),
        (done, "process 7", "done"),
    ):
        assert change.made_at
        report = history_report([change], 0, "journal", change.made_at, changed_by=changed_by)
        assert [row[2] for row in report.tables[0].rows] == [state]
        (document,) = report.document["entries"]
        assert document["state"] == str(change.state)
