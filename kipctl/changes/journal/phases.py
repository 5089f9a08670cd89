"""The entry of a change in phases, phase by phase. Pure rules."""

from dataclasses import replace

from kipctl.changes.journal.entry import Entry
from kipctl.cluster.snapshot import PartitionId


def at_phase(entry: Entry, number: int) -> Entry:
    """A phase (from 0) as a change of its own: from what those before it leave.

    It is to be looked at, not to be written.
    """
    target, state = entry.phases[number], dict(entry.before)
    for phase in entry.phases[:number]:
        state |= phase
    return replace(entry, before={p: state[p] for p in target}, after=target, phases=())


def present_phase(entry: Entry) -> Entry:
    """The phase that it has come to; a change that has none is its only one."""
    return at_phase(entry, entry.phase) if entry.phases else entry


def phase_reached(entry: Entry) -> str:
    """The phase that it has come to, as `phase 2 of 3`."""
    return f"phase {entry.phase + 1} of {len(entry.phases)}"


def not_begun(entry: Entry) -> str:
    """The phases that are still to come, in a sentence; "" for none."""
    first, last = entry.phase + 2, len(entry.phases)
    if first > last:
        return ""
    return (
        f"Phase {first} of {last} was not begun."
        if first == last
        else (f"Phases {first} to {last} were not begun.")
    )


def left_in(entry: Entry, partition: PartitionId) -> tuple[tuple[int, ...] | None, ...]:
    """Where the change may have left a partition: as planned, or as a phase was to leave it."""
    begun = entry.phases[: entry.phase + 1] or (entry.after,)
    return tuple(target[partition] for target in begun if partition in target)
