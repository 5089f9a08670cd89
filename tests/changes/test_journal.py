"""The journal: what was changed is on disk before, whole, and comes back; damage stops nothing."""

import fcntl
import json
import os
import re
import socket
import stat
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kipctl.changes.guard_interface import RecordedGuard
from kipctl.changes.journal import entry as journal_entry
from kipctl.changes.journal import journal as journal_module
from kipctl.changes.journal.entry import (
    ChangeKind,
    EntryState,
    ExecutionOptions,
    Origin,
    read_entry,
)
from kipctl.changes.journal.journal import Damaged, Journal, folder_name, journal
from kipctl.changes.plans.kafka_json import read_reassignment, reassignment_document
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import RefusedError, UsageError

T0 = PartitionId("t", 0)
FIRST, SECOND = {T0: (1, 2)}, {T0: (2, 1)}
BOB = Origin(("reassign", "--rotate", "--topic", "a b"), "bob", "bastion")


@pytest.fixture
def kept(tmp_path: Path) -> Journal:
    return journal("cluster", {"XDG_STATE_HOME": str(tmp_path)})


def test_an_entry_comes_back_as_it_was_written(kept: Journal) -> None:
    entry = kept.save(FIRST, SECOND, BOB, {"t": "some-uuid"})
    assert (entry.state, entry.cluster_id) == (EntryState.PREPARED, "cluster")
    assert list(kept.entries()) == [entry]
    assert str(entry.origin) == "kipctl reassign --rotate --topic 'a b', by bob@bastion"
    done = entry.mark(EntryState.SUBMITTED).mark(EntryState.DONE)
    assert list(kept.entries()) == [done]
    assert [state for state, _ in done.changed_at] == ["prepared", "submitted", "done"]
    assert entry.made_at is not None
    assert abs(datetime.now(UTC) - entry.made_at) < timedelta(days=1)


def test_kafkas_own_tool_can_play_the_assignment_of_before_back(kept: Journal) -> None:
    entry = kept.save(FIRST, SECOND, BOB)
    assert read_reassignment(entry.saved).assignment == FIRST
    assert json.loads(entry.saved.read_text()) == reassignment_document(FIRST)


@pytest.mark.parametrize(
    ("state", "may_be_undone"),
    [
        (EntryState.PREPARED, True),
        (EntryState.SUBMITTED, True),
        (EntryState.DONE, True),
        (EntryState.UNDONE, False),
        (EntryState.REFUSED, False),
    ],
)
def test_only_what_may_have_happened_is_undone(
    kept: Journal, state: EntryState, may_be_undone: bool
) -> None:
    older = kept.save(SECOND, FIRST, BOB).mark(EntryState.DONE)
    newer = kept.save(FIRST, SECOND, BOB).mark(state)
    assert newer.may_be_undone is may_be_undone
    assert kept.last_change()[0] == (newer if may_be_undone else older)


def test_a_rollback_is_undone_by_its_id_only(kept: Journal) -> None:
    change = kept.save(FIRST, SECOND, BOB).mark(EntryState.DONE)
    rollback = kept.save(SECOND, FIRST, BOB, undoes=change.id).mark(EntryState.DONE)
    assert kept.last_change()[0] == change
    assert kept.find(rollback.id) == rollback


def test_a_part_of_a_roll_is_neither_undone_nor_gone_on_with_by_itself(kept: Journal) -> None:
    change = kept.save(FIRST, SECOND, BOB).mark(EntryState.DONE)
    how = ExecutionOptions(10, 0.0, True)
    part = kept.save(FIRST, SECOND, replace(BOB, part_of="20261127T1"), how=how)
    assert kept.find(part.id) == part
    assert kept.last_change() == (change, "20261127T1, is a roll")
    assert list(kept.unfinished()) == [part]
    assert not list(kept.unfinished_changes())


def test_an_election_has_no_way_back_and_is_named_where_it_is_passed_over(kept: Journal) -> None:
    change = kept.save(FIRST, SECOND, BOB).mark(EntryState.DONE)
    guard = RecordedGuard(
        *(("urp > 10", "p99 > 2x"), 600.0, 30.0, "stop", ("http://h:1/metrics",)),
        undisturbed={"p99 > 2x": 0.0125},
    )
    election = kept.save(
        FIRST, FIRST, BOB, kind=ChangeKind.ELECT_PREFERRED, leaders={T0: -1}, guard=guard
    )
    assert kept.find(election.id) == election
    assert not election.mark(EntryState.DONE).may_be_undone
    newer = f"entry {election.id}, is an election (elect preferred)"
    assert kept.last_change() == (change, newer)


