"""What is left of a change that was cut off: decided by table, and carried out by `--resume`."""

import json
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
from on_lab import Kipctl
from reassigning import Held, Reassigning, kipctl_on, reassigning
from scripted_broker import ScriptedBroker

from kipctl.cluster.moves.journal import Journal, journal
from kipctl.cluster.moves.journal_entry import (
    Entry,
    EntryState,
    ExecutionOptions,
    Origin,
    read_entry,
)
from kipctl.cluster.moves.resume import DONE, TARGET_NOT_KNOWN, Remaining, remaining_work
from kipctl.cluster.moves.rollback import CHANGED, DELETED, RECREATED, plan_rollback
from kipctl.cluster.moves.safety_checks import BUSY
from kipctl.cluster.moves.throttle import BROKER, TOPIC, Change, Setting, Throttle
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot
from kipctl.protocol.describe_configs import ResourceType

T0 = PartitionId("t", 0)
T = [PartitionId("t", n) for n in range(5)]
Replicas = tuple[int, ...]
HOW = ExecutionOptions(2, 0.0, True, 50_000_000)
RATE, LISTED = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
OF_BROKER, OF_TOPIC = Setting(BROKER, "1", RATE), Setting(TOPIC, "t", LISTED)
THROTTLE = Throttle((Change(OF_BROKER, "7", "50"), Change(OF_TOPIC, None, "0:1")))
BOB = Origin(("reassign", "--drain", "3"), "bob", "elsewhere")
RESUME = ("reassign", "--resume", "--yes", "--timeout", "20")
ROLLBACK = ("reassign", "--rollback", "--yes", "--timeout", "20")


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
        *(f"move {list(move.before)} {list(move.after)}" for move in left.plan.moves),
        *(f"wait {list(move.after)}" for move in left.under_way.moves),
        *(f"elect {leader}" for leader in left.in_place.values()),
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
    settings: dict[Setting, str | None],
    to_set: list[Setting],
    by_others: dict[Setting, str | None],
) -> None:
    left = remaining_work(entry(throttle=THROTTLE), cluster((1, 2)), (), {}, settings)
    assert [one.setting for one in left.to_set.changes] == to_set
    assert left.set_by_others == by_others
    assert left.to_set_for_copies == left.to_set
    in_place = remaining_work(entry(throttle=THROTTLE), cluster((2, 3)), (), {}, settings)
    assert in_place.to_set_for_copies.changes == ()


def test_a_way_back_from_a_cancellation_that_was_cut_off_puts_the_order_back() -> None:
    way = plan_rollback(entry(), cluster((2, 1)), {})
    assert [move.after for move in way.plan.moves] == [(1, 2)]
    way = plan_rollback(entry(state=EntryState.DONE), cluster((2, 1)), {})
    assert [skipped.reason for skipped in way.plan.skipped] == [CHANGED]


def test_of_what_was_only_prepared_no_leader_is_elected() -> None:
    prepared = entry(state=EntryState.PREPARED)
    assert plan_rollback(prepared, cluster((1, 2), leader=2), {}).in_place == {}


@pytest.fixture
def on_fake() -> Iterator[tuple[Reassigning, ScriptedBroker]]:
    with reassigning(dict.fromkeys(T, (1, 2, 3))) as both:
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


AFTER = dict.fromkeys(T, (1, 2, 4))


def cut_off(
    kept: Journal, state: EntryState = EntryState.SUBMITTED, how: ExecutionOptions | None = HOW
) -> Entry:
    """As after SIGKILL of a drain of broker 3."""
    saved = kept.save(dict.fromkeys(T, (1, 2, 3)), AFTER, BOB, how=how)
    return saved if state is EntryState.PREPARED else saved.mark(state)


def test_what_is_left_is_done_in_the_same_batches_and_told_to_be_done_afterwards(
    fake: Reassigning, kipctl: Kipctl, kept: Journal
) -> None:
    was = cut_off(kept)
    fake.partitions[T[0]].replicas = (1, 2, 4)
    fake.partitions[T[1]] = Held((1, 2, 4), 2)
    seen = []
    fake.changes = [lambda: seen.append(deepcopy(fake.configs))]
    ran = kipctl(*RESUME, "-o", "json")
    assert ran.status == 0, ran.err
    assert fake.replicas() == AFTER
    assert set(fake.leaders().values()) == {1}
    assert [set(asked) for asked in fake.altered] == [{T[2], T[3]}, {T[4]}]
    assert json.loads(ran.out)["counts"] == {"done": 4, "failed": 0}
    assert seen[0][int(ResourceType.BROKER), "4"][RATE] == "50000000"
    assert not any(fake.configs.values())
    assert read_entry(was.path).state is EntryState.DONE
    for again in (RESUME, (*RESUME, "--entry", was.id)):
        ran = kipctl(*again)
        assert ran.status == 0
        assert "othing is left" in ran.err
    assert len(fake.altered) == 2


