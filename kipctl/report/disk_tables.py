"""What kipctl prints of replicas that move between the disks of their brokers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kipctl.counts import agreeing, counted, format_bytes, format_duration
from kipctl.report.leader_tables import Value, listing, way_back_line
from kipctl.report.tables import Column, Report, Table, paragraphs

if TYPE_CHECKING:
    from kipctl.changes.plans.disks import DiskMove
    from kipctl.changes.ui import DisksShown
    from kipctl.cluster.log_dirs import DiskCopies


def disks_report(shown: "DisksShown") -> Report:
    """Each replica, from where and to where."""
    table, rows = _listed(shown.moves)
    size, count = sum(move.size for move in shown.moves), len(shown.moves)
    if shown.given_up and not (shown.done or shown.moves):
        said = f"Nothing of entry {shown.given_up.id} is being copied."
    elif shown.given_up:
        said = f"{counted(count, 'copy', 'are')} {'given up' if shown.done else 'to be given up'}."
    elif not (shown.done or shown.moves):
        said = "All replicas are on the disks that are wanted."
    elif shown.done is None:
        said = f"{counted(count, 'replica', 'move')} to other disks of their brokers"
        said += f": {format_bytes(size)}"
        said += f", at most {format_bytes(shown.throttle)}/s a broker." if shown.throttle else "."
    else:
        moved = counted(count, "replica", "are")
        said = f"{moved} on other disks of their brokers now"
        said += f": {format_bytes(size)} in {format_duration(shown.done.seconds)}."
    closing = [str(skipped) for skipped in shown.skipped]
    if shown.entry:
        closing.append(way_back_line(shown.entry))
    elif shown.done is None:
        closing.append("Nothing was changed.")
    failures = shown.done.failures if shown.done else ()
    document = {
        "disks": rows,
        "left_alone": [str(skipped) for skipped in shown.skipped],
        "failures": [str(failure) for failure in failures],
        "throttle_bytes_per_second": shown.throttle,
        "seconds": shown.done.seconds if shown.done else None,
        "entry": shown.entry.id if shown.entry else None,
    }
    return Report("reassign", document, (table,) if rows else (), tuple(closing), paragraphs(said))


def with_disks(
    report: Report,
    moves: "Sequence[DiskMove]",
    title: str = "Not on the disk that is wanted",
    said: str = "",
) -> Report:
    """The report with a table of these replicas, and what is `said` of them, where there are any;
    without, that is the title and how many they are."""
    table, rows = _listed(moves)
    said = said or f"{title}: {counted(len(rows), 'replica')}."
    return replace(
        report,
        document={**report.document, "disks": rows},
        tables=(*report.tables, *((replace(table, title=title),) if rows else ())),
        opening=(*report.opening, *(paragraphs(said) if rows else ())),
    )


def with_copies(report: Report, moves: "Sequence[DiskMove]", state: str) -> Report:
    """The report with these copies between disks, which are `given up`, or `to be given up`."""
    count = len(moves)
    said = f"{counted(count, 'copy')} between disks {agreeing(count, 'are')} {state}."
    return with_disks(report, moves, f"Copies between disks {state}", said)


def copies_report(report: Report, copies: "DiskCopies", moves: "Sequence[DiskMove]") -> Report:
    """The report with what brokers copy from disk to disk, and which do not tell."""
    shown = with_disks(report, moves, "Copied from disk to disk")
    return replace(
        shown,
        document={
            **shown.document,
            "broker_errors": {str(broker): why for broker, why in copies.silent.items()},
        },
        closing=(*shown.closing, *copies.not_known()),
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
        ((*move.id, move.broker, move.before, move.after, move.size) for move in moves),
    )