def test_what_is_saved_for_whatever_comes_next_may_be_undone(kept: Journal) -> None:
    entry = kept.save(FIRST)
    assert (entry.state, entry.after) == (EntryState.SUBMITTED, {T0: None})
    assert kept.last_change()[0] == entry
    assert read_entry(entry.mark(EntryState.DONE, SECOND).path).after == SECOND


def test_an_entry_is_found_by_the_beginning_of_its_id(kept: Journal) -> None:
    first, second = kept.save(FIRST), kept.save(SECOND)
    assert kept.find(first.id) == first
    assert first.id < second.id
    with pytest.raises(UsageError, match="2 entries begin with"):
        kept.find(first.id[:4])
    with pytest.raises(UsageError, match="There is no entry"):
        kept.find("1999")


def test_a_clock_that_goes_back_does_not_change_the_order(
    kept: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kept.save(FIRST)

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime(2001, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(journal_entry, "datetime", Earlier)
    second, third = kept.save(SECOND), kept.save(FIRST)
    assert first.id < second.id < third.id
    assert kept.count() == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"schema": 1}',
        '{"schema": 3}',
        '{"schema": 1, "partitions": 7}',
        "[" * 100_000,
        "\udcff",
    ],
)
def test_a_damaged_entry_is_named_and_passed_over(kept: Journal, text: str) -> None:
    good = kept.save(FIRST, SECOND, BOB).mark(EntryState.DONE)
    bad = kept.save(SECOND, FIRST, BOB).mark(EntryState.DONE)
    bad.path.write_bytes(text.encode(errors="surrogateescape"))
    damaged: list[Damaged] = []
    assert kept.last_change(damaged.append) == (good, f"entry {bad.id}, is damaged")
    assert [entry.path for entry in damaged] == [bad.path]
    assert str(bad.path) in str(damaged[0])
    assert kept.last_change()[0] == good
    with pytest.raises(UsageError, match=bad.path.name):
        kept.find(bad.id)


@pytest.mark.parametrize(
    "change", [{"before": []}, {"before": ["x"]}, {"partition": "x"}, {"partition": 1e999}, None]
)
def test_every_field_of_an_entry_is_looked_at(kept: Journal, change: dict[str, object]) -> None:
    entry = kept.save(FIRST, SECOND, BOB)
    document = entry.as_document()
    if change is None:
        document["state"] = "unheard of"
    else:
        document["partitions"][0] |= change
    entry.path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="no entry of a journal"):
        read_entry(entry.path)


