"""Tables of a plan, from the document that `--output json` prints of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from kipctl.report.tables import Cell, Column, Table

Document = Mapping[str, Any]

_MOST_LINKS = 20
"""More would be no view any more; the document has all."""


def plan_tables(document: Document) -> tuple[Table, ...]:
    """What changes, what is left alone and why, brokers before and after, what is copied where."""
    tables = [changes_table(document), brokers_table(document)]
    if document["links"]:
        tables.append(links_table(document))
    return tuple(tables)


def changes_table(document: Document) -> Table:
    """How many partitions change, and how; how many do not, and why."""
    rows: list[tuple[Cell, ...]] = [*document["changes"].items()]
    rows += [(f"left alone: {why}", count) for why, count in document["left_alone"].items()]
    return Table(
        "Plan",
        ("what becomes of partitions", "partitions"),
        tuple(rows),
        tuple(_notes(document)),
        name="changes",
    )


def brokers_table(document: Document) -> Table:
    """Leaders, replicas and bytes of every broker, before and after."""
    brokers = document["brokers"]
    return Table(
        "Brokers, before and after the plan and an election of preferred leaders",
        (
            "broker",
            "rack",
            "leaders",
            "leaders after",
            "replicas",
            "replicas after",
            Column("GB", 2),
            Column("GB after", 2),
            Column("GB in", 2),
            Column("GB out", 2),
            Column("GB free", 2),
        ),
        tuple(
            (
                f"{one['broker']}{'' if one['alive'] else ' (not alive)'}",
                one["rack"],
                one["leaders_before"],
                one["leaders_after"],
                one["replicas_before"],
                one["replicas_after"],
                one["bytes_before"] / 1e9,
                one["bytes_after"] / 1e9,
                one["bytes_in"] / 1e9,
                one["bytes_out"] / 1e9,
                None if one["usable"] is None else one["usable"] / 1e9,
            )
            for one in brokers
        ),
        tuple(
            f"Broker {one['broker']} has too little room: {one['bytes_in'] / 1e9:,.2f} GB come, "
            f"{one['usable'] / 1e9:,.2f} GB are free."
            for one in brokers
            if one["fills"]
        ),
        name="brokers",
    )


def links_table(document: Document) -> Table:
    """What is copied from which broker to which, the most first."""
    links = sorted(document["links"], key=lambda link: (-link["bytes"], -link["replicas"]))
    more = len(links) - _MOST_LINKS
    return Table(
        "Copied",
        ("from leader", "to", "replicas", Column("GB", 2)),
        tuple(
            (str(link["source"]), str(link["target"]), link["replicas"], link["bytes"] / 1e9)
            for link in links[:_MOST_LINKS]
        ),
        (f"And {more} more pairs of brokers.",) if more > 0 else (),
        name="links",
    )


def _notes(document: Document) -> Iterator[str]:
    if not document["copied_replicas"]:
        yield "No data is copied."
        return
    yield (
        f"Copied: {document['copied_replicas']:,} replicas,"
        f" {document['copied_bytes'] / 1e9:,.2f} GB."
    )
    if document["unknown_sizes"]:
        yield f"The size of {document['unknown_sizes']:,} of them is not known."
    if document["seconds"] is not None:
        yield (
            f"At {document['throttle_bytes_per_s'] / 1e6:,.1f} MB/s a broker it takes "
            f"{duration(document['seconds'])} at least, and longer while clients write."
        )


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`, `2.1 days`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
