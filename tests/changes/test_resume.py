"""What is left of a change that was cut off: decided by table, and carried out."""

import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path

import pytest
from on_lab import Ran
from passing_clock import PassingClock
from reassigning import Held, Reassigning

from kipctl.changes.execution.remaining import (
    CHANGED,
    DELETED,
    DONE,
    RECREATED,
    TARGET_NOT_KNOWN,
    Remaining,
    plan_rollback,
    remaining_work,
)
from kipctl.changes.execution.safety_checks import BUSY
from kipctl.changes.journal.entry import (
    Entry,
    EntryState,
    ExecutionOptions,
    Origin,
    read_entry,
)
from kipctl.changes.journal.journal import Journal
from kipctl.changes.throttle import BROKER, TOPIC, Change, Setting, Throttle
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot
from kipctl.protocol.describe_configs import ResourceType

T0 = PartitionId("t", 0)
T = [PartitionId("t", n) for n in range(5)]
REPLICAS, AFTER = dict.fromkeys(T, (1, 2, 3)), dict.fromkeys(T, (1, 2, 4))
Replicas = tuple[int, ...]
HOW = ExecutionOptions(2, 0.0, True, 50_000_000)
RATE, LISTED = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
OF_BROKER, OF_TOPIC = Setting(BROKER, "1", RATE), Setting(TOPIC, "t", LISTED)
THROTTLE = Throttle((Change(OF_BROKER, "7", "50"), Change(OF_TOPIC, None, "0:1")))
BOB = Origin(("reassign", "--drain", "3"), "bob", "elsewhere")
DRAIN = "reassign --drain 3 --yes --batch 2 --throttle 50MB/s"
RESUME = "changes resume --yes"
ROLLBACK = "undo --yes --timeout 20"


def entry(
    before: Replicas = (1, 2),
    after: Replicas | None = (2, 3),
    state: EntryState = EntryState.SUBMITTED,
    elects: bool = True,
    throttle: Throttle | None = None,
) -> Entry:
    how = ExecutionOptions(2, 0.0, elects, None)
    return Entry(
        Path("1.entry.json"),
        "1",
        "c",
        {T0: before},
        {T0: after},
        state,
        topic_ids={"t": "old"},
        how=how,
        throttle=throttle,
    )


def cluster(replicas: Replicas | None, leader: int = 0, alive: str = "1234") -> Snapshot:
    brokers = tuple(Broker(int(b), "h", 1, None) for b in alive)
    if replicas is None:
        return Snapshot("c", brokers, ())
    return Snapshot("c", brokers, (Partition(T0, replicas, replicas, leader or replicas[0], 0),))


def found(left: Remaining) -> tuple[str, bool]:
    """In one word what is left of the only partition, and whether nothing is left for later."""
    kinds = [
        *(
            f"elect {move.after[0]}"
            if move.is_election
            else f"move {list(move.before)} {list(move.after)}"
            for move in left.plan.moves
        ),
        *(f"wait {list(move.after)}" for move in left.under_way.moves),
        *(skipped.reason for skipped in left.plan.skipped),
    ]
    (kind,) = kinds
    return kind, left.is_whole


OURS = Reassignment(T0, (2, 3, 1), (3,), (1,))
OTHERS = Reassignment(T0, (2, 4, 1), (4,), (1,))


