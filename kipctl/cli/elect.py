"""`kipctl elect`: leader elections, preferred and unclean."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kipctl.cli.environment import Environment
from kipctl.cli.leader_reports import listing, moved_report
from kipctl.cli.options import BootstrapOption, OutputOption, YesOption, finite
from kipctl.errors import UsageError
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report

if TYPE_CHECKING:
    from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot

app = typer.Typer(help="Hold a leader election.", no_args_is_help=True)

TopicOption = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC", help="A topic or glob; repeatable.")
]
PartitionOption = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="TOPIC:NUMBER", help="One partition; repeatable."),
]
AllOption = Annotated[bool, typer.Option("--all", help="Every partition, internal topics too.")]
FileOption = Annotated[
    Path | None,
    typer.Option("--json-file", metavar="FILE", help="The partitions in Kafka's election JSON."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="List what would be elected and change nothing.")
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0.1, callback=finite, help="How long to wait."
    ),
]


@app.command()
def preferred(
    context: typer.Context,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    every: AllOption = False,
    json_file: FileOption = None,
    dry_run: DryRunOption = False,
    timeout: TimeoutOption = 60.0,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Make each partition's preferred (first) replica its leader, and wait until brokers know.

    --dry-run lists the partitions that are not led by their preferred replica.
    """
    environment = context.ensure_object(Environment)
    from kipctl.cluster.change import LeadersMoved, demand_all_done, elect_preferred
    from kipctl.cluster.snapshot import take_snapshot
    from kipctl.transport.request import Cluster

    chosen = _asked(topic or [], partition or [], every, json_file)
    with Cluster(environment.access(bootstrap_server)) as cluster:
        before = chosen(take_snapshot(cluster, named=topic or []))
        if dry_run:
            environment.report(
                _dry_run_report("preferred", before.not_led_by_preferred, len(before.partitions)),
                output,
            )
            return
        expected = {one.id: one.preferred_leader for one in before.partitions}
        held = elect_preferred(cluster, expected, before, timeout_s=timeout)
        moved = LeadersMoved(None, held)
        after = take_snapshot(cluster, before.topics)
    environment.report(moved_report("elect preferred", moved, before, after), output)
    demand_all_done(
        moved.failures,
        len(expected) - len(moved.failures),
        "See their replicas: kipctl inspect leaders",
    )


@app.command()
def unclean(
    context: typer.Context,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    every: AllOption = False,
    json_file: FileOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    timeout: TimeoutOption = 60.0,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Make a replica that is out of sync the leader of a partition that has none: DATA IS LOST.

    Records that the elected replica does not have are gone, acknowledged or not. --dry-run lists
    the partitions without a leader.
    """
    environment = context.ensure_object(Environment)
    from kipctl.cluster.change import LeadersMoved, demand_all_done, elect_unclean
    from kipctl.cluster.snapshot import take_snapshot
    from kipctl.transport.request import Cluster

    chosen = _asked(topic or [], partition or [], every, json_file)
    with Cluster(environment.access(bootstrap_server)) as cluster:
        before = chosen(take_snapshot(cluster, named=topic or []))
        leaderless = before.leaderless
        if dry_run:
            environment.report(
                _dry_run_report("unclean", leaderless, len(before.partitions)), output
            )
            return
        environment.confirm(
            f"{len(leaderless)} of {len(before.partitions)} partitions have no leader. An unclean"
            " election loses for good the records that the elected replica does not have. Elect?",
            yes,
        )
        partitions = [one.id for one in before.partitions]
        moved = LeadersMoved(None, elect_unclean(cluster, partitions, timeout))
        after = take_snapshot(cluster, before.topics)
    environment.report(moved_report("elect unclean", moved, before, after), output)
    demand_all_done(
        moved.failures,
        len(partitions) - len(moved.failures),
        "Start a broker that holds a replica.",
    )


def _asked(
    topics: Sequence[str],
    partitions: Sequence[str],
    every: bool,
    json_file: Path | None,
) -> "Callable[[Snapshot], Snapshot]":
    """What chooses the partitions meant from all that there are; it raises UsageError.

    Raises UsageError too, unless they were named in exactly one way that can be read.
    """
    from kipctl.cluster.elect import demand_known, parse_partition
    from kipctl.cluster.kafka_json import read_election
    from kipctl.cluster.snapshot import select

    if sum((bool(topics), bool(partitions), every, json_file is not None)) != 1:
        raise UsageError(
            "Give the partitions in one way: --topic, --partition, --all or --json-file.",
            "See `kipctl elect --help`.",
        )
    if every:
        return lambda snapshot: snapshot
    if topics:
        return lambda snapshot: select(snapshot, topics)
    named: Sequence[PartitionId] = (
        [parse_partition(text) for text in partitions]
        if json_file is None
        else read_election(json_file)
    )

    def known(snapshot: "Snapshot") -> "Snapshot":
        demand_known(named, snapshot)
        return snapshot.only(named)

    return known


def _dry_run_report(kind: str, found: "Sequence[Partition]", asked: int) -> Report:
    table, partitions = listing(
        "Led by another than the preferred replica" if kind == "preferred" else "Without a leader",
        {
            "topic": "Topic",
            "partition": "Partition",
            "leader": "Leader",
            "preferred_leader": "Preferred",
            "replicas": "Replicas",
            "isr": "In sync",
        },
        ((*p.id, p.leader, p.preferred_leader, p.replicas, p.isr) for p in found),
    )
    return Report(
        f"elect {kind}",
        {"partitions": partitions},
        (table,),
        (f"{len(found)} of {asked} partitions. Nothing was changed.",),
    )
