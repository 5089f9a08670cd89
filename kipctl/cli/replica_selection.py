"""What `kipctl inspect replica-selection` looks at, and what it says of it."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kipctl.cli.environment import Environment
from kipctl.cli.options import (
    ClusterOptions,
)
from kipctl.cli.replica_selection_options import SelectionOptions
from kipctl.cluster.inspect.cross_rack_traffic import (
    RackSummary,
    below,
    parse_percent,
    rates,
    samples,
    summarize,
    unreported,
)
from kipctl.cluster.inspect.replica_selection import Reason
from kipctl.cluster.inspect.replica_selection_facts import (
    Observation,
    observe,
    select_one_partition,
    select_partitions,
    topic_and_number,
    watch,
)
from kipctl.cluster.snapshot import (
    PartitionId,
    Snapshot,
    parse_partition,
    require_named_shown,
    take_snapshot,
)
from kipctl.counts import counted
from kipctl.durations import Duration
from kipctl.errors import (
    InterruptedRunError,
    PartlyDoneError,
    ThresholdError,
    did_you_mean,
)
from kipctl.next_step import Command
from kipctl.report import replica_selection_documents as documents
from kipctl.report.formats import OutputFormat
from kipctl.report.printable import on_one_line
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

COMMAND = "inspect replica-selection"
_TIMEOUT_S = 5.0
_WATCH_TIMEOUT_S = 1.0
_CLIENT_TIMEOUT_S = 10.0


def show(environment: Environment, of: ClusterOptions, options: SelectionOptions) -> None:
    """As the options say. Raises KipctlError."""
    one = None if options.explain is None else parse_partition(options.explain)
    limit = None if options.require_local is None else parse_percent(options.require_local)
    racks = list(dict.fromkeys(options.client_rack or ()))
    access = environment.access(of.bootstrap_server)
    timeout_s = _WATCH_TIMEOUT_S if options.watch else _TIMEOUT_S
    with Cluster(access, timeout_s=timeout_s) as cluster:
        snapshot = take_snapshot(cluster)
        names = (
            [topic_and_number(text, snapshot.topics)[0] for text in options.topic or ()]
            if one is None
            else [one.topic]
        )
        require_named_shown(cluster, snapshot.topics, names)
        environment.report_hidden_topics(cluster, snapshot.topics, names)
        wanted = (
            select_partitions(snapshot, options.topic or [])
            if one is None
            else select_one_partition(snapshot, one)
        )
        found = observe(cluster, wanted, racks)
        _warn_of_unknown(environment, racks, found.racks)
        if one is not None:
            walked = documents.walks(found)
            opening = walk_answers(walked)
            report = Report(COMMAND, walked, walk_tables(walked), opening=opening)
            environment.report(report, of.output)
            return
        if options.watch:
            _watch(environment, cluster, wanted, found, options.period, of.output)
            return
        found, summaries, not_reported = _summaries(
            environment, cluster, wanted, racks, found, options.rate_over
        )
    failed = () if limit is None else below(summaries, limit)
    reads = _client_reads(environment, access, found) if options.client else ()
    document = documents.document(
        found, summaries, not_reported, reads, options.rate_over, options.price_per_gb
    )
    opening = (selection_answer(document),)
    report = Report(COMMAND, document, selection_tables(document), _closing(found), opening=opening)
    environment.report(report, of.output)
    if limit is not None and failed:
        raise _below(failed, limit)
    _demand_all_reported(found)
    if options.rate_over is not None:
        _demand_rates(not_reported)


def _closing(found: Observation) -> tuple[str, ...]:
    """How a rack without a replica gets one: by more replicas, or by others where there are as
    many as racks."""
    without = {choice.id for choice in found.choices if choice.reason is Reason.NO_REPLICA}
    lacking = [facts for facts in found.facts if facts.id in without]
    if not lacking:
        return ()
    racks, fewest = len(found.racks), min(lacking, key=lambda facts: len(facts.replicas))
    enough = len(fewest.replicas) >= racks
    give = Command(
        "reassign",
        rack_aware=enough,
        replication_factor=None if enough else racks,
        topic=fewest.id.topic,
        dry_run=True,
    )
    return (
        "A replica in each rack is read by consumers that set client.rack; others read from the"
        " leader.",
        "Give them one: " + give,
    )


def _warn_of_unknown(environment: Environment, asked: Sequence[str], known: Sequence[str]) -> None:
    for rack in asked:
        if rack not in known:
            environment.message(
                f"The cluster has no rack {rack!r}; it has {', '.join(known)}."
                f"{did_you_mean(rack, known)}"
                " Readers that name it read from the leaders."
            )


def _summaries(
    environment: Environment,
    cluster: Cluster,
    wanted: Snapshot,
    racks: Sequence[str],
    found: Observation,
    over_s: float | None,
) -> tuple[Observation, tuple[RackSummary, ...], dict[PartitionId, str]]:
    """The racks' summaries, and why the bytes of some partitions in them are not known.

    With a time to measure, after a second look at the end of it.
    """
    before = samples(cluster, found.facts, found.silent)
    if over_s is None:
        summaries = summarize(found.choices, before.held)
        return found, summaries, unreported(summaries, before.missing)
    with environment.progress(f"Measuring for {Duration(over_s)} how much is written."):
        time.sleep(over_s)
    now = take_snapshot(cluster, wanted.topics).only(p.id for p in wanted.partitions)
    found = observe(cluster, now, racks)
    after = samples(cluster, found.facts, found.silent)
    measured, missing = rates(before, after)
    summaries = summarize(found.choices, after.held, measured)
    return found, summaries, unreported(summaries, missing)


def _client_reads(
    environment: Environment, access: Access, found: Observation
) -> "tuple[ClientRead, ...]":
    from kipctl.cluster.inspect.replica_selection_librdkafka import read  # the client itself

    reads: list[ClientRead] = []
    for rack in dict.fromkeys(choice.rack for choice in found.choices):
        with environment.progress(f"Letting librdkafka read in {rack}."):
            reads += read(access, found.facts, rack, _CLIENT_TIMEOUT_S)
    return tuple(reads)


def _watch(
    environment: Environment,
    cluster: Cluster,
    wanted: Snapshot,
    found: Observation,
    for_s: float | None,
    output: OutputFormat,
) -> None:
    """A line for each change, as it happens; JSON, CSV and Markdown come whole, at the end."""
    until = "until Ctrl-C" if for_s is None else f"for {Duration(for_s)}"
    environment.message(
        f"Watching {counted(len(wanted.partitions), 'partition')}, read in"
        f" {counted(len(found.choices) // max(1, len(wanted.partitions)), 'rack')}, {until}."
    )
    lines_at_once = output not in (OutputFormat.JSON, OutputFormat.CSV, OutputFormat.MARKDOWN)
    flips = []
    with noted_signals() as ended:
        for flip in watch(cluster, wanted, found.choices, for_s, ended):
            flips.append(documents.flip(flip))
            if lines_at_once:
                environment.stdout.write(on_one_line(flip_line(flips[-1])) + "\n")
                environment.stdout.flush()
        interrupted = ended(0)
    document = {"flips": flips}
    if not lines_at_once:
        environment.report(Report(COMMAND, document, (flips_table(document),)), output)
    if interrupted and for_s is not None:
        raise InterruptedRunError(f"Interrupted after {counted(len(flips), 'flip')}.")


def _below(failed: Sequence[RackSummary], limit: float) -> ThresholdError:
    reported = ", ".join(f"{s.rack} {s.local} of {s.partitions}" for s in failed)
    return ThresholdError(
        f"Fewer than {limit:g} % of the partitions are read within the rack: {reported}.",
        "See why: " + Command("inspect replica-selection --explain TOPIC:PARTITION"),
    )


def _demand_all_reported(found: Observation) -> None:
    missing = {choice.id: choice for choice in found.choices if choice.reads_from is None}
    if missing:
        first = next(iter(missing.values()))
        raise PartlyDoneError(
            f"{counted(len(missing), 'partition', of=len(found.facts))} could not be asked for:"
            f" {first.id}, {first.why}",
            "Look: " + Command("inspect leaders"),
        )


def _demand_rates(unreported: Mapping[PartitionId, str]) -> None:
    if unreported:
        first, why = next(iter(unreported.items()))
        raise PartlyDoneError(
            f"How much is written to {len(unreported)} of the partitions is not known:"
            f" {first}: {why.removesuffix('.')}.",
            "Sums that need them are left out; the others are shown.",
        )
