"""What kipctl prints of replicas that move between the disks of their brokers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kipctl.counts import counted, format_bytes, format_duration
from kipctl.report.leader_tables import Value, listing, way_back_line
from kipctl.report.tables import Column, Report, Table, paragraphs

if TYPE_CHECKING:
    from kipctl.changes.plans.disks import DiskMove
    from kipctl.changes.ui import DisksShown


def disks_report(shown: "DisksShown") -> Report:
    """Each replica, from where and to where."""
    table, rows = _listed(shown.moves)
    size, count = sum(one.size for one in shown.moves), len(shown.moves)
    if not (shown.done or shown.moves):
        said = "All replicas are on the disks that are wanted."
    elif shown.done is None:
        said = f"{counted(count, 'replica', 'move')} to other disks of their brokers"
        said += f": {format_bytes(size)}"
        said += f", at most {format_bytes(shown.throttle)}/s a broker." if shown.throttle else "."
    else:
        moved = counted(count, "replica", "are")
        said = f"{moved} on other disks of their brokers now"
        said += f": {format_bytes(size)} in {format_duration(shown.done.seconds)}."
    closing = [str(one) for one in shown.skipped]
    if shown.entry:
        closing.append(way_back_line(shown.entry))
    elif shown.done is None:
        closing.append("Nothing was changed.")
    failures = shown.done.failures if shown.done else ()
    document = {
        "disks": rows,
        "left_alone": [str(one) for one in shown.skipped],
        "failures": [str(one) for one in failures],
        "throttle_bytes_per_s": shown.throttle,
        "seconds": shown.done.seconds if shown.done else None,
        "entry": shown.entry.id if shown.entry else None,
    }
    return Report("reassign", document, (table,) if rows else (), tuple(closing), paragraphs(said))


def with_disks(
    report: Report, moves: "Sequence[DiskMove]", title: str = "Not on the disk that is wanted"
) -> Report:
    """The report with a table of these replicas, where there are any."""
    table, rows = _listed(moves)
    table = replace(table, title=title)
    return replace(
        report,
        document={**report.document, "disks": rows},
        tables=(*report.tables, *((table,) if rows else ())),
        opening=(
            *report.opening,
            *(paragraphs(f"{title}: {counted(len(rows), 'replica')}.") if rows else ()),
        ),
    )


def _listed(moves: "Sequence[DiskMove]") -> tuple[Table, list[dict[str, Value]]]:
    return listing(
        "Disks",
        {
            "topic": "Topic",
            "partition": "Partition",
            "broker": Column("Broker", right=True),
            "from_log_dir": "From",
            "to_log_dir": "To",
            "bytes": Column("Bytes"),
        },
        ((*one.id, one.broker, one.before, one.after, one.size) for one in moves),
    )
