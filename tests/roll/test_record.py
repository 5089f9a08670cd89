"""What a roll writes down is read again as it was, and is its owner's alone."""

import json
import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from plan_worlds import cluster_of

from kipctl.changes.guard_interface import RecordedGuard
from kipctl.changes.journal import entry as journal_entry
from kipctl.changes.journal.entry import EntryState, Origin
from kipctl.changes.journal.journal import Journal, journal
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import UsageError
from kipctl.next_step import Command
from kipctl.process import Process
from kipctl.roll import record
from kipctl.roll.next_step import Phase
from kipctl.roll.plan import Facts, plan_roll
from kipctl.roll.process_identity import ProcessMark
from kipctl.roll.record import (
    Restarter,
    RollOptions,
    RollRecord,
    RollState,
    Step,
    begin_roll,
    moved_leaders,
    read_roll,
    rolls,
    unfinished_roll,
)

P = PartitionId("t", 0)


@pytest.fixture
def kept(tmp_path: Path) -> Journal:
    return journal("id/../of it", {"XDG_STATE_HOME": str(tmp_path)})


def begun(kept: Journal) -> RollRecord:
    plan = plan_roll(Facts(cluster_of((1, 2, 3), racks="abab")))
    guard = RecordedGuard(("p99 > 2x",), urls=("http://a/",))
    how = RollOptions(Restarter.EXEC, ("ssh", "{host}"), guard=guard)
    return begin_roll(kept, Origin(("roll",), "me", "here"), how, plan.steps)


def test_it_is_read_as_it_was_written(kept: Journal) -> None:
    record = begun(kept)
    assert next(rolls(kept)) == record == read_roll(record.path)
    record = record.with_undisturbed({"p99 > 2x": 0.0125})
    assert read_roll(record.path).how.guard.undisturbed == {"p99 > 2x": 0.0125}
    step = record.steps[1].begin(
        Phase.RESTARTING,
        mark=ProcessMark(17, 1.5),
        process=Process(12, "345"),
        output="a.log",
        leaders_moved_off=7,
    )
    # Why it stopped may be a text with a command.
    record = record.changed(step).mark(RollState.STOPPED, "broker 3 is away: " + Command("wait"))
    assert unfinished_roll(kept) == record
    assert record.step(3) == step
    assert [left.broker for left in record.left] == [1, 3, 2, 4]


def test_one_that_has_ended_is_not_resumed(kept: Journal) -> None:
    assert unfinished_roll(kept) is None
    record = begun(kept)
    assert unfinished_roll(kept) == record
    for ended in (RollState.DONE, RollState.ABANDONED):
        record.mark(ended)
        assert unfinished_roll(kept) is None


def test_a_roll_that_was_killed_is_found_after_the_clock_was_put_back(
    kept: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = begun(kept).mark(RollState.DONE)

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime(2001, 1, 1, tzinfo=UTC)

    for module in (journal_entry, record):
        monkeypatch.setattr(module, "datetime", Earlier)
    killed = begun(kept)
    assert ended.id < killed.id
    assert unfinished_roll(kept) == killed


def test_a_roll_that_has_not_ended_is_found_behind_one_that_has(kept: Journal) -> None:
    killed = begun(kept)
    begun(kept).mark(RollState.DONE)
    assert unfinished_roll(kept) == killed


def test_the_clock_takes_no_time_back() -> None:
    """How long it took is not known where the clock was put back meanwhile."""
    later, earlier = datetime(2026, 1, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    step = Step(1, "h", 9, None, "broker", at={"restarting": later, "done": earlier})
    assert step.seconds(Phase.RESTARTING, Phase.DONE) is None
    assert step.seconds(Phase.DONE, Phase.RESTARTING) == 7200


def test_it_is_its_owners_alone_and_in_the_journal(kept: Journal) -> None:
    record = begun(kept)
    assert record.path.parent == kept.folder
    assert stat.S_IMODE(record.path.stat().st_mode) == 0o600
    assert not list(kept.entries())


def test_leaders_that_are_not_back_are_those_of_its_own_parts(kept: Journal) -> None:
    older, record = begun(kept), begun(kept)

    def moved(part_of: str, state: EntryState, undoes: str = "") -> str:
        origin = replace(record.origin, part_of=part_of)
        return kept.save({P: (1, 2)}, {P: (2, 1)}, origin, undoes=undoes).mark(state).id

    moved(older.id, EntryState.DONE)
    moved("", EntryState.DONE)
    first = moved(record.id, EntryState.DONE)
    moved(record.id, EntryState.DONE, undoes=first)
    moved(record.id, EntryState.UNDONE)
    cut_off = moved(record.id, EntryState.SUBMITTED)
    assert [entry.id for entry in moved_leaders(kept, record.id)] == [cut_off, first]


def test_a_step_keeps_when_it_first_got_somewhere() -> None:
    step = Step(1, "h", 9, None, "broker")
    first = step.begin(Phase.LEADERS_OFF)
    again = first.begin(Phase.RESTARTING).begin(Phase.LEADERS_OFF)
    assert again.phase is Phase.LEADERS_OFF
    assert again.at[Phase.LEADERS_OFF] == first.at[Phase.LEADERS_OFF]
    assert (again.seconds(Phase.LEADERS_OFF, Phase.RESTARTING) or 0.0) >= 0
    assert again.seconds(Phase.LEADERS_OFF, Phase.DONE) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 1}, "its schema is 1"),
        ({"steps": [{}]}, "it is no record of a roll"),
        ({"state": "lost"}, "it is no record of a roll"),
        ({"how": {"surprise": 1}}, "it is no record of a roll"),
        ({"how": {"restarter": "lab", "timeout_s": "long"}}, "Expected `float`, got `str`"),
        ({"how": {"restarter": "lab", "command": [1]}}, "Expected `str`, got `int`"),
        ({"how": {"restarter": "exec"}}, r"its restarter is exec, its command \(\)"),
        ({"how": {"restarter": "ssh", "command": ["a"]}}, "Invalid enum value 'ssh'"),
        ({"how": {"restarter": "manual", "batch": 0}}, "Expected `int` >= 1"),
        ({"why": float("inf")}, "a number is out of range"),
    ],
)
def test_what_is_damaged_is_named(kept: Journal, change: dict[str, object], said: str) -> None:
    record = begun(kept)
    record.path.write_text(json.dumps(record.as_document() | change))
    with pytest.raises(UsageError, match=said):
        next(rolls(kept))


@pytest.mark.parametrize(
    "change",
    [
        {"process": [12]},
        {"process": ["12", "345"]},
        {"mark": {"producer_id": "17"}},
        {"at": {"done": "\u202e"}},
        {"at": {"done": "2026-01-01T00:00:00"}},
        {"waits_seconds": [1e999]},
    ],
)
def test_every_field_of_a_step_is_looked_at(kept: Journal, change: dict[str, object]) -> None:
    record = begun(kept)
    document = json.loads(record.path.read_text())
    document["steps"][0] |= change
    record.path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="it is no record of a roll"):
        next(rolls(kept))


def test_a_record_without_end_is_damaged_too(kept: Journal) -> None:
    begun(kept).path.write_text("[" * 100_000)
    with pytest.raises(UsageError, match="nested too deeply"):
        next(rolls(kept))
