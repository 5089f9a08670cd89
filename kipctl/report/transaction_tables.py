"""Transactions that are open on partitions, as tables and in JSON."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kipctl.report.tables import Column, Table, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kipctl.cluster.open_transactions import OpenTransaction
    from kipctl.transport.access import Access

_COLUMNS: dict[Column | str, str] = {
    "Topic": "topic",
    "Partition": "partition",
    "Transactional id": "transactional_id",
    Column("Producer", right=True): "producer_id",
    "Epoch": "producer_epoch",
    "State": "state",
    "Since": "since",
    "Begins at": "start_offset",
    "Readers with read_committed": "readers",
}


def transactions_table(
    title: str, transactions: "Iterable[OpenTransaction]", access: "Access"
) -> tuple[Table, list[dict[str, object]]]:
    """A row of each, for people and for JSON."""
    documents = [_document(transaction, access) for transaction in transactions]
    shown = ({**document, "producer_id": str(document["producer_id"])} for document in documents)
    return table_of(title, shown, _COLUMNS), documents


def _document(transaction: "OpenTransaction", access: "Access") -> dict[str, object]:
    from kipctl.cluster.open_transactions import abort_command

    known = transaction.coordinated
    since_ms = transaction.since_ms
    since = datetime.fromtimestamp(since_ms / 1000, UTC) if since_ms > 0 else None
    return {
        "topic": transaction.id.topic,
        "partition": transaction.id.partition,
        "transactional_id": known.transactional_id if known else None,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "state": known.state if known else None,
        "since": since.isoformat(timespec="seconds") if since else None,
        "start_offset": transaction.start_offset,
        "ending": str(transaction.ending),
        "hanging": transaction.is_hanging,
        "readers": readers(transaction),
        "abort": abort_command(str(access), transaction, is_secured=access.is_secured)
        if transaction.is_hanging
        else None,
    }


def readers(transaction: "OpenTransaction") -> str:
    """What those meet who read committed records alone, once the partition is led by that log."""
    from kipctl.cluster.open_transactions import Ending

    if transaction.start_offset is None:
        return "its records here are lost, and it may commit all the same"
    match transaction.ending:
        case Ending.COMES:
            return f"wait at offset {transaction.start_offset:,} until it ends"
        case Ending.NEVER:
            return f"stop at offset {transaction.start_offset:,} for good: its end is lost"
        case Ending.NOT_KNOWN:
            return f"stop at offset {transaction.start_offset:,}, if its end is lost"