def test_what_is_under_way_is_waited_for(fake: Reassigning, kipctl: Kipctl, kept: Journal) -> None:
    cut_off(kept)
    fake.moves_at_once = False
    for one in T:
        fake.partitions[one] = Held((1, 2, 3), 1, target=(1, 2, 4))
    ran = kipctl(*RESUME, "--timeout", "0.3")
    assert ran.status == 6, ran.err
    assert "Still being reassigned, and waited for: 5 partitions." in ran.err
    assert fake.altered == []
    fake.finish()
    assert kipctl(*RESUME).status == 0
    assert next(kept.entries()).state is EntryState.DONE
    assert not any(fake.configs.values())


def test_what_somebody_else_has_changed_is_left_alone(
    fake: Reassigning, kipctl: Kipctl, kept: Journal
) -> None:
    cut_off(kept)
    fake.partitions[T[0]].replicas = (4, 2, 3)
    ran = kipctl(*RESUME, "-o", "json")
    assert ran.status == 0, ran.err
    assert fake.replicas()[T[0]] == (4, 2, 3)
    assert {one["reason"] for one in json.loads(ran.out)["skipped"]} == {CHANGED}


def test_the_question_says_whose_change_it_is_and_a_dry_run_changes_nothing(
    fake: Reassigning, kipctl: Kipctl, kept: Journal
) -> None:
    was = cut_off(kept)
    ran = kipctl("reassign", "--resume", "--dry-run", "-o", "json")
    assert ran.status == 0, ran.err
    assert json.loads(ran.out)["entry"] == was.id
    ran = kipctl("reassign", "--resume")
    assert ran.status == 2
    assert "What is left of kipctl reassign --drain 3, by bob@elsewhere" in ran.err
    assert "Go on with 5 partitions?" in ran.err
    assert fake.altered == []


def test_while_the_kipctl_that_began_it_is_alive_it_is_refused(
    fake: Reassigning, kipctl: Kipctl, kept: Journal
) -> None:
    cut_off(kept)
    with kept.locked(BOB):
        for command in (RESUME, ROLLBACK):
            ran = kipctl(*command)
            assert ran.status == 4, ran.err
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
    kipctl: Kipctl, kept: Journal, state: EntryState, how: ExecutionOptions | None, said: str
) -> None:
    was = cut_off(kept, state, how)
    ran = kipctl(*RESUME, "--entry", was.id)
    assert (ran.status, said in ran.err) == (4, True)


def test_without_anything_cut_off_it_says_so(kipctl: Kipctl) -> None:
    ran = kipctl(*RESUME)
    assert (ran.status, "Nothing is left to resume" in ran.err) == (0, True)


def test_the_rollback_of_what_was_cut_off_cancels_what_is_under_way(
    fake: Reassigning, kipctl: Kipctl, kept: Journal
) -> None:
    was = cut_off(kept)
    fake.partitions[T[0]] = Held((1, 2, 4), 1)
    fake.partitions[T[1]] = Held((1, 3, 2), 1)  # cancelled, and kipctl was ended then
    fake.partitions[T[2]] = Held((2, 1, 3), 1, target=(1, 2, 4))
    ran = kipctl(*ROLLBACK)
    assert ran.status == 0, ran.err
    assert "Still being reassigned, and cancelled: 1 partition." in ran.err
    assert set(fake.replicas().values()) == {(1, 2, 3)}
    assert set(fake.leaders().values()) == {1}
    assert read_entry(was.path).state is EntryState.UNDONE


