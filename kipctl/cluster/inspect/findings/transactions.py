"""Findings about transactions that nobody will end."""

from collections.abc import Iterator

from kipctl.cluster.inspect.findings.facts import ClusterFacts
from kipctl.cluster.inspect.findings.finding import Finding, problem
from kipctl.cluster.open_transactions import abort_command
from kipctl.counts import counted, first_few


def hanging(facts: ClusterFacts) -> Iterator[Finding]:
    """Last stable offsets that stand still for good, behind a transaction that has lost its end."""
    transactions = facts.transactions.hanging
    if not transactions:
        return
    first = transactions[0]
    partitions = sorted({transaction.id for transaction in transactions})
    it = "it" if len(transactions) == 1 else f"each of {counted(len(transactions), 'transaction')}"
    yield problem(
        "hanging-transaction",
        f"{counted(len(partitions), 'partition', 'have')} transactions that no coordinator will"
        " end:"
        f" {first_few(partitions)}. In {first.id} it is of producer {first.producer_id}, epoch"
        f" {first.producer_epoch}, and begins at offset {first.start_offset:,}.",
        "Readers with read_committed get nothing beyond it, however much is written and committed;"
        " and compaction stops there.",
        f"Abort {it}, which hides its records from such readers:"
        f" {abort_command(facts.bootstrap_server, first, is_secured=facts.is_secured)}",
    )
