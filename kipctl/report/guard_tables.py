"""What a guard saw."""

from collections.abc import Mapping
from typing import Any

from kipctl.report.tables import Cell, Column, Table


def guard_table(guard: Mapping[str, Any]) -> Table:
    """What each condition was seen to be; latencies are seconds."""
    columns = ("Guard", Column("Last", 3), Column("Worst", 3), "Looks", "Not known", "Crossed")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            one["guard"],
            one["last"],
            one["worst"],
            one["looks"],
            one["not_known"],
            one["crossed"],
        )
        for one in guard["conditions"]
    )
    notes = []
    if any(one["guard"].startswith(("p", "moved-wait")) for one in guard["conditions"]):
        notes.append("Latencies and waits are in seconds.")
    if guard["pauses"]:
        given_up = ", and gave up in the end" if guard["given_up"] else ""
        notes.append(
            f"It paused {guard['pauses']} times, {guard['paused_seconds']:.1f} s of pauses that"
            f" ended{given_up}."
        )
    return Table("Guard", columns, rows, tuple(notes), name="guard")
