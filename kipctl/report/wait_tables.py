"""The result of `kipctl wait`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kipctl.counts import counted
from kipctl.report.tables import Column, Report, Table, paragraphs

if TYPE_CHECKING:
    from kipctl.changes.wait_conditions import ClusterState, Condition


def wait_report(seen: "ClusterState", wanted: "Sequence[Condition]", seconds: float) -> Report:
    """What met which conditions, after so many seconds."""
    asked, answering = len(seen.compared.asked), len(seen.compared.answering)
    partitions, brokers = len(seen.snapshot.partitions), len(seen.snapshot.brokers)
    of_brokers = f"{answering} of {brokers}" if asked else "1"
    columns = ("Conditions", "Partitions", "Brokers", "Compared", Column("s", digits=1))
    met = ", ".join(wanted)
    row = (met, partitions, of_brokers, asked or None, seconds)
    return Report(
        "wait",
        {
            "conditions": [str(condition) for condition in wanted],
            "seconds": seconds,
            "partitions": partitions,
            "broker_count": brokers,
            "answering_brokers": list(seen.compared.answering),
            "asked_brokers": list(seen.compared.asked),
        },
        (Table("", columns, (row,), name="wait"),),
        opening=paragraphs(
            f"All {counted(partitions, 'partition')} met {met} after {seconds:.1f} s."
        ),
    )
