"""`kipctl inspect`: who leads what, and whether brokers send KIP-951 hints."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from kipctl.cli.commands.brokers import brokers
from kipctl.cli.commands.inspect_metadata import metadata
from kipctl.cli.commands.replica_selection_options import SelectionOptions
from kipctl.cli.environment import Environment
from kipctl.cli.grouped import Commands
from kipctl.cli.options import ClusterOptions, ShownBrokerOption, TopicOption, option
from kipctl.errors import KipctlError, ThresholdError
from kipctl.report.hint_tables import hints_report
from kipctl.report.led_partition_tables import leaders_report

if TYPE_CHECKING:
    from kipctl.cluster.reassignments import Reassignment

app = Commands()
app.add(brokers, metadata)


@app.command()
def leaders(
    environment: Environment,
    options: ClusterOptions,
    topic: TopicOption = None,
    broker: ShownBrokerOption = None,
) -> None:
    """Show how evenly brokers lead, and each partition's leader and replicas.

    Without --topic all topics are shown, internal ones too; with --broker the partitions that have
    a replica there. Partitions without a leader come first, then others with something amiss.
    """
    from kipctl.changes.execution.safety_checks import list_or_reason
    from kipctl.changes.plans.planners.placement import require_known
    from kipctl.cluster.snapshot import select, take_snapshot

    with options.connected(environment) as cluster:
        snapshot = take_snapshot(cluster, named=topic or [])
        environment.report_hidden_topics(cluster, snapshot.topics, topic or [])
        shown = select(snapshot, topic) if topic else snapshot
        busy: Sequence[Reassignment] = ()
        if any(len(partition.isr) < len(partition.replicas) for partition in shown.partitions):
            with suppress(KipctlError):  # without a controller leaders are known all the same
                busy, _ = list_or_reason(cluster, may_not_list=True)
    require_known(snapshot, broker or ())
    environment.report(leaders_report(shown, busy, broker or ()), options.output)


@app.command()
def hints(
    environment: Environment,
    options: ClusterOptions,
    topic: TopicOption = None,
    require: Annotated[
        bool,
        option(
            "End with status 7 unless clients can follow the hints of every broker that could"
            " be asked."
        ),
    ] = False,
) -> None:
    """Show whether each broker sends KIP-951 hints, and whether they agree with its Metadata.

    Each broker gets a Produce for a partition that it does not lead, with a wrong CRC so that it
    can never be written. No leader moves.
    """
    from kipctl.cluster.inspect.leader_hint_check import check_hints, flaws
    from kipctl.cluster.snapshot import select, take_snapshot

    with options.connected(environment) as cluster:
        snapshot = select(take_snapshot(cluster, named=topic or []), topic or [])
        environment.report_hidden_topics(cluster, snapshot.topics, topic or [])
        checked = check_hints(cluster, snapshot)
    environment.report(
        hints_report(checked, bool(snapshot.partitions), cluster.bootstrap[0]), options.output
    )
    if require and (reasons := flaws(checked)):
        raise ThresholdError(f"Clients cannot follow the hints of every broker: {reasons[0]}.")


@app.command()
def replica_selection(
    environment: Environment, cluster_options: ClusterOptions, options: SelectionOptions
) -> None:
    """Show which replica the readers of each rack are sent to (KIP-392), and why no closer one.

    Each leader is asked with a Fetch that names the rack, for one byte at the high watermark.
    Nothing is written, and no offset committed.
    """
    from kipctl.cli.commands.replica_selection import show

    show(environment, cluster_options, options)
