"""`kipctl reassign` on a cluster that stumbles: what it does, says, and writes down."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from on_lab import Kipctl, Ran
from reassigning import Held, Reassigning, kipctl_on, reassigning
from scripted_broker import HANG_UP, ScriptedBroker

from kipctl.cli.environment import Environment
from kipctl.cluster.moves import cancel
from kipctl.cluster.moves.journal import journal
from kipctl.cluster.moves.journal_entry import Entry, EntryState, Origin
from kipctl.cluster.moves.kafka_json import reassignment_document
from kipctl.cluster.moves.safety_checks import changed_since
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import UsageError
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.metadata import MetadataRequest
from kipctl.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)

ALTER, LIST = AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest
T = [PartitionId("t", n) for n in range(10)]
OTHER = PartitionId("other", 0)
ROTATE = ("reassign", "--rotate", "--topic", "t", "--yes")
BROKERS = "Broker Leaders After Replicas After"
ROLLBACK = ("reassign", "--rollback", "--yes")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def on_fake() -> Iterator[tuple[Reassigning, ScriptedBroker]]:
    with reassigning(dict.fromkeys(T, (1, 2, 3))) as both:
        yield both


@pytest.fixture
def fake(on_fake: tuple[Reassigning, ScriptedBroker]) -> Reassigning:
    return on_fake[0]


@pytest.fixture
def kipctl(on_fake: tuple[Reassigning, ScriptedBroker], state: Path) -> Kipctl:
    return kipctl_on(on_fake[1], state)


def entries(state: Path) -> list[Entry]:
    return list(journal("fake", {"XDG_STATE_HOME": str(state)}).entries())


def states(state: Path) -> list[str]:
    return [str(entry.state) for entry in entries(state)]


def plan_file(folder: Path, target: dict[PartitionId, tuple[int, ...]]) -> str:
    path = folder / "plan.json"
    path.write_text(json.dumps(reassignment_document(target)))
    return str(path)


def test_a_rotation_is_written_down_with_all_that_undoing_it_takes(
    fake: Reassigning, kipctl: Kipctl, state: Path
) -> None:
    ran = kipctl(*ROTATE, "-o", "json")
    assert ran.status == 0, ran.err
    assert set(fake.replicas().values()) == {(2, 3, 1)}
    assert set(fake.leaders().values()) == {2}
    (entry,) = entries(state)
    assert entry.state is EntryState.DONE
    assert entry.cluster_id == "fake"
    assert entry.origin.command == (*ROTATE, "-o", "json")
    assert entry.origin.user
    assert entry.origin.host
    assert (entry.before[T[0]], entry.after[T[0]]) == ((1, 2, 3), (2, 3, 1))
    assert entry.topic_ids.keys() == {"t"}
    assert [state for state, _ in entry.changed_at] == ["prepared", "submitted", "done"]
    assert json.loads(ran.out)["saved"] == str(entry.saved)


def test_a_rollback_brings_all_back_and_the_next_one_finds_nothing(
    fake: Reassigning, kipctl: Kipctl, state: Path
) -> None:
    assert kipctl(*ROTATE).status == 0
    ran = kipctl(*ROLLBACK)
    assert ran.status == 0, ran.err
    assert set(fake.replicas().values()) == {(1, 2, 3)}
    assert set(fake.leaders().values()) == {1}
    rollback, first = entries(state)
    assert (first.state, rollback.state) == (EntryState.UNDONE, EntryState.DONE)
    assert rollback.undoes == first.id
    assert "--entry" in ran.out  # the rollback itself can be undone, by its id
    ran = kipctl(*ROLLBACK)
    assert ran.status == 4
    assert "nothing to roll back" in ran.err
    assert kipctl(*ROLLBACK, "--entry", rollback.id).status == 0
    assert set(fake.leaders().values()) == {2}


@pytest.mark.parametrize(
    ("refused", "done", "failed", "status"),
    [(0, 10, 0, 0), (4, 6, 4, 5), (5, 5, 5, 5), (7, 3, 7, 5), (10, 0, 10, 4)],
)
def test_what_is_counted_as_done_is_done(
    fake: Reassigning, kipctl: Kipctl, refused: int, done: int, failed: int, status: int
) -> None:
    fake.refused = set(T[:refused])
    ran = kipctl(*ROTATE, "-o", "json")
    assert ran.status == status
    if status == 5:
        assert f"{done} partitions are done, {failed} are not" in ran.err
    if status == 4:
        assert "No partition was accepted" in ran.err
    else:
        assert json.loads(ran.out)["counts"] == {"done": done, "failed": failed}


def test_replicas_in_order_without_a_single_leader_elected_are_not_nothing(
    fake: Reassigning, kipctl: Kipctl
) -> None:
    fake.unelected = set(T)
    ran = kipctl(*ROTATE)
    assert ran.status == 5
    assert "0 partitions are done, 10 are not" in ran.err


def test_a_refused_partition_does_not_hold_up_a_rollback(
    fake: Reassigning, kipctl: Kipctl, state: Path
) -> None:
    assert kipctl(*ROTATE).status == 0
    fake.refused = {T[0]}
    ran = kipctl(*ROLLBACK, "--timeout", "30")
    assert ran.status == 5
    assert "9 partitions are done, 1 is not: t-0: INVALID_REPLICA_ASSIGNMENT" in ran.err
    assert fake.leaders()[T[1]] == 1
    assert f"kipctl reassign --rollback --entry {entries(state)[-1].id}" in ran.err
    fake.refused = set()
    assert kipctl(*ROLLBACK).status == 0  # goes on with what is left
    assert set(fake.leaders().values()) == {1}
    assert states(state)[-1] == "undone"


def test_what_others_changed_since_is_left_alone_by_a_rollback(
    fake: Reassigning, kipctl: Kipctl, state: Path
) -> None:
    assert kipctl(*ROTATE).status == 0
    fake.partitions[T[0]].replicas = (4, 2, 3)
    fake.partitions[T[1]].replicas = (3, 2, 1)
    del fake.partitions[T[2]]
    ran = kipctl(*ROLLBACK, "-o", "json")
    assert ran.status == 0, ran.err
    assert fake.replicas()[T[0]] == (4, 2, 3)
    assert fake.replicas()[T[1]] == (3, 2, 1)
    assert fake.replicas()[T[3]] == (1, 2, 3)
    reasons = {s["partition"]: s["reason"] for s in json.loads(ran.out)["skipped"]}
    assert reasons == {
        0: "the change only reordered it, and the way back would copy data",
        1: "somebody has changed it since",
        2: "it does not exist any more",
    }
    assert "such as t-1: somebody has changed it since" in ran.err
    # It stays open, so that to insist is about these and not about the change before.
    rollback, first = entries(state)
    assert f"kipctl reassign --rollback --entry {first.id}" in ran.err
    assert (first.state, rollback.undoes) == (EntryState.DONE, first.id)
    assert kipctl(*ROLLBACK).status == 4
    assert fake.replicas()[T[1]] == (3, 2, 1)
    assert kipctl(*ROLLBACK, "--force").status == 0
    assert set(fake.replicas().values()) == {(1, 2, 3)}
    assert states(state)[-1] == "undone"


def test_force_after_a_rollback_is_not_about_the_change_before_it(
    fake: Reassigning, kipctl: Kipctl, state: Path
) -> None:
    assert kipctl("reassign", "--drain", "3", "--yes").status == 0
    drained = fake.replicas()
    assert kipctl(*ROTATE).status == 0
    fake.partitions[T[0]].replicas = tuple(reversed(fake.partitions[T[0]].replicas))
    assert kipctl(*ROLLBACK).status == 0
    assert kipctl(*ROLLBACK, "--force").status == 0
    assert fake.replicas() == drained
    assert states(state)[-1] == "done"  # the drain


def test_an_entry_that_is_undone_is_gone_back_to_by_its_id_and_force_only(
    fake: Reassigning, kipctl: Kipctl, state: Path
) -> None:
    assert kipctl(*ROTATE).status == 0
    (entry,) = entries(state)
    entry.mark(EntryState.UNDONE)
    assert kipctl(*ROLLBACK, "--entry", entry.id).status == 4
    assert set(fake.leaders().values()) == {2}
    assert kipctl(*ROLLBACK, "--entry", entry.id, "--force").status == 0
    assert set(fake.leaders().values()) == {1}


class TestWhichChangeIsUndone:
    """`--rollback` with `--yes`, and no id: the change meant, or none."""

    def test_nothing_to_do_leaves_the_change_before_as_it_is(
        self, fake: Reassigning, kipctl: Kipctl, state: Path
    ) -> None:
        fake.partitions = {T[0]: Held((1, 2, 4), 1), T[1]: Held((2, 1, 4), 2)}
        assert kipctl("reassign", "--drain", "4", "--yes").status == 0
        (drain,) = entries(state)
        a_week_ago = "20261116T000000.000000Z"
        drain.path.with_name(f"{a_week_ago}.entry.json").write_text(
            json.dumps({**drain.as_document(), "id": a_week_ago})
        )
        drain.saved.rename(drain.saved.with_name(f"{a_week_ago}.json"))
        drain.path.unlink()
        after = fake.replicas()

        ran = kipctl("reassign", "--leaders-off", "3", "--yes")
        assert (ran.status, "Undo:" in ran.out) == (0, False)
        ran = kipctl(*ROLLBACK)
        assert ran.status == 4
        assert "was not made within the last hour" in ran.err
        assert "kipctl reassign --drain 4 --yes, by " in ran.err
        assert f"kipctl reassign --rollback --entry {a_week_ago} --yes" in ran.err.splitlines()[-1]
        assert fake.replicas() == after
        assert kipctl("reassign", "--rollback", "--dry-run", "--yes").status == 0
        assert kipctl(*ROLLBACK, "--entry", a_week_ago).status == 0
        assert fake.replicas()[T[0]] == (1, 2, 4)

    @pytest.mark.parametrize("newest", ["undone", "refused", "damaged"])
    def test_the_one_before_the_newest_is_undone_by_its_id_only(
        self, fake: Reassigning, kipctl: Kipctl, state: Path, newest: str
    ) -> None:
        assert kipctl(*ROTATE).status == 0
        (older,) = entries(state)
        if newest == "refused":
            fake.stumbles[ALTER] = [ErrorCode.POLICY_VIOLATION]
            assert kipctl(*ROTATE).status == 4
        else:
            assert kipctl(*ROTATE).status == 0
        newer = entries(state)[0]
        if newest == "undone":
            assert kipctl(*ROLLBACK).status == 0
        if newest == "damaged":
            newer.path.write_text("{")
            fake.partitions |= {p: Held((2, 3, 1), 2) for p in T}
        altered = len(fake.altered)

        ran = kipctl(*ROLLBACK)
        assert ran.status == 4
        assert f"The newest change, entry {newer.id}, is {newest}" in ran.err
        assert f"--entry {older.id} --yes" in ran.err.splitlines()[-1]
        assert len(fake.altered) == altered
        ran = kipctl(*ROLLBACK, "--entry", older.id)
        assert ran.status == 0, ran.err
        assert set(fake.replicas().values()) == {(1, 2, 3)}

    def test_who_is_asked_is_told_and_may_say_yes(
        self, on_fake: tuple[Reassigning, ScriptedBroker], kipctl: Kipctl, state: Path
    ) -> None:
        fake, broker = on_fake
        for _ in range(2):
            assert kipctl(*ROTATE).status == 0
        assert kipctl(*ROLLBACK).status == 0
        ran = kipctl_on(broker, state, "y\n")("reassign", "--rollback")
        assert ran.status == 0, ran.err
        assert "Back to what was before kipctl reassign --rotate --topic t --yes, by " in ran.err
        assert set(fake.replicas().values()) == {(1, 2, 3)}

    def test_what_is_undone_is_said_with_yes_too(self, kipctl: Kipctl, state: Path) -> None:
        assert kipctl(*ROTATE).status == 0
        (entry,) = entries(state)
        ran = kipctl(*ROLLBACK)
        assert "Back to what was before kipctl reassign --rotate --topic t --yes, by " in ran.err
        assert f"(less than a minute ago, entry {entry.id})" in ran.err


def test_force_insists_on_what_others_changed(fake: Reassigning, kipctl: Kipctl) -> None:
    assert kipctl(*ROTATE).status == 0
    for held in fake.partitions.values():
        held.replicas = (4, 2, 3)
    ran = kipctl(*ROLLBACK)
    assert ran.status == 4
    assert "the way back would copy data" in ran.err
    assert "--force" in ran.err
    assert kipctl(*ROLLBACK, "--force").status == 0
    assert set(fake.replicas().values()) == {(1, 2, 3)}


def test_a_topic_made_anew_is_not_given_the_assignment_of_the_old_one(
    fake: Reassigning, kipctl: Kipctl
) -> None:
    assert kipctl(*ROTATE).status == 0
    fake.incarnations["t"] = 1
    ran = kipctl(*ROLLBACK)
    assert ran.status == 4
    assert "deleted and made anew" in ran.err
    assert set(fake.replicas().values()) == {(2, 3, 1)}


def test_a_rollback_onto_a_broker_that_is_not_alive_waits_for_it(
    fake: Reassigning, kipctl: Kipctl, tmp_path: Path, state: Path
) -> None:
    plan = plan_file(tmp_path, {T[0]: (4, 2, 3)})
    assert kipctl("reassign", "--plan", plan, "--yes").status == 0
    fake.brokers = (2, 3, 4)
    ran = kipctl(*ROLLBACK)
    assert ran.status == 4
    assert "broker 1 is not alive" in ran.err
    fake.brokers = (1, 2, 3, 4)
    assert kipctl(*ROLLBACK).status == 0
    assert fake.replicas()[T[0]] == (1, 2, 3)


@pytest.mark.parametrize(
    "stumble",
    [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.POLICY_VIOLATION],
)
def test_what_was_refused_as_a_whole_is_not_what_a_rollback_undoes(
    fake: Reassigning, kipctl: Kipctl, state: Path, stumble: int
) -> None:
    assert kipctl(*ROTATE).status == 0
    fake.stumbles[ALTER] = [stumble]
    assert kipctl(*ROTATE).status == 4
    assert states(state) == ["refused", "done"]
    assert kipctl(*ROLLBACK, "--entry", entries(state)[1].id).status == 0
    assert set(fake.replicas().values()) == {(1, 2, 3)}


def test_what_was_submitted_and_never_came_about_is_undone_and_not_the_change_before_it(
    fake: Reassigning, kipctl: Kipctl, state: Path
) -> None:
    assert kipctl(*ROTATE).status == 0
    kept = journal("fake", {"XDG_STATE_HOME": str(state)})
    kept.save(fake.replicas(), dict.fromkeys(T, (3, 1, 2)), Origin()).mark(EntryState.SUBMITTED)
    ran = kipctl(*ROLLBACK)
    assert ran.status == 0, ran.err
    assert "All is as before entry" in ran.err
    assert set(fake.replicas().values()) == {(2, 3, 1)}
    assert states(state) == ["undone", "done"]
    assert kipctl(*ROLLBACK, "--entry", entries(state)[1].id).status == 0
    assert set(fake.replicas().values()) == {(1, 2, 3)}


@pytest.mark.parametrize("stumble", [ErrorCode.REQUEST_TIMED_OUT, HANG_UP])
def test_an_outcome_that_is_not_known_is_told_so(
    fake: Reassigning, kipctl: Kipctl, state: Path, stumble: int | bytes
) -> None:
    fake.stumbles[ALTER] = [stumble]
    ran = kipctl(*ROTATE)
    assert ran.status == 6
    assert "It is not known whether the cluster has taken it" in ran.err
    assert "kipctl reassign --list" in ran.err
    assert "kipctl reassign --rollback" in ran.err
    assert states(state) == ["submitted"]


def test_reads_while_waiting_are_asked_again(fake: Reassigning, kipctl: Kipctl) -> None:
    def stumble() -> None:
        fake.stumbles[LIST] = [HANG_UP, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, None]
        fake.stumbles[MetadataRequest] = [HANG_UP, None, HANG_UP]

    fake.changes = [stumble]
    ran = kipctl(*ROTATE)
    assert ran.status == 0, ran.err
    assert set(fake.leaders().values()) == {2}


def test_a_controller_that_moves_is_waited_for(fake: Reassigning, kipctl: Kipctl) -> None:
    fake.stumbles[ALTER] = [ErrorCode.NOT_CONTROLLER] * 6
    ran = kipctl(*ROTATE)
    assert ran.status == 0, ran.err
    assert len(fake.altered) == 1


@pytest.mark.parametrize("code", [ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
def test_a_refusal_after_something_was_submitted_is_partly_done(
    fake: Reassigning, kipctl: Kipctl, code: int
) -> None:
    def stumble() -> None:
        fake.stumbles[LIST] = [code]

    fake.changes = [stumble]
    ran = kipctl(*ROTATE)
    assert ran.status == 5
    assert "Of 10 partitions 10 have their new replicas" in ran.err
    assert "kipctl reassign --rollback" in ran.err


@pytest.mark.parametrize(("deleted_before_batch", "status"), [(0, 5), (1, 0)])
def test_a_topic_that_is_deleted_meanwhile_is_gone_and_not_wrong_usage(
    fake: Reassigning, kipctl: Kipctl, deleted_before_batch: int, status: int
) -> None:
    fake.partitions[OTHER] = Held((1, 2), 1)  # in the first batch

    def delete() -> None:
        del fake.partitions[OTHER]

    fake.changes = [lambda: None] * deleted_before_batch + [delete]
    ran = kipctl("reassign", "--rotate", "--topic", "*", "--yes", "--batch", "6", "--between", "0s")
    assert ran.status == status, ran.err
    assert set(fake.leaders().values()) == {2}
    if status:
        assert "10 partitions are done, 1 is not: other-0: UNKNOWN_TOPIC_OR_PARTITION" in ran.err


@pytest.mark.parametrize(
    ("partitions", "columns", "rows"),
    [(20, "Topic Partition Replicas New replicas Leader New preferred Data", 20), (21, BROKERS, 4)],
)
def test_what_is_asked_about_is_shown_before_the_question(
    tmp_path: Path, partitions: int, columns: str, rows: int
) -> None:
    there = [PartitionId("t", number) for number in range(partitions)]
    with reassigning(dict.fromkeys(there, (1, 2, 3))) as (fake, broker):
        refused = kipctl_on(broker, tmp_path, "n\n")("reassign", "--rotate", "--topic", "t")
        assert (refused.status, refused.out) == (4, "")
        lines = refused.err.splitlines()
        question = next(i for i, line in enumerate(lines) if "Rotate the leaders of" in line)
        above = next(i for i, line in enumerate(lines) if line.split() == columns.split())
        assert len([line for line in lines[above + 1 : question] if line]) == rows, refused.err
        assert set(fake.leaders().values()) == {1}
        asked = kipctl_on(broker, tmp_path)("reassign", "--rotate", "--topic", "t", "--yes")
        assert columns.split() not in [line.split() for line in asked.err.splitlines()]


def test_ctrl_c_after_a_batch_may_be_gone_on_with(
    fake: Reassigning, kipctl: Kipctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter((changed_since, changed_since))

    def interrupt(*arguments: Any, **options: Any) -> Any:
        for look in looks:
            return look(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("kipctl.cluster.moves.batch_execution.changed_since", interrupt)
        ran = kipctl(*ROTATE, "--batch", "2", "--between", "0s")
    assert ran.status == 130
    assert "kipctl: Interrupted. Of 10 partitions 4 have their new replicas" in ran.err
    assert ran.err.endswith("Go on: kipctl reassign --resume. Undo: kipctl reassign --rollback\n")
    assert kipctl("reassign", "--resume", "--yes").status == 0
    assert set(fake.leaders().values()) == {2}


def test_ctrl_c_before_anything_is_submitted_leaves_nothing_to_roll_back(
    fake: Reassigning, kipctl: Kipctl, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    assert kipctl(*ROTATE).status == 0

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("kipctl.cluster.moves.batch_execution.changed_since", interrupt)
        ran = kipctl(*ROTATE)
    assert ran.status == 130
    assert "Interrupted before anything was changed." in ran.err
    assert "rollback" not in ran.err
    assert states(state) == ["refused", "done"]
    assert kipctl(*ROLLBACK, "--entry", entries(state)[1].id).status == 0
    assert set(fake.leaders().values()) == {1}


def test_a_journal_that_cannot_be_written_any_more_does_not_undo_what_was_done(
    fake: Reassigning, kipctl: Kipctl, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    mark = Entry.mark

    def full(self: Entry, to: EntryState, *rest: object) -> Entry:
        if to in (EntryState.DONE, EntryState.UNDONE):
            raise UsageError("The journal cannot be written: No space left on device.")
        return mark(self, to)

    with monkeypatch.context() as patch:
        patch.setattr(Entry, "mark", full)
        assert kipctl(*ROTATE).status == 0
    assert states(state) == ["submitted"]
    assert kipctl(*ROLLBACK).status == 0
    assert set(fake.leaders().values()) == {1}


class TestMovesThatNobodyMeant:
    """A plan is made from Metadata; what it comes to depends on what the controller has."""

    def test_a_reorder_that_turns_out_to_copy_data_is_cancelled_at_once(
        self, fake: Reassigning, kipctl: Kipctl
    ) -> None:
        fake.moves_at_once = False

        def another_tool() -> None:
            fake.partitions[T[0]].replicas = (4, 2, 3)

        fake.changes = [another_tool]
        ran = kipctl(*ROTATE)
        assert ran.status == 5
        assert "t-0: another change came before this one" in ran.err
        assert "added [1] and removed [4]; so it was cancelled at once" in ran.err
        assert fake.altered[1] == {T[0]: None}
        assert fake.partitions[T[0]].target is None
        assert set(fake.replicas()[T[0]]) == {2, 3, 4}
        assert fake.leaders()[T[1]] == 2

    def test_while_the_controller_moves_it_is_asked_again_to_cancel_it(
        self, fake: Reassigning, kipctl: Kipctl
    ) -> None:
        fake.moves_at_once = False

        def another_tool() -> None:
            fake.partitions[T[0]].replicas = (4, 2, 3)
            # Each is asked twice: the controller is looked up again in between.
            fake.stumbles[ALTER] = [ErrorCode.NOT_CONTROLLER] * 6

        fake.changes = [another_tool]
        ran = kipctl(*ROTATE)
        assert ran.status == 5
        assert "added [1] and removed [4]; so it was cancelled at once" in ran.err
        assert fake.partitions[T[0]].target is None
        assert fake.leaders()[T[1]] == 2

    def test_what_cannot_be_cancelled_is_said_to_go_on(
        self, fake: Reassigning, kipctl: Kipctl
    ) -> None:
        fake.moves_at_once = False

        def another_tool() -> None:
            fake.partitions[T[0]].replicas = (4, 2, 3)
            fake.stumbles[ALTER] = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]

        fake.changes = [another_tool]
        ran = kipctl(*ROTATE)
        assert ran.status == 5
        assert "t-0: another change came before this one" in ran.err
        assert "it may go on, as it could not be cancelled" in ran.err
        assert "kipctl reassign --list" in ran.err
        assert fake.leaders()[T[1]] == 2

    def test_when_all_of_it_does_nothing_is_called_refused(
        self, fake: Reassigning, kipctl: Kipctl
    ) -> None:
        fake.moves_at_once = False

        def another_tool() -> None:
            for held in fake.partitions.values():
                held.replicas = (4, 2, 3)

        fake.changes = [another_tool]
        assert kipctl(*ROTATE).status == 5
        assert not any(held.target for held in fake.partitions.values())

    @pytest.mark.parametrize("way", ["--rotate", "--plan", "--rollback"])
    def test_a_plan_that_is_another_one_after_the_question_is_refused(
        self,
        on_fake: tuple[Reassigning, ScriptedBroker],
        kipctl: Kipctl,
        state: Path,
        tmp_path: Path,
        way: str,
    ) -> None:
        fake, broker = on_fake
        assert kipctl(*ROTATE).status == 0
        options = {
            "--rotate": ("--rotate", "--topic", "t"),
            "--plan": ("--plan", plan_file(tmp_path, dict.fromkeys(T, (4, 3, 1)))),
            "--rollback": ("--rollback",),
        }[way]
        submitted = len(fake.altered)

        asking = kipctl_on(broker, state, "y\n")
        ran = changed_while_asked(fake, lambda: asking("reassign", *options))
        assert ran.status == 4, ran.err
        assert "The cluster has changed since the plan was shown" in ran.err
        assert "t-3" in ran.err
        assert len(fake.altered) == submitted


def changed_while_asked(fake: Reassigning, command: Callable[[], Ran]) -> Ran:
    """Somebody changes the cluster while the question stands open."""
    asks = Environment.confirm

    def confirm(self: Environment, question: str, yes: bool) -> None:
        asks(self, question, yes)
        fake.partitions[T[3]].replicas = (4, 2, 3)
        fake.partitions[T[3]].leader = 4

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Environment, "confirm", confirm)
        return command()


class TestOthersReassign:
    """While another tool reassigns."""

    @pytest.fixture(autouse=True)
    def busy(self, fake: Reassigning) -> None:
        fake.moves_at_once = False
        fake.partitions[OTHER] = Held((1, 2), 1, target=(3, 2))

    def test_nothing_else_is_begun(self, fake: Reassigning, kipctl: Kipctl) -> None:
        ran = kipctl(*ROTATE)
        assert ran.status == 4
        assert "other-0 is being reassigned already" in ran.err
        assert "--additional" in ran.err
        assert fake.altered == []

    def test_additional_goes_on_beside_it(self, fake: Reassigning, kipctl: Kipctl) -> None:
        assert kipctl(*ROTATE, "--additional").status == 0
        assert fake.leaders()[T[0]] == 2

    def test_busy_partitions_are_left_alone_and_the_dry_run_tells(
        self, fake: Reassigning, kipctl: Kipctl
    ) -> None:
        fake.partitions[T[0]].target = (4, 2, 3)
        ran = kipctl("reassign", "--rotate", "--topic", "t", "--dry-run", "-o", "json")
        assert ran.status == 0, ran.err
        shown = json.loads(ran.out)
        assert (len(shown["partitions"]), shown["ongoing"]) == (9, 2)
        assert shown["skipped"] == [
            {"topic": "t", "partition": 0, "reason": "it is being reassigned already"}
        ]
        assert kipctl(*ROTATE, "--additional").status == 0
        assert fake.partitions[T[0]].target == (4, 2, 3)
        assert fake.leaders()[T[1]] == 2

    def test_a_dry_run_needs_no_right_to_list_them(self, fake: Reassigning, kipctl: Kipctl) -> None:
        assert kipctl(*ROTATE, "--additional").status == 0
        for command in (("--rotate", "--topic", "t"), ("--rollback",)):
            fake.stumbles[LIST] = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
            ran = kipctl("reassign", *command, "--dry-run")
            assert ran.status == 0, ran.err
            assert "What is being reassigned is not in this plan" in ran.err

    def test_cancel_leaves_them_alone(
        self, fake: Reassigning, kipctl: Kipctl, tmp_path: Path, state: Path
    ) -> None:
        plan = plan_file(tmp_path, {T[0]: (4, 1, 3), T[1]: (4, 1, 3)})
        fake.partitions[T[0]].replicas = fake.partitions[T[1]].replicas = (3, 1, 2)
        ran = kipctl("reassign", "--plan", plan, "--yes", "--additional", "--timeout", "0.2")
        assert ran.status == 6
        assert "2 of 2 partitions are still being reassigned" in ran.err

        ran = kipctl("reassign", "--cancel", "--dry-run", "-o", "json")
        shown = json.loads(ran.out)
        assert [one["topic"] for one in shown["ongoing"]] == ["t", "t"]
        assert [one["topic"] for one in shown["left_alone"]] == ["other"]

        ran = kipctl("reassign", "--cancel", "--yes", "-o", "json")
        assert ran.status == 0, ran.err
        assert "1 other is left alone" in ran.err
        assert [one["order"] for one in json.loads(ran.out)["cancelled"]] == ["put back"] * 2
        assert fake.replicas()[T[0]] == (3, 1, 2)
        assert fake.partitions[OTHER].target == (3, 2)
        assert states(state) == ["undone"]

        ran = kipctl("reassign", "--cancel", "--yes")
        assert ran.status == 0
        assert fake.partitions[OTHER].target == (3, 2)
        ran = kipctl("reassign", "--cancel", "--all", "--yes", "-o", "json")
        assert ran.status == 0
        assert json.loads(ran.out)["cancelled"][0]["order"] == "unknown"
        assert fake.partitions[OTHER].target is None

    def test_metadata_of_before_the_reassignment_is_not_taken_for_the_old_order(
        self, fake: Reassigning, kipctl: Kipctl, tmp_path: Path
    ) -> None:
        """A broker that is behind shows the old replicas in their order, as if none had moved."""
        fake.partitions[T[0]].replicas = (3, 1, 2)
        fake.shown_before = {T[0]: replace(fake.partitions[T[0]])}
        plan = plan_file(tmp_path, {T[0]: (4, 1, 3)})
        ran = kipctl("reassign", "--plan", plan, "--yes", "--additional", "--timeout", "0.2")
        assert ran.status == 6

        fake.changes.append(lambda: setattr(fake, "late_looks", 3))
        ran = kipctl("reassign", "--cancel", "--yes", "-o", "json")
        assert ran.status == 0, ran.err
        assert [one["order"] for one in json.loads(ran.out)["cancelled"]] == ["put back"]
        assert fake.replicas()[T[0]] == (3, 1, 2)

    def test_an_order_that_is_another_than_kafka_was_to_leave_is_not_waited_out(
        self,
        fake: Reassigning,
        kipctl: Kipctl,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Somebody gives it another target between the last look and the cancellation."""
        monkeypatch.setattr(cancel, "METADATA_GRACE_S", 0.2)
        plan = plan_file(tmp_path, {T[0]: (4, 1, 3)})  # cancelled, it leaves (1, 3, 2)
        ran = kipctl("reassign", "--plan", plan, "--yes", "--additional", "--timeout", "0.2")
        assert ran.status == 6
        fake.changes.append(lambda: setattr(fake.partitions[T[0]], "target", (3, 4, 1)))
        ran = kipctl("reassign", "--cancel", "--yes", "-o", "json")
        assert ran.status == 0, ran.err
        assert [one["order"] for one in json.loads(ran.out)["cancelled"]] == ["put back"]
        assert fake.replicas()[T[0]] == (1, 2, 3)

    @pytest.mark.parametrize("option", ["--topic", "--plan"])
    def test_cancel_takes_what_is_named(
        self, fake: Reassigning, kipctl: Kipctl, tmp_path: Path, option: str
    ) -> None:
        fake.partitions[T[0]].target = (4, 2, 3)
        value = {"--topic": "other", "--plan": plan_file(tmp_path, {OTHER: (3, 2)})}[option]
        assert kipctl("reassign", "--cancel", option, value, "--yes").status == 0
        assert fake.partitions[OTHER].target is None
        assert fake.partitions[T[0]].target == (4, 2, 3)

    def test_an_old_order_is_not_put_back_on_what_others_started(
        self, fake: Reassigning, kipctl: Kipctl
    ) -> None:
        fake.partitions[OTHER].target = None
        assert kipctl(*ROTATE).status == 0  # from (1, 2, 3) to (2, 3, 1)
        fake.partitions[T[0]].replicas = (3, 2, 1)
        fake.partitions[T[0]].target = (4, 2, 1)
        ran = kipctl("reassign", "--cancel", "--all", "--yes", "-o", "json")
        assert ran.status == 0, ran.err
        assert json.loads(ran.out)["cancelled"][0]["order"] == "unknown"
        assert len(fake.altered) == 2  # the rotation, the cancellation, and no order after it


