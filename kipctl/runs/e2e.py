"""`perf e2e`: producer and consumer at once, and each record's way from one to the other."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Generic

from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.errors import UsageError
from kipctl.measure.consumer_summary import (
    MeasuredConsume,
    measured_consume,
)
from kipctl.measure.delivery import Delivery, match_delivery, summarize_end_to_end
from kipctl.measure.doubts import Observed, doubts
from kipctl.measure.live_totals import CONSUMER, PRODUCER, EndToEndTotals
from kipctl.measure.moves import moves_sentence
from kipctl.measure.probe_results import ProbeResult, in_time_order
from kipctl.measure.producer_summary import (
    MeasuredProduce,
    measured_produce,
    service_times_at_ends,
)
from kipctl.measure.running_probe import RunningProbe
from kipctl.probe.config import as_properties
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.run import ConsumeOutcome, ConsumeSpec
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceOutcome
from kipctl.probe.run import AnyOutcome, Outcome
from kipctl.redaction import without_secrets
from kipctl.runs.actions import check_action
from kipctl.runs.consume import warn_of_rack
from kipctl.runs.execute import (
    Executed,
    Listeners,
    await_settled_leaders,
    check_end,
    execute,
    settled,
)
from kipctl.runs.forever import MetricsServer, Watch, WatchOptions, serving_metrics
from kipctl.runs.live import Screen
from kipctl.runs.plan import OWN_TOPIC
from kipctl.runs.produce import (
    PerfPlan,
    kafka_version,
    produce_settings,
    report_unconnected,
    topic_of,
)
from kipctl.runs.read_to_end import acknowledged_ends, await_offsets
from kipctl.runs.record import Recorder, recording, snapshot_after
from kipctl.runs.start import OnThisMachine, Probe, Starter, starter
from kipctl.signals import Cut, cut_in_order
from kipctl.trace.clock import now_us
from kipctl.trace.store import Run
from kipctl.transport.request import Cluster

_CLIENT_ID = "kipctl"
_ADMIN_TIMEOUT_S = 30.0
_LOOK_US = 50_000
_SKEW_US = 1_000_000
"""How much the clocks of workers' machines may differ."""
_ALL = 1 << 62
_FOREVER_MS = 1 << 40
FOREVER_RECORDS = 1 << 50
"""More than anybody waits for."""
_FORGET_US = 3_600_000_000
"""So long lost offsets are known, should they be read after all."""
TOPIC_OF_DAYS = {
    "retention.ms": "900000",
    "segment.ms": "300000",
    "segment.bytes": str(16 << 20),
    "retention.bytes": str(64 << 20),
}
"""Settings of the topic of a run that lasts: a log of a quarter of an hour or 64 MiB a partition,
removed by the segment."""


@dataclass(frozen=True, slots=True)
class EndToEndPlan:
    """What is produced, and how it is read; the consumer begins at the end of the topic's log.

    When all is sent, or Ctrl-C has ended it, it is waited until all that was acknowledged has come,
    or nothing has for `quiet_s`. One that lasts `forever` has FOREVER_RECORDS to send.
    """

    produce: PerfPlan
    consumer: ConsumerConfig = field(default_factory=ConsumerConfig)
    quiet_s: float = 10.0
    watched: WatchOptions = field(default_factory=WatchOptions)

    def __post_init__(self) -> None:
        """Raises UsageError for what makes no sense."""
        if self.quiet_s <= 0:
            raise UsageError("--timeout must be above 0.")
        if self.watched.forever and self.produce.during:
            raise UsageError(
                "With --forever nothing is done to the cluster: it watches what others do.",
                "Leave --during out.",
            )
        if self.watched.forever and self.produce.probe.throughput <= 0:
            raise UsageError("--forever needs a rate: give --throughput.")
        if self.is_watched and self.produce.on_spark:
            raise UsageError("--forever and --metrics are for one producer on this machine.")

    @property
    def is_watched(self) -> bool:
        """Whether it is counted while it lasts."""
        return self.watched.forever or self.watched.metrics is not None


@dataclass(frozen=True, slots=True)
class EndToEndResult:
    """The result of a run. `document` is what `--output json` prints."""

    produced: MeasuredProduce
    consumed: MeasuredConsume
    delivery: Delivery
    document: dict[str, Any]

    @property
    def kafka_lines(self) -> tuple[str, ...]:
        """The lines that Kafka's EndToEndLatency ends with: whole milliseconds, rounded down."""
        latency = self.delivery.times.latency
        p50, p99, p999 = (latency.quantile(q) // 1000 for q in (0.5, 0.99, 0.999))
        return (
            f"Avg latency: {latency.mean() / 1000:.4f} ms",
            f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}",
        )


