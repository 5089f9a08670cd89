"""`--pause` and `--cancel` while the kipctl that moves partitions goes on."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from on_lab import Kipctl, Ran
from reassigning import Held, Reassigning, Replicas, kipctl_on, reassigning
from scripted_broker import ScriptedBroker

from kipctl.cluster.moves.journal import Journal, journal
from kipctl.cluster.moves.journal_entry import Entry, EntryState, ExecutionOptions, Origin
from kipctl.cluster.snapshot import PartitionId

T = [PartitionId("t", n) for n in range(5)]
BEFORE, AFTER = dict.fromkeys(T, (1, 2, 3)), dict.fromkeys(T, (1, 2, 4))
BOB = Origin(("reassign", "--drain", "3"), "bob", "elsewhere")
RESUME = ("reassign", "--resume", "--yes", "--timeout", "20")


@pytest.fixture
def on_fake() -> Iterator[tuple[Reassigning, ScriptedBroker]]:
    with reassigning(BEFORE) as both:
        yield both


@pytest.fixture
def fake(on_fake: tuple[Reassigning, ScriptedBroker]) -> Reassigning:
    return on_fake[0]


@pytest.fixture
def kipctl(on_fake: tuple[Reassigning, ScriptedBroker], tmp_path: Path) -> Kipctl:
    return kipctl_on(on_fake[1], tmp_path / "state")


@pytest.fixture
def kept(tmp_path: Path) -> Journal:
    return journal("fake", {"XDG_STATE_HOME": str(tmp_path / "state")})


def begun(kept: Journal) -> Entry:
    """A drain of broker 3 that has submitted something."""
    return kept.save(BEFORE, AFTER, BOB, how=ExecutionOptions(2, 0.0, True)).mark(
        EntryState.SUBMITTED
    )


class TestPause:
    """It stops where nothing of it is under way."""

    def test_of_a_batch_what_is_under_way_is_waited_for_and_no_more_is_begun(
        self, fake: Reassigning, kipctl: Kipctl, kept: Journal
    ) -> None:
        """With --concurrent-moves all that there is may be one batch."""
        fake.moves_at_once, fake.looks = False, 3
        fake.changes = [lambda: None, lambda: kipctl("reassign", "--pause")]
        ran = kipctl("reassign", "--drain", "3", "--yes", "--concurrent-moves", "1")
        assert ran.status == 5, ran.err
        assert "Paused: 0 of 1 batches, and 2 of 5 partitions of a batch, are done." in ran.err
        assert [set(asked) for asked in fake.altered] == [{T[0]}, {T[1]}]
        assert fake.elected == [{T[0], T[1]}]
        assert next(kept.entries()).state is EntryState.SUBMITTED
        assert kipctl(*RESUME).status == 0
        assert fake.replicas() == AFTER

    def test_before_the_first_batch_nothing_is_changed(
        self, fake: Reassigning, kipctl: Kipctl, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        save = Journal.save

        def asked_to_pause(self: Journal, *arguments: Any) -> Entry:
            assert kipctl("reassign", "--pause").status == 0
            return save(self, *arguments)

        monkeypatch.setattr(Journal, "save", asked_to_pause)
        ran = kipctl("reassign", "--drain", "3", "--yes")
        assert (ran.status, fake.altered) == (5, [])
        assert "Paused: 0 of 1 batches are done." in ran.err

    def test_one_that_goes_on_with_a_file_of_elsewhere_sees_it(
        self, fake: Reassigning, kipctl: Kipctl, tmp_path: Path
    ) -> None:
        elsewhere = journal("fake", {"XDG_STATE_HOME": str(tmp_path / "elsewhere")})
        file = tmp_path / "copied.json"
        shutil.copy(begun(elsewhere).path, file)
        fake.changes = [lambda: kipctl("reassign", "--pause")]
        ran = kipctl(*RESUME, "--journal", str(file))
        assert ran.status == 5, ran.err
        assert "Paused: 1 of 3 batches are done." in ran.err
        assert len(fake.altered) == 1


class TestCancelWhileItRuns:
    """`--cancel` is for whoever sees that it was a mistake, while kipctl goes on with it."""

    @pytest.fixture
    def cancelled(
        self, fake: Reassigning, kipctl: Kipctl, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[..., tuple[Ran, Ran]]:
        """Run a command, and --cancel once `is_time`."""
        monkeypatch.setattr("kipctl.cluster.moves.reassign.METADATA_GRACE_S", 0.1)

        def both(command: Sequence[str], is_time: Callable[[], bool]) -> tuple[Ran, Ran]:
            def cancel() -> Ran:
                while not is_time():
                    time.sleep(0.01)
                return kipctl("reassign", "--cancel", "--yes")

            with ThreadPoolExecutor(1) as other:
                ran = other.submit(cancel)
                return kipctl(*command), ran.result()

        return both

    def test_what_it_moves_is_cancelled_and_does_not_make_room_for_more(
        self, fake: Reassigning, cancelled: Callable[..., tuple[Ran, Ran]]
    ) -> None:
        fake.moves_at_once = False
        drain = ("reassign", "--drain", "3", "--yes", "--concurrent-moves", "1")
        moving, stopped = cancelled(drain, lambda: fake.partitions[T[0]].target is not None)
        assert stopped.status == 0, stopped.err
        assert "A kipctl runs, and begins nothing more: kipctl reassign --drain 3" in stopped.err
        assert moving.status == 5, moving.err
        assert "The reassignment of 1 partition ended elsewhere: t-0" in moving.err
        assert "partitions reassigned" not in moving.err
        assert {one for asked in fake.altered for one in asked} == {T[0]}
        assert not any(held.target for held in fake.partitions.values())

    def test_between_two_batches_the_next_one_does_not_begin(
        self, fake: Reassigning, cancelled: Callable[..., tuple[Ran, Ran]]
    ) -> None:
        drain = ("reassign", "--drain", "3", "--yes", "--batch", "2", "--between", "60s")
        moving, stopped = cancelled(drain, lambda: bool(fake.elected))
        assert stopped.status == 0, stopped.err
        assert "begins nothing more" in stopped.err
        assert moving.status == 5, moving.err
        assert "Paused: 1 of 3 batches are done." in moving.err
        assert len(fake.altered) == 1

    def test_what_another_tool_cancels_is_not_taken_for_arrived(
        self, fake: Reassigning, kipctl: Kipctl, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("kipctl.cluster.moves.reassign.METADATA_GRACE_S", 0.1)
        fake.moves_at_once = False
        take = fake._take

        def cancelled_at_once(one: PartitionId, replicas: Replicas | None) -> int:
            code: int = take(one, replicas)
            fake.partitions[one].target = None
            return code

        monkeypatch.setattr(fake, "_take", cancelled_at_once)
        ran = kipctl("reassign", "--drain", "3", "--yes", "--concurrent-moves", "1")
        assert ran.status == 5, ran.err
        assert "ended elsewhere: t-0" in ran.err
        assert "1 of 5 partitions reassigned" not in ran.err
        assert len(fake.altered) == 1

    @pytest.mark.parametrize("is_own", [True, False])
    def test_a_topic_of_somebody_elses_does_not_stop_it(
        self, fake: Reassigning, kipctl: Kipctl, kept: Journal, is_own: bool
    ) -> None:
        other = PartitionId("t" if is_own else "other", 9)
        fake.partitions[other] = Held((1, 2), 1, target=(3, 2))
        fake.moves_at_once = False
        running = begun(kept)
        with kept.locked(BOB):
            ran = kipctl("reassign", "--cancel", "--topic", other.topic, "--yes")
            assert ran.status == 0, ran.err
            assert fake.partitions[other].target is None
            assert running.is_to_pause is is_own
            assert ("begins nothing more" in ran.err) is is_own
