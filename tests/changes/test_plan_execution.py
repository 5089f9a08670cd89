"""Changes, decided by table: what is not as planned any more, and what is told of as done."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from many_brokers import ManyBrokers, many_brokers
from passing_clock import PassingClock
from reassigning import Held, Reassigning
from scripted_broker import Asked

from kipctl.changes.elections.batches import ElectionOutcome
from kipctl.changes.elections.request import ElectionResult
from kipctl.changes.execution import batch_execution
from kipctl.changes.execution.journaled_action import journaled_action
from kipctl.changes.execution.plan_result import (
    PlanResult,
    merged_elections,
    progress_of,
    require_all_done,
)
from kipctl.changes.execution.reassign import await_finished
from kipctl.changes.execution.safety_checks import changed_since, unplanned
from kipctl.changes.plans.plan import Move, Plan, SkippedPartition
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot, take_snapshot
from kipctl.counts import counted
from kipctl.errors import KipctlError, PartlyDoneError, RefusedError, TimedOutError
from kipctl.protocol.describe_log_dirs import DescribeLogDirsResponse
from kipctl.protocol.elect_leaders import ElectLeadersRequest
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import Response
from kipctl.protocol.reassignments import ListPartitionReassignmentsRequest
from kipctl.transport.request import Cluster

T0 = PartitionId("t", 0)
REPLICAS = {PartitionId("t", number): (1, 2) for number in range(3)}


def test_a_rotation_whose_election_is_refused_is_partly_done(fake: Reassigning) -> None:
    """Kafka 3.0 reassigns in KRaft, and elects nobody when asked."""
    fake.stumbles[ElectLeadersRequest] = [ErrorCode.UNSUPPORTED_VERSION]
    ran = fake.kipctl("reassign --rotate --topic t --yes", status=5)
    assert "The replicas are in their new order, and led as before: " in ran.err
    assert "The cluster refused the election: UNSUPPORTED_VERSION" in ran.err
    assert "kipctl undo" in ran.err.splitlines()[-1]


def moved(accepted: int, refused: int, elected: int, unelected: int) -> PlanResult:
    """Of `accepted` partitions so many were elected and so many not."""
    ids = [PartitionId("t", n) for n in range(accepted + refused)]
    moves = tuple(Move(p, (1, 2), (2, 1), 1) for p in ids[:accepted])
    failed = tuple(SkippedPartition(p, "refused") for p in ids[accepted:])
    codes = [0] * elected + [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE] * unelected
    outcomes = tuple(ElectionResult(p, code) for p, code in zip(ids, codes, strict=False))
    return PlanResult(
        plan=Plan(moves), refused=failed, election=ElectionOutcome(outcomes, 4, 5, {}, ())
    )


@pytest.mark.parametrize(
    ("result", "done", "failed", "error"),
    [
        (moved(6, 0, 6, 0), 6, 0, None),
        (moved(6, 4, 6, 0), 6, 4, PartlyDoneError),
        (moved(5, 5, 5, 0), 5, 5, PartlyDoneError),
        (moved(3, 5, 3, 0), 3, 5, PartlyDoneError),
        (moved(5, 5, 3, 2), 3, 7, PartlyDoneError),
        # In their new order, and led as before: that is something.
        (moved(4, 0, 0, 4), 0, 4, PartlyDoneError),
        (moved(0, 4, 0, 0), 0, 4, RefusedError),
    ],
)
def test_done_and_failed_are_counted_as_they_are(
    result: PlanResult, done: int, failed: int, error: type[KipctlError] | None
) -> None:
    assert (result.done, len(result.failures)) == (done, failed)
    with nullcontext() if error is None else pytest.raises(error):
        require_all_done(result.failures, result.done, "", has_changed=result.has_changed)


@pytest.mark.parametrize(
    ("now", "elects", "reason"),
    [
        (((1, 2), (1, 2)), True, None),
        (((1, 2), (1,)), True, "broker 2 is not in sync any more"),
        (((1, 2), (1,)), False, None),
        (((2, 1), (1, 2)), True, "its replicas have changed from [1, 2] to [2, 1] meanwhile"),
        (((4, 2), (4, 2)), False, "its replicas have changed from [1, 2] to [4, 2] meanwhile"),
        (None, True, "it does not exist any more"),
    ],
)
def test_what_is_not_as_it_was_planned_from(
    now: tuple[tuple[int, ...], tuple[int, ...]] | None, elects: bool, reason: str | None
) -> None:
    partitions = (Partition(T0, now[0], now[1], now[0][0], 0),) if now else ()
    snapshot = Snapshot("c", (Broker(1, "h", 1, None),), partitions)
    plan = Plan((Move(T0, (1, 2), (2, 1), 1),))
    assert changed_since(plan, snapshot, elects=elects) == ({T0: reason} if reason else {})


@pytest.mark.parametrize(
    ("after", "adding", "removing", "is_unplanned"),
    [
        ((2, 1), (), (), False),
        ((2, 1), (1,), (4,), True),
        ((2, 1), (), (3,), True),  # somebody has raised the replication factor
        ((3, 2), (3,), (1,), False),
        ((3, 2), (3, 2), (1, 4), True),
        ((3, 2), (3,), (1, 4), True),
    ],
)
def test_what_adds_or_removes_other_replicas_than_planned(
    after: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...], is_unplanned: bool
) -> None:
    plan = Plan((Move(T0, (1, 2), after, 1),))
    busy = Reassignment(T0, (*after, *removing), adding, removing)
    other = Reassignment(PartitionId("other", 0), (1, 2), (1,), ())
    assert unplanned(plan, [busy, other]) == ({T0: busy} if is_unplanned else {})


def test_the_elections_of_several_batches_are_told_as_the_slowest() -> None:
    first = ElectionOutcome((ElectionResult(T0, 0),), 10, 11, {1: 15, 2: 12}, (3,))
    second = ElectionOutcome((ElectionResult(PartitionId("t", 1), 0),), 20, 21, {1: 22}, (4,))
    for held in ([first, second], [second, first]):
        outcome = merged_elections(held)
        assert (outcome.called_us, outcome.converged_us, outcome.silent) == (10, 15, (3, 4))
        assert len(outcome.outcomes) == 2


@pytest.mark.parametrize(
    ("held", "copies", "after"),
    [
        (Held((1, 2), 1), True, (1, 2)),
        (Held((2, 1), 1), False, (2, 1)),
        (Held((2, 1), 1), True, (2, 1)),
        (Held((1, 2), 1, target=(3, 2)), True, (3, 2)),
        (Held((3, 2), 3), True, (3, 2)),
        # What is done only reorders: somebody else has moved it.
        (Held((1, 2), 1, target=(3, 2)), False, (1, 2)),
        (Held((3, 2), 3), False, (1, 2)),
    ],
)
def test_what_is_done_meanwhile_can_be_undone_and_nothing_if_nothing_was(
    fake: Reassigning, held: Held, copies: bool, after: tuple[int, ...]
) -> None:
    said: list[str] = []
    fake.partitions = {T0: Held((1, 2), 1)}
    with Cluster(fake.bootstrap_server) as cluster:
        before = take_snapshot(cluster)
        command = ("perf", "produce", "--during", "rotate", "--topic", "t")
        with journaled_action(
            cluster, fake.kept, before, said.append, copies=copies, command=command
        ):
            fake.partitions[T0] = held
    (entry,) = fake.entries()
    assert str(entry.origin).startswith("kipctl perf produce --during rotate --topic t, by ")
    assert entry.after == {T0: after}
    assert entry.may_be_undone is (after != (1, 2))
    undo = f"kipctl undo {entry.id}"
    assert said[0] == f"Its assignment is saved; afterwards: {undo}"
    left = [f"The assignment of t was left changed. Undo: {undo}"]
    assert said[1:] == (left if after != (1, 2) else [])


def test_what_others_move_meanwhile_is_not_moved_back(fake: Reassigning) -> None:
    moved, turned = T0, PartitionId(T0.topic, 1)
    fake.partitions = {moved: Held((1, 2, 3), 1), turned: Held((1, 2, 3), 1)}
    with Cluster(fake.bootstrap_server) as cluster:
        before = take_snapshot(cluster)
        with journaled_action(cluster, fake.kept, before, lambda _: None, copies=False):
            fake.partitions = {moved: Held((4, 2, 3), 4), turned: Held((2, 3, 1), 2)}
    ran = fake.kipctl("undo --yes")
    assert fake.replicas() == {moved: (4, 2, 3), turned: (1, 2, 3)}
    assert "the change only reordered it, and the way back would copy data" in ran.err


@pytest.mark.parametrize(
    ("move", "now", "isr", "leader", "placed", "waiting", "led"),
    [
        (Move(T0, (1, 2), (2, 1), 1), (2, 1), (1, 2), 2, 1, 0, 1),
        (Move(T0, (1, 2), (2, 1), 1), (2, 1), (1, 2), 1, 1, 0, 0),
        (Move(T0, (1, 2), (2, 1), 1), (1, 2), (1, 2), 1, 0, 1, 0),
        (Move(T0, (1, 2), (3, 2), 1), (3, 1, 2), (1, 2), 1, 0, 0, 0),
        (Move(T0, (1, 2), (1, 2, 3), 1), (1, 2, 3), (1, 2), 1, 0, 0, None),
        (Move(T0, (1, 2), (1, 2, 3), 1), (1, 2, 3), (1, 2, 3), 1, 1, 0, None),
        (Move(T0, (1, 2), (1, 2, 3), 1), (1, 2, 3), (1, 3), 1, 1, 0, None),
    ],
    ids=[
        "done",
        "not elected",
        "waiting",
        "under way",
        "one more, listed and not yet copied",
        "one more",
        "one more, and another out of sync",
    ],
)
def test_how_far_a_plan_has_come(
    move: Move,
    now: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    placed: int,
    waiting: int,
    led: int | None,
) -> None:
    """`led` is None where nobody else is to lead: then nothing is said of leaders."""
    gone = Move(PartitionId("gone", 0), (1,), (2,), 2 if led is None else 1)
    cluster = Snapshot("c", (), (Partition(T0, now, isr, leader, 1),))
    under_way = 1 - placed - waiting
    leaders = (
        "" if led is None else f"; {counted(led, '', 'are')} led by their new preferred leader"
    )
    assert progress_of(Plan((move, gone)), cluster) == (
        f"Of 1 partition {counted(placed, '', 'have')} their new replicas,"
        f" {counted(waiting, '', 'have')} their old ones and {counted(under_way, '', 'are')} under"
        f" way{leaders}." + (" What is under way goes on by itself." if under_way else "")
    )


@pytest.mark.parametrize("led", [0, 1])
def test_how_far_elections_have_come(led: int) -> None:
    partition = Partition(T0, (1, 2), (1, 2), 2 - led, 1)
    plan = Plan((Move(T0, (1, 2), (1, 2), 2),))
    said = f"{counted(led, 'partition', 'are', total=1)} led by the preferred replica."
    assert progress_of(plan, Snapshot("c", (), (partition,))) == said


def test_a_time_that_is_given_is_that_of_all_batches_together(
    fake: Reassigning, clock: PassingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadlines: list[float] = []

    def noted(*arguments: Any) -> Snapshot:
        deadlines.append(arguments[2]())
        return await_finished(*arguments)

    monkeypatch.setattr(batch_execution, "await_finished", noted)
    batches = "reassign --rotate --topic t --yes --batch 1 --between 1s"
    fake.kipctl(batches, "--timeout 60")
    assert len(deadlines) == 3
    assert len(set(deadlines)) == 1
    deadlines.clear()
    fake.kipctl(batches)
    assert deadlines == sorted(set(deadlines))
    assert len(deadlines) == 3


def test_what_has_ended_and_is_not_shown_in_time_is_not_said_to_go_on(fake: Reassigning) -> None:
    with Cluster(fake.bootstrap_server) as cluster, pytest.raises(TimedOutError) as error:
        await_finished(cluster, {T0: (1, 3)}, lambda: 0.0, lambda _: None)
    assert error.value.what == (
        "1 partition is no longer being reassigned, and Metadata shows 1 of them otherwise than"
        " planned: t-0 is on [1, 2] instead of [1, 3]."
    )


def test_a_batch_that_could_begin_only_after_the_time_allowed_is_not_waited_for(
    fake: Reassigning,
) -> None:
    rotate = "reassign --rotate --topic t --yes --batch 2 --between 10h --timeout 3600"
    ran = fake.kipctl(rotate, status=6)
    assert "1 of 2 batches is done; the 3600 s allowed for the whole end before" in ran.err
    assert "kipctl undo" in ran.err
    assert len(fake.altered) == 1


class OneByOne(ManyBrokers):
    """What is moved arrives one at a time, each time that what is being reassigned is listed."""

    most_at_once = 0

    def answer(self, asked: Asked) -> Response | bytes | None:
        answer = super().answer(asked)
        self.most_at_once = max(self.most_at_once, len(self._since))
        if isinstance(asked.request, ListPartitionReassignmentsRequest) and self._since:
            self._since[min(self._since)] = float("-inf")
        return answer


def arriving_one_by_one(partitions: int) -> OneByOne:
    ids = [PartitionId("t", number) for number in range(partitions)]
    held, sizes = {partition: Held((1, 2), 1) for partition in ids}, dict.fromkeys(ids, 1000)
    return OneByOne(held, sizes=sizes, copy_s=float("inf"))


@pytest.mark.parametrize("most", [1, 3, 100])
@pytest.mark.usefixtures("clock")
def test_at_most_so_many_replicas_are_added_at_a_time(most: int) -> None:
    cluster = arriving_one_by_one(10)
    drain = "reassign --drain 2 --yes --batch 6 --between 0s --concurrent-moves"
    with many_brokers(cluster):
        cluster.kipctl(drain, str(most))
    assert not any(2 in held.replicas for held in cluster.partitions.values())
    assert cluster.most_at_once == min(most, 6)
    assert sum(map(len, cluster.altered)) == 10
    assert [len(elected) for elected in cluster.elected] == [6, 4]


@pytest.mark.usefixtures("clock")
def test_what_others_changed_before_its_turn_is_left_alone() -> None:
    cluster = arriving_one_by_one(3)
    last = cluster.partitions[PartitionId("t", 2)]

    def by_somebody_else() -> None:
        last.replicas = (1, 3)
        cluster._changed(PartitionId("t", 2))

    cluster.changes = [by_somebody_else]
    with many_brokers(cluster):
        ran = cluster.kipctl("reassign --drain 2 --yes --concurrent-moves 1", status=5)
    assert "its replicas have changed from [1, 2] to [1, 3] meanwhile" in ran.err
    assert last.replicas == (1, 3)
    assert sum(map(len, cluster.altered)) == 2


class TestWhatTakesLong:
    """Without a time for it, data is waited for while it comes, beyond the 300 s of a batch."""

    DRAIN = "reassign --drain 2 --yes --batch 2 --between 0s"

    @pytest.fixture
    def cluster(self, clock: PassingClock) -> Iterator[ManyBrokers]:
        """Its four partitions are copied in 400 s."""
        ids = [PartitionId("t", number) for number in range(4)]
        cluster = ManyBrokers(
            {partition: Held((1, 2), 1) for partition in ids},
            sizes=dict.fromkeys(ids, 10**12),
            usable_bytes=10**15,
            copy_s=400.0,
            clock=clock.monotonic,
        )
        with many_brokers(cluster):
            yield cluster

    @pytest.mark.parametrize("more", ["", "--concurrent-moves 1", "--throttle 50MB/s"])
    def test_what_takes_longer_than_a_batch_has_is_waited_for(
        self, cluster: ManyBrokers, more: str
    ) -> None:
        cluster.kipctl(self.DRAIN, more)
        assert not any(2 in held.replicas for held in cluster.partitions.values())
        assert [len(elected) for elected in cluster.elected] == [2, 2]
        assert not any(cluster.configs.values())

    def test_what_stands_still_is_given_up(self, cluster: ManyBrokers, clock: PassingClock) -> None:
        began_s, cluster.copy_s = clock.now_s, float("inf")
        ran = cluster.kipctl(self.DRAIN, status=6)
        assert "2 of 2 partitions are still being reassigned" in ran.err
        assert "For 300 s none has arrived, and no bytes were seen to come." in ran.err
        assert 300 < clock.now_s - began_s < 400
        assert len(cluster.altered) == 1
        assert "Brokers do not tell" not in ran.err

    def test_when_the_time_is_over_what_is_not_submitted_stays(self, cluster: ManyBrokers) -> None:
        ran = cluster.kipctl(self.DRAIN, "--concurrent-moves 1 --timeout 300", status=6)
        assert "1 of 1 partition is still being reassigned" in ran.err
        assert sum(map(len, cluster.altered)) == 1

    def test_what_was_cut_off_is_waited_for_in_the_same_way(self, cluster: ManyBrokers) -> None:
        cluster.kipctl(self.DRAIN, "--timeout 50", status=6)  # 350 s are left
        ran = cluster.kipctl("changes resume --yes")
        assert "Still being reassigned, and waited for: 2 partitions." in ran.err
        assert not any(2 in held.replicas for held in cluster.partitions.values())

    def test_where_sizes_are_not_told_it_says_by_what_it_is_given_up(
        self, cluster: ManyBrokers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cluster, "_dirs_of", lambda *_: DescribeLogDirsResponse())
        ran = cluster.kipctl(self.DRAIN, status=6)
        assert "it is given up when no partition arrives for 300 s" in ran.err

    @pytest.mark.parametrize(("timeout", "is_short"), [("3600", True), ("100000", False)])
    def test_a_time_that_is_too_short_for_the_throttle_is_said_before_the_question(
        self, cluster: ManyBrokers, timeout: str, is_short: bool
    ) -> None:
        """4 TB from one broker at 100 MB/s: eleven hours."""
        words = f"reassign --drain 2 --throttle 100MB/s --timeout {timeout}"
        ran = cluster.kipctl(words, status=2)
        assert ("--timeout ends it after 1 h 0 min, which is too short" in ran.err) is is_short
        assert "--drain 2: change 4 partitions?" in ran.err.split("which is too short")[-1]