def end_to_end(plan: EndToEndPlan, listeners: Listeners) -> EndToEndResult:
    """Run it on its topic. Raises KipctlError when it cannot begin or was interrupted.

    What was measured until then is recorded; of a run that did not begin nothing is left.
    """
    spec = plan.produce.probe
    with (
        recording(plan.produce.record) as run,
        serving_metrics(plan.watched.metrics, listeners.message) as server,
        Cluster(spec.access, _CLIENT_ID, _ADMIN_TIMEOUT_S) as cluster,
    ):
        if plan.produce.during:
            check_action(cluster, plan.produce.during)
        if spec.topic != OWN_TOPIC:
            plan.produce.check_partitions(
                spec.topic, len(take_snapshot(cluster, [spec.topic]).partitions)
            )
        with (
            starter(plan.produce, listeners.message, runs=2) as start,
            topic_of(plan.produce, cluster, listeners.message) as before,
        ):
            warn_of_rack(plan.consumer.client_rack, cluster, before, listeners.message)
            return measure(plan, cluster, before, listeners, run, start, server)


def measure(
    plan: EndToEndPlan,
    cluster: Cluster,
    before: Snapshot,
    listeners: Listeners,
    run: Run | None = None,
    start: Starter | None = None,
    server: MetricsServer | None = None,
) -> EndToEndResult:
    """Run both on a topic that is there and ready, with the plan's actions meanwhile.

    Raises InterruptedRunError after Ctrl-C, unless it was to last until then, and PartlyDoneError
    (with workers PipelineError) when one of them broke off; what was measured until then is
    recorded.
    """
    forever = plan.watched.forever
    spec = replace(plan.produce.probe, rotate_us=plan.watched.rotate_us)
    reading = ConsumeSpec(
        spec.access,
        spec.topic,
        num_records=_ALL,
        timeout_ms=_FOREVER_MS,
        discovery=spec.discovery,
        config=plan.consumer,
        rotate_us=plan.watched.rotate_us,
    )
    version = kafka_version(cluster)
    await_settled_leaders(cluster, spec.topic, plan.produce, listeners.message)
    start = start or OnThisMachine(run.folder if run else None)
    with start.start(reading, spec) as (reader, writer):
        how = produce_settings(spec, writer.schedule.interval_ns) | {
            "consumer": without_secrets(as_properties(plan.consumer)),
            **plan.produce.asked,
            "kafka_version": version,
            "arm": plan.produce.arm or spec.discovery.value,
            **plan.watched.asked,
        }
        is_watched = plan.is_watched or listeners.screen
        watch = _watch(plan, reader, writer, server, listeners) if is_watched else None
        recorder = Recorder(run, "perf e2e", spec.topic, how, asdict(before)) if run else None
        if recorder:
            recorder.begin()
        with cut_in_order() as cut:
            with watch.at_work() if watch else nullcontext():
                load = ProducerWithConsumer(writer, reader, watch)
                executed = execute(load, cluster, spec.topic, plan.produce, listeners, cut)
                outcome, actions = executed.outcome, executed.actions
                if watch:
                    watch.load_is_over()
                report_unconnected(outcome, listeners.message)
                ends = acknowledged_ends(writer.results)
                was_awaited = await_offsets(reader, ends, plan.quiet_s, lambda: cut.again)
                reading_outcome = settled(reader, Cut())
            if watch:
                watch.finish()
                outcome = watch.counted(outcome) if forever else outcome
            outcome = replace(
                outcome,
                stopped=cut.again or (outcome.stopped and not forever),
                failure=outcome.failure or reading_outcome.failure,
            )
            if forever and not executed.cut_off and not outcome.failure:
                outcome = replace(outcome, failure="The consumer ended, though nobody asked it to.")
            was_awaited = was_awaited and not reading_outcome.failure
            parts = together(outcome, writer.results, reader.results)
            is_recorded = bool(outcome.generated or outcome.failure)
            whole_run = watch.whole_run(outcome) if watch and forever else None
            if recorder and is_recorded:
                after = snapshot_after(cluster, spec.topic, listeners.message)
                if whole_run:
                    recorder = recorder.limited_to(
                        outcome.generated, whole_run["kept_from_seconds"], whole_run["seconds"]
                    )
                recorder.write(outcome, parts, executed.events, actions, after)
            produced = measured_produce(outcome, writer.results)
            consumed = measured_consume(reading_outcome, reader.results)
            if watch and forever:
                produced = replace(produced, steady=watch.totals.acknowledged.record_times)
                delivery = watch.totals.delivery
            else:
                delivery = follow(outcome, writer.results, reading_outcome, reader.results)
            document = summarize_end_to_end(
                produced, consumed, delivery, actions, version, was_awaited
            )
            document["doubts"] = _doubts(plan.produce, document, writer.results, executed)
            if whole_run:
                document["whole_run"] = whole_run
            if recorder and is_recorded:
                recorder.evaluated(document)
    result = EndToEndResult(produced, consumed, delivery, document)
    asked_for = outcome.generated if forever else spec.num_records
    check_end(
        replace(executed, outcome=outcome),
        plan.produce,
        spec.topic,
        run,
        listeners.message,
        broke_off=f"Of {asked_for} records {outcome.acknowledged} are known to be acknowledged, "
        f"{delivery.delivered} to have come.",
        interrupted=f"of {asked_for:,} records {outcome.generated:,} were "
        f"{outcome.sent_or_settled}, {delivery.delivered:,} were read.",
        figures=lambda: (
            *result.kafka_lines,
            moves_sentence(document["redirects"]["produce"]["moves"], "the producer"),
            moves_sentence(document["redirects"]["fetch"]["moves"], "the consumer"),
        ),
    )
    return result


