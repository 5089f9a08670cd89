"""Tables of `kipctl elect`: what an election would change."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kipctl.counts import counted
from kipctl.report.leader_tables import ids, listing
from kipctl.report.tables import Column, Report, Table, paragraphs

if TYPE_CHECKING:
    from kipctl.changes.elections.unclean import LeaderlessPartition
    from kipctl.cluster.snapshot import Snapshot


def topics_of(snapshot: "Snapshot") -> str:
    topics = snapshot.topics
    return f"topic {topics[0]}" if len(topics) == 1 else counted(len(topics), "topic")


def not_preferred_report(not_preferred: "Snapshot", total: int) -> Report:
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
            (*one.id, one.leader, one.preferred_leader, one.replicas, one.isr)
            for one in not_preferred.partitions
        ),
    )
    return Report(
        "elect preferred",
        {"partitions": partitions},
        (table,),
        opening=paragraphs(
            f"{len(partitions):,} of {total:,} partitions are not led by their preferred replica."
            " Nothing was changed."
            if partitions
            else f"Nothing to do: preferred replicas lead all of {counted(total, 'partition')}."
        ),
    )


def unclean_report(found: "Sequence[LeaderlessPartition]", total: int) -> Report:
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
                *one.id,
                ids(one.replicas),
                ids(one.live),
                ids(one.last_in_sync),
                ", ".join(f"{broker}: {end:,}" for broker, end in one.log_ends.items()),
                one.would_lead,
                one.loss,
            )
            for one in found
        ),
    )
    partitions = [
        {
            "topic": one.id.topic,
            "partition": one.id.partition,
            "replicas": one.replicas,
            "live": one.live,
            "last_in_sync": one.last_in_sync,
            "log_ends": {str(broker): end for broker, end in one.log_ends.items()},
            "would_lead": one.would_lead,
            "known_loss": one.known_loss,
            "loss": one.loss,
        }
        for one in found
    ]
    return Report(
        "elect unclean",
        {"partitions": partitions},
        (table,),
        opening=paragraphs(
            f"{len(found):,} of {counted(total, 'partition')} have no leader. Nothing was changed."
        ),
    )