@pytest.mark.parametrize(
    ("was", "now", "busy", "left"),
    [
        # Nothing of it was done, or all.
        (entry(), cluster((1, 2)), None, ("move [1, 2] [2, 3]", True)),
        (entry(), cluster((2, 3)), None, (DONE, True)),
        (entry(state=EntryState.PREPARED), cluster((1, 2)), None, ("move [1, 2] [2, 3]", True)),
        # Its leader is what is left; a plan of Kafka's own elects none.
        (entry(), cluster((2, 3), leader=3), None, ("elect 2", True)),
        (entry(elects=False), cluster((2, 3), leader=3), None, (DONE, True)),
        (entry((2, 1), (2, 1)), cluster((2, 1), leader=1), None, ("elect 2", True)),
        # It is on its way there, or elsewhere.
        (entry(), cluster((2, 3, 1)), OURS, ("wait [2, 3]", True)),
        (entry(), cluster((2, 4, 1)), OTHERS, (BUSY, False)),
        (entry((1, 2), (1, 2, 3)), cluster((1, 2, 3)), Reassignment(T0, (1, 2, 3), (3,), ()),
         ("wait [1, 2, 3]", True)),
        # It has ended since it was asked what is under way.
        (entry(), cluster((2, 3)), OURS, ("wait [2, 3]", True)),
        # Somebody has changed it.
        (entry(), cluster((3, 4)), None, (CHANGED, True)),
        (entry((1, 2, 3), (2, 3, 1)), cluster((3, 1, 2)), None, (CHANGED, True)),
        # It was cancelled, and not put back into its order.
        (entry(), cluster((2, 1)), None, ("move [2, 1] [2, 3]", True)),
        # It cannot be done, or not now.
        (entry(), cluster(None), None, (DELETED, True)),
        (entry(after=None), cluster((1, 2)), None, (TARGET_NOT_KNOWN, True)),
        (entry(), cluster((1, 2), alive="12"), None, ("broker 3 is not alive", False)),
    ],
)  # fmt: skip
def test_what_is_left_of_a_partition(
    was: Entry, now: Snapshot, busy: Reassignment | None, left: tuple[str, bool]
) -> None:
    assert found(remaining_work(was, now, (busy,) if busy else (), {"t": "old"})) == left


def test_a_topic_made_anew_is_another_one() -> None:
    assert found(remaining_work(entry(), cluster((1, 2)), (), {"t": "new"})) == (RECREATED, True)


@pytest.mark.parametrize("state", [EntryState.DONE, EntryState.UNDONE, EntryState.REFUSED])
def test_of_what_is_over_only_the_throttle_is_left(state: EntryState) -> None:
    assert remaining_work(entry(state=state), cluster((1, 2))).count == 0
    left = remaining_work(entry(state=state, throttle=THROTTLE), cluster((1, 2)), (), {}, {})
    assert left.count == 0


@pytest.mark.parametrize(
    ("settings", "to_set", "by_others"),
    [
        ({OF_BROKER: "7", OF_TOPIC: None}, [OF_BROKER, OF_TOPIC], {}),
        ({OF_BROKER: "50", OF_TOPIC: None}, [OF_TOPIC], {}),
        ({OF_BROKER: "50", OF_TOPIC: "0:1"}, [], {}),
        ({OF_BROKER: "9", OF_TOPIC: "0:1"}, [], {OF_BROKER: "9"}),
        ({OF_BROKER: None, OF_TOPIC: "0:1"}, [], {OF_BROKER: None}),
        ({}, [], {}),  # neither of them can be asked
    ],
)
def test_of_the_throttle_is_set_what_is_not_set_and_nobody_else_has(
    settings: dict[Setting, str | None], to_set: list[Setting], by_others: dict[Setting, str | None]
) -> None:
    left = remaining_work(entry(throttle=THROTTLE), cluster((1, 2)), (), {}, settings)
    assert [change.setting for change in left.to_set.changes] == to_set
    assert left.set_by_others == by_others
    assert left.to_set_for_copies == left.to_set
    in_place = remaining_work(entry(throttle=THROTTLE), cluster((2, 3)), (), {}, settings)
    assert in_place.to_set_for_copies.changes == ()


def test_a_way_back_from_a_cancellation_that_was_cut_off_puts_the_order_back() -> None:
    way = plan_rollback(entry(), cluster((2, 1)), {})
    assert [move.after for move in way.moves] == [(1, 2)]
    way = plan_rollback(entry(state=EntryState.DONE), cluster((2, 1)), {})
    assert [skipped.reason for skipped in way.skipped] == [CHANGED]


def test_of_what_was_only_prepared_no_leader_is_elected() -> None:
    prepared = entry(state=EntryState.PREPARED)
    assert plan_rollback(prepared, cluster((1, 2), leader=2), {}).moves == ()


