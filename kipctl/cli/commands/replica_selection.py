"""What `kipctl inspect replica-selection` looks at, and what it says of it."""

from typing import TYPE_CHECKING

from kipctl.cli.commands.replica_selection_options import SelectionOptions
from kipctl.cli.environment import Environment
from kipctl.cli.options import ClusterOptions
from kipctl.cluster.consumer_groups import Readers, consumers
from kipctl.cluster.inspect.cross_rack_traffic import (
    below,
    by_rate,
    by_size,
    parse_percent,
    require_rates,
    too_few_local,
)
from kipctl.cluster.inspect.group_traffic import group_traffic
from kipctl.cluster.inspect.replica_selection import Choice
from kipctl.cluster.inspect.replica_selection_facts import (
    Observation,
    observe,
    require_all_reported,
    select_one_partition,
    select_partitions,
    topic_and_number,
    unknown_racks,
    watch,
)
from kipctl.cluster.snapshot import Snapshot, parse_partition, require_named_shown, take_snapshot
from kipctl.counts import counted
from kipctl.durations import Duration
from kipctl.errors import InterruptedRunError
from kipctl.report import replica_selection_documents as documents
from kipctl.report.formats import OutputFormat
from kipctl.report.printable import on_one_line
from kipctl.report.replica_selection_advice import closest_replicas, selectors_to_set
from kipctl.report.replica_selection_tables import (
    flip_line,
    flips_table,
    selection_answer,
    selection_tables,
    walk_answers,
    walk_tables,
)
from kipctl.report.tables import Report
from kipctl.signals import noted_signals
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

if TYPE_CHECKING:
    from kipctl.cluster.inspect.replica_selection_librdkafka import ClientRead
    from kipctl.documents.replica_selection import ReplicaFlipsDocument

COMMAND = "inspect replica-selection"
_TIMEOUT_S = 5.0
_WATCH_TIMEOUT_S = 1.0
_CLIENT_TIMEOUT_S = 10.0


def show(
    environment: Environment, cluster_options: ClusterOptions, options: SelectionOptions
) -> None:
    """As the options say. Raises KipctlError."""
    partition = None if options.explain is None else parse_partition(options.explain)
    limit = None if options.require_local is None else parse_percent(options.require_local)
    racks = list(dict.fromkeys(options.client_rack or ()))
    access, output = environment.access(cluster_options.bootstrap_server), cluster_options.output
    timeout_s = _WATCH_TIMEOUT_S if options.watch else _TIMEOUT_S
    with Cluster(access, timeout_s=timeout_s) as cluster:
        snapshot = take_snapshot(cluster)
        names = (
            [topic_and_number(text, snapshot.topics)[0] for text in options.topic or ()]
            if partition is None
            else [partition.topic]
        )
        require_named_shown(cluster, snapshot.topics, names)
        environment.report_hidden_topics(cluster, snapshot.topics, names)
        wanted = (
            select_partitions(snapshot, options.topic or [])
            if partition is None
            else select_one_partition(snapshot, partition)
        )
        observation = observe(cluster, wanted, racks)
        for sentence in unknown_racks(racks, observation.racks):
            environment.message(sentence)
        if partition is not None:
            walked = documents.walks(observation)
            opening = walk_answers(walked)
            report = Report(COMMAND, walked, walk_tables(walked), opening=opening)
            environment.report(report, output)
            return
        if options.watch:
            _watch(environment, cluster, wanted, observation, options.period, output)
            return
        if options.rate_over is None:
            traffic = by_size(cluster, observation)
        else:
            over = options.rate_over
            with environment.progress(f"Measuring for {Duration(over)} how much is written."):
                traffic = by_rate(cluster, wanted, racks, observation, over)
        readers = consumers(cluster)
        observation = traffic.observation
        choices = (*observation.choices, *_not_shown(cluster, wanted, observation, readers))
    rates = traffic.amounts if options.rate_over is not None else {}
    groups = group_traffic(readers.members, observation.facts, choices, rates, observation.racks)
    failed = () if limit is None else below(traffic.summaries, limit)
    reads = _client_reads(environment, access, observation) if options.client else ()
    document = documents.document(
        observation,
        traffic.summaries,
        traffic.not_known,
        reads,
        options.rate_over,
        options.price_per_gb,
        groups,
        readers.missing,
    )
    opening = (selection_answer(document),)
    closing = (*selectors_to_set(observation), *closest_replicas(observation, traffic.amounts))
    report = Report(COMMAND, document, selection_tables(document), closing, opening=opening)
    environment.report(report, output)
    if limit is not None and failed:
        raise too_few_local(failed, limit, observation.choices)
    require_all_reported(observation)
    if options.rate_over is not None:
        require_rates(traffic.not_known)


def _not_shown(
    cluster: Cluster, wanted: Snapshot, observation: Observation, readers: Readers
) -> tuple[Choice, ...]:
    """Where members of groups read whose racks are not among those shown (`--client-rack`)."""
    shown = {choice.rack for choice in observation.choices}
    named = {member.rack for member in readers.members} - shown
    racks = [rack for rack in observation.racks if rack in named]
    if not racks:
        return ()
    now = take_snapshot(cluster, wanted.topics).only(p.id for p in wanted.partitions)
    return observe(cluster, now, racks).choices


def _client_reads(
    environment: Environment, access: Access, observation: Observation
) -> "tuple[ClientRead, ...]":
    from kipctl.cluster.inspect.replica_selection_librdkafka import read  # the client itself

    reads: list[ClientRead] = []
    for rack in dict.fromkeys(choice.rack for choice in observation.choices):
        with environment.progress(f"Letting librdkafka read in {rack}."):
            reads += read(access, observation.facts, rack, _CLIENT_TIMEOUT_S)
    return tuple(reads)


def _watch(
    environment: Environment,
    cluster: Cluster,
    wanted: Snapshot,
    observation: Observation,
    for_s: float | None,
    output: OutputFormat,
) -> None:
    """A line for each change, as it happens; JSON, CSV and Markdown come whole, at the end."""
    until = "until Ctrl-C" if for_s is None else f"for {Duration(for_s)}"
    environment.message(
        f"Watching {counted(len(wanted.partitions), 'partition')}, read in"
        f" {counted(len(observation.choices) // max(1, len(wanted.partitions)), 'rack')}, {until}."
    )
    lines_at_once = output not in (OutputFormat.JSON, OutputFormat.CSV, OutputFormat.MARKDOWN)
    flips = []
    with noted_signals() as ended:
        for flip in watch(cluster, wanted, observation.choices, for_s, ended):
            flips.append(documents.flip(flip))
            if lines_at_once:
                environment.stdout.write(on_one_line(flip_line(flips[-1])) + "\n")
                environment.stdout.flush()
        interrupted = ended(0)
    changes: ReplicaFlipsDocument = {"flips": flips}
    if not lines_at_once:
        environment.report(Report(COMMAND, changes, (flips_table(changes),)), output)
    if interrupted and for_s is not None:
        raise InterruptedRunError(f"Interrupted after {counted(len(flips), 'flip')}.")