class TestBatches:
    """Partitions are submitted so many at a time."""

    def test_each_is_reassigned_and_elected_before_the_next(
        self, fake: Reassigning, kipctl: Kipctl, state: Path
    ) -> None:
        ran = kipctl(*ROTATE, "--batch", "4", "--between", "0s", "-o", "json")
        assert ran.status == 0, ran.err
        assert [len(batch) for batch in fake.altered] == [4, 4, 2]
        assert [set(a) for a in fake.altered] == fake.elected
        assert json.loads(ran.out)["counts"] == {"done": 10, "failed": 0}
        assert states(state) == ["done"]

    def test_what_has_changed_between_two_of_them_is_left_out(
        self, fake: Reassigning, kipctl: Kipctl
    ) -> None:
        def meanwhile() -> None:
            fake.partitions[T[8]].replicas = (3, 2, 1)
            fake.partitions[T[9]].isr = (1, 3)

        fake.changes = [meanwhile]
        ran = kipctl(*ROTATE, "--batch", "5", "--between", "0s")
        assert ran.status == 5
        assert "8 partitions are done, 2 are not" in ran.err
        assert fake.replicas()[T[8]] == (3, 2, 1)
        assert fake.replicas()[T[9]] == (1, 2, 3)

    def test_another_tool_that_begins_between_two_of_them_stops_it(
        self, fake: Reassigning, kipctl: Kipctl
    ) -> None:
        fake.partitions[OTHER] = Held((1, 2), 1)

        def meanwhile() -> None:
            fake.moves_at_once = False
            fake.partitions[OTHER].target = (3, 2)

        fake.changes = [meanwhile]
        ran = kipctl(*ROTATE, "--batch", "5", "--between", "0s")
        assert ran.status == 5
        assert "1 other partition is being reassigned by now, such as other-0." in ran.err
        assert "Of 10 partitions 5 have their new replicas" in ran.err
        assert len(fake.altered) == 1

    def test_a_batch_of_which_nothing_is_accepted_is_the_last(
        self, fake: Reassigning, kipctl: Kipctl
    ) -> None:
        fake.refused = set(T[5:])
        ran = kipctl(*ROTATE, "--batch", "3", "--between", "0s")
        assert ran.status == 5
        assert [len(batch) for batch in fake.altered] == [3, 3, 3]
        assert "5 partitions are done, 5 are not" in ran.err

    def test_ctrl_c_between_two_of_them_says_how_far_it_came(
        self, fake: Reassigning, kipctl: Kipctl, monkeypatch: pytest.MonkeyPatch, state: Path
    ) -> None:
        def interrupt(self: object, done: int, batches: int) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("kipctl.cluster.moves.batch_execution.Execution._pause", interrupt)
        ran = kipctl(*ROTATE, "--batch", "6")
        assert ran.status == 130
        assert "Of 10 partitions 6 have their new replicas, 4 their old ones" in ran.err
        assert "kipctl reassign --rollback" in ran.err
        assert kipctl(*ROLLBACK).status == 0
        assert set(fake.leaders().values()) == {1}


