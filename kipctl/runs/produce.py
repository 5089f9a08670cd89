"""`perf produce`: the probe on a topic, actions on the cluster meanwhile, the record of both."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from kipctl.cluster.moves.journal import journal
from kipctl.cluster.moves.saved_meanwhile import saved_meanwhile
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.cluster.topics import records_held
from kipctl.cluster.versions import kafka_release
from kipctl.errors import RefusedError, UsageError
from kipctl.measure.doubts import Observed, doubts
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
from kipctl.runs.actions import (
    ActionKind,
    check_action,
    lab_of,
)
from kipctl.runs.begin import Begin, OnThisMachine, Probe, on_spark
from kipctl.runs.execute import (
    Conducted,
    Listeners,
    await_settled,
    broken_off,
    conduct,
    interrupted_run,
    report_missing,
    undo,
)
from kipctl.runs.own_topic import own_topic
from kipctl.runs.plan import OWN_TOPIC, RunPlan, check_topic
from kipctl.runs.record import Recorder, recording, snapshot_after
from kipctl.signals import cut_in_order
from kipctl.trace.clock import now_us
from kipctl.trace.rows import IntRows
from kipctl.trace.store import Run, without_secrets
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
    force: bool = False
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
            )
        )
        if not (spec.throughput > 0 or spec.throughput == -1):  # nan is neither
            raise UsageError(
                f"--throughput is {spec.throughput:g}; give records per second, or -1 for no limit."
            )
        if spec.payload_file is not None:
            file_values(spec.payload_file, spec.payload_delimiter)
        if spec.warmup_records >= spec.num_records:
            raise UsageError("--warmup-records must be less than --num-records.")
        lasts_s = spec.num_records / spec.throughput if spec.throughput > 0 else None
        if self.during and lasts_s is not None and self.every_s >= lasts_s:
            raise UsageError(
                f"The load lasts {lasts_s:g} s, and the first {self.during} is due after "
                f"{self.every_s:g} s.",
                "Give a shorter --every, or more records.",
            )
        if spec.topic == OWN_TOPIC:
            self.check_partitions(OWN_TOPIC, self.partitions)


@dataclass(frozen=True, slots=True)
class PerfResult:
    """What a run came to. `document` is what `--output json` prints."""

    measured: MeasuredProduce
    document: dict[str, Any]

    @property
    def kafka_lines(self) -> tuple[str, ...]:
        """The lines that Kafka's own tool ends with."""
        total = kafka_line(self.measured.times)
        if not self.measured.outcome.spec.warmup_records:
            return (total,)
        return (total, kafka_line(self.measured.steady, " steady state"))


def _begins(
    plan: PerfPlan, message: Callable[[str], None]
) -> AbstractContextManager[Begin[ProduceOutcome]]:
    if plan.on_spark:
        return on_spark(plan, message)
    return nullcontext(OnThisMachine(plan.record))


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
            _begins(plan, listeners.message) as begin,
            topic_of(plan, cluster, listeners.message) as before,
        ):
            return measure(plan, cluster, before, listeners, run, begin)


def measure(
    plan: PerfPlan,
    cluster: Cluster,
    before: Snapshot,
    listeners: Listeners,
    run: Run | None = None,
    begin: Begin[ProduceOutcome] | None = None,
) -> PerfResult:
    """Run the probe on a topic that is there and ready, with the plan's actions meanwhile.

    Raises InterruptedRunError after Ctrl-C, and PartlyDoneError (with workers PipelineError) when
    it broke off; what was measured until then is recorded.
    """
    spec = plan.probe
    version = kafka_version(cluster)
    await_settled(cluster, spec.topic, plan, listeners.message)
    with (begin or OnThisMachine(run.folder if run else None))(spec) as probe:
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
                conducted = conduct(probe, cluster, spec.topic, plan, listeners.message, cut)
            outcome, actions = conducted.outcome, conducted.actions
            report_unconnected(outcome, listeners.message)
            is_recorded = bool(outcome.generated or outcome.failure)
            if recorder and is_recorded:
                recorder.write_rows(outcome.start_us, probe.results, conducted.events)
                after = snapshot_after(cluster, spec.topic, listeners.message)
                done = {"actions": actions, "kafka_version": version}
                recorder.close(outcome, probe.results, done, after)
            measurement = measured_produce(outcome, probe.results)
            document = summarize_produce(measurement, actions, version)
            document["doubts"] = produce_doubts(plan, document, probe.results, outcome, conducted)
            if recorder and is_recorded:
                recorder.evaluated(document)
    result = PerfResult(measurement, document)
    if outcome.failure:
        raise broken_off(
            plan,
            f"{outcome.failure} Of {spec.num_records} records {outcome.acknowledged} are known to "
            f"be acknowledged, {outcome.failed} failed.",
            run,
            undo(plan, spec.topic, actions),
        )
    if outcome.stopped:
        raise interrupted_run(
            f"Interrupted: of {spec.num_records:,} records {outcome.generated:,} were "
            f"{outcome.sent_or_settled}, {outcome.acknowledged:,} acknowledged.",
            result.kafka_lines[:1],
            conducted,
            run,
            undo(plan, spec.topic, actions),
        )
    report_missing(len(actions), plan, listeners.message)
    return result


