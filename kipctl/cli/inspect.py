"""`kipctl inspect`: who leads what, and whether brokers send KIP-951 hints."""

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from kipctl.cli.brokers import brokers
from kipctl.cli.environment import Environment
from kipctl.cli.inspect_metadata import metadata
from kipctl.cli.options import BootstrapOption, OutputOption, TopicOption
from kipctl.cli.replica_selection import replica_selection
from kipctl.report.formats import OutputFormat
from kipctl.report.leader_tables import listing, with_most_rows
from kipctl.report.tables import Cell, Column, Paragraph, Report, Table, Tone

if TYPE_CHECKING:
    from kipctl.cluster.inspect.leader_hint_check import BrokerHints
    from kipctl.cluster.snapshot import Partition, Snapshot

app = typer.Typer(help="Look at a cluster; nothing is changed unasked.", no_args_is_help=True)
app.command()(brokers)
app.command()(replica_selection)
app.command()(metadata)


@app.command()
def leaders(
    context: typer.Context,
    topic: TopicOption = None,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Show how evenly brokers lead, and each partition's leader and replicas.

    Without --topic all topics are shown, internal ones too. Partitions and topics with something
    amiss come first.
    """
    environment = context.ensure_object(Environment)
    from kipctl.cluster.snapshot import select, take_snapshot
    from kipctl.transport.request import Cluster

    with Cluster(environment.access(bootstrap_server)) as cluster:
        snapshot = take_snapshot(cluster, named=topic or [])
        environment.say_what_may_be_hidden(cluster, snapshot.topics, topic or [])
    shown = select(snapshot, topic) if topic else snapshot
    environment.report(_leaders_report(shown), output)


@app.command()
def hints(
    context: typer.Context,
    topic: TopicOption = None,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Show whether each broker sends KIP-951 hints, and whether they agree with its Metadata.

    Each broker gets a Produce for a partition that it does not lead, with a wrong CRC so that it
    can never be written. No leader moves.
    """
    environment = context.ensure_object(Environment)
    from kipctl.cluster.inspect.leader_hint_check import check_hints
    from kipctl.cluster.snapshot import select, take_snapshot
    from kipctl.transport.request import Cluster

    with Cluster(environment.access(bootstrap_server)) as cluster:
        snapshot = select(take_snapshot(cluster, named=topic or []), topic or [])
        environment.say_what_may_be_hidden(cluster, snapshot.topics, topic or [])
        checked = check_hints(cluster, snapshot)
    environment.report(_hints_report(checked, bool(snapshot.partitions)), output)


def _leaders_report(snapshot: "Snapshot") -> Report:
    by_partition, partitions = listing(
        "Partitions",
        {
            "topic": "Topic",
            "partition": "Partition",
            "leader": "Leader",
            "leader_epoch": "Epoch",
            "preferred_leader": "Preferred",
            "replicas": "Replicas",
            "isr": "In sync",
            "offline": "Offline",
        },
        (
            (
                *p.id,
                None if p.leader < 0 else p.leader,
                p.leader_epoch,
                p.preferred_leader,
                p.replicas,
                p.isr,
                p.offline,
            )
            for p in sorted(snapshot.partitions, key=_is_in_order)
        ),
    )
    leader_counts = snapshot.leaders_per_broker
    by_broker, brokers = listing(
        "Brokers",
        {
            "broker": "Broker",
            "rack": "Rack",
            "leaders": "Leaders",
            "preferred": "Preferred",
            "replicas": "Replicas",
            "not_in_sync": "Not in sync",
        },
        (
            (
                broker.id,
                broker.rack,
                leader_counts[broker.id],
                sum(p.preferred_leader == broker.id for p in snapshot.partitions),
                sum(broker.id in p.replicas for p in snapshot.partitions),
                sum(
                    broker.id in p.replicas and broker.id not in p.isr for p in snapshot.partitions
                ),
            )
            for broker in snapshot.brokers
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
    report = Report(
        "inspect leaders",
        {
            "partitions": partitions,
            "brokers": brokers,
            "topics": topics,
            "imbalance_percent": snapshot.imbalance_percent,
            "leader_skew": snapshot.leader_skew,
            "without_leader": len(snapshot.leaderless),
        },
        (by_broker, by_topic, by_partition),
        opening=(_leaders_answer(snapshot),),
    )
    return with_most_rows(report)


def _is_in_order(partition: "Partition") -> bool:
    """Whether its preferred replica leads it, and all replicas are in sync."""
    return (
        partition.leader == partition.preferred_leader
        and len(partition.isr) == len(partition.replicas)
        and not partition.offline
    )


def _leaders_answer(snapshot: "Snapshot") -> Paragraph:
    astray, total = len(snapshot.not_led_by_preferred), len(snapshot.partitions)
    lost, skew = len(snapshot.leaderless), snapshot.leader_skew
    if not total:
        return Paragraph("No partition is shown.")
    if astray:
        first = (
            f"{astray} of {total} partitions ({snapshot.imbalance_percent:.1f} %) are not led by"
            " their preferred replica."
        )
    else:
        first = f"All {total} partitions are led by their preferred replica."
    if lost:
        first += f" {lost} have no leader."
    if skew is not None:
        first += f" The broker that leads most leads {skew:.2f} times the mean."
    return Paragraph(first, tone=Tone.BAD if lost else Tone.WARNING if astray else Tone.GOOD)


def _hints_report(checked: "tuple[BrokerHints, ...]", has_partitions: bool) -> Report:
    from kipctl.cluster.inspect.leader_hint_verdicts import Verdict

    _, brokers = listing(
        "Hints",
        {
            "broker": "Broker",
            "rack": "Rack",
            "produce_versions": "Produce",
            "fetch_versions": "Fetch",
            "metadata_versions": "Metadata",
            "asked": "Asked for",
            "hint_leader": "Hinted leader",
            "hint_epoch": "Epoch",
            "hint_endpoint": "Endpoint",
            "verdict": "Verdict",
            "detail": "Detail",
            "fetch_asked": "Fetch of",
            "fetch_error": "Answer",
            "fetch_hint_leader": "Hinted",
            "fetch_verdict": "Verdict of Fetch",
            "fetch_detail": "Its detail",
        },
        (
            (
                one.broker.id,
                one.broker.rack,
                _range(one.produce),
                _range(one.fetch),
                _range(one.metadata),
                str(one.asked) if one.asked else None,
                one.hint.leader if one.hint else None,
                one.hint.leader_epoch if one.hint else None,
                one.hint.endpoint if one.hint else None,
                str(one.verdict),
                one.detail or None,
                str(one.fetched.asked) if one.fetched.asked else None,
                one.fetched.error,
                one.fetched.hint.leader if one.fetched.hint else None,
                str(one.fetched.verdict),
                one.fetched.detail or None,
            )
            for one in checked
        ),
    )
    drafts = sum(one.verdict is Verdict.DRAFT for one in checked)
    hinting = sum(one.hint is not None for one in checked) - drafts
    not_asked = sum(one.verdict is Verdict.NOT_ASKED for one in checked)
    no_right = sum(one.verdict is Verdict.NO_RIGHT for one in checked)
    in_fetch = sum(one.fetched.hint is not None for one in checked)
    return Report(
        "inspect hints",
        {
            "brokers": brokers,
            "hinting": hinting,
            "drafts": drafts,
            "not_asked": not_asked,
            "hinting_in_fetch": in_fetch,
        },
        (_hints_table(checked),),
        opening=(
            Paragraph(
                _no_right_to_write(in_fetch, len(checked) - not_asked)
                if no_right and not_asked + no_right == len(checked)
                else _hints_sentence(hinting, drafts, not_asked, len(checked), has_partitions)
            ),
        ),
    )


def _hints_table(checked: "tuple[BrokerHints, ...]") -> Table:
    """A row for the Produce and one for the Fetch that each broker was sent."""
    rows: list[tuple[Cell, ...]] = []
    for one in checked:
        read = one.fetched
        answers = (
            ("Produce", one.produce, one.asked, one.hint, one.verdict, one.detail),
            ("Fetch", one.fetch, read.asked, read.hint, read.verdict, read.detail),
        )
        for api, versions, asked, hint, verdict, detail in answers:
            rows.append(
                (
                    str(one.broker.id),
                    one.broker.rack,
                    f"{api} {_range(versions) or '-'}",
                    str(asked) if asked else None,
                    hint.leader if hint else None,
                    hint.leader_epoch if hint else None,
                    hint.endpoint if hint else None,
                    f"{verdict}: {detail}" if detail else str(verdict),
                )
            )
    titles = ("Rack", "Asked by", "For", "Hinted leader", "Epoch", "Endpoint", "Verdict")
    return Table("Hints", (Column("Broker", right=True), *titles), tuple(rows))


def _no_right_to_write(in_fetch: int, asked: int) -> str:
    return (
        "In Produce no broker told: this user has no right to Write. In Fetch"
        f" {in_fetch} of {asked} named a leader. Nothing was moved, and nothing written."
    )


def _hints_sentence(
    hinting: int, drafts: int, not_asked: int, brokers: int, has_partitions: bool
) -> str:
    if not has_partitions:
        return (
            "No broker could be asked, as no topic is shown apart from internal ones:"
            " there is none, or this user may not see it."
        )
    if not_asked == brokers:
        return "No broker could be asked: it takes a partition that another broker leads."
    asked = f"{brokers - not_asked} brokers" + (" that were asked" if not_asked else "")
    drafted = f" {drafts} did so only in the form of KIP-951's early draft." if drafts else ""
    return f"{hinting} of {asked} named a leader.{drafted} Nothing was moved, and nothing written."


def _range(versions: tuple[int, int] | None) -> str | None:
    return f"{versions[0]}-{versions[1]}" if versions else None
