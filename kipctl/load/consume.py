"""`perf consume`: the probe's consumer on a topic, actions on the cluster meanwhile, the record."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from kipctl.background import every
from kipctl.cluster.inspect.replica_selection_facts import broker_racks
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.cluster.topics import EARLIEST, LATEST, offsets, record_count
from kipctl.counts import first_few
from kipctl.documents.runs import ConsumeDocument
from kipctl.errors import UsageError, did_you_mean
from kipctl.load.execute import Executed, Listeners, actions_can_be_undone
from kipctl.load.live import Screen
from kipctl.load.measure import Load, RunResult
from kipctl.load.plan import RunPlan, check_topic
from kipctl.load.start import Probe
from kipctl.measure.consumer_summary import (
    DETAILED_HEADER,
    HEADER,
    interval_line,
    kafka_line,
    measured_consume,
    summarize_consume,
)
from kipctl.measure.live_totals import ConsumerTotals
from kipctl.measure.moves import moves_sentences
from kipctl.next_step import Command
from kipctl.probe.config import as_properties
from kipctl.probe.consume.positions import NO_OFFSET
from kipctl.probe.consume.run import ConsumeOutcome, ConsumeSpec, assignment, require_partitions
from kipctl.redaction import without_secrets
from kipctl.trace.clock import now_us
from kipctl.trace.columns import READ
from kipctl.trace.rows import IntRows
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

_LOOK_S = 0.05
_NAMED = 5


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


class ConsumeLoad(Load[ConsumeOutcome, ConsumeDocument]):
    """kipctl's consumer alone."""

    command = "perf consume"

    def __init__(self, plan: ConsumePlan) -> None:
        self.plan: ConsumePlan = plan
        self.specs = (plan.probe,)

    def check(self, cluster: Cluster) -> None:
        spec = self.plan.probe
        before = take_snapshot(cluster, [spec.topic])
        check_assignment(cluster, spec, before)
        self.plan.check_partitions(spec.topic, len(assignment(spec, len(before.partitions))))

    @contextmanager
    def ready(self, cluster: Cluster, listeners: Listeners) -> Iterator[Snapshot]:
        spec = self.plan.probe
        before = take_snapshot(cluster, [spec.topic])
        warn_of_rack(spec.config.client_rack, cluster, before, listeners.message)
        with actions_can_be_undone(self.plan, cluster, before, listeners.message):
            yield before

    def settings(self, interval_ns: int) -> Mapping[str, object]:
        return consume_settings(self.plan.probe)

    @contextmanager
    def attended(
        self, probes: Sequence[Probe[Any]], listeners: Listeners
    ) -> Iterator[Probe[ConsumeOutcome]]:
        with _watched(probes[0], self.plan, listeners):
            yield probes[0]

    def counted(self, outcome: ConsumeOutcome) -> int:
        return outcome.records

    def result(
        self,
        executed: Executed[ConsumeOutcome],
        probes: Sequence[Probe[Any]],
        version: str | None,
    ) -> RunResult[ConsumeOutcome, ConsumeDocument]:
        outcome = executed.outcome
        measured = measured_consume(outcome, probes[0].results)
        document = summarize_consume(measured, executed.actions, version)
        moves = document["redirects"]["moves"]
        document["doubts"] = self.doubts(
            executed, document["fetches"]["took_ms"]["p99"], [document["loop_lag_ms"]], moves["met"]
        )
        line = kafka_line(measured, local_time)
        read = f"{outcome.records:,} records were read."
        figures = (line, *moves_sentences({"client": moves}))
        return RunResult(executed, document, (HEADER, line), read, read, figures)


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


def consume_settings(spec: ConsumeSpec) -> dict[str, object]:
    """What was asked for, for `run.json`."""
    return {
        "num_records": spec.num_records,
        "timeout_ms": spec.timeout_ms,
        "leader_discovery": spec.discovery.value,
        "bootstrap_server": str(spec.access),
        "consumer": without_secrets(as_properties(spec.config)),
    }


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
    interval = listeners.interval if plan.show_detailed_stats else None
    if not interval and not plan.on_spark:
        return nullcontext()
    if interval:
        interval(DETAILED_HEADER)
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
        if interval:
            interval(line)

    return every(_LOOK_S, watch)


def read(rows: IntRows) -> int:
    """How many records rows of `reads` brought."""
    return int(rows[:, READ["records"]].sum())


def all_of(access: Access, topic: str | None, partitions: Sequence[int] = ()) -> tuple[str, int]:
    """The topic and how many records it holds, or these partitions of it. Raises UsageError without
    one to read."""
    with Cluster(access) as cluster:
        if topic is None:
            there = [name for name in take_snapshot(cluster).topics if not name.startswith("__")]
            named = first_few(there, _NAMED)
            raise UsageError(
                f"--topic says what to read; there is: {named or 'none yet'}.",
                "Without a topic of yours, on one that is made and removed: " + Command("perf e2e"),
            )
        require_partitions(topic, partitions, len(take_snapshot(cluster, [topic]).partitions))
        if held := record_count(cluster, topic, partitions):
            return topic, held
    within = f" in partition {', '.join(map(str, sorted({*partitions})))}" if partitions else ""
    raise UsageError(
        f"Topic {topic} holds no records{within}.",
        "Wait for new ones with --num-records, or produce some: "
        + Command("perf produce", topic=topic),
    )