class TestRollbackOfWhatWasCutOff:
    """Two partitions have arrived, one is under way: that is cancelled first."""

    @pytest.fixture
    def was(self, fake: Reassigning, kept: Journal) -> Entry:
        fake.partitions = {one: Held((1, 2, 4), 1) for one in T[:2]}
        fake.partitions[T[2]] = Held((1, 2, 3), 1, target=(1, 2, 4))
        fake.moves_at_once = False
        before, after = (dict.fromkeys(T[:3], ids) for ids in ((1, 2, 3), (1, 2, 4)))
        return kept.save(before, after, BOB, how=HOW).mark(EntryState.SUBMITTED)

    def test_what_waits_for_a_broker_is_not_told_to_be_undone(
        self, fake: Reassigning, kipctl: Kipctl, was: Entry
    ) -> None:
        fake.brokers = (1, 2, 4)
        ran = kipctl(*ROLLBACK, "-o", "json")
        assert ran.status == 5
        assert "Cancelled: 1 reassignment." in ran.err
        assert "2 partitions, such as t-0: broker 3 is not alive." in ran.err
        assert f"--rollback --entry {was.id}" in ran.err
        assert "All is as before" not in ran.err
        told = json.loads(ran.out)
        assert [one["partition"] for one in told["cancelled"]] == [2]
        assert [one["reason"] for one in told["skipped"]][:2] == ["broker 3 is not alive"] * 2
        assert read_entry(was.path).state is EntryState.SUBMITTED
        fake.brokers, fake.moves_at_once = (1, 2, 3, 4), True
        assert kipctl(*ROLLBACK).status == 0
        assert set(fake.replicas().values()) == {(1, 2, 3)}
        assert read_entry(was.path).state is EntryState.UNDONE

    def test_what_somebody_has_changed_is_not_told_to_be_undone(
        self, fake: Reassigning, kipctl: Kipctl, was: Entry
    ) -> None:
        for one in T[:2]:
            fake.partitions[one] = Held((4, 1, 2), 4)
        ran = kipctl(*ROLLBACK)
        assert ran.status == 5
        assert "2 partitions, such as t-0: somebody has changed it since." in ran.err
        assert read_entry(was.path).state is EntryState.SUBMITTED

    def test_with_all_as_before_it_is_undone(
        self, fake: Reassigning, kipctl: Kipctl, was: Entry
    ) -> None:
        for one in T[:2]:
            fake.partitions[one] = Held((1, 2, 3), 1)
        ran = kipctl(*ROLLBACK)
        assert (ran.status, "All is as before" in ran.err) == (0, True)
        assert read_entry(was.path).state is EntryState.UNDONE

    def test_what_cannot_be_cancelled_is_told(
        self, fake: Reassigning, kipctl: Kipctl, was: Entry
    ) -> None:
        fake.refused = {T[2]}
        fake.changes = [lambda: None, lambda: setattr(fake, "moves_at_once", True)]
        for one in T[:2]:
            fake.partitions[one] = Held((1, 2, 3), 1)
        ran = kipctl(*ROLLBACK)
        assert ran.status == 5
        assert "could not be cancelled, such as t-2" in ran.err
        assert read_entry(was.path).state is EntryState.SUBMITTED

    def test_a_change_before_it_begins_is_refused_and_nothing_is_cancelled(
        self, fake: Reassigning, kipctl: Kipctl, was: Entry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def meanwhile(*_: object) -> None:
            fake.partitions[T[0]] = Held((1, 2, 4), 2, isr=(2, 4))

        monkeypatch.setattr("kipctl.cli.environment.Environment.confirm", meanwhile)
        ran = kipctl(*ROLLBACK)
        assert ran.status == 4
        assert "Nothing was changed." in ran.err
        assert fake.altered == []
        assert fake.partitions[T[2]].target == (1, 2, 4)
        assert read_entry(was.path).state is EntryState.SUBMITTED

    @pytest.mark.parametrize("is_throttled", [False, True])
    def test_a_change_while_it_is_cancelled_is_partly_done(
        self, fake: Reassigning, kipctl: Kipctl, was: Entry, is_throttled: bool
    ) -> None:
        def meanwhile() -> None:
            fake.partitions[T[0]] = Held((1, 2, 4), 2, isr=(2, 4))

        if is_throttled:
            was.with_throttle(Throttle((Change(OF_BROKER, "7", "50000000"),)))
            fake.configs[int(ResourceType.BROKER), "1"] = {RATE: "50000000"}
        fake.changes = [meanwhile]
        ran = kipctl(*ROLLBACK)
        assert ran.status == 5
        assert "Cancelled: 1 reassignment." in ran.err
        assert ("The throttle is put back." in ran.err) is is_throttled
        assert "The cluster has changed since the plan was shown" in ran.err
        assert "Nothing was changed" not in ran.err
        assert fake.configs.get((int(ResourceType.BROKER), "1")) == (
            {RATE: "7"} if is_throttled else None
        )

    def test_what_is_refused_after_it_is_cancelled_is_partly_done(
        self, fake: Reassigning, kipctl: Kipctl, was: Entry
    ) -> None:
        fake.refused = set(T[:2])
        ran = kipctl(*ROLLBACK)
        assert ran.status == 5
        assert "Cancelled: 1 reassignment. No partition was accepted" in ran.err

    def test_a_journal_that_is_full_after_it_is_cancelled_is_partly_done(
        self, fake: Reassigning, kipctl: Kipctl, was: Entry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("kipctl.cluster.moves.journal.write_whole", full)
        ran = kipctl(*ROLLBACK)
        assert ran.status == 5
        assert "Cancelled: 1 reassignment. The journal in" in ran.err
        assert "Nothing was changed" not in ran.err
        assert fake.partitions[T[2]].target is None


@pytest.mark.parametrize(
    ("elsewhere", "state"), [((4, 2, 1), EntryState.DONE), ((1, 2, 3), EntryState.UNDONE)]
)
def test_a_rollback_that_is_gone_on_with_has_undone_what_it_was_to_undo_or_leaves_it_open(
    fake: Reassigning, kipctl: Kipctl, kept: Journal, elsewhere: Replicas, state: EntryState
) -> None:
    was = cut_off(kept, EntryState.DONE)
    for one in T[1:]:
        fake.partitions[one] = Held((1, 2, 4), 1)
    fake.partitions[T[0]] = Held(elsewhere, elsewhere[0])  # the rollback had left it alone
    back = dict.fromkeys(T[1:], (1, 2, 3))
    kept.save(dict.fromkeys(T[1:], (1, 2, 4)), back, BOB, undoes=was.id, how=HOW).mark(
        EntryState.SUBMITTED
    )
    ran = kipctl(*ROLLBACK)
    assert ran.status == 0, ran.err
    assert "Its rollback was cut off, and is gone on with" in ran.err
    assert {fake.replicas()[one] for one in T[1:]} == {(1, 2, 3)}
    assert read_entry(was.path).state is state


def test_nothing_new_is_begun_without_telling_of_what_was_cut_off(
    kipctl: Kipctl, kept: Journal
) -> None:
    was = cut_off(kept)
    ran = kipctl("reassign", "--rotate", "--topic", "t", "--yes")
    assert ran.status == 0
    assert f"Entry {was.id} goes on at elsewhere, or was stopped." in ran.err
    # Named: without, --rollback would take the newest change, which may have ended well.
    assert f"kipctl reassign --resume or --rollback, with --entry {was.id}" in ran.err


class TestFromAnotherMachine:
    """With the entry's file, and a journal of its own that knows nothing of it."""

    @pytest.fixture
    def file(self, kept: Journal, tmp_path: Path) -> Path:
        was = cut_off(kept)
        was.with_throttle(Throttle((Change(OF_BROKER, "7", "50000000"),)))
        file = tmp_path / "copied.json"
        shutil.copy(was.path, file)
        return file

    @pytest.fixture
    def there(self, on_fake: tuple[Reassigning, ScriptedBroker], tmp_path: Path) -> Kipctl:
        return kipctl_on(on_fake[1], tmp_path / "elsewhere")

    @pytest.fixture(autouse=True)
    def half_done(self, fake: Reassigning) -> None:
        fake.configs[int(ResourceType.BROKER), "1"] = {RATE: "50000000"}
        fake.partitions[T[0]].replicas = (1, 2, 4)

    @pytest.mark.parametrize(
        ("way", "replicas", "state"),
        [("--resume", (1, 2, 4), EntryState.DONE), ("--rollback", (1, 2, 3), EntryState.UNDONE)],
    )
    def test_it_is_ended_there(
        self, fake: Reassigning, there: Kipctl, file: Path, way: str, replicas: Replicas,
        state: EntryState,
    ) -> None:  # fmt: skip
        ran = there("reassign", way, "--yes", "--journal", str(file))
        assert ran.status == 0, ran.err
        assert "It was begun on elsewhere: whether kipctl still runs there cannot be" in ran.err
        assert set(fake.replicas().values()) == {replicas}
        assert fake.configs[int(ResourceType.BROKER), "1"] == {RATE: "7"}
        document = json.loads(file.read_text())
        assert (document["state"], document["throttle"]) == (str(state), None)
        if way == "--resume":
            assert there("reassign", "--verify", str(file)).status == 0
            ran = there("reassign", way, "--yes", "--journal", str(file))
            assert (ran.status, "is done: nothing is left of it" in ran.err) == (0, True)

    def test_the_file_of_another_cluster_is_refused(
        self, fake: Reassigning, there: Kipctl, file: Path
    ) -> None:
        file.write_text(json.dumps({**json.loads(file.read_text()), "cluster_id": "other"}))
        for way in ("--resume", "--rollback"):
            ran = there("reassign", way, "--yes", "--journal", str(file))
            assert (ran.status, "is of another cluster: other" in ran.err) == (4, True)
        assert fake.altered == []

    def test_what_is_no_entry_is_named(self, there: Kipctl, tmp_path: Path) -> None:
        for text in ("{", json.dumps({"version": 1, "partitions": []})):
            (tmp_path / "x").write_text(text)
            ran = there("reassign", "--resume", "--journal", str(tmp_path / "x"))
            assert (ran.status, "it is no entry of a journal" in ran.err) == (2, True)

    def test_verify_tells_what_is_left(self, there: Kipctl, file: Path) -> None:
        ran = there("reassign", "--verify", str(file), "-o", "json")
        assert ran.status == 5
        assert json.loads(ran.out)["counts"] == {"done": 1, "different": 4}


def test_two_files_are_one_too_many(kipctl: Kipctl, tmp_path: Path) -> None:
    ran = kipctl("reassign", "--resume", "--entry", "1", "--journal", str(tmp_path))
    assert ran.status == 2


class TestTwoMachines:
    """Each with a journal of its own: what they see of one another is the cluster."""

    @pytest.fixture
    def there(self, on_fake: tuple[Reassigning, ScriptedBroker], tmp_path: Path) -> Kipctl:
        return kipctl_on(on_fake[1], tmp_path / "elsewhere")

    def test_while_one_moves_data_the_other_begins_nothing(
        self, fake: Reassigning, kipctl: Kipctl, there: Kipctl
    ) -> None:
        fake.moves_at_once = False
        drain = ("reassign", "--drain", "3", "--yes", "--throttle", "50MB/s", "--timeout", "1")
        assert kipctl(*drain).status == 6
        ran = there("reassign", "--rotate", "--all-topics", "--yes")
        assert (ran.status, "being reassigned already" in ran.err) == (4, True)
        assert len(fake.altered) == 1

    def test_what_one_does_between_two_batches_of_the_other_is_left_alone_by_it(
        self,
        fake: Reassigning,
        kipctl: Kipctl,
        there: Kipctl,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def meanwhile(*_: object) -> None:
            assert there("reassign", "--leader", "t-4=3", "--yes").status == 0

        monkeypatch.setattr("kipctl.cluster.moves.batch_execution.Execution._pause", meanwhile)
        ran = kipctl("reassign", "--rotate", "--topic", "t", "--yes", "--batch", "3")
        assert ran.status == 5
        assert "4 partitions are done, 1 is not: t-4: its replicas have changed" in ran.err
        assert fake.replicas()[T[4]][0] == 3
        assert {fake.replicas()[one] for one in T[:4]} == {(2, 3, 1)}

    def test_the_throttle_of_one_that_was_cut_off_is_told_to_the_other(
        self, fake: Reassigning, kipctl: Kipctl, there: Kipctl
    ) -> None:
        fake.moves_at_once = False
        drain = ("reassign", "--drain", "3", "--yes", "--throttle", "50MB/s")
        assert kipctl(*drain, "--timeout", "1").status == 6
        fake.finish()
        fake.moves_at_once = True
        said = "throttles that kipctl here has not set, such as"
        assert said not in kipctl("reassign", "--drain", "2").err
        assert said in there("reassign", "--drain", "2").err


class TestPause:
    """Another kipctl of the same user and machine asks for it."""

    def test_it_stops_after_the_batch_and_is_resumed(
        self, fake: Reassigning, kipctl: Kipctl, kept: Journal
    ) -> None:
        drain = ("reassign", "--drain", "3", "--yes", "--batch", "2", "--throttle", "50MB/s")
        asked = []
        fake.changes = [lambda: asked.append(kipctl("reassign", "--pause"))]
        ran = kipctl(*drain)
        assert ran.status == 5, ran.err
        assert "Paused: 1 of 3 batches are done." in ran.err
        assert "kipctl reassign --resume" in ran.err
        assert asked[0].status == 0
        assert "It stops after its batch: kipctl reassign --drain 3" in asked[0].err
        assert len(fake.altered) == 1
        assert not any(fake.configs.values())
        assert next(kept.entries()).state is EntryState.SUBMITTED
        ran = kipctl(*RESUME)
        assert ran.status == 0, ran.err
        assert fake.replicas() == AFTER
        assert not any(fake.configs.values())

    def test_without_one_that_runs_it_is_refused(self, fake: Reassigning, kipctl: Kipctl) -> None:
        ran = kipctl("reassign", "--pause")
        assert (ran.status, "No kipctl of this user" in ran.err) == (4, True)
        assert kipctl("reassign", "--rotate", "--topic", "t", "--batch", "2", "--yes",
                      "--between", "0s").status == 0  # fmt: skip
