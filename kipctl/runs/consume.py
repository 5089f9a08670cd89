"""`perf consume`: the probe's consumer on a topic, actions on the cluster meanwhile, the record."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np

from kipctl.background import every
from kipctl.cluster.inspect.replica_selection_facts import broker_racks
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.cluster.topics import EARLIEST, LATEST, offsets
from kipctl.errors import UsageError, did_you_mean
from kipctl.measure.consumer_summary import (
    DETAILED_HEADER,
    MeasuredConsume,
    interval_line,
    kafka_line,
    measured_consume,
    summarize_consume,
)
from kipctl.measure.doubts import Observed, doubts
from kipctl.measure.live_totals import ConsumerTotals
from kipctl.measure.moves import moves_sentence
from kipctl.probe.config import as_properties
from kipctl.probe.consume.positions import NO_OFFSET
from kipctl.probe.consume.run import ConsumeOutcome, ConsumeSpec, assignment
from kipctl.redaction import without_secrets
from kipctl.runs.actions import check_action
from kipctl.runs.execute import (
    Listeners,
    actions_can_be_undone,
    await_settled_leaders,
    check_end,
    execute,
)
from kipctl.runs.live import Screen
from kipctl.runs.plan import RunPlan, check_topic
from kipctl.runs.produce import kafka_version
from kipctl.runs.record import Recorder, recording, snapshot_after
from kipctl.runs.start import OnThisMachine, Probe, Starter, starter
from kipctl.signals import cut_in_order
from kipctl.trace.clock import now_us
from kipctl.trace.columns import READ
from kipctl.trace.rows import IntRows
from kipctl.trace.store import Run
from kipctl.transport.request import Cluster

_CLIENT_ID = "kipctl"
_ADMIN_TIMEOUT_S = 30.0
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class ConsumePlan(RunPlan):
    """A run of the consumer and what is done to the cluster meanwhile.

    With `show_detailed_stats` a line of Kafka's tool is printed every `reporting_interval_s`.
    """

    probe: ConsumeSpec
    show_detailed_stats: bool = False

    def __post_init__(self) -> None:
        """Raises UsageError for numbers that make no sense."""
        check_topic(self.probe.topic)
        spec = self.probe
        self.check(
            (
                ("--num-records", spec.num_records, 1),
                ("--timeout", spec.timeout_ms, 1),
                ("--offset", spec.offset, NO_OFFSET),
                ("--partition", min(spec.partitions, default=0), 0),
            ),
            self.probe.access,
        )


@dataclass(frozen=True, slots=True)
class ConsumeResult:
    """The result of a run. `document` is what `--output json` prints."""

    measured: MeasuredConsume
    document: dict[str, Any]


def consume(plan: ConsumePlan, listeners: Listeners) -> ConsumeResult:
    """Read a topic. Raises KipctlError when it cannot begin, broke off, or was interrupted.

    What was measured until then is recorded; of a run that did not begin nothing is left.
    """
    spec = plan.probe
    with (
        recording(plan.record) as run,
        Cluster(spec.access, _CLIENT_ID, _ADMIN_TIMEOUT_S) as cluster,
    ):
        if plan.during:
            check_action(cluster, plan.during)
        before = take_snapshot(cluster, [spec.topic])
        check_assignment(cluster, spec, before)
        partitions = assignment(spec, len(before.partitions))
        plan.check_partitions(spec.topic, len(partitions))
        warn_of_rack(spec.config.client_rack, cluster, before, listeners.message)
        with (
            actions_can_be_undone(plan, cluster, before, listeners.message),
            starter(plan, listeners.message) as start,
        ):
            return measure(plan, cluster, before, listeners, run, start)


def check_assignment(cluster: Cluster, spec: ConsumeSpec, before: Snapshot) -> None:
    """Raise UsageError for a partition that is not there, or an offset outside of its log."""
    partitions = assignment(spec, len(before.partitions))
    if spec.offset == NO_OFFSET:
        return
    starts, ends = offsets(cluster, spec.topic, EARLIEST), offsets(cluster, spec.topic, LATEST)
    for partition in partitions:
        if not starts[partition] <= spec.offset <= ends[partition]:
            raise UsageError(
                f"Offset {spec.offset} is outside of {spec.topic}:{partition}, whose log has "
                f"{starts[partition]} to {ends[partition]}.",
                "Name one within with --offset, or leave it out to begin at the earliest.",
            )


def warn_of_rack(
    rack: str, cluster: Cluster, before: Snapshot, message: Callable[[str], None]
) -> None:
    """Say so when nobody serves the consumer's rack: then every record comes from a leader."""
    if rack and (warning := rack_warning(rack, broker_racks(cluster), before.broker_ids)):
        message(warning)


