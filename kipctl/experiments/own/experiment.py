"""`experiment run FILE` carried out: every arm through a tap of its own, in turn."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from kipctl.documents.experiments import OwnDocument
from kipctl.errors import UsageError
from kipctl.experiments.arms.arm_runs import ArmRuns, doubts_of
from kipctl.experiments.arms.end_to_end import Load as EndToEndLoad
from kipctl.experiments.arms.end_to_end import warm_up
from kipctl.experiments.arms.experiment import Experiment, comparisons
from kipctl.experiments.arms.stand import Place, Stand, stand_at
from kipctl.experiments.arms.tapped import ArmRun, run_arm
from kipctl.experiments.own.file import MEASURES, OwnArm, OwnPlan
from kipctl.load.own_topic import own_topic
from kipctl.trace.store import Run

_MORE_MOVES = "more load.seconds, load.partitions or load.throughput let clients meet more."


def run_own(
    plan: OwnPlan,
    place: Place,
    record: Callable[[str], Path | None],
    message: Callable[[str], None],
) -> OwnDocument:
    """Carry it out; returns what `--output json` prints. Raises KipctlError."""
    arms = [arm.arm for arm in plan.arms]  # all are fetched before the first cluster is made
    with ExitStack() as stack:
        stands = {
            version: stack.enter_context(
                stand_at(replace(place, kafka_version=version), arms, message)
            )
            for version in _clusters(plan, place)
        }
        for stand in stands.values():
            _warm_up(plan, stand, message)
            stack.enter_context(own_topic(stand.cluster, plan.file.load.partitions, 0, message))

        def run_one(arm: OwnArm, number: int, run: Run) -> ArmRun:
            return _run_one(plan, arm, stands[arm.kafka], number, run, message)

        measured = Experiment(
            arms=plan.arms,
            runs=plan.file.runs,
            run_one=run_one,
            record=record,
            message=message,
            name=lambda arm: arm.arm.name,
        ).carry_out()
        versions = {version: stand.kafka_version for version, stand in stands.items()}
    runs = {arm: ArmRuns(arm.arm, tuple(of_arm)) for arm, of_arm in measured.items()}
    return document(plan, runs, versions)


def _clusters(plan: OwnPlan, place: Place) -> tuple[str, ...]:
    """By the version of Kafka that arms ask for. Raises UsageError."""
    if not place.is_lab and len(plan.kafka_versions) > 1:
        raise UsageError(
            f"Arms ask for Kafka {' and '.join(plan.kafka_versions)}; --bootstrap-server names one"
            " cluster.",
            "Leave --bootstrap-server out: a lab of each version is made.",
        )
    return plan.kafka_versions


def _warm_up(plan: OwnPlan, stand: Stand, message: Callable[[str], None]) -> None:
    load = plan.file.load
    given = EndToEndLoad(load.acks, load.throughput, load.record_size)
    warm_up(given, load.partitions, stand, plan.file.warmup, message)


def _run_one(
    plan: OwnPlan,
    arm: OwnArm,
    stand: Stand,
    number: int,
    run: Run,
    message: Callable[[str], None],
) -> ArmRun:
    return run_arm(
        arm.arm,
        stand,
        plan.load,
        plan.actions,
        plan.conditions,
        run,
        message,
        seed=number,
        command="experiment run",
    )


def document(
    plan: OwnPlan, runs: Mapping[OwnArm, ArmRuns], versions: Mapping[str, str | None]
) -> OwnDocument:
    """What was measured, for JSON; `versions` of Kafka by those that were asked for."""
    file = plan.file
    chosen = {name: MEASURES[name] for name in file.measures}
    first, *others = plan.arms
    by_arm = {arm: of_arm.runs for arm, of_arm in runs.items()}
    more_moves = _MORE_MOVES if plan.actions.moves_leaders else ""
    return {
        "title": file.title,
        "acks": file.load.acks,
        "throughput": file.load.throughput,
        "run_count": file.runs,
        "during": file.during.action,
        **plan.conditions.as_document(),
        "doubts": doubts_of(list(runs.values()), more_moves),
        "arms": [
            {
                **runs[arm].as_document(),
                "software": runs[arm].runs[0].claims["software"],
                "kafka_version": versions[arm.kafka],
                "client_settings": arm.arm.given({}),
            }
            for arm in plan.arms
        ],
        "comparisons": comparisons(
            [(first, other) for other in others], chosen, by_arm, lambda arm: arm.arm.name
        ),
    }
