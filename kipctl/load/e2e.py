"""`perf e2e`: producer and consumer at once, and each record's way from one to the other."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic

from kipctl.cluster.snapshot import Snapshot
from kipctl.documents.runs import EndToEndDocument, WholeRun
from kipctl.errors import UsageError
from kipctl.load.consume import warn_of_rack
from kipctl.load.execute import Executed, Listeners, settled
from kipctl.load.forever import MetricsServer, Watch, WatchOptions, serving_metrics
from kipctl.load.live import Screen
from kipctl.load.measure import Load, RunResult
from kipctl.load.produce import (
    PerfPlan,
    check_others_topic,
    produce_observed,
    produce_settings,
    report_unconnected,
    topic_of,
)
from kipctl.load.read_to_end import acknowledged_ends, await_offsets
from kipctl.load.record import Recorder
from kipctl.load.start import Probe
from kipctl.measure.consumer_summary import measured_consume
from kipctl.measure.delivery import Delivery, match_delivery, summarize_end_to_end
from kipctl.measure.live_totals import CONSUMER, PRODUCER, EndToEndTotals
from kipctl.measure.moves import moves_sentences
from kipctl.measure.probe_results import ProbeResult, in_time_order
from kipctl.measure.producer_summary import measured_produce
from kipctl.measure.running_probe import RunningProbe
from kipctl.probe.config import as_properties
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.run import ConsumeOutcome, ConsumeSpec
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceOutcome
from kipctl.probe.run import AnyOutcome, Outcome
from kipctl.redaction import without_secrets
from kipctl.signals import Cut
from kipctl.trace.clock import now_us
from kipctl.transport.request import Cluster

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


class EndToEndLoad(Load[ProduceOutcome, EndToEndDocument]):
    """kipctl's producer, and its consumer of what that writes."""

    command = "perf e2e"

    def __init__(self, plan: EndToEndPlan) -> None:
        self._of = plan
        self.plan: PerfPlan = plan.produce
        self._forever = plan.watched.forever
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
        self.specs = (reading, spec)
        self._server: MetricsServer | None = None
        self._watch: Watch | None = None
        self._was_awaited = False

    def check(self, cluster: Cluster) -> None:
        check_others_topic(self.plan, cluster)

    @contextmanager
    def ready(self, cluster: Cluster, listeners: Listeners) -> Iterator[Snapshot]:
        with (
            serving_metrics(self._of.watched.metrics, listeners.message) as self._server,
            topic_of(self.plan, cluster, listeners.message) as before,
        ):
            warn_of_rack(self._of.consumer.client_rack, cluster, before, listeners.message)
            yield before

    def settings(self, interval_ns: int) -> Mapping[str, object]:
        spec = self.plan.probe
        return produce_settings(spec, interval_ns) | {
            "consumer": without_secrets(as_properties(self._of.consumer)),
            "arm": self.plan.arm or spec.discovery.value,
            **self._of.watched.asked,
        }

    @contextmanager
    def attended(
        self, probes: Sequence[Probe[Any]], listeners: Listeners
    ) -> Iterator[Probe[ProduceOutcome]]:
        self._reader, self._writer = probes
        if self._of.is_watched or listeners.screen:
            self._watch = _watch(self._of, self._reader, self._writer, self._server, listeners)
        with self._watch.at_work() if self._watch else nullcontext():
            yield ProducerWithConsumer(self._writer, self._reader, self._watch)
        report_unconnected(self._writer, listeners.message)

    def read_to_end(self, executed: Executed[ProduceOutcome], cut: Cut) -> None:
        if self._watch:
            self._watch.load_is_over()
        ends = acknowledged_ends(self._writer.results)
        awaited = await_offsets(self._reader, ends, self._of.quiet_s, lambda: cut.again)
        self._read = settled(self._reader, Cut())
        self._was_awaited = awaited and not self._read.failure

    def whole(
        self, executed: Executed[ProduceOutcome], probes: Sequence[Probe[Any]], cut: Cut
    ) -> tuple[Executed[ProduceOutcome], Sequence[ProbeResult[Any]]]:
        outcome, forever = executed.outcome, self._forever
        if self._watch:
            self._watch.finish()
            outcome = self._watch.counted(outcome) if forever else outcome
        failure = outcome.failure or self._read.failure
        if forever and not executed.cut_off and not failure:
            failure = "The consumer ended, though nobody asked it to."
        stopped = cut.again or (outcome.stopped and not forever)
        outcome = replace(outcome, stopped=stopped, failure=failure)
        parts = parts_on_one_clock(outcome, self._writer.results, self._reader.results)
        return replace(executed, outcome=outcome), parts

    def counted(self, outcome: ProduceOutcome) -> int:
        return outcome.generated

    def _whole_run(self, outcome: ProduceOutcome) -> WholeRun | None:
        return self._watch.whole_run(outcome) if self._watch and self._forever else None

    def of_record(self, recorder: Recorder, outcome: ProduceOutcome) -> Recorder:
        if not (run := self._whole_run(outcome)):
            return recorder
        return recorder.limited_to(outcome.generated, run["kept_from_seconds"], run["seconds"])

    def result(
        self,
        executed: Executed[ProduceOutcome],
        probes: Sequence[Probe[Any]],
        version: str | None,
    ) -> RunResult[ProduceOutcome, EndToEndDocument]:
        outcome, written, read = executed.outcome, self._writer.results, self._reader.results
        produced = measured_produce(outcome, written)
        consumed = measured_consume(self._read, read)
        if self._watch and self._forever:
            produced = replace(produced, steady=self._watch.totals.acknowledged.record_times)
            delivery = self._watch.totals.delivery
        else:
            delivery = follow(outcome, written, self._read, read)
        document = summarize_end_to_end(
            produced, consumed, delivery, executed.actions, version, self._was_awaited
        )
        redirects, health = document["redirects"], document["health"]
        document["doubts"] = self.doubts(
            executed,
            document["latency_ms"]["p99"],
            [health["producer"]["loop_lag_ms"], health["consumer"]["loop_lag_ms"]],
            redirects["produce"]["moves"]["met"],
            **produce_observed(outcome, written),
        )
        if whole_run := self._whole_run(outcome):
            document["whole_run"] = whole_run
        lines = kafka_lines(delivery)
        asked_for = outcome.generated if self._forever else self.plan.probe.num_records
        return RunResult(
            executed,
            document,
            lines,
            broke_off=f"Of {asked_for} records {outcome.acknowledged} are known to be acknowledged,"
            f" {delivery.delivered} to have come.",
            interrupted=f"of {asked_for:,} records {outcome.generated:,} were "
            f"{outcome.sent_or_settled}, {delivery.delivered:,} were read.",
            figures=(
                *lines,
                *moves_sentences(
                    {
                        "producer": redirects["produce"]["moves"],
                        "consumer": redirects["fetch"]["moves"],
                    }
                ),
            ),
        )


def kafka_lines(delivery: Delivery) -> tuple[str, str]:
    """The lines that Kafka's EndToEndLatency ends with: whole milliseconds, rounded down."""
    latency = delivery.times.latency
    p50, p99, p999 = (latency.quantile(q) // 1000 for q in (0.5, 0.99, 0.999))
    return (
        f"Avg latency: {latency.mean() / 1000:.4f} ms",
        f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}",
    )


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


def parts_on_one_clock(
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
