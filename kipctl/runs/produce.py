"""`perf produce`: the probe on a topic, actions on the cluster meanwhile, the record of both."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from kipctl.background import every
from kipctl.cluster.kafka_release import kafka_release
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.cluster.topics import record_count
from kipctl.errors import RefusedError, UsageError
from kipctl.machine import busy_share, cpu_times
from kipctl.measure.doubts import Observed, doubts
from kipctl.measure.live_totals import ProducerTotals
from kipctl.measure.moves import moves_sentence
from kipctl.measure.probe_results import ProbeResult
from kipctl.measure.producer_summary import (
    MeasuredProduce,
    interval_line,
    kafka_line,
    measured_produce,
    record_times,
    service_times_at_ends,
    summarize_produce,
)
from kipctl.probe.produce.config import producer_properties
from kipctl.probe.produce.payloads import file_values
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.redaction import without_secrets
from kipctl.runs.actions import (
    ActionKind,
    check_action,
    lab_of,
)
from kipctl.runs.execute import (
    Listeners,
    actions_can_be_undone,
    await_settled_leaders,
    check_end,
    execute,
)
from kipctl.runs.live import Screen
from kipctl.runs.own_topic import own_topic
from kipctl.runs.plan import OWN_TOPIC, RunPlan, check_topic
from kipctl.runs.record import Recorder, recording, snapshot_after
from kipctl.runs.start import OnThisMachine, Probe, Starter, starter
from kipctl.signals import cut_in_order
from kipctl.trace.clock import now_us
from kipctl.trace.rows import read_all
from kipctl.trace.store import Run
from kipctl.transport.request import Cluster

_CLIENT_ID = "kipctl"
_ADMIN_TIMEOUT_S = 30.0
_AROUND_US = 1_000_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PerfPlan(RunPlan):
    """A run of the producer and what is done to the cluster meanwhile.

    The topic `kipctl-perf` is made with `partitions` and `replication_factor` (0: 3, or the number
    of brokers if less) and removed. `arm` is what tables call this way of running; "" for its
    leader discovery. `topic_configs` are settings that the topic is made with.
    """

    probe: ProduceSpec
    partitions: int = 100
    replication_factor: int = 0
    arm: str = ""
    topic_configs: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises UsageError for sizes and numbers that make no sense."""
        spec = self.probe
        check_topic(spec.topic)
        self.check(
            (
                ("--num-records", spec.num_records, 1),
                ("--record-size", spec.record_size, 1),
                ("--warmup-records", spec.warmup_records, 0),
                ("--partitions", self.partitions, 1),
                ("--replication-factor", self.replication_factor, 0),
            ),
            self.probe.access,
        )
        if not (spec.throughput > 0 or spec.throughput == -1):  # nan is neither
            raise UsageError(
                f"--throughput is {spec.throughput:g}; give records per second, or -1 for no limit."
            )
        if spec.payload_file is not None:
            file_values(spec.payload_file, spec.payload_delimiter)
        if spec.warmup_records >= spec.num_records:
            raise UsageError("--warmup-records must be less than --num-records.")
        if spec.throughput > 0:
            self.check_actions(spec.num_records / spec.throughput)
        if spec.topic == OWN_TOPIC:
            self.check_partitions(OWN_TOPIC, self.partitions)


@dataclass(frozen=True, slots=True)
class PerfResult:
    """The result of a run. `document` is what `--output json` prints."""

    measured: MeasuredProduce
    document: dict[str, Any]

    @property
    def kafka_lines(self) -> tuple[str, ...]:
        """The lines that Kafka's own tool ends with."""
        total = kafka_line(self.measured.times)
        if not self.measured.outcome.spec.warmup_records:
            return (total,)
        return (total, kafka_line(self.measured.steady, " steady state"))


def produce(plan: PerfPlan, listeners: Listeners) -> PerfResult:
    """Run it on its topic. Raises KipctlError when it cannot begin, broke off, or was interrupted.

    What was measured until then is recorded; of a run that did not begin nothing is left.
    """
    spec = plan.probe
    with (
        recording(plan.record) as run,
        Cluster(spec.access, _CLIENT_ID, _ADMIN_TIMEOUT_S) as cluster,
    ):
        if plan.during:
            check_action(cluster, plan.during)
        if spec.topic != OWN_TOPIC:
            plan.check_partitions(spec.topic, len(take_snapshot(cluster, [spec.topic]).partitions))
        with (
            starter(plan, listeners.message) as start,
            topic_of(plan, cluster, listeners.message) as before,
        ):
            return measure(plan, cluster, before, listeners, run, start)