def cut_off(
    kept: Journal, state: EntryState = EntryState.SUBMITTED, how: ExecutionOptions | None = HOW
) -> Entry:
    """As after SIGKILL of a drain of broker 3."""
    saved = kept.save(REPLICAS, AFTER, BOB, how=how)
    return saved if state is EntryState.PREPARED else saved.mark(state)


def test_what_is_left_is_done_in_the_same_batches_and_told_to_be_done_afterwards(
    fake: Reassigning,
) -> None:
    was = cut_off(fake.kept)
    fake.partitions[T[0]].replicas = (1, 2, 4)
    fake.partitions[T[1]] = Held((1, 2, 4), 2)
    seen = []
    fake.changes = [lambda: seen.append(deepcopy(fake.configs))]
    ran = fake.kipctl(RESUME, "-o json")
    assert fake.replicas() == AFTER
    assert set(fake.leaders().values()) == {1}
    # An election counts in its batch as what is moved does.
    assert [set(asked) for asked in fake.altered] == [{T[2]}, {T[3], T[4]}]
    assert ran.document["counts"] == {"done": 4, "failed": 0}
    assert seen[0][int(ResourceType.BROKER), "4"][RATE] == "50000000"
    assert not any(fake.configs.values())
    assert read_entry(was.path).state is EntryState.DONE
    for again in (RESUME, f"{RESUME} {was.id}"):
        ran = fake.kipctl(again)
        assert "othing is left" in ran.err
    assert len(fake.altered) == 2


def test_when_all_has_arrived_the_throttle_is_removed_and_that_is_said(fake: Reassigning) -> None:
    rate = Setting(BROKER, "4", RATE)
    cut_off(fake.kept).with_throttle(Throttle((Change(rate, None, "50000000"),)))
    fake.configs = {(int(ResourceType.BROKER), "4"): {RATE: "50000000"}}
    fake.partitions = {part: Held(replicas, replicas[0]) for part, replicas in AFTER.items()}
    assert "Its throttle is removed." in fake.kipctl("changes resume --dry-run").out
    nothing = fake.kipctl("changes cancel --yes").err
    assert "Throttles of earlier changes are still set." in nothing
    assert "Go on with it: kipctl changes resume" in nothing
    ran = fake.kipctl(RESUME)
    assert "The throttle is removed." in ran.err
    assert (any(fake.configs.values()), fake.states()) == (False, ["done"])


def test_what_is_under_way_is_waited_for(fake: Reassigning) -> None:
    cut_off(fake.kept)
    fake.moves_at_once = False
    for partition in T:
        fake.partitions[partition] = Held((1, 2, 3), 1, target=(1, 2, 4))
    ran = fake.kipctl(RESUME, "--timeout 0.3", status=6)
    assert "Still being reassigned, and waited for: 5 partitions." in ran.err
    assert fake.altered == []
    fake.finish()
    fake.kipctl(RESUME)
    assert next(fake.kept.entries()).state is EntryState.DONE
    assert not any(fake.configs.values())


def test_what_somebody_else_has_changed_is_left_alone(fake: Reassigning) -> None:
    cut_off(fake.kept)
    fake.partitions[T[0]].replicas = (4, 2, 3)
    ran = fake.kipctl(RESUME, "-o json")
    assert fake.replicas()[T[0]] == (4, 2, 3)
    assert {skipped["reason"] for skipped in ran.document["skipped"]} == {CHANGED}


def test_the_question_says_whose_change_it_is_and_a_dry_run_changes_nothing(
    fake: Reassigning,
) -> None:
    was = cut_off(fake.kept)
    ran = fake.kipctl("changes resume --dry-run -o json")
    assert ran.document["entry"] == was.id
    ran = fake.kipctl("changes resume", status=2)
    assert "What is left of kipctl reassign --drain 3, by bob@elsewhere" in ran.err
    assert "Go on with 5 partitions?" in ran.err
    assert fake.altered == []