def rack_warning(rack: str, racks: Mapping[int, str | None], alive: Collection[int]) -> str:
    """What is wrong with a consumer's rack; empty when a broker there is alive."""
    there = sorted(broker for broker, its_rack in racks.items() if its_rack == rack)
    if any(broker in alive for broker in there):
        return ""
    if there:
        brokers = "broker " if len(there) == 1 else "brokers "
        return (
            f"Warning: rack {rack!r} has no broker that is alive ({brokers}"
            f"{', '.join(map(str, there))}), so leaders are read until one is back."
        )
    known = sorted({its_rack for its_rack in racks.values() if its_rack})
    return f"Warning: no broker is in rack {rack!r}, so leaders are read. " + (
        f"Racks of this cluster: {', '.join(known)}.{did_you_mean(rack, known)}"
        if known
        else "None has a rack."
    )


def measure(
    plan: ConsumePlan,
    cluster: Cluster,
    before: Snapshot,
    listeners: Listeners,
    run: Run | None = None,
    start: Starter | None = None,
) -> ConsumeResult:
    """Run the consumer, with the plan's actions meanwhile.

    Raises InterruptedRunError after Ctrl-C, and PartlyDoneError (with workers PipelineError) when
    it broke off; what was measured until then is recorded.
    """
    spec = plan.probe
    version = kafka_version(cluster)
    how = consume_settings(spec) | plan.asked | {"kafka_version": version}
    recorder = Recorder(run, "perf consume", spec.topic, how, asdict(before)) if run else None
    await_settled_leaders(cluster, spec.topic, plan, listeners.message)
    with (start or OnThisMachine(run.folder if run else None))(spec) as probe:
        if recorder:
            recorder.begin()
        with cut_in_order() as cut:
            with _watched(probe, plan, listeners):
                executed = execute(probe, cluster, spec.topic, plan, listeners, cut)
            outcome, actions = executed.outcome, executed.actions
            is_recorded = bool(outcome.records or outcome.failure)
            if recorder and is_recorded:
                after = snapshot_after(cluster, spec.topic, listeners.message)
                recorder.write(outcome, probe.results, executed.events, actions, after)
            measurement = measured_consume(outcome, probe.results)
            document = summarize_consume(measurement, actions, version)
            lag = document["loop_lag_ms"]
            document["doubts"] = list(
                doubts(
                    Observed(
                        measured_p99_ms=document["fetches"]["took_ms"]["p99"],
                        loop_lag_ms=lag["p99"] if lag else None,
                        busy=None if plan.on_spark else executed.busy,
                        moves=document["redirects"]["moves"]["met"] if plan.during else None,
                    )
                )
            )
            if recorder and is_recorded:
                recorder.evaluated(document)
    check_end(
        executed,
        plan,
        spec.topic,
        run,
        listeners.message,
        broke_off=f"{outcome.records} records were read.",
        interrupted=f"{outcome.records:,} records were read.",
        figures=lambda: (result_line(measurement), moves_sentence(document["redirects"]["moves"])),
    )
    return ConsumeResult(measurement, document)


def consume_settings(spec: ConsumeSpec) -> dict[str, object]:
    """What was asked for, for `run.json`."""
    return {
        "num_records": spec.num_records,
        "timeout_ms": spec.timeout_ms,
        "leader_discovery": spec.discovery.value,
        "bootstrap_server": str(spec.access),
        "consumer": without_secrets(as_properties(spec.config)),
    }


def result_line(run: MeasuredConsume) -> str:
    """The line of Kafka's tool, with local times."""
    return kafka_line(run, local_time)


def local_time(wall_us: int) -> str:
    """As Kafka's consumer perf tool prints times: `yyyy-MM-dd HH:mm:ss:SSS`."""
    local = datetime.fromtimestamp(wall_us / 1e6)
    return f"{local:%Y-%m-%d %H:%M:%S}:{local.microsecond // 1000:03d}"


def _watched(
    probe: Probe[ConsumeOutcome], plan: ConsumePlan, listeners: Listeners
) -> AbstractContextManager[None]:
    """While the block runs: show how far it is, or tell Kafka's interval lines; and end workers
    together, as none of them knows what the others have read."""
    if listeners.screen:
        title, records = f"perf consume of {plan.probe.topic}", plan.probe.num_records
        screen = Screen(
            title, "Fetch", probe.schedule, records, listeners.performed, listeners.screen
        )
        return screen.follow(probe, ConsumerTotals())
    if not plan.show_detailed_stats and not plan.on_spark:
        return nullcontext()
    if plan.show_detailed_stats:
        listeners.interval(DETAILED_HEADER)
    records = size = 0
    reported_us, rows = now_us(), probe.new_rows("reads")

    def watch() -> None:
        nonlocal records, size, reported_us, rows
        rows = np.concatenate([rows, probe.new_rows("reads")])
        if plan.on_spark and records + read(rows) >= plan.probe.num_records:
            probe.stop()
        passed_us = now_us() - reported_us
        if passed_us < round(plan.reporting_interval_s * 1e6):
            return
        line, records, size = interval_line(rows, records, size, passed_us / 1e6, local_time)
        reported_us, rows = now_us(), rows[:0]
        if plan.show_detailed_stats:
            listeners.interval(line)

    return every(_LOOK_S, watch)


def read(rows: IntRows) -> int:
    """How many records rows of `reads` brought."""
    return int(rows[:, READ["records"]].sum())