def produce_doubts(
    plan: PerfPlan,
    document: Mapping[str, Any],
    parts: Sequence[ProbeResult[ProduceOutcome]],
    outcome: ProduceOutcome,
    conducted: Conducted[ProduceOutcome],
) -> list[str]:
    """What spoils the run of a producer, from the document that says what it came to."""
    first, last = service_times_at_ends(outcome, parts)
    lag = document["loop_lag_ms"]
    return list(
        doubts(
            Observed(
                measured_p99_ms=document["latency_ms"]["p99"],
                loop_lag_ms=lag["p99"] if lag else None,
                first=first,
                last=last,
                busy=None if plan.on_spark else conducted.busy,
                moves=document["redirects"]["moves"]["met"] if plan.during else None,
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


def measured_during(
    act: Callable[[], T], cluster: Cluster, listeners: Listeners
) -> tuple[T, PerfResult]:
    """Produce to kipctl's own topic while `act` runs, from a second before to a second after.

    The topic is there when `act` is called, so that it can be part of what is done.
    """
    rate = 2000
    plan = PerfPlan(
        probe=ProduceSpec(cluster.access, OWN_TOPIC, num_records=rate * 86_400, throughput=rate)
    )
    with (
        own_topic(cluster, plan.partitions, 0, listeners.message),
        OnThisMachine()(plan.probe) as probe,
    ):
        probe.is_done_by(probe.schedule.start_us + _AROUND_US)
        came_of_it = act()
        with suppress(KeyboardInterrupt):  # what was to be done is done: only the wait is cut short
            probe.is_done_by(now_us() + _AROUND_US)
        probe.stop()
        outcome = probe.outcome()
        if outcome.failure:
            listeners.message(f"The producer broke off: {outcome.failure}")
        measurement = measured_produce(outcome, probe.results)
        document = summarize_produce(measurement, [], kafka_version(cluster))
    return came_of_it, PerfResult(measurement, document)


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
        held = records_held(cluster, name)
        if held and not plan.force:
            raise RefusedError(
                f"Topic {name!r} holds {held:,} records; a perf test would add its own to them.",
                "Repeat with --force, or leave --topic out to use a topic of kipctl's own.",
            )
        with (
            saved_meanwhile(
                cluster,
                journal(snapshot.cluster_id),
                snapshot,
                message,
                copies=plan.copies_data,
            )
            if plan.moves_leaders
            else nullcontext()
        ):
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


@contextmanager
def _intervals(
    probe: Probe[ProduceOutcome], plan: PerfPlan, listeners: Listeners
) -> Iterator[None]:
    """Print Kafka's interval lines from a thread while the block runs."""
    over = threading.Event()
    schedule = probe.schedule

    def new_batches() -> Iterator[IntRows]:
        while len(rows := probe.new_rows("batches")):
            yield rows

    def report() -> None:
        while not over.wait(plan.reporting_interval_s):
            times = record_times(new_batches(), schedule.start_us, schedule.interval_ns)
            if times.latency.total:
                listeners.interval(interval_line(times, plan.reporting_interval_s))

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
