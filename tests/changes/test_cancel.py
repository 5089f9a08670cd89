"""Which reassignments are kipctl's own, by table, and which are cancelled."""

from pathlib import Path

import pytest

from kipctl.changes.execution.cancellation import choose, is_as_before, starting_entries
from kipctl.changes.journal.entry import Entry, EntryState
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot

A, B, C = (PartitionId("t", n) for n in range(3))
BUSY_A = Reassignment(A, (3, 2, 1), (3,), (1,))  # from 1 and 2 to 3 and 2
BUSY_B = Reassignment(B, (3, 2, 1), (3,), (1,))
Replicas = tuple[int, ...]


def entry(
    entry_id: str,
    *partitions: PartitionId,
    before: Replicas = (1, 2),
    after: Replicas | None = (3, 2),
    state: EntryState = EntryState.SUBMITTED,
) -> Entry:
    path = Path(f"{entry_id}.entry.json")
    return Entry(
        path,
        entry_id,
        "c",
        dict.fromkeys(partitions, before),
        dict.fromkeys(partitions, after),
        state,
    )


@pytest.mark.parametrize(
    ("entries", "starter"),
    [
        ([entry("2", A)], "2"),
        ([entry("2", A, before=(2, 1), after=(2, 3))], "2"),
        ([], None),
        ([entry("2", B)], None),
        ([entry("2", A, after=(4, 2))], None),
        ([entry("2", A, before=(1, 3))], None),
        ([entry("2", A, after=None)], None),
        # An older change that looks the same is over, once there was a newer one.
        ([entry("2", A, after=(2, 1)), entry("1", A)], None),
        # What never came about, or was undone, says nothing.
        ([entry("2", A, after=(2, 1), state=EntryState.REFUSED), entry("1", A)], "1"),
        ([entry("2", A, state=EntryState.UNDONE), entry("1", A)], "1"),
        ([entry("2", A, state=EntryState.PREPARED)], None),
        # What is done had arrived: this one somebody has begun since; so it is with older ones.
        ([entry("2", A, state=EntryState.DONE)], None),
        ([entry("2", A, state=EntryState.DONE), entry("1", A)], None),
    ],
)
def test_a_reassignment_is_ones_own_if_the_newest_entry_began_it(
    entries: list[Entry], starter: str | None
) -> None:
    started = starting_entries([BUSY_A], entries)
    assert [change.id for change in started.values()] == ([starter] if starter else [])


def test_the_last_change_is_what_is_cancelled_unless_others_are_named() -> None:
    busy = (BUSY_A, BUSY_B, Reassignment(C, (1, 2), (2,), ()))
    newer, older = entry("2", A), entry("1", B)
    started = starting_entries(busy, [newer, older])
    for wanted, entry_id, stopped, own in (
        (None, "", [A], {A: newer}),
        (None, "1", [B], {B: older}),
        (None, "7", [], {}),
        ([B, C], "", [B, C], {B: older}),
        ([A, B, C], "", [A, B, C], {A: newer, B: older}),
    ):
        chosen = choose(busy, started, wanted, entry_id)
        assert [reassignment.id for reassignment in chosen.stop] == stopped
        assert chosen.started == own
        assert {reassignment.id for reassignment in chosen.left_alone} == {A, B, C} - set(stopped)


def test_nothing_of_ones_own_is_nothing_to_cancel() -> None:
    chosen = choose((BUSY_A,), {}, None)
    assert (chosen.stop, chosen.left_alone) == ((), (BUSY_A,))


@pytest.mark.parametrize(
    ("replicas", "expected"), [((1, 2), True), ((2, 1), False), ((3, 2), False), (None, True)]
)
def test_an_entry_of_which_all_is_as_before(replicas: Replicas | None, expected: bool) -> None:
    there = () if replicas is None else (Partition(A, replicas, replicas, replicas[0], 0),)
    assert is_as_before(entry("1", A), Snapshot("c", (), there)) is expected
