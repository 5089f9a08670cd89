"""`kipctl reassign` on a cluster that stumbles: what it does, says, and writes down."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from reassigning import Held, Reassigning
from scripted_broker import HANG_UP, Asked

from kipctl.changes.execution.safety_checks import changed_since
from kipctl.changes.journal.entry import Entry, EntryState, Origin
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import UsageError
from kipctl.protocol.describe_configs import DescribeConfigsRequest
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataRequest
from kipctl.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)

ALTER, LIST = AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest
T = [PartitionId("t", n) for n in range(10)]
REPLICAS = dict.fromkeys(T, (1, 2, 3))
OTHER = PartitionId("other", 0)
ROTATE = "reassign --rotate --topic t --yes"
BROKERS = "Broker Leaders After Replicas After"
ROLLBACK = "undo --yes"
UNFINISHED = "--yes --additional --timeout 20"
CANCEL = "changes cancel --yes -o json"


def test_a_rotation_is_written_down_with_all_that_undoing_it_takes(fake: Reassigning) -> None:
    ran = fake.kipctl(ROTATE, "-o json")
    assert set(fake.replicas().values()) == {(2, 3, 1)}
    assert set(fake.leaders().values()) == {2}
    (entry,) = fake.entries()
    assert entry.state is EntryState.DONE
    assert entry.cluster_id == "fake"
    assert entry.origin.command == (*ROTATE.split(), "-o", "json")
    assert entry.origin.user
    assert entry.origin.host
    assert (entry.before[T[0]], entry.after[T[0]]) == ((1, 2, 3), (2, 3, 1))
    assert entry.topic_ids.keys() == {"t"}
    assert [state for state, _ in entry.changed_at] == ["prepared", "submitted", "done"]
    assert ran.document["saved"] == str(entry.saved)


def test_a_rollback_brings_all_back_and_the_next_one_finds_nothing(fake: Reassigning) -> None:
    fake.kipctl(ROTATE)
    ran = fake.kipctl(ROLLBACK)
    assert set(fake.replicas().values()) == {(1, 2, 3)}
    assert set(fake.leaders().values()) == {1}
    rollback, first = fake.entries()
    assert (first.state, rollback.state) == (EntryState.UNDONE, EntryState.DONE)
    assert rollback.undoes == first.id
    assert "kipctl undo 2" in ran.out  # the rollback itself can be undone, by its id
    ran = fake.kipctl(ROLLBACK, status=4)
    assert "nothing to undo" in ran.err
    fake.kipctl(ROLLBACK, rollback.id)
    assert set(fake.leaders().values()) == {2}


@pytest.mark.parametrize(
    ("refused", "done", "failed", "status"),
    [(0, 10, 0, 0), (4, 6, 4, 5), (5, 5, 5, 5), (7, 3, 7, 5), (10, 0, 10, 4)],
)
def test_what_is_counted_as_done_is_done(
    fake: Reassigning, refused: int, done: int, failed: int, status: int
) -> None:
    fake.refused = set(T[:refused])
    ran = fake.kipctl(ROTATE, "-o json", status=status)
    if status == 5:
        assert f"{done} partitions are done, {failed} are not" in ran.err
    if status == 4:
        assert "No partition was accepted" in ran.err
    else:
        assert ran.document["counts"] == {"done": done, "failed": failed}


def test_replicas_in_order_without_a_single_leader_elected_are_not_nothing(
    fake: Reassigning,
) -> None:
    fake.unelected = set(T)
    ran = fake.kipctl(ROTATE, status=5)
    assert "0 partitions are done, 10 are not" in ran.err


def test_a_refused_partition_does_not_hold_up_a_rollback(fake: Reassigning) -> None:
    fake.kipctl(ROTATE)
    fake.refused = {T[0]}
    ran = fake.kipctl(ROLLBACK, "--timeout 30", status=5)
    assert "9 partitions are done, 1 is not: t-0: INVALID_REPLICA_ASSIGNMENT" in ran.err
    assert fake.leaders()[T[1]] == 1
    assert f"kipctl undo {fake.entries()[-1].id}" in ran.err
    fake.refused = set()
    fake.kipctl(ROLLBACK)  # goes on with what is left
    assert set(fake.leaders().values()) == {1}
    assert fake.states()[-1] == "undone"


def test_what_others_changed_since_is_left_alone_by_a_rollback(fake: Reassigning) -> None:
    fake.kipctl(ROTATE)
    fake.partitions[T[0]].replicas = (4, 2, 3)
    fake.partitions[T[1]].replicas = (3, 2, 1)
    del fake.partitions[T[2]]
    ran = fake.kipctl(ROLLBACK, "-o json")
    assert fake.replicas()[T[0]] == (4, 2, 3)
    assert fake.replicas()[T[1]] == (3, 2, 1)
    assert fake.replicas()[T[3]] == (1, 2, 3)
    reasons = {s["partition"]: s["reason"] for s in ran.document["skipped"]}
    assert reasons == {
        0: "the change only reordered it, and the way back would copy data",
        1: "somebody has changed it since",
        2: "it does not exist any more",
    }
    assert "such as t-1: somebody has changed it since" in ran.err
    # It stays open, so that to insist is about these and not about the change before.
    rollback, first = fake.entries()
    assert f"kipctl undo {first.id}" in ran.err
    assert (first.state, rollback.undoes) == (EntryState.DONE, first.id)
    ran = fake.kipctl(ROLLBACK, status=4)
    assert "--force" in ran.err
    assert fake.replicas()[T[1]] == (3, 2, 1)
    fake.kipctl(ROLLBACK, "--force")
    assert set(fake.replicas().values()) == {(1, 2, 3)}
    assert fake.states()[-1] == "undone"


def test_force_after_a_rollback_is_not_about_the_change_before_it(fake: Reassigning) -> None:
    fake.kipctl("reassign --drain 3 --yes")
    drained = fake.replicas()
    fake.kipctl(ROTATE)
    fake.partitions[T[0]].replicas = tuple(reversed(fake.partitions[T[0]].replicas))
    fake.kipctl(ROLLBACK)
    fake.kipctl(ROLLBACK, "--force")
    assert fake.replicas() == drained
    assert fake.states()[-1] == "done"  # the drain


def test_an_entry_that_is_undone_is_gone_back_to_by_its_id_and_force_only(
    fake: Reassigning,
) -> None:
    fake.kipctl(ROTATE)
    (entry,) = fake.entries()
    entry.mark(EntryState.UNDONE)
    fake.kipctl(ROLLBACK, entry.id, status=4)
    assert set(fake.leaders().values()) == {2}
    fake.kipctl(ROLLBACK, entry.id, "--force")
    assert set(fake.leaders().values()) == {1}


class TestWhichChangeIsUndone:
    """`kipctl undo` with `--yes`, and no id: the change meant, or none."""

    @pytest.mark.parametrize(
        ("entry_id", "days"),
        [
            ("20261116T000000.000000Z", -8),
            ("29990101T000000.000000Z", -8),  # as ids go on where the clock was once ahead
            ("29990101T000000.000000Z", 8),
        ],
        ids=["a week ago", "id ahead", "clock was ahead"],
    )
    def test_nothing_to_do_leaves_the_change_before_as_it_is(
        self, fake: Reassigning, entry_id: str, days: int
    ) -> None:
        fake.partitions = {T[0]: Held((1, 2, 4), 1), T[1]: Held((2, 1, 4), 2)}
        fake.kipctl("reassign --drain 4 --yes")
        (drain,) = fake.entries()
        made_at = (datetime.now(UTC) + timedelta(days=days)).isoformat()
        made = {"id": entry_id, "changed_at": [["prepared", made_at], ["done", made_at]]}
        drain.path.with_name(f"{entry_id}.entry.json").write_text(
            json.dumps(drain.as_document() | made)
        )
        drain.saved.rename(drain.saved.with_name(f"{entry_id}.json"))
        drain.path.unlink()
        after = fake.replicas()

        assert "Undo:" not in fake.kipctl("reassign --leaders-off 3 --yes").out
        ran = fake.kipctl(ROLLBACK, status=4)
        assert "was not made within the last hour" in ran.err
        assert "kipctl reassign --drain 4 --yes, by " in ran.err
        assert f"kipctl undo {entry_id} --yes" in ran.err.splitlines()[-1]
        assert fake.replicas() == after
        fake.kipctl("undo --dry-run --yes")
        fake.kipctl(ROLLBACK, entry_id)
        assert fake.replicas()[T[0]] == (1, 2, 4)

    @pytest.mark.parametrize("newest", ["undone", "refused", "damaged"])
    def test_the_one_before_the_newest_is_undone_by_its_id_only(
        self, fake: Reassigning, newest: str
    ) -> None:
        fake.kipctl(ROTATE)
        (older,) = fake.entries()
        if newest == "refused":
            fake.stumbles[ALTER] = [ErrorCode.POLICY_VIOLATION]
            fake.kipctl(ROTATE, status=4)
        else:
            fake.kipctl(ROTATE)
        newer = fake.entries()[0]
        if newest == "undone":
            fake.kipctl(ROLLBACK)
        if newest == "damaged":
            newer.path.write_text("{")
            fake.partitions |= {p: Held((2, 3, 1), 2) for p in T}
        altered = len(fake.altered)

        ran = fake.kipctl(ROLLBACK, status=4)
        assert f"The newest change, entry {newer.id}, is {newest}" in ran.err
        assert f"kipctl undo {older.id} --yes" in ran.err.splitlines()[-1]
        assert len(fake.altered) == altered
        ran = fake.kipctl(ROLLBACK, older.id)
        assert set(fake.replicas().values()) == {(1, 2, 3)}

    def test_who_is_asked_is_told_and_may_say_yes(self, fake: Reassigning) -> None:
        for _ in range(2):
            fake.kipctl(ROTATE)
        fake.kipctl(ROLLBACK)
        ran = fake.kipctl("undo", typed="y\n")
        assert "Back to what was before kipctl reassign --rotate --topic t --yes, by " in ran.err
        assert set(fake.replicas().values()) == {(1, 2, 3)}

    def test_what_is_undone_is_said_with_yes_too(self, fake: Reassigning) -> None:
        fake.kipctl(ROTATE)
        (entry,) = fake.entries()
        ran = fake.kipctl(ROLLBACK)
        assert "Back to what was before kipctl reassign --rotate --topic t --yes, by " in ran.err
        assert f"(less than a minute ago, entry {entry.id})" in ran.err


def test_a_topic_made_anew_is_not_given_the_assignment_of_the_old_one(fake: Reassigning) -> None:
    fake.kipctl(ROTATE)
    fake.incarnations["t"] = 1
    ran = fake.kipctl(ROLLBACK, status=4)
    assert "deleted and made anew" in ran.err
    assert set(fake.replicas().values()) == {(2, 3, 1)}


def test_a_rollback_onto_a_broker_that_is_not_alive_waits_for_it(fake: Reassigning) -> None:
    plan = fake.plan_file({T[0]: (4, 2, 3)})
    fake.kipctl("reassign --plan", plan, "--yes")
    fake.brokers = (2, 3, 4)
    ran = fake.kipctl(ROLLBACK, status=4)
    assert "broker 1 is not alive" in ran.err
    fake.brokers = (1, 2, 3, 4)
    fake.kipctl(ROLLBACK)
    assert fake.replicas()[T[0]] == (1, 2, 3)


@pytest.mark.parametrize(
    "stumble", [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.POLICY_VIOLATION]
)
def test_what_was_refused_as_a_whole_is_not_what_a_rollback_undoes(
    fake: Reassigning, stumble: int
) -> None:
    fake.kipctl(ROTATE)
    fake.stumbles[ALTER] = [stumble]
    fake.kipctl(ROTATE, status=4)
    assert fake.states() == ["refused", "done"]
    fake.kipctl(ROLLBACK, fake.entries()[1].id)
    assert set(fake.replicas().values()) == {(1, 2, 3)}


def test_what_was_submitted_and_never_came_about_is_undone_and_not_the_change_before_it(
    fake: Reassigning,
) -> None:
    fake.kipctl(ROTATE)
    never = fake.kept.save(fake.replicas(), dict.fromkeys(T, (3, 1, 2)), Origin())
    never.mark(EntryState.SUBMITTED)
    ran = fake.kipctl(ROLLBACK)
    assert "All is as before entry" in ran.err
    assert set(fake.replicas().values()) == {(2, 3, 1)}
    assert fake.states() == ["undone", "done"]
    fake.kipctl(ROLLBACK, fake.entries()[1].id)
    assert set(fake.replicas().values()) == {(1, 2, 3)}


@pytest.mark.parametrize("stumble", [ErrorCode.REQUEST_TIMED_OUT, HANG_UP])
def test_an_outcome_that_is_not_known_is_told_so(fake: Reassigning, stumble: int | bytes) -> None:
    fake.stumbles[ALTER] = [stumble]
    ran = fake.kipctl(ROTATE, status=6)
    assert "It is not known whether the cluster has taken it" in ran.err
    assert "kipctl reassign --list" in ran.err
    assert "kipctl undo" in ran.err
    assert fake.states() == ["submitted"]


def test_reads_while_waiting_are_asked_again(fake: Reassigning) -> None:
    def stumble() -> None:
        fake.stumbles[LIST] = [HANG_UP, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, None]
        fake.stumbles[MetadataRequest] = [HANG_UP, None, HANG_UP]

    fake.changes = [stumble]
    fake.kipctl(ROTATE)
    assert set(fake.leaders().values()) == {2}


def test_a_controller_that_moves_is_waited_for(fake: Reassigning) -> None:
    fake.stumbles[ALTER] = [ErrorCode.NOT_CONTROLLER] * 6
    fake.kipctl(ROTATE)
    assert len(fake.altered) == 1


def test_a_refusal_after_something_was_submitted_is_partly_done(fake: Reassigning) -> None:
    refused = {LIST: [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]}
    fake.changes = [lambda: fake.stumbles.update(refused)]
    ran = fake.kipctl(ROTATE, status=5)
    assert "Of 10 partitions 10 have their new replicas" in ran.err
    assert "kipctl undo" in ran.err


@pytest.mark.parametrize(("deleted_before_batch", "status"), [(0, 5), (1, 0)])
def test_a_topic_that_is_deleted_meanwhile_is_gone_and_not_wrong_usage(
    fake: Reassigning, deleted_before_batch: int, status: int
) -> None:
    fake.partitions[OTHER] = Held((1, 2), 1)  # in the first batch

    def delete() -> None:
        del fake.partitions[OTHER]

    fake.changes = [lambda: None] * deleted_before_batch + [delete]
    ran = fake.kipctl("reassign --rotate --topic * --yes --batch 6 --between 0s", status=status)
    assert set(fake.leaders().values()) == {2}
    if status:
        assert "10 partitions are done, 1 is not: other-0: UNKNOWN_TOPIC_OR_PARTITION" in ran.err


def test_a_topic_that_is_deleted_while_it_is_copied_is_not_counted_as_reassigned(
    fake: Reassigning,
) -> None:
    fake.partitions[OTHER] = Held((1, 2), 1)
    moves = [
        {"topic": "other", "partition": 0, "replicas": [3, 4]},
        {"topic": "t", "partition": 0, "replicas": [2, 3, 4]},
    ]
    plan = fake.state / "moves.json"
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    answer = fake.answer

    def deletes(asked: Asked) -> Response | bytes | None:
        other = fake.partitions.get(OTHER)
        if isinstance(asked.request, LIST) and other and other.replicas == (3, 4):
            del fake.partitions[OTHER]
        return answer(asked)

    assert fake.broker is not None
    fake.broker.answers = deletes
    ran = fake.kipctl(f"reassign --plan {plan} --yes")
    assert "1 partition is reassigned, 1 partition is gone (such as other-0)." in ran.out


@pytest.mark.parametrize(
    ("count", "columns", "rows"),
    [(8, "Topic Partition Replicas New replicas Leader New preferred Data", 8), (9, BROKERS, 4)],
)
def test_what_is_asked_about_is_shown_before_the_question(
    fake: Reassigning, count: int, columns: str, rows: int
) -> None:
    fake.partitions = {PartitionId("t", number): Held((1, 2, 3), 1) for number in range(count)}
    refused = fake.kipctl("reassign --rotate --topic t", typed="n\n", status=4)
    assert refused.out == ""
    lines = refused.err.splitlines()
    question = next(i for i, line in enumerate(lines) if "Rotate the leaders of" in line)
    above = next(i for i, line in enumerate(lines) if line.split() == columns.split())
    assert len([line for line in lines[above + 1 : question] if line]) == rows, refused.err
    assert set(fake.leaders().values()) == {1}
    asked = fake.kipctl(ROTATE)
    assert columns.split() not in [line.split() for line in asked.err.splitlines()]


@contextmanager
def interrupted(looks: int) -> Iterator[None]:
    """Ctrl-C at the look before a batch, after so many that were not interrupted."""
    left = iter([changed_since] * looks)

    def look(*arguments: Any, **options: Any) -> Any:
        if (call := next(left, None)) is None:
            raise KeyboardInterrupt
        return call(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kipctl.changes.execution.batch_execution.changed_since", look)
        yield


@pytest.mark.parametrize(
    ("batch", "looks", "progress", "then", "leader"),
    [
        (2, 2, "4 have their new replicas, 6 have their old ones", "changes resume --yes", 2),
        (6, 1, "6 have their new replicas, 4 have their old ones", ROLLBACK, 1),
    ],
)
def test_ctrl_c_after_a_batch_may_be_gone_on_with_or_undone(
    fake: Reassigning, batch: int, looks: int, progress: str, then: str, leader: int
) -> None:
    with interrupted(looks):
        ran = fake.kipctl(ROTATE, f"--batch {batch} --between 0s", status=130)
    assert f"kipctl: Interrupted. Of 10 partitions {progress}" in ran.err
    named = fake.entries()[0].id
    assert ran.err.endswith(f"Go on: kipctl changes resume {named} or undo: kipctl undo {named}\n")
    fake.kipctl(then)
    assert set(fake.leaders().values()) == {leader}


def test_ctrl_c_before_anything_is_submitted_leaves_nothing_to_roll_back(fake: Reassigning) -> None:
    fake.kipctl(ROTATE)
    with interrupted(looks=0):
        ran = fake.kipctl(ROTATE, status=130)
    assert "Interrupted before anything was changed." in ran.err
    assert "rollback" not in ran.err
    assert fake.states() == ["refused", "done"]
    fake.kipctl(ROLLBACK, fake.entries()[1].id)
    assert set(fake.leaders().values()) == {1}


@pytest.mark.parametrize(
    ("request_type", "before"), [(MetadataRequest, 4), (DescribeConfigsRequest, 0)]
)
def test_a_broker_that_goes_before_anything_is_written_down(
    fake: Reassigning, request_type: type, before: int
) -> None:
    fake.stumbles[request_type] = [*[None] * before, *[HANG_UP] * 50]
    held = fake.replicas()
    ran = fake.kipctl("reassign --drain 3 --throttle 1MB/s --yes", status=3)
    assert "Nothing was changed." in ran.err
    assert (fake.replicas(), fake.states(), fake.configs) == (held, [], {})


def test_a_journal_that_cannot_be_written_any_more_does_not_undo_what_was_done(
    fake: Reassigning, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = Entry.mark

    def full(self: Entry, to: EntryState, *rest: object) -> Entry:
        if to is last:
            raise UsageError("The journal cannot be written: No space left on device.")
        return mark(self, to)

    last = EntryState.DONE
    with monkeypatch.context() as patch:
        patch.setattr(Entry, "mark", full)
        ran = fake.kipctl(ROTATE, status=5)
    assert "10 leaders moved" in ran.out
    assert "is not marked as done: The journal cannot be written" in ran.err
    assert "Nothing was changed" not in ran.err
    assert fake.states() == ["submitted"]
    last = EntryState.UNDONE
    with monkeypatch.context() as patch:
        patch.setattr(Entry, "mark", full)
        ran = fake.kipctl(ROLLBACK, status=5)
    assert "is not marked as undone" in ran.err
    assert set(fake.leaders().values()) == {1}
    fake.kipctl(ROLLBACK)
    assert fake.states()[-1] == "undone"


def test_what_is_cancelled_while_the_journal_is_full_is_partly_done(
    fake: Reassigning, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.moves_at_once = False
    before = fake.replicas()
    fake.kipctl("reassign --drain 3 --yes --timeout 0.2s", status=6)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kipctl.changes.journal.entry.write_whole", full)
    ran = fake.kipctl("changes cancel --yes", status=5)
    assert "is not marked as undone: The journal in" in ran.err
    assert "Nothing was changed" not in ran.err
    assert fake.replicas() == before


class TestMovesThatNobodyMeant:
    """A plan is made from Metadata; what it comes to depends on what the controller has."""

    @pytest.mark.parametrize(
        ("codes", "said", "goes_on"),
        [
            ([], "so it was cancelled at once", False),
            # Each is asked twice: the controller is looked up again in between.
            ([ErrorCode.NOT_CONTROLLER] * 6, "so it was cancelled at once", False),
            ([ErrorCode.CLUSTER_AUTHORIZATION_FAILED], "it may go on, as it could not be", True),
        ],
    )
    def test_a_reorder_that_turns_out_to_copy_data_is_cancelled_at_once(
        self, fake: Reassigning, codes: list[int], said: str, goes_on: bool
    ) -> None:
        fake.moves_at_once = False

        def another_tool() -> None:
            fake.partitions[T[0]].replicas = (4, 2, 3)
            fake.stumbles[ALTER] = [*codes]

        fake.changes = [another_tool]
        ran = fake.kipctl(ROTATE, status=5)
        assert "t-0: another change came before this one" in ran.err
        assert f"added [1] and removed [4]; {said}" in ran.err
        assert ("kipctl reassign --list" in ran.err) is goes_on
        assert (fake.partitions[T[0]].target is not None) is goes_on
        assert fake.altered[1:] == ([] if goes_on else [{T[0]: None}])
        assert set(fake.replicas()[T[0]]) == {2, 3, 4}
        assert fake.leaders()[T[1]] == 2

    def test_when_all_of_it_does_nothing_is_called_refused(self, fake: Reassigning) -> None:
        fake.moves_at_once = False

        taken = {partition: Held((4, 2, 3), 4) for partition in T}
        fake.changes = [lambda: fake.partitions.update(taken)]
        fake.kipctl(ROTATE, status=5)
        assert not any(held.target for held in fake.partitions.values())

    @pytest.mark.parametrize("way", ["reassign --rotate --topic t", "reassign --plan", "undo"])
    def test_a_plan_that_is_another_one_after_the_question_is_refused(
        self, fake: Reassigning, way: str
    ) -> None:
        def somebody_changes_it() -> None:
            fake.partitions[T[3]] = Held((4, 2, 3), 4)

        fake.kipctl(ROTATE)
        file = fake.plan_file(dict.fromkeys(T, (4, 3, 1))) if "--plan" in way else ""
        asked = {"typed": "y\n", "meanwhile": somebody_changes_it}
        ran = fake.kipctl(way, file, status=4, **asked)
        assert "The cluster has changed since the plan was shown" in ran.err
        assert "t-3" in ran.err
        assert len(fake.altered) == 1


class TestOthersReassign:
    """While another tool reassigns."""

    @pytest.fixture(autouse=True)
    def busy(self, fake: Reassigning) -> None:
        fake.moves_at_once = False
        fake.partitions[OTHER] = Held((1, 2), 1, target=(3, 2))

    def test_nothing_else_is_begun(self, fake: Reassigning) -> None:
        ran = fake.kipctl(ROTATE, status=4)
        assert "other-0 is being reassigned already" in ran.err
        assert "--additional" in ran.err
        assert fake.altered == []

    def test_additional_goes_on_beside_it(self, fake: Reassigning) -> None:
        fake.kipctl(ROTATE, "--additional")
        assert fake.leaders()[T[0]] == 2

    def test_busy_partitions_are_left_alone_and_the_dry_run_tells(self, fake: Reassigning) -> None:
        fake.partitions[T[0]].target = (4, 2, 3)
        shown = fake.kipctl("reassign --rotate --topic t --dry-run -o json").document
        assert (len(shown["partitions"]), shown["ongoing_partitions"]) == (9, 2)
        assert shown["skipped"] == [
            {"topic": "t", "partition": 0, "reason": "it is being reassigned already"}
        ]
        fake.kipctl(ROTATE, "--additional")
        assert fake.partitions[T[0]].target == (4, 2, 3)
        assert fake.leaders()[T[1]] == 2

    def test_a_dry_run_needs_no_right_to_list_them(self, fake: Reassigning) -> None:
        fake.kipctl(ROTATE, "--additional")
        for command in ("reassign --rotate --topic t", "undo"):
            fake.stumbles[LIST] = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
            ran = fake.kipctl(command, "--dry-run")
            assert "What is being reassigned is not in this plan" in ran.err

    def test_cancel_leaves_them_alone(self, fake: Reassigning) -> None:
        plan = fake.plan_file({T[0]: (4, 1, 3), T[1]: (4, 1, 3)})
        fake.partitions[T[0]].replicas = fake.partitions[T[1]].replicas = (3, 1, 2)
        ran = fake.kipctl("reassign --plan", plan, UNFINISHED, status=6)
        assert "2 of 2 partitions are still being reassigned" in ran.err

        shown = fake.kipctl("changes cancel --dry-run -o json").document
        assert [partition["topic"] for partition in shown["ongoing"]] == ["t", "t"]
        assert [partition["topic"] for partition in shown["left_alone"]] == ["other"]

        ran = fake.kipctl(CANCEL)
        assert "1 other is left alone" in ran.err
        assert [partition["order"] for partition in ran.document["cancelled"]] == ["put back"] * 2
        assert fake.replicas()[T[0]] == (3, 1, 2)
        assert fake.partitions[OTHER].target == (3, 2)
        assert fake.states() == ["undone"]

        ran = fake.kipctl("changes cancel --yes")
        assert fake.partitions[OTHER].target == (3, 2)
        ran = fake.kipctl(CANCEL, "--all")
        assert ran.document["cancelled"][0]["order"] == "unknown"
        assert fake.partitions[OTHER].target is None

    def test_metadata_of_before_the_reassignment_is_not_taken_for_the_old_order(
        self, fake: Reassigning
    ) -> None:
        """A broker that is behind shows the old replicas in their order, as if none had moved."""
        fake.partitions[T[0]].replicas = (3, 1, 2)
        fake.shown_before = {T[0]: replace(fake.partitions[T[0]])}
        plan = fake.plan_file({T[0]: (4, 1, 3)})
        ran = fake.kipctl("reassign --plan", plan, UNFINISHED, status=6)

        fake.changes.append(lambda: setattr(fake, "late_looks", 3))
        ran = fake.kipctl(CANCEL)
        assert [partition["order"] for partition in ran.document["cancelled"]] == ["put back"]
        assert fake.replicas()[T[0]] == (3, 1, 2)

    def test_an_order_that_is_another_than_kafka_was_to_leave_is_not_waited_out(
        self, fake: Reassigning
    ) -> None:
        """Somebody gives it another target between the last look and the cancellation."""
        plan = fake.plan_file({T[0]: (4, 1, 3)})  # cancelled, it leaves (1, 3, 2)
        ran = fake.kipctl("reassign --plan", plan, UNFINISHED, status=6)
        fake.changes.append(lambda: setattr(fake.partitions[T[0]], "target", (3, 4, 1)))
        ran = fake.kipctl(CANCEL)
        assert [partition["order"] for partition in ran.document["cancelled"]] == ["put back"]
        assert fake.replicas()[T[0]] == (1, 2, 3)

    @pytest.mark.parametrize("option", ["--topic", "--plan"])
    def test_cancel_takes_what_is_named(self, fake: Reassigning, option: str) -> None:
        fake.partitions[T[0]].target = (4, 2, 3)
        value = {"--topic": "other", "--plan": fake.plan_file({OTHER: (3, 2)})}[option]
        fake.kipctl("changes cancel", option, value, "--yes")
        assert fake.partitions[OTHER].target is None
        assert fake.partitions[T[0]].target == (4, 2, 3)

    def test_an_old_order_is_not_put_back_on_what_others_started(self, fake: Reassigning) -> None:
        fake.partitions[OTHER].target = None
        fake.kipctl(ROTATE)  # from (1, 2, 3) to (2, 3, 1)
        fake.partitions[T[0]].replicas = (3, 2, 1)
        fake.partitions[T[0]].target = (4, 2, 1)
        ran = fake.kipctl(CANCEL, "--all")
        assert ran.document["cancelled"][0]["order"] == "unknown"
        assert len(fake.altered) == 2  # the rotation, the cancellation, and no order after it


class TestBatches:
    """Partitions are submitted so many at a time."""

    def test_each_is_reassigned_and_elected_before_the_next(self, fake: Reassigning) -> None:
        ran = fake.kipctl(ROTATE, "--batch 4 --between 0s -o json")
        assert [len(batch) for batch in fake.altered] == [4, 4, 2]
        assert [set(a) for a in fake.altered] == fake.elected
        assert ran.document["counts"] == {"done": 10, "failed": 0}
        assert fake.states() == ["done"]

    def test_what_has_changed_between_two_of_them_is_left_out(self, fake: Reassigning) -> None:
        def meanwhile() -> None:
            fake.partitions[T[8]].replicas = (3, 2, 1)
            fake.partitions[T[9]].isr = (1, 3)

        fake.changes = [meanwhile]
        ran = fake.kipctl(ROTATE, "--batch 5 --between 0s", status=5)
        assert "8 partitions are done, 2 are not" in ran.err
        assert fake.replicas()[T[8]] == (3, 2, 1)
        assert fake.replicas()[T[9]] == (1, 2, 3)

    def test_another_tool_that_begins_between_two_of_them_stops_it(self, fake: Reassigning) -> None:
        fake.partitions[OTHER] = Held((1, 2), 1)

        def meanwhile() -> None:
            fake.moves_at_once = False
            fake.partitions[OTHER].target = (3, 2)

        fake.changes = [meanwhile]
        ran = fake.kipctl(ROTATE, "--batch 5 --between 0s", status=5)
        assert "1 other partition is being reassigned by now, such as other-0." in ran.err
        assert "Of 10 partitions 5 have their new replicas" in ran.err
        assert len(fake.altered) == 1

    def test_a_batch_of_which_nothing_is_accepted_is_the_last(self, fake: Reassigning) -> None:
        fake.refused = set(T[5:])
        ran = fake.kipctl(ROTATE, "--batch 3 --between 0s", status=5)
        assert [len(batch) for batch in fake.altered] == [3, 3, 3]
        assert "5 partitions are done, 5 are not" in ran.err


class TestReplicationFactor:
    """Plans that change how many replicas there are."""

    def test_it_is_asked_for_by_an_option(self, fake: Reassigning) -> None:
        plan = fake.plan_file({T[0]: (1, 2)})
        ran = fake.kipctl("reassign --plan", plan, "--yes", status=4)
        assert "changes the replication factor of 1 partition, such as t-0: from 3 to 2" in ran.err
        assert "--change-replication-factor" in ran.err
        assert fake.altered == []
        ran = fake.kipctl("reassign --plan", plan, "--dry-run")
        assert "no data is copied; 1 gets 2 replicas instead of 3." in ran.out
        ran = fake.kipctl("reassign --plan", plan, "--change-replication-factor", status=2)
        assert "The REPLICATION FACTOR of 1 CHANGES (1 gets fewer replicas" in ran.err
        ran = fake.kipctl("reassign --plan", plan, "--yes --change-replication-factor")
        assert fake.replicas()[T[0]] == (1, 2)

    def test_never_below_min_insync_replicas_unasked(self, fake: Reassigning) -> None:
        fake.min_insync["t"] = "2"
        plan = fake.plan_file({T[0]: (1,)})
        command = f"reassign --plan {plan} --yes --change-replication-factor"
        ran = fake.kipctl(command, status=4)
        assert "min.insync.replicas of its topic is 2" in ran.err
        assert fake.altered == []
        fake.kipctl(command, "--force")


class TestJournalOfCommands:
    """What commands make of the journal's files."""

    def test_a_damaged_entry_is_named_and_passed_over(self, fake: Reassigning) -> None:
        fake.kipctl(ROTATE)
        fake.kipctl(ROTATE)
        newest, _ = fake.entries()
        newest.path.write_text("{")
        fake.partitions[T[0]].replicas = (2, 3, 1)
        for command in ("undo --dry-run", "changes list", "changes cancel --yes"):
            fake.partitions[OTHER] = Held((1, 2), 1, target=(3, 2))
            ran = fake.kipctl(command)
            assert f"{newest.path} is damaged" in ran.err

    def test_the_history_is_listed_and_an_entry_of_it_chosen(self, fake: Reassigning) -> None:
        fake.partitions[OTHER] = Held((1, 2), 1)
        fake.kipctl(ROTATE)
        fake.kipctl("reassign --rotate --topic other --yes")
        shown = fake.kipctl("changes list -o json").document["entries"]
        assert [entry["partitions"] for entry in shown] == [1, 10]
        assert shown[1]["command_line"] == ROTATE.split()
        fake.kipctl(ROLLBACK, shown[1]["id"])
        assert fake.leaders()[T[0]] == 1
        assert fake.leaders()[OTHER] == 2

    def test_a_change_is_shown_beside_the_cluster_as_it_is(self, fake: Reassigning) -> None:
        fake.kipctl(ROTATE)
        fake.partitions[T[0]].replicas = (1, 2, 3)
        fake.partitions[T[1]].replicas = (4, 2, 3)
        del fake.partitions[T[2]]
        shown = fake.kipctl("changes show -o json").document
        assert [(row["replicas"], row["state"]) for row in shown["partitions"][:4]] == [
            ([1, 2, 3], "as before"),
            ([4, 2, 3], "otherwise"),
            (None, "gone"),
            ([2, 3, 1], "as planned"),
        ]
        assert (shown["id"], shown["state"]) == (fake.entries()[0].id, "done")
        ran = fake.kipctl("changes show", fake.entries()[0].id[:-4])
        assert "Of 10 partitions: 1 as before, 1 otherwise, 1 gone, 7 as planned." in ran.out
        assert f"Undo it: kipctl undo {fake.entries()[0].id}" in ran.out

    def test_without_a_change_none_is_shown(self, fake: Reassigning) -> None:
        assert "No change of this cluster is in" in fake.kipctl("changes show", status=4).err

    def test_the_question_says_whose_change_of_when_it_undoes(self, fake: Reassigning) -> None:
        fake.kipctl(ROTATE)
        ran = fake.kipctl("undo", status=2)
        assert "Undo it for 10 partitions?" in ran.err
        assert "Repeat with --yes" in ran.err
        assert "kipctl reassign --rotate --topic t --yes, by " in ran.err
        assert "(less than a minute ago, entry " in ran.err

    def test_two_at_once_exclude_one_another_but_cancel_is_never_kept_waiting(
        self, fake: Reassigning
    ) -> None:
        with fake.kept.locked(Origin(("reassign", "--rotate"), "bob", "bastion")):
            ran = fake.kipctl(ROTATE, status=4)
            assert "kipctl reassign --rotate, by bob@bastion" in ran.err
            assert fake.altered == []
            fake.partitions[OTHER] = Held((1, 2), 1, target=(3, 2))
            fake.kipctl("changes cancel --all --yes")
        fake.kipctl(ROTATE)