def test_while_the_kipctl_that_began_it_is_alive_it_is_refused(fake: Reassigning) -> None:
    cut_off(fake.kept)
    with fake.kept.locked(BOB):
        for command in (RESUME, ROLLBACK):
            ran = fake.kipctl(command, status=4)
            assert "Another kipctl is changing this cluster" in ran.err
    assert fake.altered == []


@pytest.mark.parametrize(
    ("state", "how", "said"),
    [
        (EntryState.UNDONE, HOW, "is undone: it is not to be resumed"),
        (EntryState.REFUSED, HOW, "is refused: it is not to be resumed"),
        (EntryState.SUBMITTED, None, "does not say how its change was carried out"),
    ],
)
def test_what_cannot_be_resumed_is_refused(
    fake: Reassigning, state: EntryState, how: ExecutionOptions | None, said: str
) -> None:
    was = cut_off(fake.kept, state, how)
    ran = fake.kipctl(RESUME, was.id, status=4)
    assert said in ran.err


def test_without_anything_cut_off_it_says_so(fake: Reassigning) -> None:
    ran = fake.kipctl(RESUME)
    assert "Nothing is left to resume" in ran.err


def test_the_rollback_of_what_was_cut_off_cancels_what_is_under_way(fake: Reassigning) -> None:
    was = cut_off(fake.kept)
    fake.partitions[T[0]] = Held((1, 2, 4), 1)
    fake.partitions[T[1]] = Held((1, 3, 2), 1)  # cancelled, and kipctl was ended then
    fake.partitions[T[2]] = Held((2, 1, 3), 1, target=(1, 2, 4))
    ran = fake.kipctl(ROLLBACK)
    assert "Still being reassigned, and cancelled: 1 partition." in ran.err
    assert set(fake.replicas().values()) == {(1, 2, 3)}
    assert set(fake.leaders().values()) == {1}
    assert read_entry(was.path).state is EntryState.UNDONE


def test_a_replica_that_is_listed_and_still_copied_has_not_arrived(
    fake: Reassigning, clock: PassingClock
) -> None:
    """Metadata lists it from the moment that it is asked for."""
    fake.partitions = {T[0]: Held((1, 2), 1, target=(1, 2, 4))}
    fake.moves_at_once = False
    fake.kept.save({T[0]: (1, 2)}, {T[0]: (1, 2, 4)}, BOB, how=HOW).mark(EntryState.SUBMITTED)
    assert "0 of 1 partition have their new replicas." in fake.kipctl("changes list").out

    def interrupt() -> None:
        raise KeyboardInterrupt

    clock.meanwhile = [(lambda: True, interrupt)]
    ran = fake.kipctl(RESUME, status=130)
    assert (
        "Of 1 partition 0 have their new replicas, 0 have their old ones and 1 is under way."
        " What is under way goes on by itself." in ran.err
    )


def test_what_is_cancelled_and_cannot_be_led_as_before_yet_can_be_undone_later(
    fake: Reassigning,
) -> None:
    fake.partitions = {T[0]: Held((1, 2), 2, target=(1, 2, 4), isr=(2,))}
    fake.brokers, fake.moves_at_once = (2, 3, 4), False
    was = fake.kept.save({T[0]: (1, 2)}, {T[0]: (1, 2, 4)}, BOB, how=HOW, leaders={T[0]: 1}).mark(
        EntryState.SUBMITTED
    )
    ran = fake.kipctl(ROLLBACK, was.id, status=5)
    assert "Cancelled: 1 reassignment. Entry" in ran.err
    assert "broker 1 is not in sync" in ran.err
    assert f"Try again: kipctl undo {was.id}" in ran.err
    fake.brokers, fake.partitions[T[0]].isr = (1, 2, 3, 4), None
    ran = fake.kipctl(ROLLBACK, was.id)
    assert fake.leaders() == {T[0]: 1}
    assert f"All is as before entry {was.id}: it is undone." in ran.err
    assert read_entry(was.path).state is EntryState.UNDONE


