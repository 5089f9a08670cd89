"""`kipctl experiment redirect`: KIP-951's micro-benchmark, for the probe and for other clients."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from kipctl.cluster.snapshot import Snapshot
from kipctl.documents.gain_curve import PredictionDocument, RedirectDocument
from kipctl.experiments.arms.arm import Arm
from kipctl.experiments.arms.arm_runs import ArmRuns
from kipctl.experiments.arms.experiment import Experiment
from kipctl.experiments.arms.stand import Place, Stand, stand_at
from kipctl.experiments.arms.tapped import ArmRun, run_arm
from kipctl.experiments.redirect.gain_curve import STALENESS_MS
from kipctl.experiments.redirect.plan import RedirectPlan, check_room, resources_needed
from kipctl.experiments.redirect.predict import prediction, recorded_curve
from kipctl.experiments.redirect.published import SetUp
from kipctl.experiments.redirect.result import (
    curve_document,
    curve_lines,
    document,
    set_up,
)
from kipctl.load.actions import parse_action
from kipctl.load.execute import Listeners
from kipctl.load.measure import measure
from kipctl.load.own_topic import own_topic
from kipctl.load.plan import OWN_TOPIC, RunPlan
from kipctl.load.produce import PerfPlan, ProduceLoad
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceSpec
from kipctl.progress import part_of
from kipctl.trace.store import Run

_WARM_EVERY_S = 0.8
_AGAIN_WARM_S = 2.0
"""Of brokers that have been warmed up before, on another topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What `experiment redirect` is asked. `record` says where the run of a name is recorded.

    `gain_curve`: measure under each of STALENESS_MS. `predict`: measure how stale Metadata gets
    there, and read what hints save off that curve, or off the one that `curve` has recorded: then
    no arm is run.
    """

    plan: RedirectPlan
    place: Place
    gain_curve: bool = False
    predict: bool = False
    curve: Sequence[Path] = ()
    record: Callable[[str], Path | None] = lambda _: None


def experiment(
    question: Question, message: Callable[[str], None]
) -> RedirectDocument | PredictionDocument:
    """Do it; what came of it is what `--output json` prints. Raises KipctlError."""
    plan, place = question.plan, question.place
    if question.curve:
        arms, lines = recorded_curve(question.curve)
        with stand_at(place, (), message) as stand:
            return {"prediction": prediction(stand, arms, lines, message)}
    check_room(plan, place)
    stalenesses_ms = STALENESS_MS if question.gain_curve else ()
    message(resources_needed(plan, place, max(1, len(stalenesses_ms))))
    with stand_at(place, plan.arms, message) as stand:
        if not stalenesses_ms:
            measured = measure_arms(plan, stand, question.record, message)
            return document(plan, _here(plan, place, stand), measured)
        points = {}
        for number, ms in enumerate(stalenesses_ms):
            part = part_of(
                message, number / len(stalenesses_ms), (number + 1) / len(stalenesses_ms)
            )
            points[ms] = measure_arms(plan.under(1000 * ms), stand, question.record, part)
            plan = replace(plan, broker_warmup_s=min(plan.broker_warmup_s, _AGAIN_WARM_S))
        fresh = min(points)
        result = document(plan, _here(plan, place, stand), points[fresh])
        result["gain_curve"] = curve_document(points)
        if question.predict:
            result["prediction"] = prediction(stand, plan.arms, curve_lines(points), message)
        return result


def _here(plan: RedirectPlan, place: Place, stand: Stand) -> SetUp:
    return set_up(plan, place, len(stand.cluster.nodes), stand.kafka_version)


def measure_arms(
    plan: RedirectPlan,
    stand: Stand,
    record: Callable[[str], Path | None],
    message: Callable[[str], None],
) -> tuple[ArmRuns, ...]:
    """Measure every arm, in turn, on one topic of its own. Raises KipctlError."""
    stale_ms = plan.conditions.stale_metadata_us // 1000
    with _topics(plan, stand, message) as topic:

        def run_one(arm: Arm, number: int, run: Run) -> ArmRun:
            with topic():
                return _run_once(arm, plan, stand, run, number, message)

        measured = Experiment(
            arms=plan.arms,
            runs=plan.runs,
            run_one=run_one,
            record=record,
            message=message,
            name=lambda arm: arm.name,
            condition=f"stale-{stale_ms}ms" if stale_ms else "",
            told=f"Metadata stale for {stale_ms} ms" if stale_ms else "",
        ).carry_out()
    return tuple(ArmRuns(arm, tuple(runs)) for arm, runs in measured.items())


def _run_once(
    arm: Arm,
    plan: RedirectPlan,
    stand: Stand,
    run: Run,
    number: int,
    message: Callable[[str], None],
) -> ArmRun:
    rotations = RunPlan(during=parse_action("rotate"), every_s=plan.every_s)
    return run_arm(
        arm,
        stand,
        plan.load,
        rotations,
        plan.conditions,
        run,
        message,
        seed=number,
    )


@contextmanager
def _topics(
    plan: RedirectPlan, stand: Stand, message: Callable[[str], None]
) -> Iterator[Callable[[], AbstractContextManager[object]]]:
    """What gives the topic of a run: one for all of them, or a new one for each big one."""

    def new() -> AbstractContextManager[Snapshot]:
        return own_topic(stand.cluster, plan.partitions, 0, message)

    with new() as before:
        _warm_up(plan, stand, before, message)
        if not plan.is_big:
            yield nullcontext
            return
    yield new


def _warm_up(
    plan: RedirectPlan, stand: Stand, before: Snapshot, message: Callable[[str], None]
) -> None:
    """A run that is not counted: brokers compile what they do often."""
    if not plan.broker_warmup_s:
        return
    message(f"Warming up the brokers for {plan.broker_warmup_s:g} s.")
    rate = min(plan.throughput, 2000)
    spec = ProduceSpec(
        stand.access,
        OWN_TOPIC,
        num_records=max(1, int(rate * plan.broker_warmup_s)),
        throughput=rate,
        record_size=plan.record_size,
        config=ProducerConfig(
            acks=-1 if plan.acks == "all" else int(plan.acks),
            enable_idempotence=False,
            partitioner="round-robin",
        ),
    )
    warm = PerfPlan(probe=spec, during=parse_action("rotate"), every_s=_WARM_EVERY_S)
    measure(ProduceLoad(warm), stand.cluster, before, Listeners())
