"""Several plans as phases of one change: each checked before the first begins, all of them one."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from passing_clock import PassingClock
from reassigning import Reassigning

from kipctl.changes.execution.remaining import plan_rollback, remaining_work
from kipctl.changes.journal.entry import Entry, EntryState, ExecutionOptions, read_entry
from kipctl.changes.journal.phases import at_phase, left_in, present_phase
from kipctl.changes.plans.kafka_json import ReassignmentFile, reassignment_document
from kipctl.changes.plans.log_sizes import Disk, LogSizes
from kipctl.changes.plans.phases import IN_PLACE, composed, left_by, phases_of
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot
from kipctl.errors import UsageError

T = [PartitionId("t", n) for n in range(3)]
REPLICAS = {T[0]: (1, 2), T[1]: (2, 1), T[2]: (1, 2)}
FIRST, SECOND = {T[0]: (1, 3), T[1]: (2, 3)}, {T[0]: (4, 3), T[2]: (4, 2)}
LAST = {T[0]: (4, 3), T[1]: (2, 3), T[2]: (4, 2)}
HOW = ExecutionOptions(1000, 0.0, False, None)
Replicas = tuple[int, ...]


def snapshot(
    replicas: Mapping[PartitionId, Replicas] = REPLICAS, alive: str = "1234", leader: int = 0
) -> Snapshot:
    brokers = tuple(Broker(int(broker), "h", 1, None) for broker in alive)
    return Snapshot(
        "c",
        brokers,
        tuple(Partition(p, ids, ids, leader or ids[0], 0) for p, ids in sorted(replicas.items())),
    )


def file(name: str, assignment: dict[PartitionId, Replicas]) -> ReassignmentFile:
    return ReassignmentFile(Path(name), assignment)


def moves(
    replicas: Mapping[PartitionId, Replicas], *targets: dict[PartitionId, Replicas]
) -> list[dict[PartitionId, tuple[Replicas, Replicas]]]:
    """Of each phase what it moves, from where and to where."""
    files = [file(f"{number}.json", target) for number, target in enumerate(targets, 1)]
    phases = phases_of(snapshot(replicas), files)
    return [{m.id: (m.before, m.after) for m in phase.plan.moves} for phase in phases]


class TestRules:
    @pytest.mark.parametrize(
        ("now", "first", "second", "expected"),
        [
            # The second begins where the first ends.
            (
                (1, 2),
                (1, 3),
                (4, 3),
                [{T[0]: ((1, 2), (1, 3))}, {T[0]: ((1, 3), (4, 3))}],
            ),
            # What is done is not done again: neither of a part, nor of all.
            ((1, 3), (1, 3), (4, 3), [{}, {T[0]: ((1, 3), (4, 3))}]),
            ((4, 3), (1, 3), (4, 3), [{}, {}]),
            # Away and back is nothing.
            ((1, 2), (1, 3), (1, 2), [{}, {}]),
        ],
    )
    def test_each_phase_is_planned_from_what_the_one_before_leaves(
        self,
        now: Replicas,
        first: Replicas,
        second: Replicas,
        expected: list[dict[PartitionId, tuple[Replicas, Replicas]]],
    ) -> None:
        assert moves({T[0]: now}, {T[0]: first}, {T[0]: second}) == expected

    def test_what_is_in_place_says_why_it_is_left_alone(self) -> None:
        (phase, _) = phases_of(snapshot(LAST), [file("1", FIRST), file("2", SECOND)])
        reasons = {skipped.reason for skipped in phase.plan.skipped}
        assert reasons == {IN_PLACE, "it is assigned so already"}

    def test_a_broker_that_is_down_may_stay_but_not_come_back(self) -> None:
        """The first phase takes the partition off broker 2, which is down."""
        away, back = {T[0]: (1, 3)}, {T[0]: (1, 2)}
        there = snapshot({T[0]: (1, 2)}, alive="134")
        phases_of(there, [file("1.json", {T[0]: (2, 1)}), file("2.json", back)])
        with pytest.raises(UsageError, match=r"2\.json: partitions\[0\]: .*broker 2 is not alive"):
            phases_of(there, [file("1.json", away), file("2.json", {T[0]: (4, 2)})])

    @pytest.mark.parametrize(("leader", "then"), [(1, 1), (2, 3), (-1, -1)])
    def test_who_leads_goes_on_where_it_stays(self, leader: int, then: int) -> None:
        (phase,) = phases_of(snapshot({T[0]: (1, 2)}, leader=leader), [file("1", {T[0]: (3, 1)})])
        (left,) = left_by(phase.snapshot, phase.plan).partitions
        assert (left.replicas, left.isr, left.leader) == ((3, 1), (3, 1), then)

    def test_the_room_that_a_phase_makes_is_the_next_ones(self) -> None:
        logs = LogSizes(dict.fromkeys(T, 10), {b: Disk(100, 15) for b in (1, 2, 3, 4)}, {})
        away, to = {T[0]: (1, 3), T[1]: (2, 3)}, {T[2]: (1, 3)}
        first, second = phases_of(snapshot(), [file("1", away), file("2", to)], logs)
        assert [broker.broker for broker in first.summary.filled] == [3]
        assert {b: disk.usable for b, disk in second.logs.disks.items()} == {
            1: 25,
            2: 25,
            3: 0,
            4: 15,
        }
        assert [broker.broker for broker in second.summary.filled] == [3]

    def test_together_they_are_one_way_from_the_first_to_the_last(self) -> None:
        files = [file("1", FIRST), file("2", SECOND)]
        plan = composed([phase.plan for phase in phases_of(snapshot(), files)])
        assert {m.id: (m.before, m.after) for m in plan.moves} == {
            p: (REPLICAS[p], LAST[p]) for p in T
        }
        assert plan.skipped == ()


def entry(phase: int = 0, state: EntryState = EntryState.SUBMITTED) -> Entry:
    """Of the change in two phases."""
    return Entry(
        Path("1.entry.json"),
        "1",
        "c",
        dict(REPLICAS),
        dict(LAST),
        state,
        how=HOW,
        phases=(FIRST, SECOND),
        phase=phase,
    )


def busy(partition: PartitionId, before: Replicas, after: Replicas) -> Reassignment:
    return Reassignment(
        partition,
        tuple(dict.fromkeys((*after, *before))),
        tuple(b for b in after if b not in before),
        tuple(b for b in before if b not in after),
    )


BETWEEN = REPLICAS | FIRST


class TestEntry:
    def test_a_phase_is_a_change_from_what_the_phases_before_it_leave(self) -> None:
        assert at_phase(entry(), 1).before == {T[0]: (1, 3), T[2]: (1, 2)}
        assert present_phase(entry(1)).after == SECOND
        assert (left_in(entry(), T[0]), left_in(entry(1), T[0])) == (((1, 3),), ((1, 3), (4, 3)))

    @pytest.mark.parametrize(
        ("phase", "now", "under_way", "submitted", "later"),
        [
            (0, REPLICAS, (), [T[0], T[1]], [[T[0], T[2]]]),
            (0, REPLICAS, (T[0],), [T[1]], [[T[0], T[2]]]),
            # All of the first has arrived, and it was cut off before the second was begun.
            (0, BETWEEN, (), [], [[T[0], T[2]]]),
            (1, BETWEEN, (), [T[0], T[2]], []),
            (1, LAST | {T[0]: (1, 3)}, (), [T[0]], []),
            # Somebody else has moved what is to move in the second, too.
            (0, REPLICAS | {T[0]: (2, 4)}, (), [T[1]], [[T[2]]]),
            (1, BETWEEN | {T[2]: (2, 3)}, (), [T[0]], []),
        ],
    )
    def test_what_is_left_is_of_the_phase_that_it_has_come_to_and_of_those_that_follow(
        self,
        phase: int,
        now: Mapping[PartitionId, Replicas],
        under_way: tuple[PartitionId, ...],
        submitted: list[PartitionId],
        later: list[list[PartitionId]],
    ) -> None:
        listed = [busy(p, now[p], (FIRST, SECOND)[phase][p]) for p in under_way]
        left = remaining_work(entry(phase), snapshot(now), listed)
        assert [move.id for move in left.plan.moves] == submitted
        assert tuple(left.under_way.target) == under_way
        assert [[move.id for move in plan.moves] for plan in left.later] == later
        assert left.is_whole

    @pytest.mark.parametrize("phase", [0, 1])
    def test_no_phase_follows_one_of_which_something_has_to_wait(self, phase: int) -> None:
        left = remaining_work(entry(phase), snapshot(BETWEEN if phase else REPLICAS, "12"))
        assert (left.later, left.is_whole) == ((), False)

    @pytest.mark.parametrize(
        ("phase", "now", "back"),
        [
            (0, FIRST[T[0]], True),
            (1, FIRST[T[0]], True),
            (1, SECOND[T[0]], True),
            (0, SECOND[T[0]], False),  # not begun: somebody else has brought it there
            (1, (2, 4), False),
        ],
    )
    def test_the_way_back_is_straight_from_wherever_a_phase_has_left_it(
        self, phase: int, now: Replicas, back: bool
    ) -> None:
        way = plan_rollback(entry(phase), snapshot(REPLICAS | {T[0]: now}), {})
        expected = [(T[0], now, REPLICAS[T[0]])] if back else []
        assert [(move.id, move.before, move.after) for move in way.moves] == expected

    def test_it_is_in_the_journal(self, fake: Reassigning) -> None:
        saved = fake.kept.save(REPLICAS, LAST, how=HOW, phases=(FIRST, SECOND)).begin_phase(1)
        assert read_entry(saved.path) == replace(entry(1, EntryState.PREPARED), **_own(saved))


def _own(saved: Entry) -> dict[str, object]:
    names = ("path", "id", "cluster_id", "origin", "changed_at")
    return {name: getattr(saved, name) for name in names}


@pytest.fixture
def plans(fake: Reassigning) -> str:
    return " ".join(plan(fake, name, to) for name, to in (("a", FIRST), ("b", SECOND)))


def plan(fake: Reassigning, name: str, target: Mapping[PartitionId, Replicas]) -> str:
    path = fake.state / f"{name}.json"
    path.write_text(json.dumps(reassignment_document(target)))
    return f"--plan {path}"


class TestOnACluster:
    def test_they_are_carried_out_one_after_another_and_undone_as_one(
        self, fake: Reassigning, plans: str
    ) -> None:
        ran = fake.kipctl(f"reassign {plans} --yes --batch 1 --between 0s")
        assert [set(request) for request in fake.altered] == [{T[0]}, {T[1]}, {T[0]}, {T[2]}]
        assert [replicas for asked in fake.altered for replicas in asked.values()] == [
            (1, 3),
            (2, 3),
            (4, 3),
            (4, 2),
        ]
        assert "3 partitions are reassigned." in ran.out
        (done,) = fake.entries()
        assert (done.state, done.before, done.after) == ("done", REPLICAS, LAST)
        assert (done.phases, done.phase) == ((FIRST, SECOND), 1)
        ran = fake.kipctl("reassign", plans.replace("--plan", "--verify"))
        assert "All 3 partitions are as" in ran.out
        fake.altered.clear()
        ran = fake.kipctl("undo --yes")
        assert "Straight back, not phase by phase" in ran.err
        assert fake.altered == [REPLICAS]
        assert fake.replicas() == REPLICAS
        assert fake.states() == ["done", "undone"]

    def test_a_dry_run_shows_each_phase_with_its_size(self, fake: Reassigning, plans: str) -> None:
        fake.bytes_each = 2_000_000_000
        ran = fake.kipctl(f"reassign {plans} --dry-run --throttle 100MB/s")
        assert "It is done in 2 phases, each when the one before has arrived." in ran.out
        ran = fake.kipctl(f"reassign {plans} --dry-run --throttle 100MB/s -o json")
        first, second = ran.document["phases"]
        assert [len(phase["partitions"]) for phase in (first, second)] == [2, 2]
        assert first["plan"].endswith("a.json")
        assert (first["copied"]["bytes"], second["copied"]["bytes"]) == (4e9, 4e9)
        assert first["copied"]["seconds"] == 40.0
        assert len(ran.document["partitions"]) == 3
        assert (fake.altered, fake.entries()) == ([], [])

    def test_each_is_shown_before_it_is_asked(self, fake: Reassigning, plans: str) -> None:
        ran = fake.kipctl("reassign", plans, typed="no\n", status=4)
        assert "Phase 1 of 2, " in ran.err
        assert "Phase 2 of 2, " in ran.err
        assert "Reassign 3 partitions in 2 phases?" in ran.err
        assert fake.altered == []

    @pytest.mark.parametrize(
        ("second", "options", "status", "said"),
        [
            ({T[0]: (1, 9)}, "", 2, "b.json: partitions[0]: t-0: broker 9 is not alive"),
            ({PartitionId("x", 0): (1, 2)}, "", 2, "b.json: partitions[0]: there is no topic 'x'"),
            ({T[0]: (4, 3, 1)}, "", 4, "Phase 2 of 2: The plan changes the replication factor"),
            (
                {T[0]: (4,)},
                "--change-replication-factor",
                4,
                "Phase 2 of 2: t-0 would have 1 replica, and min.insync.replicas",
            ),
        ],
    )
    def test_what_is_wrong_with_the_second_is_said_before_the_first_begins(
        self,
        fake: Reassigning,
        second: dict[PartitionId, Replicas],
        options: str,
        status: int,
        said: str,
    ) -> None:
        fake.min_insync = {"t": "2"}
        words = f"reassign {plan(fake, 'a', FIRST)} {plan(fake, 'b', second)} --yes {options}"
        assert said in fake.kipctl(words, status=status).err
        assert (fake.altered, fake.entries()) == ([], [])

    def test_a_file_that_is_not_there_is_said_first(self, fake: Reassigning, plans: str) -> None:
        ran = fake.kipctl(f"reassign --plan /nowhere.json {plans} --yes", status=2)
        assert "/nowhere.json cannot be read" in ran.err

    def test_the_disk_that_the_second_would_fill_is_named(
        self, fake: Reassigning, plans: str
    ) -> None:
        fake.bytes_each, fake.usable_bytes = 1000, 2500
        words = f"{plans} {plan(fake, 'c', {T[2]: (4, 3)})}"
        ran = fake.kipctl(f"reassign {words} --yes", status=4)
        assert "Phase 3 of 3: Broker 3 has too little room" in ran.err
        assert fake.altered == []

    def test_the_throttle_is_that_of_all_phases_and_is_off_afterwards(
        self, fake: Reassigning, plans: str
    ) -> None:
        fake.moves_at_once, fake.looks = False, 2
        seen: list[set[str]] = []
        fake.changes = [lambda: seen.append({name for _, name in fake.configs})] * 2
        fake.kipctl(f"reassign {plans} --yes --throttle 50MB/s --between 0s")
        assert seen == [{"t", "1", "2", "3", "4"}] * 2
        assert not any(fake.configs.values())
        assert fake.replicas() == LAST

    def test_after_a_phase_that_is_not_all_done_none_begins(
        self, fake: Reassigning, plans: str
    ) -> None:
        fake.refused = {T[1]}
        ran = fake.kipctl(f"reassign {plans} --yes", status=5)
        assert "1 partition is done, 1 is not: t-1" in ran.err
        assert "Phase 2 of 2 was not begun." in ran.err
        assert len(fake.altered) == 1
        (open_one,) = fake.entries()
        assert "Go on: kipctl changes resume" in ran.err
        shown = fake.kipctl("changes list").out
        assert "phase 1 of 2" in shown
        fake.refused = set()
        fake.kipctl(f"changes resume {open_one.id} --yes")
        assert fake.replicas() == LAST
        assert fake.states() == ["done"]

    def test_killed_in_the_second_it_goes_on_there(
        self, fake: Reassigning, plans: str, clock: PassingClock
    ) -> None:
        fake.moves_at_once, fake.arriving = False, set(FIRST)
        fake.changes = [lambda: None, fake.arriving.clear]
        ran = fake.kipctl(f"reassign {plans} --yes --between 0s --timeout 2s", status=6)
        assert "Phase 2 of 2: " in ran.err
        ran = fake.kipctl("changes show")
        assert "It has come to phase 2 of 2." in ran.out
        assert "under way" in ran.out
        ran = fake.kipctl("changes list")
        assert "phase 2 of 2" in ran.out
        fake.looks, before = 1, len(fake.altered)
        ran = fake.kipctl("changes resume --yes")
        assert "It goes on in phase 2 of 2." in ran.err
        assert len(fake.altered) == before
        assert (fake.replicas(), fake.states()) == (LAST, ["done"])

    @pytest.mark.parametrize("way", ["undo --yes", "changes cancel --yes"])
    def test_what_is_under_way_of_the_second_is_cancelled(
        self, fake: Reassigning, plans: str, way: str
    ) -> None:
        fake.moves_at_once, fake.arriving = False, set(FIRST)
        fake.changes = [lambda: None, fake.arriving.clear]
        fake.kipctl(f"reassign {plans} --yes --between 0s --timeout 2s", status=6)
        fake.moves_at_once = True
        fake.kipctl(way)
        assert fake.replicas() == (REPLICAS if way.startswith("undo") else BETWEEN)
        assert not any(held.target for held in fake.partitions.values())
        if way.startswith("undo"):
            assert fake.states()[-1] == "undone"

    def test_paused_between_two_phases_the_next_begins_with_resume(
        self, fake: Reassigning, plans: str
    ) -> None:
        fake.changes = [lambda: (fake.kept.folder / "pause").touch()]
        ran = fake.kipctl(f"reassign {plans} --yes", status=5)
        assert "Paused: 1 of 2 phases is done." in ran.err
        assert fake.replicas() == BETWEEN
        ran = fake.kipctl("changes resume --yes")
        assert (fake.replicas(), fake.states()) == (LAST, ["done"])

    def test_given_again_when_all_is_done_nothing_is_done(
        self, fake: Reassigning, plans: str
    ) -> None:
        fake.kipctl(f"reassign {plans} --yes --between 0s")
        fake.altered.clear()
        ran = fake.kipctl(f"reassign {plans} --yes")
        assert "Nothing is to be reassigned; 3 are left alone." in ran.out
        assert fake.altered == []