class TestReplicationFactor:
    """Plans that change how many replicas there are."""

    def test_it_is_asked_for_by_an_option(
        self, fake: Reassigning, kipctl: Kipctl, tmp_path: Path
    ) -> None:
        plan = plan_file(tmp_path, {T[0]: (1, 2)})
        ran = kipctl("reassign", "--plan", plan, "--yes")
        assert ran.status == 4
        assert "changes the replication factor of 1 partition, such as t-0: from 3 to 2" in ran.err
        assert "--change-replication-factor" in ran.err
        assert fake.altered == []
        ran = kipctl("reassign", "--plan", plan, "--dry-run")
        assert ran.status == 0
        assert "no data is copied; 1 gets 2 replicas instead of 3." in ran.out
        ran = kipctl("reassign", "--plan", plan, "--change-replication-factor")
        assert "The REPLICATION FACTOR of 1 CHANGES (1 get fewer replicas" in ran.err
        ran = kipctl("reassign", "--plan", plan, "--yes", "--change-replication-factor")
        assert ran.status == 0, ran.err
        assert fake.replicas()[T[0]] == (1, 2)

    def test_never_below_min_insync_replicas_unasked(
        self, fake: Reassigning, kipctl: Kipctl, tmp_path: Path
    ) -> None:
        fake.min_insync["t"] = "2"
        plan = plan_file(tmp_path, {T[0]: (1,)})
        command = ("reassign", "--plan", plan, "--yes", "--change-replication-factor")
        ran = kipctl(*command)
        assert ran.status == 4
        assert "min.insync.replicas of its topic is 2" in ran.err
        assert fake.altered == []
        assert kipctl(*command, "--force").status == 0


