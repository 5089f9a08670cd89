"""`experiment batch` carried out: rotations in batches of each size, under a producer's load."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kipctl.changes.execution.pacing import Pace
from kipctl.changes.execution.plan_execution import rotate_leaders
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.cluster.metadata_convergence import ClusterEvent
from kipctl.cluster.snapshot import take_snapshot
from kipctl.cluster.topics import await_topics
from kipctl.errors import RefusedError, UsageError
from kipctl.experiments.arms.end_to_end_load import recorded_in
from kipctl.experiments.arms.experiment import Experiment
from kipctl.experiments.arms.halves import records
from kipctl.experiments.arms.stand import Stand
from kipctl.experiments.batch.figures import BatchRun, Rotation, document
from kipctl.experiments.batch.plan import BatchPlan
from kipctl.machine import busy_share, cpu_times
from kipctl.measure.probe_results import concatenated, rows_of_probes, shifted
from kipctl.measure.producer_summary import measured_produce, summarize_produce
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceSpec
from kipctl.runs.actions import Action, ActionKind, Performed
from kipctl.runs.own_topic import own_topic
from kipctl.runs.plan import OWN_TOPIC, RunPlan
from kipctl.runs.produce import produce_settings
from kipctl.runs.record import Recorder, snapshot_after
from kipctl.runs.start import OnThisMachine
from kipctl.trace.clock import now_us
from kipctl.trace.columns import BATCH
from kipctl.trace.store import Run

_ROTATE = Action(ActionKind.ROTATE)
_DAY_S = 86_400
_BATCH_OF_WARMUP = 20


def run_batches(
    plan: BatchPlan,
    stand: Stand,
    record: Callable[[str], Path | None],
    message: Callable[[str], None],
) -> dict[str, Any]:
    """Carry it out; returns what `--output json` prints. Raises KipctlError.

    `record` says where the run of a name is recorded, if it is to be.
    """
    if len(stand.cluster.nodes) < 2:
        raise UsageError("With one broker there is nowhere for leaders to move to.")
    message(plan.resources_needed)
    with own_topic(stand.cluster, plan.partitions, 0, message):
        _warm_up(plan, stand, message)
        found = Experiment(
            arms=plan.sizes,
            runs=plan.runs,
            run_one=lambda size, _, run: _one(plan, size, stand, run, message),
            record=record,
            message=message,
            name="batch-{}".format,
        ).carry_out()
    return {
        "kafka_version": stand.kafka_version,
        "brokers": len(stand.cluster.nodes),
        "leader_discovery": plan.discovery.value,
        "acks": plan.acks,
        "throughput": plan.throughput,
        "record_size": plan.record_size,
        "runs": plan.runs,
        "settle_s": plan.settle_s,
        **document(plan.partitions, found),
    }


def _warm_up(plan: BatchPlan, stand: Stand, message: Callable[[str], None]) -> None:
    """Runs that are not counted: brokers compile what they do often."""
    if not plan.broker_warmup_s:
        return
    message(f"Warming up the brokers for {plan.broker_warmup_s:g} s.")
    until_us = now_us() + round(plan.broker_warmup_s * 1e6)
    size = min(_BATCH_OF_WARMUP, plan.partitions)
    while now_us() < until_us:
        with recorded_in(None) as run:
            _one(plan, size, stand, run, message)


def _one(
    plan: BatchPlan, size: int, stand: Stand, run: Run, message: Callable[[str], None]
) -> BatchRun:
    """One run, recorded. Raises RefusedError when leaders did not move, or the producer ended."""
    cluster = stand.cluster
    await_topics(cluster, [OWN_TOPIC])
    before = take_snapshot(cluster, [OWN_TOPIC])
    spec = _spec(plan, stand)
    events: list[ClusterEvent] = []
    performed: list[Performed] = []
    with OnThisMachine(run.folder)(spec) as probe:
        how = produce_settings(spec, probe.schedule.interval_ns) | {
            **_asked(plan),
            "kafka_version": stand.kafka_version,
            "arm": f"batch-{size}",
            "batch": size,
        }
        # It is a producer's run with rotations, and is read, and made whole, as one.
        recorder = Recorder(run, "perf produce", OWN_TOPIC, how, asdict(before))
        recorder.begin()
        busy_before = cpu_times()
        settle_us = round(plan.settle_s * 1e6)
        probe.is_done_by(probe.schedule.start_us + settle_us)
        for _ in range(plan.rotations):
            called_us = now_us()
            done = rotate_leaders(
                cluster,
                rotate(take_snapshot(cluster, [OWN_TOPIC])),
                on_event=events.append,
                timeout_s=None,
                pace=Pace(size),
            )
            ended_us = now_us()
            performed.append(Performed(_ROTATE, called_us, ended_us, ended_us, plan.partitions))
            if done.failures:
                raise RefusedError(f"Leaders did not move: {done.failures[0]}.")
            if probe.is_done_by(now_us() + settle_us):
                break
        probe.stop()
        # The last rotation is its end: nobody interrupted it.
        outcome = replace(probe.outcome(), stopped=False)
        busy = busy_share(busy_before, cpu_times())
        start_us = outcome.start_us
        rotated = [
            Rotation(one.called_us - start_us, one.answered_us - start_us) for one in performed
        ]
        actions = [one.as_document(start_us) for one in performed]
        after = snapshot_after(cluster, OWN_TOPIC, message)
        recorder.write(outcome, probe.results, events, actions, after)
        recorder.evaluated(
            summarize_produce(
                measured_produce(outcome, probe.results), actions, stand.kafka_version
            )
        )
        if outcome.failure:
            raise RefusedError(f"The producer broke off: {outcome.failure}")
        rows = {
            name: shifted(
                concatenated(name, rows_of_probes(probe.results, name, start_us)), name, -start_us
            )
            for name in ("batches", "redirects")
        }
    batches = rows["batches"]
    return BatchRun(
        tuple(rotated),
        records(batches, outcome.interval_ns),
        rows["redirects"],
        int(batches[batches[:, BATCH["error"]] != 0, BATCH["records"]].sum()),
        busy,
        settle_us,
    )


def _asked(plan: BatchPlan) -> dict[str, object]:
    return RunPlan(during=_ROTATE, every_s=plan.settle_s, count=plan.rotations).asked


def _spec(plan: BatchPlan, stand: Stand) -> ProduceSpec:
    """The producer: as Kafka's own is by default, but to every partition in turn, so that each
    moved leader may be met."""
    acks_all = plan.acks == "all"
    return ProduceSpec(
        stand.access,
        OWN_TOPIC,
        num_records=round(plan.throughput * _DAY_S) + 1,
        throughput=plan.throughput,
        record_size=plan.record_size,
        discovery=plan.discovery,
        config=ProducerConfig(
            acks=-1 if acks_all else 1,
            enable_idempotence=acks_all,
            partitioner="round-robin",
        ),
    )
