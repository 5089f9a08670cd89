"""`perf produce`: the probe on a topic, actions on the cluster meanwhile, the record of both."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kipctl.background import every
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.cluster.topics import record_count
from kipctl.documents.runs import ProduceDocument
from kipctl.errors import RefusedError, UsageError
from kipctl.load.actions import Action, ActionKind, kafka_version
from kipctl.load.execute import Executed, Listeners, actions_can_be_undone
from kipctl.load.live import Screen
from kipctl.load.measure import Load, RunResult
from kipctl.load.own_topic import own_topic
from kipctl.load.plan import OWN_TOPIC, RunPlan, check_topic
from kipctl.load.start import OnThisMachine, Probe
from kipctl.machine import busy_share, cpu_times
from kipctl.measure.live_totals import ProducerTotals
from kipctl.measure.moves import moves_sentences
from kipctl.measure.probe_results import ProbeResult
from kipctl.measure.producer_summary import (
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
from kipctl.trace.clock import now_us
from kipctl.trace.rows import read_all
from kipctl.transport.request import Cluster

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


class ProduceLoad(Load[ProduceOutcome, ProduceDocument]):
    """kipctl's producer alone."""

    command = "perf produce"

    def __init__(self, plan: PerfPlan, **asked: object) -> None:
        """`asked` is what else `run.json` has of what was asked for."""
        self.plan: PerfPlan = plan
        self.specs = (plan.probe,)
        self._asked = {"arm": plan.arm or plan.probe.discovery.value, **asked}

    def check(self, cluster: Cluster) -> None:
        check_others_topic(self.plan, cluster)

    def ready(self, cluster: Cluster, listeners: Listeners) -> AbstractContextManager[Snapshot]:
        return topic_of(self.plan, cluster, listeners.message)

    def settings(self, interval_ns: int) -> Mapping[str, object]:
        return produce_settings(self.plan.probe, interval_ns) | self._asked

    @contextmanager
    def attended(
        self, probes: Sequence[Probe[Any]], listeners: Listeners
    ) -> Iterator[Probe[ProduceOutcome]]:
        (probe,) = probes
        with _intervals(probe, self.plan, listeners):
            yield probe
        report_unconnected(probe, listeners.message)

    def counted(self, outcome: ProduceOutcome) -> int:
        return outcome.generated

    def result(
        self,
        executed: Executed[ProduceOutcome],
        probes: Sequence[Probe[Any]],
        version: str | None,
    ) -> RunResult[ProduceOutcome, ProduceDocument]:
        outcome, parts, spec = executed.outcome, probes[-1].results, self.plan.probe
        measured = measured_produce(outcome, parts)
        document = summarize_produce(measured, executed.actions, version)
        moves = document["redirects"]["moves"]
        document["doubts"] = self.doubts(
            executed,
            document["latency_ms"]["p99"],
            [document["loop_lag_ms"]],
            moves["met"],
            **produce_observed(outcome, parts),
        )
        lines = [kafka_line(measured.times)]
        if spec.warmup_records:
            lines.append(kafka_line(measured.steady, " steady state"))
        return RunResult(
            executed,
            document,
            tuple(lines),
            broke_off=f"Of {spec.num_records} records {outcome.acknowledged} are known to be "
            f"acknowledged, {outcome.failed} failed.",
            interrupted=f"of {spec.num_records:,} records {outcome.generated:,} were "
            f"{outcome.sent_or_settled}, {outcome.acknowledged:,} acknowledged.",
            figures=(lines[0], *moves_sentences({"client": moves})),
        )


def check_others_topic(plan: PerfPlan, cluster: Cluster) -> None:
    """Raise UsageError where somebody's topic has fewer partitions than the plan has workers."""
    if (topic := plan.probe.topic) != OWN_TOPIC:
        plan.check_partitions(topic, len(take_snapshot(cluster, [topic]).partitions))


def produce_observed(
    outcome: ProduceOutcome, parts: Sequence[ProbeResult[ProduceOutcome]]
) -> dict[str, Any]:
    """What of a producer may spoil a run (`kipctl.measure.doubts.Observed`)."""
    first, last = service_times_at_ends(outcome, parts)
    return {"first": first, "last": last, "is_answered": outcome.spec.config.acks != 0}


def report_unconnected(writer: Probe[ProduceOutcome], message: Callable[[str], None]) -> None:
    """Say so when a run that is over began without a connection to some leader."""
    unconnected = sorted({broker for part in writer.results for broker in part.outcome.unconnected})
    if unconnected:
        brokers = ", ".join(map(str, unconnected))
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
) -> tuple[T, RunResult[ProduceOutcome, ProduceDocument]]:
    """Produce to kipctl's own topic while `act` runs, from a second before to a second after.

    The topic is there when `act` is called, so that it can be part of what is done;
    `moves_leaders` says whether `act` moves its leaders.
    """
    rate = 2000
    plan = PerfPlan(
        probe=ProduceSpec(cluster.access, OWN_TOPIC, num_records=rate * 86_400, throughput=rate),
        during=Action(ActionKind.ROTATE) if moves_leaders else None,
    )
    with (
        own_topic(cluster, plan.partitions, 0, listeners.message),
        OnThisMachine()(plan.probe) as probe,
    ):
        began, start_us = cpu_times(), probe.schedule.start_us
        probe.is_done_by(start_us + _AROUND_US)
        result = act()
        with suppress(KeyboardInterrupt):  # what was to be done is done: only the wait is cut short
            probe.is_done_by(now_us() + _AROUND_US)
        probe.stop()
        outcome = probe.outcome()
        busy = busy_share(began, cpu_times())
        if outcome.failure:
            listeners.message(f"The producer broke off: {outcome.failure}")
        executed = Executed(outcome, False, "", [], [], start_us, busy)
        return result, ProduceLoad(plan).result(executed, [probe], kafka_version(cluster))


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
    if not (interval := listeners.interval):
        return nullcontext()

    def report() -> None:
        rows = read_all(lambda: probe.new_rows("batches"))
        times = record_times([rows], schedule.start_us, schedule.interval_ns)
        if times.latency.total:
            interval(interval_line(times, plan.reporting_interval_s))

    return every(plan.reporting_interval_s, report)