class TestJournalOfCommands:
    """What commands make of the journal's files."""

    def test_a_damaged_entry_is_named_and_passed_over(
        self, fake: Reassigning, kipctl: Kipctl, state: Path
    ) -> None:
        assert kipctl(*ROTATE).status == 0
        assert kipctl(*ROTATE).status == 0
        newest, _ = entries(state)
        newest.path.write_text("{")
        fake.partitions[T[0]].replicas = (2, 3, 1)
        for command in (("--rollback", "--dry-run"), ("--history",), ("--cancel", "--yes")):
            fake.partitions[OTHER] = Held((1, 2), 1, target=(3, 2))
            ran = kipctl("reassign", *command)
            assert ran.status == 0, ran.err
            assert f"{newest.path} is damaged" in ran.err

    def test_the_history_is_listed_and_an_entry_of_it_chosen(
        self, fake: Reassigning, kipctl: Kipctl, state: Path
    ) -> None:
        fake.partitions[OTHER] = Held((1, 2), 1)
        assert kipctl(*ROTATE).status == 0
        assert kipctl("reassign", "--rotate", "--topic", "other", "--yes").status == 0
        ran = kipctl("reassign", "--history", "-o", "json")
        shown = json.loads(ran.out)["entries"]
        assert [one["partitions"] for one in shown] == [1, 10]
        assert shown[1]["command"] == list(ROTATE)
        ran = kipctl(*ROLLBACK, "--entry", shown[1]["id"])
        assert ran.status == 0, ran.err
        assert fake.leaders()[T[0]] == 1
        assert fake.leaders()[OTHER] == 2

    def test_the_question_says_whose_change_of_when_it_undoes(self, kipctl: Kipctl) -> None:
        assert kipctl(*ROTATE).status == 0
        ran = kipctl("reassign", "--rollback")
        assert ran.status == 2
        assert "Roll back 10 partitions?" in ran.err
        assert "kipctl reassign --rotate --topic t --yes, by " in ran.err
        assert "(less than a minute ago, entry " in ran.err

    def test_an_entry_of_the_old_form_is_rolled_back_where_no_data_moves(
        self, fake: Reassigning, kipctl: Kipctl, state: Path
    ) -> None:
        folder = journal("fake", {"XDG_STATE_HOME": str(state)}).folder
        folder.mkdir(parents=True)
        old = folder / "20250101T000000.000000Z.json"
        old.write_text(json.dumps(reassignment_document({T[0]: (2, 1, 3), T[1]: (4, 1, 2)})))
        ran = kipctl(*ROLLBACK, "--entry", "20250101")
        assert ran.status == 0, ran.err
        assert fake.replicas()[T[0]] == (2, 1, 3)
        assert fake.replicas()[T[1]] == (1, 2, 3)
        assert "how kipctl left it is not known" in ran.err
        assert old.exists()  # it stays open for what was left alone
        assert kipctl(*ROLLBACK, "--entry", "20250101", "--force").status == 0
        assert fake.replicas()[T[1]] == (4, 1, 2)
        assert not old.exists()
        assert (folder / "20250101T000000.000000Z.undone.json").exists()

    def test_two_at_once_exclude_one_another_but_cancel_is_never_kept_waiting(
        self, fake: Reassigning, kipctl: Kipctl, state: Path
    ) -> None:
        kept = journal("fake", {"XDG_STATE_HOME": str(state)})
        with kept.locked(Origin(("reassign", "--rotate"), "bob", "bastion")):
            ran = kipctl(*ROTATE)
            assert ran.status == 4
            assert "kipctl reassign --rotate, by bob@bastion" in ran.err
            assert fake.altered == []
            fake.partitions[OTHER] = Held((1, 2), 1, target=(3, 2))
            assert kipctl("reassign", "--cancel", "--all", "--yes").status == 0
        assert kipctl(*ROTATE).status == 0


