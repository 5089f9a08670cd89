"""`kipctl elect`: leader elections, preferred and unclean."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kipctl.cli.change_options import changing
from kipctl.cli.environment import Environment
from kipctl.cli.grouped import grouped
from kipctl.cli.guard import GuardOptions, read_guard
from kipctl.cli.options import (
    BatchOption,
    BetweenOption,
    BootstrapOption,
    DryRunOption,
    OutputOption,
    TopicOption,
    YesOption,
    duration_option,
)
from kipctl.counts import counted
from kipctl.durations import Duration
from kipctl.errors import UsageError
from kipctl.report.election_tables import elected_report, unclean_report
from kipctl.report.formats import OutputFormat
from kipctl.report.leader_tables import limit_rows, moved_report

if TYPE_CHECKING:
    from kipctl.cluster.snapshot import PartitionId, Snapshot

app = typer.Typer(help="Hold a leader election.", no_args_is_help=True)

PartitionOption = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="TOPIC:PARTITION", help="One partition; repeatable."),
]
AllOption = Annotated[bool, typer.Option("--all", help="Every partition, internal topics too.")]
AllButInternalOption = Annotated[
    bool, typer.Option("--all", help="Every partition; those of internal topics with --internal.")
]
InternalOption = Annotated[
    bool,
    typer.Option(
        "--internal",
        help="With --all: __consumer_offsets and __transaction_state too. What they lose is the "
        "positions of groups, and the state of transactions.",
    ),
]
FileOption = Annotated[
    Path | None,
    typer.Option("--json-file", metavar="FILE", help="The partitions in Kafka's election JSON."),
]
BrokerOption = Annotated[
    list[int] | None,
    typer.Option(
        "--broker",
        metavar="BROKER",
        min=0,
        help="Partitions whose preferred replica this broker is; repeatable.",
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="balanced",
        help="Wait for brokers to be whole, and elect again, until all are led so.",
    ),
]
AsTheyComeOption = Annotated[
    bool,
    typer.Option(
        "--as-they-come",
        help="With --until: elect what is in sync while its broker still copies other replicas.",
    ),
]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Elect though a broker that was in sync last may come back: its records are lost.",
    ),
]
LongTimeoutOption = Annotated[
    Duration | None,
    duration_option(
        "--timeout", "How long to wait for a batch (1m), or with --until for all of it (10m)."
    ),
]
TimeoutOption = Annotated[Duration, duration_option("--timeout", "How long to wait for a batch.")]


@app.command()
@grouped
def preferred(
    context: typer.Context,
    guard: GuardOptions,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    broker: BrokerOption = None,
    every: AllOption = False,
    json_file: FileOption = None,
    dry_run: DryRunOption = False,
    batch: BatchOption = 1000,
    between: BetweenOption = Duration(0),
    yes: YesOption = False,
    until: UntilOption = None,
    as_they_come: AsTheyComeOption = False,
    timeout: LongTimeoutOption = None,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Make each partition's preferred (first) replica its leader, and wait until brokers know.

    Partitions that their preferred replica leads already are left alone. --dry-run lists the
    others. With --until balanced a broker gets its leaders when all its replicas are in sync: after
    its restart this brings them back, in batches of 10 at first. A guard that gives up leaves
    leaders where they are: an election has no way back.
    """
    from kipctl.changes.elect import elect
    from kipctl.changes.execution.election_until_balanced import parse_until
    from kipctl.changes.execution.pacing import Pace

    if until is not None:
        parse_until(until)
    elif as_they_come:
        raise UsageError("--as-they-come goes with --until balanced.", "Add it, or leave it out.")
    chosen = _chosen_partitions(topic or [], partition or [], every, json_file, broker or [])
    with changing(
        context,
        bootstrap_server,
        guard=read_guard(guard, moves_along=False),
        pace=Pace(batch, between),
        topics=topic or [],
        dry_run=dry_run,
        yes=yes,
        timeout_s=timeout,
        output=output,
    ) as (change, _):
        elect(
            change,
            chosen,
            chooses=bool(every or topic or broker),
            until_balanced=until is not None,
            as_they_come=as_they_come,
        )


