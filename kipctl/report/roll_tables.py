"""What `kipctl roll` prints: order and risks, what became of each broker."""

from collections.abc import Mapping, Sequence
from typing import Any

from kipctl.report.tables import Cell, Column, Table


def plan_tables(plan: Mapping[str, Any]) -> tuple[Table, ...]:
    """The order of a roll, and what each restart risks."""
    rows: list[tuple[Cell, ...]] = [
        (
            number,
            str(step["broker"]),
            step["rack"],
            step["role"],
            step["leaders"],
            step["replicas"],
            step["no_other_replica"],
            step["below_min_insync_replicas"],
            step["one_replica_left"],
        )
        for number, step in enumerate(plan["order"], 1)
    ]
    columns = (
        "",
        Column("Broker", right=True),
        "Rack",
        "Role",
        "Leaders",
        "Replicas",
        "No other replica",
        "Below min.insync",
        "One left",
    )
    return (Table("Order, and what each restart risks", columns, tuple(rows), _examples(plan)),)


def plan_closing(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """What refuses the roll now, what is not known, and what it leaves alone."""
    lines = [f"Refused now: {why}." for why in plan["refused"]]
    lines += [f"Not known: {what}" for what in plan["not_known"]]
    if apart := plan["controllers_left_alone"]:
        listed = ", ".join(map(str, apart))
        lines.append(f"Controllers that are no brokers are left alone: {listed}.")
    return tuple(lines)


def _examples(plan: Mapping[str, Any]) -> tuple[str, ...]:
    meanings = {
        "lost": "cannot be read or written meanwhile",
        "below": "takes no acks=all writes meanwhile",
        "single": "has one in-sync replica meanwhile",
    }
    notes = []
    for key, meaning in meanings.items():
        some = [(step["broker"], step["such_as"][key]) for step in plan["order"]]
        some = [(broker, partitions) for broker, partitions in some if partitions]
        if some:
            broker, partitions = some[0]
            notes.append(f"{partitions[0]} {meaning}: broker {broker} is restarted.")
    return tuple(notes)


def brokers_table(steps: Sequence[Mapping[str, Any]]) -> Table:
    """How far each broker came; seconds are of its restart, from the call for it on."""
    columns = (
        Column("Broker", right=True),
        "Rack",
        "State",
        "Leaders off",
        "Restarted after s",
        "In sync after s",
        "Leaders back",
        "Known by",
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            str(step["broker"]),
            step["rack"],
            step["phase"],
            step["leaders_moved_off"],
            step["restarted_seconds"],
            step["in_sync_seconds"],
            step["leaders_brought_back"],
            step["seen_by"] or None,
        )
        for step in steps
    )
    return Table("Brokers", columns, rows)