def measure(
    plan: PerfPlan,
    cluster: Cluster,
    before: Snapshot,
    listeners: Listeners,
    run: Run | None = None,
    start: Starter | None = None,
) -> PerfResult:
    """Run the probe on a topic that is there and ready, with the plan's actions meanwhile.

    Raises InterruptedRunError after Ctrl-C, and PartlyDoneError (with workers PipelineError) when
    it broke off; what was measured until then is recorded.
    """
    spec = plan.probe
    version = kafka_version(cluster)
    await_settled_leaders(cluster, spec.topic, plan, listeners.message)
    with (start or OnThisMachine(run.folder if run else None))(spec) as probe:
        how = produce_settings(spec, probe.schedule.interval_ns) | {
            **plan.asked,
            "kafka_version": version,
            "arm": plan.arm or spec.discovery.value,
        }
        recorder = Recorder(run, "perf produce", spec.topic, how, asdict(before)) if run else None
        if recorder:
            recorder.begin()
        with cut_in_order() as cut:
            with _intervals(probe, plan, listeners):
                executed = execute(probe, cluster, spec.topic, plan, listeners, cut)
            outcome, actions = executed.outcome, executed.actions
            report_unconnected(outcome, listeners.message)
            is_recorded = bool(outcome.generated or outcome.failure)
            if recorder and is_recorded:
                after = snapshot_after(cluster, spec.topic, listeners.message)
                recorder.write(outcome, probe.results, executed.events, actions, after)
            measurement = measured_produce(outcome, probe.results)
            document = summarize_produce(measurement, actions, version)
            document["doubts"] = produce_doubts(
                document,
                probe.results,
                outcome,
                busy=None if plan.on_spark else executed.busy,
                moves_leaders=plan.during is not None,
            )
            if recorder and is_recorded:
                recorder.evaluated(document)
    result = PerfResult(measurement, document)
    check_end(
        executed,
        plan,
        spec.topic,
        run,
        listeners.message,
        broke_off=f"Of {spec.num_records} records {outcome.acknowledged} are known to be "
        f"acknowledged, {outcome.failed} failed.",
        interrupted=f"of {spec.num_records:,} records {outcome.generated:,} were "
        f"{outcome.sent_or_settled}, {outcome.acknowledged:,} acknowledged.",
        figures=lambda: (*result.kafka_lines[:1], moves_sentence(document["redirects"]["moves"])),
    )
    return result


def produce_doubts(
    document: Mapping[str, Any],
    parts: Sequence[ProbeResult[ProduceOutcome]],
    outcome: ProduceOutcome,
    *,
    busy: float | None,
    moves_leaders: bool,
) -> list[str]:
    """What spoils the run of a producer, from the document with its results.

    `busy` is the share of this machine's CPU time that was used, None if it is not known;
    `moves_leaders` says whether leaders of the topic were to move meanwhile.
    """
    first, last = service_times_at_ends(outcome, parts)
    lag = document["loop_lag_ms"]
    return list(
        doubts(
            Observed(
                measured_p99_ms=document["latency_ms"]["p99"],
                loop_lag_ms=lag["p99"] if lag else None,
                first=first,
                last=last,
                busy=busy,
                moves=document["redirects"]["moves"]["met"] if moves_leaders else None,
                is_answered=outcome.spec.config.acks != 0,
            )
        )
    )


def report_unconnected(outcome: ProduceOutcome, message: Callable[[str], None]) -> None:
    """Say so when the run began without a connection to some leader."""
    if outcome.unconnected:
        brokers = ", ".join(map(str, outcome.unconnected))
        message(
            f"There was no connection to broker {brokers} when the run began: records for the "
            "partitions it leads waited from then on, and that is in the latency."
        )


