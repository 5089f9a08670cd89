"""Tables of `kipctl elect`: what an election would change, and what an unclean one has left."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kipctl.counts import counted
from kipctl.next_step import Command
from kipctl.report.leader_tables import A_FEW, ids, listing
from kipctl.report.tables import Column, Report, Table, paragraphs
from kipctl.report.transaction_tables import transactions_table

if TYPE_CHECKING:
    from kipctl.changes.elections.unclean import LeaderlessPartition
    from kipctl.changes.proposal import ElectionProposal, UncleanResult
    from kipctl.cluster.open_transactions import OpenTransactions
    from kipctl.transport.access import Access


def not_preferred_report(seen: "ElectionProposal") -> Report:
    not_preferred, total = seen.not_preferred, len(seen.electable.partitions)
    table, partitions = listing(
        "Led by another than the preferred replica",
        {
            "topic": "Topic",
            "partition": "Partition",
            "leader": "Leader",
            "preferred_leader": "Preferred",
            "replicas": "Replicas",
            "isr": "In sync",
        },
        (
            (
                *partition.id,
                partition.leader,
                partition.preferred_leader,
                partition.replicas,
                partition.isr,
            )
            for partition in not_preferred.partitions
        ),
    )
    return Report(
        "elect preferred",
        {"partitions": partitions},
        (table,),
        opening=paragraphs(
            f"{counted(len(partitions), 'partition', 'are', total=total)} not led by the preferred"
            " replica."
            " Nothing was changed."
            if partitions
            else "Nothing to do: preferred replicas lead all of "
            f"{'the other ' * bool(seen.skipped)}{counted(total, 'partition')}."
            if total
            else "Nothing to do beside what is being reassigned."
            if seen.skipped
            # --leaders-off makes others the preferred replicas: an election brings nothing back.
            else "Nothing to do: none of these brokers is the preferred replica of a partition."
            " What --leaders-off has taken from them comes back by " + Command("undo") + "."
        ),
    )


def unclean_report(
    leaderless: "Sequence[LeaderlessPartition]",
    total: int,
    transactions: "OpenTransactions",
    access: "Access",
    *,
    is_dry_run: bool,
) -> Report:
    """Who would lead, what may be lost, and what readers with read_committed would meet."""
    from kipctl.changes.elections.unclean import longest_first

    back = sorted(
        {
            broker
            for partition in leaderless
            if not partition.is_clean
            for broker in partition.may_come_back
        }
    )
    by_id, open_ones = transactions_table("Transactions on them", transactions.open, access)
    table = Table(
        "Without a leader",
        (
            "Topic",
            "Partition",
            "Replicas",
            "Live",
            "Last in sync",
            "Log ends",
            Column("Would lead", right=True),
            "May be lost",
        ),
        tuple(
            (
                *partition.id,
                ids(partition.replicas),
                ids(partition.live),
                ids(partition.last_in_sync),
                ", ".join(f"{broker}: {end:,}" for broker, end in partition.log_ends.items()),
                partition.would_lead,
                partition.loss,
            )
            for partition in leaderless
        ),
    )
    partitions = [
        {
            "topic": partition.id.topic,
            "partition": partition.id.partition,
            "replicas": partition.replicas,
            "live": partition.live,
            "last_in_sync": partition.last_in_sync,
            "log_ends": {str(broker): end for broker, end in partition.log_ends.items()},
            "may_come_back": partition.may_come_back,
            "would_lead": partition.would_lead,
            "known_loss": partition.known_loss,
            "loss": partition.loss,
        }
        for partition in leaderless
    ]
    said = [
        f"{counted(len(leaderless), 'partition', 'have', total=total)} no leader."
        + (" Nothing was changed." if is_dry_run or not leaderless else "")
    ]
    if back and is_dry_run:
        said.append(
            "It is refused without --force while brokers that may have been in sync last may"
            f" come back: {ids(back)}."
        )
    said += (
        f"May be lost of {partition.id}: {partition.loss}."
        for partition in leaderless[:A_FEW]
        if partition.would_lead is not None and not partition.is_clean
    )
    if any(longest_first(partition) != partition for partition in leaderless):
        said.append(
            "Another live replica has more records than the one that would lead: --longest."
        )
    if open_ones:
        said.append(
            "Records of transactions: read_committed may stop at the first whose end is lost."
        )
    said += (f"Transactions that are open may be missing: {why}" for why in transactions.unknown)
    return Report(
        "elect unclean",
        {
            "partitions": partitions,
            "transactions": open_ones,
            "transactions_not_known": transactions.unknown,
        },
        (table, *((by_id,) if open_ones else ())),
        opening=paragraphs(*said),
    )


def elected_report(moved: Report, done: "UncleanResult", access: "Access") -> Report:
    """What became of an unclean election, and of its transactions."""
    held, now = done.held_up, done.after.by_id
    stand = sorted(held.stands)
    table, open_ones = transactions_table(
        "Transactions open on them", held.transactions.open, access
    )
    said = [
        f"The last stable offset of {id} is {stable:,}, its high watermark {end:,}."
        for id, (stable, end) in sorted(held.offsets.items())[:A_FEW]
    ]
    said += (
        f"The high watermark of {id} stands: {counted(len(now[id].isr), 'replica', 'are')} in sync,"
        f" and min.insync.replicas is {done.min_insync.get(id.topic) or 'not known'}. Until more"
        " are, nobody reads its newest records, and writes with acks=all are refused."
        for id in stand[:A_FEW]
    )
    said += (
        f"Whether a transaction will be ended is not known: {why}"
        for why in held.transactions.unknown
    )
    aborts = [f"Abort: {document['abort']}" for document in open_ones if document["hanging"]]
    return replace(
        moved,
        document={
            **moved.document,
            "held_up": [
                {
                    "topic": id.topic,
                    "partition": id.partition,
                    "last_stable_offset": stable,
                    "high_watermark": end,
                }
                for id, (stable, end) in sorted(held.offsets.items())
            ],
            "high_watermark_stands": [
                {
                    "topic": id.topic,
                    "partition": id.partition,
                    "in_sync": len(now[id].isr),
                    "min_insync_replicas": done.min_insync.get(id.topic),
                }
                for id in stand
            ],
            "transactions": open_ones,
            "transactions_not_known": held.transactions.unknown,
        },
        tables=(*moved.tables, *((table,) if open_ones else ())),
        opening=(*moved.opening, *paragraphs(*said)),
        closing=(*moved.closing, *aborts),
    )
