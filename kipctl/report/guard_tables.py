"""What a guard saw."""

from dataclasses import replace
from datetime import datetime

from kipctl.counts import counted
from kipctl.documents.common import GuardSeen
from kipctl.guard.conditions import Guard
from kipctl.report.tables import Cell, Column, Report, Table


def with_guard_table(report: Report, guard: Guard | None) -> Report:
    """The report with what the guard saw, if there is one; it may have measured nothing yet."""
    if guard is None or not guard.gauges:
        return report
    document = guard.as_document()
    return replace(
        report,
        document={**report.document, "guard": document},
        tables=(*report.tables, guard_table(document)),
    )


def guard_table(guard: GuardSeen) -> Table:
    """What each condition was seen to be; latencies are seconds."""
    compares = any(condition["undisturbed"] is not None for condition in guard["conditions"])
    before = (Column("Undisturbed", 3),) if compares else ()
    columns = ("Guard", *before, Column("Last", 3), Column("Worst", 3))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            condition["condition"],
            *([condition["undisturbed"]] if compares else []),
            condition["last"],
            condition["worst"],
            condition["looks"],
            condition["looks_without_value"],
            condition["crossed"],
        )
        for condition in guard["conditions"]
    )
    notes = []
    if any(
        condition["condition"].startswith(("p", "moved-wait")) for condition in guard["conditions"]
    ):
        notes.append("Latencies and waits are in seconds.")
    if worst := [
        f"{condition['condition']} at {datetime.fromisoformat(condition['worst_at']):%H:%M:%S}"
        for condition in guard["conditions"]
        if condition["worst"] and condition["worst_at"]
    ]:
        notes.append(f"The worst was seen: {', '.join(worst)} (UTC).")
    if guard["pauses"]:
        given_up = ", and gave up in the end" if guard["is_given_up"] else ""
        notes.append(
            f"It paused {counted(guard['pauses'], 'time')}, {guard['paused_seconds']:.1f} s of"
            f" pauses that ended{given_up}."
        )
    columns = (*columns, "Looks", "Not known", "Crossed")
    return Table("Guard", columns, rows, tuple(notes), name="guard")