class TestRollbackOfWhatWasCutOff:
    """Two partitions have arrived, one is under way: that is cancelled first."""

    @pytest.fixture
    def was(self, fake: Reassigning) -> Entry:
        fake.partitions = {partition: Held((1, 2, 4), 1) for partition in T[:2]}
        fake.partitions[T[2]] = Held((1, 2, 3), 1, target=(1, 2, 4))
        fake.moves_at_once = False
        before, after = (dict.fromkeys(T[:3], ids) for ids in ((1, 2, 3), (1, 2, 4)))
        return fake.kept.save(before, after, BOB, how=HOW).mark(EntryState.SUBMITTED)

    def test_what_waits_for_a_broker_is_not_told_to_be_undone(
        self, fake: Reassigning, was: Entry
    ) -> None:
        fake.brokers = (1, 2, 4)
        ran = fake.kipctl(ROLLBACK, "-o json", status=5)
        assert "Cancelled: 1 reassignment." in ran.err
        assert "2 partitions, such as t-0: broker 3 is not alive." in ran.err
        assert f"kipctl undo {was.id}" in ran.err
        assert "All is as before" not in ran.err
        told = ran.document
        assert [row["partition"] for row in told["cancelled"]] == [2]
        assert [row["reason"] for row in told["skipped"]][:2] == ["broker 3 is not alive"] * 2
        assert read_entry(was.path).state is EntryState.SUBMITTED
        fake.brokers, fake.moves_at_once = (1, 2, 3, 4), True
        fake.kipctl(ROLLBACK)
        assert set(fake.replicas().values()) == {(1, 2, 3)}
        assert read_entry(was.path).state is EntryState.UNDONE

    @pytest.mark.parametrize(
        ("held", "refused", "status", "state", "said"),
        [
            (((4, 1, 2), 4), [], 5, "submitted", "such as t-0: somebody has changed it since."),
            (((1, 2, 3), 1), [], 0, "undone", "All is as before"),
            (((1, 2, 3), 1), T[2:3], 5, "submitted", "could not be cancelled, such as t-2"),
            # Nothing of it is under way any more: it is a change like others.
            (((1, 2, 4), 1), T[:2], 5, "done", "Cancelled: 1 reassignment. No partition was acc"),
        ],
        ids=["changed", "as before", "not cancelled", "refused"],
    )
    def test_it_is_told_to_be_undone_only_when_all_is_as_before(
        self,
        fake: Reassigning,
        was: Entry,
        held: tuple[Replicas, int],
        refused: list[PartitionId],
        status: int,
        state: str,
        said: str,
    ) -> None:
        fake.refused = {*refused}
        fake.changes = [lambda: None, lambda: setattr(fake, "moves_at_once", True)]
        for partition in T[:2]:
            fake.partitions[partition] = Held(*held)
        assert said in fake.kipctl(ROLLBACK, status=status).err
        assert read_entry(was.path).state == state

    def behind(self, fake: Reassigning) -> None:
        """Somebody changes a partition that was to go back."""
        fake.partitions[T[0]] = Held((1, 2, 4), 2, isr=(2, 4))

    def test_a_change_before_it_begins_is_refused_and_nothing_is_cancelled(
        self, fake: Reassigning, was: Entry
    ) -> None:
        words = ROLLBACK.replace("--yes", "")
        ran = fake.kipctl(words, typed="y\n", meanwhile=lambda: self.behind(fake), status=4)
        assert "Nothing was changed." in ran.err
        assert fake.altered == []
        assert fake.partitions[T[2]].target == (1, 2, 4)
        assert read_entry(was.path).state is EntryState.SUBMITTED

    @pytest.mark.parametrize("is_throttled", [False, True])
    def test_a_change_while_it_is_cancelled_is_partly_done(
        self, fake: Reassigning, was: Entry, is_throttled: bool
    ) -> None:
        if is_throttled:
            was.with_throttle(Throttle((Change(OF_BROKER, "7", "50000000"),)))
            fake.configs[int(ResourceType.BROKER), "1"] = {RATE: "50000000"}
        fake.changes = [lambda: self.behind(fake)]
        ran = fake.kipctl(ROLLBACK, status=5)
        assert "Cancelled: 1 reassignment." in ran.err
        assert ("The throttle is removed." in ran.err) is is_throttled
        assert "The cluster has changed since the plan was shown" in ran.err
        assert "Nothing was changed" not in ran.err
        assert fake.configs.get((int(ResourceType.BROKER), "1")) == (
            {RATE: "7"} if is_throttled else None
        )

    def test_a_journal_that_is_full_after_it_is_cancelled_is_partly_done(
        self, fake: Reassigning, was: Entry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("kipctl.changes.journal.journal.write_whole", full)
        ran = fake.kipctl(ROLLBACK, status=5)
        assert "Cancelled: 1 reassignment. The journal in" in ran.err
        assert "Nothing was changed" not in ran.err
        assert fake.partitions[T[2]].target is None


@pytest.mark.parametrize(
    ("elsewhere", "state"), [((4, 2, 1), EntryState.DONE), ((1, 2, 3), EntryState.UNDONE)]
)
def test_a_rollback_that_is_gone_on_with_has_undone_what_it_was_to_undo_or_leaves_it_open(
    fake: Reassigning, elsewhere: Replicas, state: EntryState
) -> None:
    was = cut_off(fake.kept, EntryState.DONE)
    for partition in T[1:]:
        fake.partitions[partition] = Held((1, 2, 4), 1)
    fake.partitions[T[0]] = Held(elsewhere, elsewhere[0])  # the rollback had left it alone
    back = dict.fromkeys(T[1:], (1, 2, 3))
    rollback = fake.kept.save(dict.fromkeys(T[1:], (1, 2, 4)), back, BOB, undoes=was.id, how=HOW)
    rollback.mark(EntryState.SUBMITTED)
    ran = fake.kipctl(ROLLBACK)
    assert "An undo of it was cut off, and is continued" in ran.err
    assert {fake.replicas()[partition] for partition in T[1:]} == {(1, 2, 3)}
    assert read_entry(was.path).state is state


def test_nothing_new_is_begun_without_telling_of_what_was_cut_off(fake: Reassigning) -> None:
    was = cut_off(fake.kept)
    ran = fake.kipctl("reassign --rotate --topic t --yes")
    assert f"Entry {was.id} goes on at elsewhere, or was stopped." in ran.err
    # Named: without its id the newest change would be undone, which may have ended well.
    assert f"kipctl changes resume {was.id} or undo it: kipctl undo {was.id}" in ran.err


@pytest.fixture
def there(fake: Reassigning, tmp_path: Path) -> Callable[..., Ran]:
    """kipctl on another machine, with a journal of its own."""
    return partial(fake.kipctl, state=tmp_path / "elsewhere")


class TestFromAnotherMachine:
    """With the entry's file, and a journal of its own that knows nothing of it."""

    @pytest.fixture
    def file(self, fake: Reassigning, tmp_path: Path) -> Path:
        was = cut_off(fake.kept)
        was.with_throttle(Throttle((Change(OF_BROKER, "7", "50000000"),)))
        file = tmp_path / "copied.json"
        shutil.copy(was.path, file)
        return file

    @pytest.fixture(autouse=True)
    def half_done(self, fake: Reassigning) -> None:
        fake.configs[int(ResourceType.BROKER), "1"] = {RATE: "50000000"}
        fake.partitions[T[0]].replicas = (1, 2, 4)

    @pytest.mark.parametrize(
        ("way", "replicas", "state"),
        [("changes resume", (1, 2, 4), EntryState.DONE), ("undo", (1, 2, 3), EntryState.UNDONE)],
    )
    def test_it_is_ended_there(
        self,
        fake: Reassigning,
        there: Callable[..., Ran],
        file: Path,
        way: str,
        replicas: Replicas,
        state: EntryState,
    ) -> None:
        command = f"{way} --yes --journal {file}"
        ran = there(command)
        assert "It was begun on elsewhere: whether kipctl still runs there cannot be" in ran.err
        assert set(fake.replicas().values()) == {replicas}
        assert fake.configs[int(ResourceType.BROKER), "1"] == {RATE: "7"}
        document = json.loads(file.read_text())
        assert (document["state"], document["throttle"]) == (str(state), None)
        if way == "changes resume":
            there(f"reassign --verify {file}")
            assert "is done: nothing is left of it" in there(command).err

    def test_the_file_of_another_cluster_is_refused(
        self, fake: Reassigning, there: Callable[..., Ran], file: Path
    ) -> None:
        file.write_text(json.dumps({**json.loads(file.read_text()), "cluster_id": "other"}))
        for way in ("changes resume", "undo"):
            ran = there(f"{way} --yes --journal {file}", status=4)
            assert "is of another cluster: other" in ran.err
        assert fake.altered == []

    def test_what_is_no_entry_is_named(self, there: Callable[..., Ran], tmp_path: Path) -> None:
        for text in ("{", json.dumps({"version": 1, "partitions": []})):
            (tmp_path / "x").write_text(text)
            ran = there("changes resume --journal", str(tmp_path / "x"), status=2)
            assert "it is no entry of a journal" in ran.err

    def test_verify_tells_what_is_left(self, there: Callable[..., Ran], file: Path) -> None:
        ran = there(f"reassign --verify {file} -o json", status=5)
        assert ran.document["counts"] == {"done": 1, "different": 4}


def test_two_files_are_one_too_many(fake: Reassigning) -> None:
    fake.kipctl("changes resume 1 --journal /nowhere", status=2)


class TestTwoMachines:
    """Each with a journal of its own: what they see of one another is the cluster."""

    def test_while_one_moves_data_the_other_begins_nothing_and_is_told_of_its_throttle(
        self, fake: Reassigning, there: Callable[..., Ran]
    ) -> None:
        fake.moves_at_once = False
        fake.kipctl(DRAIN, "--timeout 20", status=6)
        ran = there("reassign --rotate --all-topics --yes", status=4)
        assert "being reassigned already" in ran.err
        assert len(fake.altered) == 1
        fake.finish()
        said = "throttles that kipctl here has not set, such as"
        assert said not in fake.kipctl("reassign --drain 2", status=2).err
        assert said in there("reassign --drain 2", status=2).err

    def test_what_one_does_between_two_batches_of_the_other_is_left_alone_by_it(
        self, fake: Reassigning, there: Callable[..., Ran], clock: PassingClock
    ) -> None:
        clock.meanwhile = [
            (lambda: len(fake.elected) == 1, lambda: there("reassign --leader t-4=3 --yes"))
        ]
        ran = fake.kipctl("reassign --rotate --topic t --yes --batch 3", status=5)
        assert "4 partitions are done, 1 is not: t-4: its replicas have changed" in ran.err
        assert fake.replicas()[T[4]][0] == 3
        assert {fake.replicas()[partition] for partition in T[:4]} == {(2, 3, 1)}


def test_what_was_stopped_while_data_was_copied_is_known_and_can_all_be_taken_back(
    fake: Reassigning,
) -> None:
    fake.moves_at_once = False
    fake.kipctl(DRAIN, "--timeout 20", status=6)
    # The batch that was submitted goes on, the next one never began, the throttle is set.
    assert fake.altered == [dict.fromkeys(T[:2], (1, 2, 4))]
    assert fake.configs[ResourceType.BROKER, "4"]
    assert fake.states() == ["submitted"]
    history = fake.kipctl("changes list").out
    assert "0 of 5 partitions have their new replicas." in history
    assert "was stopped before its end." in history
    assert "Go on with it: kipctl changes resume" in history
    assert "Or undo it: kipctl undo" in history
    ran = fake.kipctl("changes clear-throttles --yes", status=4)
    assert "still being reassigned" in ran.err
    fake.kipctl("changes cancel --yes")
    assert fake.replicas() == REPLICAS
    assert not any(held.target for held in fake.partitions.values())
    fake.kipctl("changes clear-throttles --yes")
    assert not any(fake.configs.values())
    assert "There is nothing to undo" in fake.kipctl(ROLLBACK, status=4).err