@app.command()
def unclean(
    context: typer.Context,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    every: AllButInternalOption = False,
    internal: InternalOption = False,
    json_file: FileOption = None,
    dry_run: DryRunOption = False,
    force: ForceOption = False,
    yes: YesOption = False,
    timeout: TimeoutOption = Duration(60),
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Make a replica that is out of sync the leader of a partition that has none: DATA IS LOST.

    Records that the elected replica does not have are gone, acknowledged or not. Only partitions
    that have no leader, before and after the question, are elected; without any nothing is done.
    --dry-run lists them, with who would lead, what may be lost, and where transactions that lose
    their end would stop readers with read_committed. Those of which more would be lost after the
    question than it showed are left out. While a broker that was in sync last may come back it is
    refused without --force. Status 5 also says that a transaction is open that nobody will end.
    """
    environment = context.ensure_object(Environment)
    from kipctl.changes.elections.batches import elect_unclean
    from kipctl.changes.elections.unclean import (
        examine,
        require_ends,
        require_lost_for_good,
        transactions_after,
        transactions_before,
        why_riskier,
    )
    from kipctl.changes.execution.plan_result import LeadersMoved, require_all_done
    from kipctl.changes.plans.plan import SkippedPartition
    from kipctl.cluster.snapshot import refresh_snapshot, take_snapshot
    from kipctl.transport.request import Cluster

    if internal and not every:
        raise UsageError(
            "--internal goes with --all.", "An internal topic that is named is meant: --topic NAME."
        )
    chosen = _chosen_partitions(topic or [], partition or [], every, json_file)
    with Cluster(environment.access(bootstrap_server)) as cluster:
        seen = take_snapshot(cluster, named=topic or [])
        if every or topic:
            environment.report_hidden_topics(cluster, seen.topics, topic or [])
        shown = chosen(seen)
        if every and not internal:
            left_out = sum(one.internal for one in shown.leaderless)
            shown = shown.only(one.id for one in shown.partitions if not one.internal)
            if left_out:
                environment.message(
                    f"Left alone without --internal: {counted(left_out, 'partition')} of"
                    f" internal topics without a leader."
                )
        found = examine(cluster, shown)
        listed = unclean_report(
            found,
            len(shown.partitions),
            transactions_before(cluster, found),
            cluster.access,
            is_dry_run=dry_run,
        )
        if dry_run or not found:
            environment.report(limit_rows(listed), output)
            return
        if not force:
            require_lost_for_good(found)
        environment.show(limit_rows(listed))
        environment.confirm(
            f"{len(found):,} of {counted(len(shown.partitions), 'partition')} have no leader."
            " An unclean"
            " election loses for good the records that the elected replica does not have. Elect"
            " them?",
            yes,
            typed=str(len(found)),
        )
        # A broker may be back since they were shown: what has a leader again loses nothing.
        ids = [one.id for one in found]
        now = refresh_snapshot(cluster, {one.topic for one in ids}).only(ids)
        before = now.only(one.id for one in now.leaderless)
        if recovered := len(ids) - len(before.partitions):
            environment.message(
                "Left out, as they have a leader again or are gone:"
                f" {counted(recovered, 'partition')}."
            )
        # A broker may be gone since: what was confirmed is this leader, and no greater loss.
        was = {one.id: one for one in found}
        reasons = {one.id: why_riskier(was[one.id], one) for one in examine(cluster, before)}
        changed = [SkippedPartition(one, why) for one, why in reasons.items() if why]
        next_step = "Start a broker that holds a replica."
        if changed:
            next_step += " Or repeat the command, and look at what would be lost again."
            before = before.only(one for one, why in reasons.items() if not why)
        if not before.partitions:
            require_all_done(changed, 0, next_step)
        with environment.progress(
            f"Electing leaders of {counted(len(before.partitions), 'partition')}"
        ):
            held = elect_unclean(cluster, before.by_id, timeout)
        moved = LeadersMoved(None, held)
        after = refresh_snapshot(cluster, before.topics)
        held_up = transactions_after(cluster, after.only(before.by_id).partitions)
    report = moved_report("elect unclean", moved, before, after)
    environment.report(limit_rows(elected_report(report, held_up, cluster.access)), output)
    require_all_done(
        (*changed, *moved.failures), len(held.outcomes) - len(moved.failures), next_step
    )
    require_ends(held_up, cluster.access)


def _chosen_partitions(
    topics: Sequence[str],
    partitions: Sequence[str],
    every: bool,
    json_file: Path | None,
    brokers: Sequence[int] = (),
) -> "Callable[[Snapshot], Snapshot]":
    """What chooses the partitions meant from all that there are; it raises UsageError.

    Raises UsageError too, unless they were named in exactly one way that can be read.
    """
    from kipctl.changes.elections.request import require_known
    from kipctl.changes.execution.election_until_balanced import preferred_on
    from kipctl.changes.plans.kafka_json import read_election
    from kipctl.cluster.snapshot import parse_partition, select

    if sum((bool(topics), bool(partitions), every, json_file is not None, bool(brokers))) != 1:
        raise UsageError(
            "Give the partitions in one way: --topic, --partition, --json-file, --all, or --broker"
            " for preferred leaders.",
            "See `kipctl elect --help`.",
        )
    if every:
        return lambda snapshot: snapshot
    if topics:
        return lambda snapshot: select(snapshot, topics)
    if brokers:
        return lambda snapshot: preferred_on(snapshot, brokers)
    named: Sequence[PartitionId] = (
        [parse_partition(text) for text in partitions]
        if json_file is None
        else read_election(json_file)
    )

    def known(snapshot: "Snapshot") -> "Snapshot":
        require_known(named, snapshot)
        return snapshot.only(named)

    return known
