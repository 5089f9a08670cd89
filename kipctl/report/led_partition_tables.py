"""Tables of `inspect leaders`: who leads, by broker, topic and partition."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kipctl.counts import agreeing, broker_list, counted
from kipctl.report.leader_tables import ids, listing
from kipctl.report.tables import Column, Paragraph, Report, Tone, table_of

if TYPE_CHECKING:
    from kipctl.cluster.reassignments import Reassignment
    from kipctl.cluster.snapshot import Partition, Snapshot


def leaders_report(
    every: "Snapshot", busy: "Collection[Reassignment]" = (), of_brokers: Collection[int] = ()
) -> Report:
    """`busy` are the reassignments in progress: what is still copied for them is `(adding)`. With
    `of_brokers` their rows and the partitions that they hold are shown; what a broker has is
    counted in all of the snapshot, and how evenly brokers lead is not said."""
    from kipctl.cluster.reassignments import adding_of

    adding, chosen = adding_of(busy), {*of_brokers}
    held = (p.id for p in every.partitions if not chosen.isdisjoint(p.replicas))
    snapshot = every.only(held) if chosen else every
    racks = {broker.id: broker.rack for broker in every.brokers}

    def out_of_sync(p: "Partition", broker: int) -> bool:
        return broker in p.replicas and broker not in (*p.isr, *adding.get(p.id, ()))

    partitions = [
        {
            **p.id._asdict(),
            "leader": None if p.leader < 0 else p.leader,
            "leader_epoch": p.leader_epoch,
            "preferred_leader": p.preferred_leader,
            "replicas": p.replicas,
            "adding": adding.get(p.id, ()),
            "isr": p.isr,
            "offline": p.offline,
        }
        for p in sorted(snapshot.partitions, key=_how_well)
    ]
    by_partition = table_of(
        "Partitions",
        partitions,
        {
            "Topic": "topic",
            "Partition": "partition",
            "Leader": "leader",
            "Epoch": "leader_epoch",
            "Preferred": "preferred_leader",
            "Replicas": _replicas,
            "In sync": lambda partition: ids(partition["isr"]),
            "Offline": lambda partition: ids(partition["offline"]),
        },
    )
    leader_counts = every.leaders_per_broker
    by_broker, brokers = listing(
        "Brokers",
        {
            "broker": "Broker",
            "rack": "Rack",
            "alive": Column("Alive", detail=True),
            "leader_count": "Leaders",
            "preferred": "Preferred",
            "replica_count": "Replicas",
            "not_in_sync": "Not in sync",
        },
        (
            (
                broker,
                racks.get(broker),
                broker in racks,
                leader_counts[broker],
                sum(p.preferred_leader == broker for p in every.partitions),
                sum(broker in p.replicas for p in every.partitions),
                sum(out_of_sync(p, broker) for p in every.partitions),
            )
            for broker in sorted(chosen or {*racks, *every.away})
        ),
    )
    by_topic, topics = listing(
        "Topics",
        {
            "topic": "Topic",
            "partitions": "Partitions",
            "not_led_by_preferred": "Not preferred",
            "imbalance_percent": "Imbalance %",
            "leader_skew": "Leader skew",
        },
        (
            (
                topic,
                len(part.partitions),
                len(part.not_led_by_preferred),
                part.imbalance_percent,
                part.leader_skew,
            )
            for topic, part in sorted(
                snapshot.per_topic.items(), key=lambda item: -len(item[1].not_led_by_preferred)
            )
        ),
    )
    by_topic = replace(by_topic, columns=(*by_topic.columns[:4], Column("Leader skew", digits=2)))
    return Report(
        "inspect leaders",
        {
            "partitions": partitions,
            "brokers": brokers,
            "topics": topics,
            "imbalance_percent": snapshot.imbalance_percent,
            "leader_skew": None if chosen else snapshot.leader_skew,
            "without_leader": len(snapshot.leaderless),
        },
        (by_broker, by_topic, by_partition),
        opening=(_leaders_answer(snapshot, is_of_all=not chosen),),
    )


def _replicas(partition: Mapping[str, Any]) -> str:
    """`2, 3, 4 (adding)`."""
    adding = partition["adding"]
    return ", ".join(f"{r} (adding)" if r in adding else str(r) for r in partition["replicas"])


def _how_well(partition: "Partition") -> tuple[bool, bool]:
    """Whether anybody leads it; and whether that is its preferred replica, and all are in sync."""
    return partition.leader >= 0, (
        partition.leader == partition.preferred_leader
        and len(partition.isr) == len(partition.replicas)
        and not partition.offline
    )


def _leaders_answer(snapshot: "Snapshot", *, is_of_all: bool) -> Paragraph:
    astray, total = len(snapshot.led_by_another), len(snapshot.partitions)
    lost, skew = len(snapshot.leaderless), snapshot.leader_skew if is_of_all else None
    if not total:
        return Paragraph("No partition is shown.")
    first = f"{broker_list(snapshot.away, 'are').capitalize()} away. " if snapshot.away else ""
    first += f"{counted(lost, 'partition', 'have', total=total)} no leader. " if lost else ""
    if astray:
        first += (
            f"{counted(astray, 'partition', total=total)} ({100 * astray / total:.1f} %)"
            f" {agreeing(astray, 'are')} not led by the preferred replica."
        )
    elif not lost:
        first += f"All {counted(total, 'partition', 'are')} led by their preferred replica."
    if skew is not None:
        first += (
            f" The broker that leads most leads {skew:.2f} times the mean."
            if f"{skew:.2f}" != "1.00"
            else " The brokers lead evenly."
        )
    return Paragraph(first, tone=Tone.BAD if lost else Tone.WARNING if astray else Tone.GOOD)
