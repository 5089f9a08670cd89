"""`kipctl changes pause` and `cancel` while the kipctl that moves partitions goes on."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from passing_clock import PassingClock
from reassigning import Held, Reassigning, Replicas
from test_resume import AFTER, BOB, DRAIN, REPLICAS, RESUME, T, cut_off

from kipctl.changes.journal.entry import Entry
from kipctl.changes.journal.journal import Journal, journal
from kipctl.changes.journal.machine_lock import exclusive_lock, lock_path
from kipctl.cluster.snapshot import PartitionId

__all__ = ["REPLICAS"]  # of the fake


def test_a_kipctl_of_another_user_keeps_this_one_out(fake: Reassigning) -> None:
    with exclusive_lock(lock_path("fake")):
        for command in ("reassign --rotate --topic t --yes", "changes pause"):
            ran = fake.kipctl(command, status=4)
            assert f"process {os.getpid()}" in ran.err
        assert "may begin more" in fake.kipctl("wait --until no-reassignment").err
    assert not fake.altered
    fake.kipctl("reassign --rotate --topic t --yes")


class TestPause:
    """Another kipctl of the same user asks for it: it stops where nothing is under way."""

    def test_it_stops_after_the_batch_and_is_resumed(self, fake: Reassigning) -> None:
        told = []
        asked = ("changes list", "changes pause")
        fake.changes = [
            lambda: told.append(fake.kipctl("changes pause --dry-run")),
            lambda: told.extend(fake.kipctl(words) for words in asked),
        ]
        ran = fake.kipctl(DRAIN, status=5)
        assert "Paused: 2 of 3 batches are done." in ran.err  # the first was asked with --dry-run
        entry = fake.entries()[-1].id
        go_on = f"Go on: kipctl changes resume {entry} or undo: kipctl undo {entry}"
        assert ran.err.splitlines()[-1] == go_on
        dry_run, history, pause = told
        assert dry_run.err.startswith("Nothing was changed.")
        assert dry_run.err.endswith(pause.err)
        assert f"process {os.getpid()}, is changing this cluster now." in history.out
        assert "Stop it after its batch: kipctl changes pause" in history.out
        assert "changes resume" not in history.out
        assert "kipctl undo" not in history.out
        assert "It stops after its batch: kipctl reassign --drain 3" in pause.err
        assert len(fake.altered) == 2
        assert not any(fake.configs.values())
        assert fake.states() == ["submitted"]
        fake.kipctl(RESUME)
        assert fake.replicas() == AFTER
        assert not any(fake.configs.values())

    def test_of_one_batch_it_is_said_that_it_stops_nothing(self, fake: Reassigning) -> None:
        told = []
        fake.changes = [lambda: told.append(fake.kipctl("changes pause").err)]
        fake.kipctl("reassign --drain 3 --yes")
        assert "All of it is under way, as one batch: kipctl reassign --drain 3" in told[0]
        assert "To stop that: kipctl changes cancel" in told[0]
        assert fake.replicas() == AFTER

    def test_without_one_that_runs_it_is_refused(self, fake: Reassigning) -> None:
        ran = fake.kipctl("changes pause", status=4)
        assert "No kipctl on this machine is changing this cluster." in ran.err
        fake.kipctl("reassign --rotate --topic t --batch 2 --yes --between 0s")

    def test_of_a_batch_what_is_under_way_is_waited_for_and_no_more_is_begun(
        self, fake: Reassigning
    ) -> None:
        """With --concurrent-moves all that there is may be one batch."""
        fake.moves_at_once, fake.looks = False, 3
        fake.changes = [lambda: None, lambda: fake.kipctl("changes pause")]
        ran = fake.kipctl("reassign --drain 3 --yes --concurrent-moves 1", status=5)
        assert "Paused: 0 of 1 batches are done, and 2 of 5 partitions of the next." in ran.err
        assert [set(asked) for asked in fake.altered] == [{T[0]}, {T[1]}]
        assert fake.elected == [{T[0], T[1]}]
        assert fake.states() == ["submitted"]
        fake.kipctl(RESUME)
        assert fake.replicas() == AFTER

    def test_before_the_first_batch_nothing_is_changed(
        self, fake: Reassigning, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        save = Journal.save

        def asked_to_pause(self: Journal, *arguments: Any, **options: Any) -> Entry:
            fake.kipctl("changes pause")
            return save(self, *arguments, **options)

        monkeypatch.setattr(Journal, "save", asked_to_pause)
        ran = fake.kipctl("reassign --drain 3 --yes", status=5)
        assert fake.altered == []
        assert "Paused: 0 of 1 batches are done." in ran.err

    def test_one_that_goes_on_with_a_file_of_elsewhere_sees_it(
        self, fake: Reassigning, tmp_path: Path
    ) -> None:
        elsewhere = journal("fake", {"XDG_STATE_HOME": str(tmp_path / "elsewhere")})
        file = tmp_path / "copied.json"
        shutil.copy(cut_off(elsewhere).path, file)
        fake.changes = [lambda: fake.kipctl("changes pause")]
        ran = fake.kipctl(RESUME, "--journal", str(file), status=5)
        assert "Paused: 1 of 3 batches is done." in ran.err
        assert len(fake.altered) == 1


def test_nobody_is_asked_about_a_change_while_another_kipctl_is_at_work(fake: Reassigning) -> None:
    with fake.kept.locked(BOB):
        ran = fake.kipctl("reassign --drain 3", typed="y\n", status=4)
    assert "Another kipctl is changing this cluster" in ran.err
    assert "[y/N]" not in ran.err


class TestCancelWhileItRuns:
    """`--cancel` is for whoever sees that it was a mistake, while kipctl goes on with it."""

    def test_what_it_moves_is_cancelled_and_does_not_make_room_for_more(
        self, fake: Reassigning, clock: PassingClock
    ) -> None:
        def is_moving() -> bool:
            return fake.partitions[T[0]].target is not None

        told = []
        cancel = "changes cancel --yes"
        clock.meanwhile = [(is_moving, lambda: told.append(fake.kipctl(cancel).err))]
        fake.moves_at_once = False
        moving = fake.kipctl("reassign --drain 3 --yes --concurrent-moves 1", status=5)
        assert "A kipctl runs, and begins nothing more: kipctl reassign --drain 3" in told[0]
        assert "The reassignment of 1 partition ended elsewhere: t-0" in moving.err
        assert "paused it, maybe by kipctl changes cancel." in " ".join(moving.err.split())
        assert "partitions reassigned" not in moving.err
        assert {partition for asked in fake.altered for partition in asked} == {T[0]}
        assert not any(held.target for held in fake.partitions.values())

    def test_between_two_batches_the_next_one_does_not_begin(
        self, fake: Reassigning, clock: PassingClock
    ) -> None:
        told = []
        cancel = "changes cancel --yes"
        clock.meanwhile = [(lambda: bool(fake.elected), lambda: told.append(fake.kipctl(cancel)))]
        ran = fake.kipctl("reassign --drain 3 --yes --batch 2 --between 60s", status=5)
        assert "begins nothing more" in told[0].err
        assert "Paused: 1 of 3 batches is done." in ran.err
        assert len(fake.altered) == 1

    def test_what_another_tool_cancels_is_not_taken_for_arrived(
        self, fake: Reassigning, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake.moves_at_once = False
        take = fake._take

        def cancelled_at_once(partition_id: PartitionId, replicas: Replicas | None) -> int:
            code: int = take(partition_id, replicas)
            fake.partitions[partition_id].target = None
            return code

        monkeypatch.setattr(fake, "_take", cancelled_at_once)
        ran = fake.kipctl("reassign --drain 3 --yes --concurrent-moves 1", status=5)
        assert "ended elsewhere: t-0" in ran.err
        assert "Someone cancelled or replaced it" in ran.err
        assert "1 of 5 partitions reassigned" not in ran.err
        assert len(fake.altered) == 1

    @pytest.mark.parametrize("is_own", [True, False])
    def test_a_topic_of_somebody_elses_does_not_stop_it(
        self, fake: Reassigning, is_own: bool
    ) -> None:
        other = PartitionId("t" if is_own else "other", 9)
        fake.partitions[other] = Held((1, 2), 1, target=(3, 2))
        fake.moves_at_once = False
        running = cut_off(fake.kept)
        with fake.kept.locked(BOB):
            ran = fake.kipctl("changes cancel --topic", other.topic, "--yes")
            assert fake.partitions[other].target is None
            assert running.is_to_pause is is_own
            assert ("begins nothing more" in ran.err) is is_own
