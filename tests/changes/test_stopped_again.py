"""A change that was begun, is gone on with, and is stopped before it does any more."""

from collections.abc import Callable

import pytest
from passing_clock import PassingClock
from test_guarded import IMPATIENT, PATIENT, Suffering, fake

from kipctl.changes.journal.entry import ChangeKind, EntryState, ExecutionOptions
from kipctl.changes.plans.disks import DiskMove
from kipctl.cluster.snapshot import PartitionId
from kipctl.protocol.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kipctl.protocol.elect_leaders import ElectLeadersRequest
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.reassignments import AlterPartitionReassignmentsRequest

__all__ = ["fake"]

T = [PartitionId("t", n) for n in range(3)]
HERE, ROTATED = dict.fromkeys(T, (1, 2)), dict.fromkeys(T, (2, 1))
RESUME = "changes resume --yes"


def reassignment(fake: Suffering, undoes: str = "", **options: bool) -> str:
    """One that has moved the first of its partitions."""
    fake.partitions[T[0]].replicas = (2, 1)
    how = ExecutionOptions(1, 0.0, True)
    fake.kept.save(HERE, ROTATED, undoes=undoes, how=how).mark(EntryState.SUBMITTED)
    return RESUME


def phases(fake: Suffering) -> str:
    """Its first phase is done."""
    fake.partitions[T[0]].replicas = (2, 1)
    how = ExecutionOptions(1, 0.0, False)
    first, second = {T[0]: (2, 1)}, {T[1]: (2, 1)}
    entry = fake.kept.save(HERE, HERE | first | second, how=how, phases=(first, second))
    entry.mark(EntryState.SUBMITTED)
    return RESUME


def undo(fake: Suffering) -> str:
    """The way back of a change, the first of whose partitions is there."""
    was = fake.kept.save(ROTATED, HERE, how=ExecutionOptions(1, 0.0, True)).mark(EntryState.DONE)
    reassignment(fake, was.id)
    return f"undo {was.id} --yes"


def election(fake: Suffering, *, until_balanced: bool = False) -> str:
    """One that has moved the first of three leaders."""
    fake.led_by_others()
    fake.partitions[T[0]].leader = 1
    how = ExecutionOptions(1, 0.0, True, until_balanced=until_balanced, as_they_come=until_balanced)
    fake.kept.save(
        HERE, HERE, how=how, kind=ChangeKind.ELECT_PREFERRED, leaders=dict.fromkeys(T, 2)
    ).mark(EntryState.SUBMITTED)
    return RESUME


def election_until_balanced(fake: Suffering) -> str:
    return election(fake, until_balanced=True)


def disks(fake: Suffering, undoes: str = "") -> str:
    """One that has moved the first of two replicas."""
    fake.log_dirs = ("/data", "/data2")
    fake.located[T[0]] = "/data2"
    fake.kept.save(
        HERE,
        HERE,
        undoes=undoes,
        how=ExecutionOptions(1, 0.0, False),
        kind=ChangeKind.DISKS,
        disks=[DiskMove(partition, 1, "/data", "/data2", 1000) for partition in T[:2]],
    ).mark(EntryState.SUBMITTED)
    return RESUME


BEGUN = [reassignment, phases, undo, election, election_until_balanced, disks]


@pytest.mark.parametrize("begun", BEGUN)
@pytest.mark.parametrize("stopped", ["given up", "time is over", "interrupted", "not allowed"])
def test_what_has_changed_something_is_never_marked_as_refused(
    fake: Suffering, clock: PassingClock, begun: Callable[[Suffering], str], stopped: str
) -> None:
    """It would be neither gone on with nor undone then."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    command = begun(fake)
    (entry,) = fake.kept.unfinished()
    if stopped == "not allowed":
        for request in (
            AlterPartitionReassignmentsRequest,
            AlterReplicaLogDirsRequest,
            ElectLeadersRequest,
        ):
            fake.stumbles[request] = [int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)] * 9
    else:
        fake.suffer_after(0)
    if stopped == "interrupted":
        clock.meanwhile = [(lambda: True, interrupt)]
    guard, status = {
        "given up": (IMPATIENT, 5),
        "time is over": (f"{PATIENT} --timeout 5", 6),
        "interrupted": (PATIENT, 130),
        "not allowed": ("", 5),
    }[stopped]
    ran = fake.kipctl(command, guard, status=status)
    assert "Nothing was changed" not in ran.err
    assert "before anything was changed" not in ran.err
    if begun is disks:
        named = f"kipctl changes resume {entry.id} or undo: kipctl undo {entry.id}"
        assert ran.err.splitlines()[-1].endswith(f"Go on: {named}")
    assert entry.reload().state is EntryState.SUBMITTED
    fake.stumbles.clear()
    fake.heal()
    fake.kipctl(command)
    assert entry.reload().state is EntryState.DONE