@pytest.mark.parametrize("at", ["soon", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_is_none_is_not_known(kept: Journal, at: str) -> None:
    entry = replace(kept.save(FIRST, SECOND, BOB), changed_at=(("prepared", at),))
    assert entry.made_at is None


def test_files_and_their_names_are_there_after_a_power_cut(
    kept: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def fsync(handle: int) -> None:
        synced.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")

    monkeypatch.setattr("os.fsync", fsync)
    entry = kept.save(FIRST, SECOND, BOB)
    made = ["folder"] * 3  # kipctl, journal, and the cluster's own
    assert synced == [*made, "file", "folder", "file", "folder"]
    synced.clear()
    entry.mark(EntryState.SUBMITTED)
    assert synced == ["file", "folder"]


@pytest.mark.parametrize("full_at", [1, 2, 3, 4])
def test_what_cannot_be_synced_is_not_said_to_be_saved(
    kept: Journal, monkeypatch: pytest.MonkeyPatch, full_at: int
) -> None:
    """Whichever write meets a full disk, what was there before is as it was."""
    before = kept.save(FIRST, SECOND, BOB).mark(EntryState.DONE)
    times = iter(range(1, 100))

    def fsync(handle: int) -> None:
        if next(times) == full_at:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fsync)
        with pytest.raises(UsageError, match="No space left on device"):
            kept.save(SECOND, FIRST, BOB)
    assert kept.last_change()[0] == before
    assert kept.save(SECOND, FIRST, BOB).state is EntryState.PREPARED


@pytest.mark.parametrize(
    ("state", "is_before"),
    [(EntryState.SUBMITTED, True), (EntryState.DONE, False), (EntryState.UNDONE, False)],
)
def test_only_of_what_comes_before_a_change_it_is_said_that_nothing_was_changed(
    kept: Journal, monkeypatch: pytest.MonkeyPatch, state: EntryState, is_before: bool
) -> None:
    entry = kept.save(FIRST, SECOND, BOB)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal_entry, "write_whole", full)
    with pytest.raises(UsageError, match="No space left on device") as error:
        entry.mark(state)
    assert ("Nothing was changed." in error.value.next_step) is is_before
    assert f"Entry {entry.id} stays prepared." in error.value.next_step
    with pytest.raises(UsageError, match="No space left on device") as error:
        entry.with_throttle(None)
    assert "Nothing was changed." not in str(error.value)


def test_clusters_have_journals_of_their_own(tmp_path: Path) -> None:
    variables = {"XDG_STATE_HOME": str(tmp_path)}
    journal("one", variables).save(FIRST)
    assert journal("other", variables).last_change()[0] is None


@pytest.mark.parametrize("cluster_id", ["", "unknown"])
def test_a_cluster_without_an_id_has_none(cluster_id: str) -> None:
    with pytest.raises(RefusedError, match="does not report its id"):
        journal(cluster_id, {"XDG_STATE_HOME": "/nowhere"})


def test_an_id_is_no_path(tmp_path: Path) -> None:
    inside = tmp_path / "kipctl" / "journal"
    ids = ["../../x", "..", ".", "/etc", "a/b", "a%2Fb", "x" * 5000, "x" * 5001, "é", "abc-_9"]
    folders = [journal(cluster_id, {"XDG_STATE_HOME": str(tmp_path)}).folder for cluster_id in ids]
    assert {folder.parent for folder in folders} == {inside}
    assert len({folder.name for folder in folders}) == len(ids)
    assert not {".", "..", ""} & {folder.name for folder in folders}
    assert max(len(folder.name) for folder in folders) <= 100
    assert folder_name("Nk018hRAQFytWskYqtQduw") == "Nk018hRAQFytWskYqtQduw"


def test_the_journal_is_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kept = journal("cluster")
    kept.save(FIRST)
    assert kept.folder.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_made_stops_everything(tmp_path: Path) -> None:
    (tmp_path / "kipctl").write_text("a file stands in the way")
    with pytest.raises(UsageError, match="cannot be written") as error:
        journal("cluster", {"XDG_STATE_HOME": str(tmp_path)}).save(FIRST)
    assert "Nothing was changed" in error.value.next_step


def test_the_lock_names_its_holder_and_is_let_go_of(kept: Journal) -> None:
    with (
        kept.locked(BOB),
        pytest.raises(RefusedError, match=r"kipctl reassign .*, by bob@bastion, process"),
        kept.locked(Origin()),
    ):
        pytest.fail("two hold it")
    with kept.locked(Origin()):
        pass


def test_which_kipctl_changes_the_cluster_now_is_seen_without_being_in_its_way(
    kept: Journal,
) -> None:
    assert kept.locked_by() == ""
    assert not kept.folder.exists()  # looking writes nothing
    with kept.locked(BOB):
        assert re.match(r"kipctl reassign .*, by bob@bastion, process \d+$", kept.locked_by())
        assert kept.locked_by()
    assert kept.locked_by() == ""
    with kept.locked(BOB):  # who looked has let go of it
        pass


def test_who_begins_waits_for_one_who_only_looks(
    kept: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "TIMEOUT_S", 60.0)
    with kept.locked(BOB):
        pass
    looking = os.open(kept.folder / "lock", os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_EX)
    let_go = threading.Timer(0.02, os.close, [looking])
    let_go.start()
    with kept.locked(BOB):
        pass
    let_go.join()


@pytest.mark.parametrize(
    ("host", "changed_by", "standing"),
    [
        (socket.gethostname(), "", "was stopped before its end"),
        ("bastion", "", "goes on at bastion, or was stopped"),
        ("", "", "goes on, or was stopped"),
        (
            socket.gethostname(),
            "kipctl roll, process 7",
            "is not over: kipctl roll, process 7, is changing this cluster now",
        ),
    ],
)
def test_how_an_open_change_stands(
    kept: Journal, host: str, changed_by: str, standing: str
) -> None:
    entry = kept.save(FIRST, SECOND, replace(BOB, host=host))
    assert entry.describe_state(changed_by) == standing


@pytest.mark.parametrize(
    "how", [ExecutionOptions(2, 0.5, True, 50, 3), ExecutionOptions(1, 0.0, False)]
)
def test_how_a_change_is_carried_out_is_read_back(kept: Journal, how: ExecutionOptions) -> None:
    entry = kept.save(FIRST, SECOND, BOB, how=how)
    assert read_entry(entry.path).how == how