def produce_settings(spec: ProduceSpec, interval_ns: int) -> dict[str, object]:
    """What was asked for, for `run.json`."""
    return {
        "interval_ns": interval_ns,
        "num_records": spec.num_records,
        "throughput": spec.throughput,
        "record_size": None if spec.payload_file else spec.record_size,
        "warmup_records": spec.warmup_records,
        "leader_discovery": spec.discovery.value,
        "bootstrap_server": str(spec.access),
        "producer": without_secrets(producer_properties(spec.config)),
    }


def measure_during(
    act: Callable[[], T], cluster: Cluster, listeners: Listeners, *, moves_leaders: bool
) -> tuple[T, PerfResult]:
    """Produce to kipctl's own topic while `act` runs, from a second before to a second after.

    The topic is there when `act` is called, so that it can be part of what is done;
    `moves_leaders` says whether `act` moves its leaders.
    """
    rate = 2000
    plan = PerfPlan(
        probe=ProduceSpec(cluster.access, OWN_TOPIC, num_records=rate * 86_400, throughput=rate)
    )
    with (
        own_topic(cluster, plan.partitions, 0, listeners.message),
        OnThisMachine()(plan.probe) as probe,
    ):
        began = cpu_times()
        probe.is_done_by(probe.schedule.start_us + _AROUND_US)
        result = act()
        with suppress(KeyboardInterrupt):  # what was to be done is done: only the wait is cut short
            probe.is_done_by(now_us() + _AROUND_US)
        probe.stop()
        outcome = probe.outcome()
        busy = busy_share(began, cpu_times())
        if outcome.failure:
            listeners.message(f"The producer broke off: {outcome.failure}")
        measurement = measured_produce(outcome, probe.results)
        document = summarize_produce(measurement, [], kafka_version(cluster))
        document["doubts"] = produce_doubts(
            document, probe.results, outcome, busy=busy, moves_leaders=moves_leaders
        )
    return result, PerfResult(measurement, document)


def kafka_version(cluster: Cluster) -> str | None:
    """The cluster's exact version if it is a lab, else its release, else None."""
    try:
        return lab_of(cluster).kafka_version
    except UsageError:
        return kafka_release(cluster)


@contextmanager
def topic_of(
    plan: PerfPlan, cluster: Cluster, message: Callable[[str], None]
) -> Iterator[Snapshot]:
    """The topic, ready to be produced to; kipctl's own is made before and removed after."""
    spec = plan.probe
    name = spec.topic
    if name != OWN_TOPIC:
        snapshot = take_snapshot(cluster, [name])
        held = record_count(cluster, name)
        if held and not plan.force:
            raise RefusedError(
                f"Topic {name!r} holds {held:,} records; a perf test would add its own to them.",
                "Repeat with --force, or leave --topic out to use a topic of kipctl's own.",
            )
        with actions_can_be_undone(plan, cluster, snapshot, message):
            yield snapshot
        return
    with own_topic(
        cluster,
        plan.partitions,
        plan.replication_factor or _factor(plan, len(cluster.nodes)),
        message,
        plan.topic_configs,
    ) as snapshot:
        yield snapshot


def _factor(plan: PerfPlan, brokers: int) -> int:
    """Of the topic's replicas, where a reassignment needs a broker without one; else 0."""
    if plan.during and plan.during.kind is ActionKind.REASSIGN:
        return max(1, min(3, brokers - 1))
    return 0


def _intervals(
    probe: Probe[ProduceOutcome], plan: PerfPlan, listeners: Listeners
) -> AbstractContextManager[None]:
    """Show how far it is, or print Kafka's interval lines, while the block runs."""
    schedule = probe.schedule
    if listeners.screen:
        title, records = f"perf produce to {plan.probe.topic}", plan.probe.num_records
        screen = Screen(title, "latency", schedule, records, listeners.performed, listeners.screen)
        return screen.follow(probe, ProducerTotals(schedule.start_us, schedule.interval_ns))

    def report() -> None:
        rows = read_all(lambda: probe.new_rows("batches"))
        times = record_times([rows], schedule.start_us, schedule.interval_ns)
        if times.latency.total:
            listeners.interval(interval_line(times, plan.reporting_interval_s))

    return every(plan.reporting_interval_s, report)