def _watch(
    plan: EndToEndPlan,
    reader: Probe[ConsumeOutcome],
    writer: Probe[ProduceOutcome],
    server: MetricsServer | None,
    listeners: Listeners,
) -> Watch:
    assert isinstance(reader, RunningProbe)
    assert isinstance(writer, RunningProbe)
    totals = EndToEndTotals(
        writer.schedule.start_us,
        writer.schedule.interval_ns,
        plan.produce.probe.warmup_records,
        round(plan.watched.lost_after_s * 1e6),
        _late_us(plan.produce.probe.config),
        _FORGET_US,
    )
    folders = {PRODUCER: writer.directory, CONSUMER: reader.directory}
    title, spec = f"perf e2e on {plan.produce.probe.topic}", plan.produce.probe
    records = None if plan.watched.forever else spec.num_records
    screen = listeners.screen and Screen(
        title, "e2e", writer.schedule, records, listeners.performed, listeners.screen
    )
    return Watch(plan.watched, totals, writer.schedule, folders, server, screen)


class ProducerWithConsumer(Generic[AnyOutcome]):
    """A producer at work that is stopped when its consumer ends, which none does unasked, or when
    who watches them has failed.

    It is a `Probe` as the producer is.
    """

    def __init__(
        self,
        writer: Probe[AnyOutcome],
        reader: Probe[ConsumeOutcome],
        watch: Watch | None = None,
    ) -> None:
        self._writer, self._reader, self._watch = writer, reader, watch
        self.schedule = writer.schedule
        self.new_rows = writer.new_rows
        self.stop, self.give_up = writer.stop, writer.give_up

    @property
    def results(self) -> tuple[ProbeResult[AnyOutcome], ...]:
        """See `Probe`."""
        return self._writer.results

    def outcome(self) -> AnyOutcome:
        """See `Probe`."""
        while not self.is_done_by(now_us() + 1_000_000):
            pass
        return self._writer.outcome()

    def is_done_by(self, time_us: int) -> bool:
        """See `Probe`."""
        while not self._writer.is_done_by(min(time_us, now_us() + _LOOK_US)):
            if self._reader.is_done_by(0) or (self._watch and self._watch.fault):
                self.stop()
                return self._writer.is_done_by(time_us)
            if now_us() >= time_us:
                return False
        return True


def together(
    start: Outcome,
    written: Sequence[ProbeResult[ProduceOutcome]],
    read: Sequence[ProbeResult[ConsumeOutcome]],
) -> tuple[ProbeResult[Any], ...]:
    """All parts, with the times of all told from the producer's start on: they are on one clock.

    Workers have recorded theirs already: they all start together.
    """
    moved_parts = (
        replace(
            part,
            outcome=replace(
                part.outcome, start_us=start.start_us, wall_start_us=start.wall_start_us
            ),
        )
        for part in read
    )
    return (*written, *moved_parts)


def follow(
    outcome: ProduceOutcome,
    written: Sequence[ProbeResult[ProduceOutcome]],
    reading_outcome: ConsumeOutcome,
    read: Sequence[ProbeResult[ConsumeOutcome]],
) -> Delivery:
    """Each record's way, from the rows of both; `outcome` and `came` are those of all parts."""
    config = outcome.spec.config
    is_one_machine = len(written) == len(read) == 1
    return match_delivery(
        partial(in_time_order, written, "batches", "acked_us", outcome.start_us),
        partial(in_time_order, read, "reads", "time_us", reading_outcome.start_us),
        outcome.start_us,
        outcome.interval_ns,
        outcome.spec.warmup_records,
        late_us=_late_us(config),
        skew_us=0 if is_one_machine else _SKEW_US,
    )


def _late_us(config: ProducerConfig) -> int:
    """No batch is acknowledged longer after it was read."""
    return round((config.delivery_timeout_ms + config.request_timeout_ms) * 1000)


def _doubts(
    plan: PerfPlan,
    document: Mapping[str, Any],
    written: Sequence[ProbeResult[ProduceOutcome]],
    executed: Executed[ProduceOutcome],
) -> list[str]:
    """What spoils the run: of the producer's leaders, and of either client's lateness."""
    lags = [of["loop_lag_ms"] for of in document["health"].values()]
    first, last = service_times_at_ends(executed.outcome, written)
    return list(
        doubts(
            Observed(
                measured_p99_ms=document["latency_ms"]["p99"],
                loop_lag_ms=max((lag["p99"] for lag in lags if lag), default=None),
                first=first,
                last=last,
                busy=None if plan.on_spark else executed.busy,
                moves=document["redirects"]["produce"]["moves"]["met"] if plan.during else None,
                is_answered=plan.probe.config.acks != 0,
            )
        )
    )