class TestOutput:
    """However many partitions there are."""

    @pytest.fixture(autouse=True)
    def many(self, fake: Reassigning) -> None:
        fake.partitions |= {PartitionId("m", n): Held((1, 2), 1) for n in range(300)}
        fake.partitions |= {PartitionId("solo", n): Held((4,), 4) for n in range(300)}

    def test_a_dry_run_is_a_table_by_broker(self, kipctl: Kipctl) -> None:
        dry_run = ("reassign", "--rotate", "--all-topics", "--dry-run")
        ran = kipctl(*dry_run)
        assert ran.status == 0, ran.err
        lines = [line.split() for line in ran.out.splitlines()]
        assert ["1", "310", "0", "310", "310"] in lines
        assert ["2", "0", "310", "310", "310"] in lines
        assert ["4", "300", "300", "300", "300"] in lines
        assert "it has too few replicas to rotate (1)" in ran.out
        assert "310 partitions of 2 topics change: no data is copied; 300 are" in ran.out
        assert len(lines) < 45
        assert len(kipctl(*dry_run, "-o", "wide").out.splitlines()) > 310
        shown = json.loads(kipctl(*dry_run, "-o", "json").out)
        assert (len(shown["partitions"]), len(shown["skipped"])) == (310, 300)
        first = shown["brokers"][0]
        assert (first["broker"], first["leaders"], first["leaders_after"]) == (1, 310, 0)
        assert (first["replicas"], first["replicas_after"]) == (310, 310)

    def test_a_rotation_of_nothing_named_says_what_could_be_rotated(
        self, fake: Reassigning, kipctl: Kipctl
    ) -> None:
        ran = kipctl("reassign", "--rotate")
        assert ran.status == 0, ran.err
        lines = [line.split() for line in ran.out.splitlines()]
        assert lines.index(["m", "300", "0"]) < lines.index(["solo", "0", "300"])
        assert "it has too few replicas to rotate (1)" in ran.out
        assert fake.altered == []

    def test_a_rotation_is_told_in_a_page(self, kipctl: Kipctl) -> None:
        rotate = ("reassign", "--rotate", "--all-topics", "--yes")
        ran = kipctl(*rotate)
        assert ran.status == 0, ran.err
        assert len((ran.out + ran.err).splitlines()) < 50
        assert "And 290 more: -o wide shows them all." in ran.out


def test_kipctl_alone_counts_what_is_not_well(
    fake: Reassigning, kipctl: Kipctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.partitions[OTHER] = Held((1, 2), 1, target=(3, 2))
    ran = kipctl()
    assert ran.status == 0, ran.err
    assert "1 are being reassigned" in ran.out
