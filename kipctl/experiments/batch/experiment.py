"""`experiment batch` carried out: rotations in batches of each size, under a producer's load."""

from collections.abc import Callable
from pathlib import Path

from kipctl.changes.execution.pacing import Pace
from kipctl.changes.execution.plan_execution import reassign
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.cluster.metadata_convergence import ClusterEvent
from kipctl.cluster.snapshot import take_snapshot
from kipctl.documents.experiments import BatchDocument
from kipctl.errors import RefusedError, UsageError
from kipctl.experiments.arms.experiment import Experiment, recorded_in
from kipctl.experiments.arms.halves import records
from kipctl.experiments.arms.stand import Stand
from kipctl.experiments.batch.figures import BatchRun, Rotation, document
from kipctl.experiments.batch.plan import BatchPlan
from kipctl.load.actions import Action, ActionKind, Performed
from kipctl.load.execute import Listeners, RunningLoad
from kipctl.load.measure import measure
from kipctl.load.own_topic import own_topic
from kipctl.load.plan import OWN_TOPIC
from kipctl.load.produce import PerfPlan, ProduceLoad
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceSpec
from kipctl.probe.schedule import Schedule
from kipctl.trace.clock import now_us
from kipctl.trace.columns import BATCH
from kipctl.trace.run_rows import dataset, rows
from kipctl.trace.store import Run
from kipctl.transport.request import Cluster

_ROTATE = Action(ActionKind.ROTATE)
_DAY_S = 86_400
_BATCH_OF_WARMUP = 20


def run_batches(
    plan: BatchPlan,
    stand: Stand,
    record: Callable[[str], Path | None],
    message: Callable[[str], None],
) -> BatchDocument:
    """Carry it out; returns what `--output json` prints. Raises KipctlError.

    `record` says where the run of a name is recorded, if it is to be.
    """
    if len(stand.cluster.nodes) < 2:
        raise UsageError("With one broker there is nowhere for leaders to move to.")
    message(plan.resources_needed)
    with own_topic(stand.cluster, plan.partitions, 0, message):
        _warm_up(plan, stand, message)
        runs = Experiment(
            arms=plan.sizes,
            runs=plan.runs,
            run_one=lambda size, _, run: _produce_once(plan, size, stand, run, message),
            record=record,
            message=message,
            name="batch-{}".format,
        ).carry_out()
    return {
        "kafka_version": stand.kafka_version,
        "broker_count": len(stand.cluster.nodes),
        "leader_discovery": plan.discovery.value,
        "acks": plan.acks,
        "throughput": plan.throughput,
        "record_size": plan.record_size,
        "run_count": plan.runs,
        "settle_seconds": plan.settle_s,
        **document(plan.partitions, runs),
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
            _produce_once(plan, size, stand, run, message)


class _Rotations:
    """All leaders of the topic rotate, so many at a time, as often as is asked for."""

    def __init__(self, plan: BatchPlan, size: int, cluster: Cluster) -> None:
        self._plan, self._size, self._cluster = plan, size, cluster
        self.performed: list[Performed] = []
        self.events: list[ClusterEvent] = []

    def carry_out(self, load: RunningLoad[object], schedule: Schedule) -> bool:
        """The last one ends the load. Raises RefusedError when leaders did not move."""
        settle_us = round(self._plan.settle_s * 1e6)
        over = load.is_done_by(schedule.start_us + settle_us)
        while not over and len(self.performed) < self._plan.rotations:
            called_us = now_us()
            done = reassign(
                self._cluster,
                rotate(take_snapshot(self._cluster, [OWN_TOPIC])),
                elects=True,
                on_event=self.events.append,
                timeout_s=None,
                pace=Pace(self._size),
            )
            ended_us, leaders = now_us(), self._plan.partitions
            self.performed.append(Performed(_ROTATE, called_us, ended_us, ended_us, leaders))
            if done.failures:
                raise RefusedError(f"Leaders did not move: {done.failures[0]}.")
            over = load.is_done_by(now_us() + settle_us)
        return True


def _produce_once(
    plan: BatchPlan, size: int, stand: Stand, run: Run, message: Callable[[str], None]
) -> BatchRun:
    """One run, recorded: a producer's, with rotations. Raises KipctlError."""
    cluster = stand.cluster
    load = ProduceLoad(
        PerfPlan(
            probe=_spec(plan, stand),
            arm=f"batch-{size}",
            during=_ROTATE,
            every_s=plan.settle_s,
            count=plan.rotations,
        ),
        batch=size,
    )
    before, rotations = take_snapshot(cluster, [OWN_TOPIC]), _Rotations(plan, size, cluster)
    executed = measure(load, cluster, before, Listeners(message), run, actions=rotations).executed
    start_us = executed.start_us
    batches = rows(dataset(run, "batches"), "batches")
    return BatchRun(
        tuple(
            Rotation(performed.called_us - start_us, performed.answered_us - start_us)
            for performed in executed.performed
        ),
        records(batches, executed.outcome.interval_ns),
        rows(dataset(run, "redirects"), "redirects"),
        int(batches[batches[:, BATCH["error"]] != 0, BATCH["records"]].sum()),
        executed.busy,
        round(plan.settle_s * 1e6),
    )


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