class TestOutput:
    """However many partitions there are."""

    @pytest.fixture(autouse=True)
    def many(self, fake: Reassigning) -> None:
        fake.partitions |= {PartitionId("m", n): Held((1, 2), 1) for n in range(300)}
        fake.partitions |= {PartitionId("solo", n): Held((4,), 4) for n in range(300)}

    def test_a_dry_run_is_a_table_by_broker(self, fake: Reassigning) -> None:
        dry_run = "reassign --rotate --all-topics --dry-run"
        ran = fake.kipctl(dry_run)
        lines = [line.split() for line in ran.out.splitlines()]
        assert ["1", "310", "0", "310", "310"] in lines
        assert ["2", "0", "310", "310", "310"] in lines
        assert ["4", "300", "300", "300", "300"] in lines
        assert "it has too few replicas to rotate (1)" in ran.out
        assert "310 partitions of 2 topics change: no data is copied; 300 are" in ran.out
        assert len(lines) > 310  # a pipe gets every row
        shown = json.loads(fake.kipctl(dry_run, "-o json").out)
        assert (len(shown["partitions"]), len(shown["skipped"])) == (310, 300)
        first = shown["brokers"][0]
        assert (first["broker"], first["leader_count"], first["leader_count_after"]) == (1, 310, 0)
        assert (first["replica_count"], first["replica_count_after"]) == (310, 310)

    def test_a_rotation_of_nothing_named_says_what_could_be_rotated(
        self, fake: Reassigning
    ) -> None:
        fake.partitions[PartitionId("__internal", 0)] = Held((1, 2), 1)
        ran = fake.kipctl("reassign --rotate")
        assert "__internal" not in ran.out  # --all-topics leaves it out
        lines = [line.split() for line in ran.out.splitlines()]
        assert lines.index(["m", "300", "0"]) < lines.index(["solo", "0", "300"])
        assert "it has too few replicas to rotate (1)" in ran.out
        assert fake.altered == []

    def test_a_pipe_gets_every_partition_of_a_rotation(self, fake: Reassigning) -> None:
        ran = fake.kipctl("reassign --rotate --all-topics --yes")
        assert len(ran.err.splitlines()) < 30
        assert sum(line.split()[:1] == ["m"] for line in ran.out.splitlines()) >= 300


@pytest.mark.parametrize("full", [True, False], ids=["full", "closed"])
@pytest.mark.parametrize("output", ["plain", "json"])
def test_where_stdout_takes_no_result_the_way_back_is_said_on_stderr(
    fake: Reassigning, full: bool, output: str
) -> None:
    read, write = os.pipe()
    os.close(read)
    with open("/dev/full" if full else write, "w") as stdout:
        change = f"reassign --rotate --topic t --yes -o {output}"
        ran = fake.kipctl(change, stdout=stdout, status=5 if full else 0)
    assert f"Undo: kipctl undo {fake.entries()[-1].id}" in ran.err
    assert "fault" not in ran.err
    assert ("The result cannot be written to stdout: No space left on device." in ran.err) is full


def test_kipctl_alone_counts_what_is_not_well(fake: Reassigning) -> None:
    fake.partitions[OTHER] = Held((1, 2), 1, target=(3, 2))
    ran = fake.kipctl()
    assert "1 is being reassigned" in ran.out
