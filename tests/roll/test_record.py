"""What a roll writes down is read again as it was, and is its owner's alone."""

import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from plan_worlds import cluster_of

from kipctl.changes.journal import entry as journal_entry
from kipctl.changes.journal.entry import Origin
from kipctl.errors import UsageError
from kipctl.process import Process
from kipctl.roll import record
from kipctl.roll.next_step import Phase
from kipctl.roll.plan import Facts, plan_roll
from kipctl.roll.process_identity import ProcessMark
from kipctl.roll.record import RollOptions, RollRecord, Rolls, RollState, Step, read_roll, rolls


@pytest.fixture
def kept(tmp_path: Path) -> Rolls:
    return rolls("id/../of it", {"XDG_STATE_HOME": str(tmp_path)})


def begun(kept: Rolls) -> RollRecord:
    plan = plan_roll(Facts(cluster_of((1, 2, 3), racks="abab")))
    how = RollOptions("exec", ("ssh", "{host}"), guards=("urp > 1",), metrics_urls=("http://a/",))
    return kept.begin(Origin(("roll",), "me", "here"), how, plan.steps)


def test_it_is_read_as_it_was_written(kept: Rolls) -> None:
    record = begun(kept)
    assert kept.last() == record == read_roll(record.path)
    step = record.steps[1].begin(
        Phase.RESTARTING,
        since="20260101T000000.000000Z",
        mark=ProcessMark(17, 1.5),
        process=Process(12, "345"),
        output="a.log",
        moved=7,
    )
    record = record.changed(step).mark(RollState.STOPPED, "broker 3 is away")
    assert kept.unfinished_roll() == record
    assert record.step(3) == step
    assert [one.broker for one in record.left] == [1, 3, 2, 4]


def test_one_that_has_ended_is_not_resumed(kept: Rolls) -> None:
    assert kept.unfinished_roll() is None
    record = begun(kept)
    assert kept.unfinished_roll() == record
    for ended in (RollState.DONE, RollState.ABANDONED):
        record.mark(ended)
        assert kept.unfinished_roll() is None


def test_a_roll_that_was_killed_is_found_after_the_clock_was_put_back(
    kept: Rolls, monkeypatch: pytest.MonkeyPatch
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
    assert kept.unfinished_roll() == killed


def test_a_roll_that_has_not_ended_is_found_behind_one_that_has(kept: Rolls) -> None:
    killed = begun(kept)
    begun(kept).mark(RollState.DONE)
    assert kept.unfinished_roll() == killed


def test_the_clock_takes_no_time_back() -> None:
    """How long it took is not known where the clock was put back meanwhile."""
    later, earlier = "2026-01-01T02:00:00+00:00", "2026-01-01T00:00:00+00:00"
    step = Step(1, "h", 9, None, "broker", at={"restarting": later, "done": earlier})
    assert step.seconds(Phase.RESTARTING, Phase.DONE) is None
    assert step.seconds(Phase.DONE, Phase.RESTARTING) == 7200


def test_it_is_its_owners_alone_and_in_the_state_folder(kept: Rolls, tmp_path: Path) -> None:
    record = begun(kept)
    assert tmp_path in record.path.parents
    assert [path.name for path in (tmp_path / "kipctl").iterdir()] == ["rolls"]
    for folder in (kept.folder, tmp_path / "kipctl"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


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
        ({"schema": 2}, "its schema is 2"),
        ({"steps": [{}]}, "it is no record of a roll"),
        ({"state": "lost"}, "it is no record of a roll"),
        ({"how": {"surprise": 1}}, "it is no record of a roll"),
        ({"how": {"way": "lab", "timeout_s": "long"}}, "Expected `float`, got `str`"),
        ({"how": {"way": "lab", "command": [1]}}, "Expected `str`, got `int`"),
        ({"how": {"way": "exec"}}, r"its way is 'exec', and its command \(\)"),
        ({"how": {"way": "ssh", "command": ["a"]}}, "its way is 'ssh'"),
        ({"how": {"way": "manual", "batch": 0}}, "its batch is 0"),
        ({"why": float("inf")}, "a number is out of range"),
    ],
)
def test_what_is_damaged_is_named(kept: Rolls, change: dict[str, object], said: str) -> None:
    record = begun(kept)
    record.path.write_text(json.dumps(record.as_document() | change))
    with pytest.raises(UsageError, match=said):
        kept.last()


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
def test_every_field_of_a_step_is_looked_at(kept: Rolls, change: dict[str, object]) -> None:
    record = begun(kept)
    document = record.as_document()
    document["steps"][0] |= change
    record.path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="it is no record of a roll"):
        kept.last()


def test_a_record_without_end_is_damaged_too(kept: Rolls) -> None:
    begun(kept).path.write_text("[" * 100_000)
    with pytest.raises(UsageError, match="nested too deeply"):
        kept.last()
