"""The results of a measurement of redirects: arms, how they differ, and what the KIP published."""

import os
from collections.abc import Mapping, Sequence

from kipctl.documents.experiments import BesidePublished, ComparedHints, SetUpDiffers
from kipctl.documents.gain_curve import GainCurve, RedirectDocument
from kipctl.experiments.arms.arm import pairs
from kipctl.experiments.arms.arm_runs import ArmRuns, doubts_of
from kipctl.experiments.arms.experiment import MOVE_WAIT, Measure, Measures, comparisons
from kipctl.experiments.arms.stand import Place
from kipctl.experiments.arms.tapped import ArmRun
from kipctl.experiments.redirect.gain_curve import Line, saved
from kipctl.experiments.redirect.plan import RedirectPlan
from kipctl.experiments.redirect.published import (
    CUT_PERCENT,
    HERE,
    HERE_WHOLE,
    P999_BY_RUN_MS,
    P999_MS,
    SetUp,
    published_cut_percent,
    set_up_differences,
    set_up_line,
)
from kipctl.next_step import Command

_MORE_MOVES = (
    "in "
    + Command("experiment redirect")
    + " more --num-records, which let leaders rotate more often, a higher "
    "--throughput, or --stale-metadata let clients meet more."
)

MEASURES: Measures[ArmRun] = {"move_wait": Measure(MOVE_WAIT, lambda run: run.figures.move_wait_ms)}
"""The median wait for a moved leader of a run."""


def compared(measured: Sequence[ArmRuns]) -> list[ComparedHints]:
    """Each arm beside those that it is compared with, by the wait for a moved leader (its median in
    each run), and whether they differ."""
    arms = [arm.arm for arm in measured]
    runs = {arm.arm.name: arm.runs for arm in measured}
    asked = [(without.name, with_it.name) for without, with_it in pairs(arms)]
    takes_hints: dict[str | int, bool] = {arm.name: arm.takes_hints for arm in arms}
    return [
        {**comparison, "takes_hints": takes_hints[comparison["with"]]}
        for comparison in comparisons(asked, MEASURES, runs)
    ]


def beside_published(
    measured: Sequence[ArmRuns], differences: Sequence[SetUpDiffers]
) -> list[BesidePublished]:
    """Each arm that the KIP has too, with what was published of it, and what is set up otherwise
    here."""
    references = {b.name: a.name for a, b in reversed(pairs([arm.arm for arm in measured]))}
    p999_ms = {arm.arm.name: arm.p999_ms for arm in measured}
    rows: list[BesidePublished] = []
    for arm in measured:
        reference = references.get(arm.arm.name)
        before = p999_ms[reference] if reference else 0.0
        rows.append(
            {
                "arm": arm.arm.name,
                "kip_arm": arm.arm.kip_arm or None,
                "latency_ms": {"p999": arm.p999_ms},
                "against": reference,
                "cut_percent": 100 * (1 - arm.p999_ms / before) if before else None,
                "published_latency_ms": {"p999": P999_MS.get(arm.arm.kip_arm)},
                "published_latency_ms_by_run": {
                    "p999": list(P999_BY_RUN_MS.get(arm.arm.kip_arm, ()))
                },
                "published_cut_percent": published_cut_percent(arm.arm.kip_arm),
                "set_up": set_up_line(differences) if arm.arm.kip_arm in P999_MS else None,
            }
        )
    return rows


def set_up(plan: RedirectPlan, place: Place, brokers: int, kafka_version: str | None) -> SetUp:
    """What this plan is made with on a cluster of so many brokers of that Kafka."""
    cores = os.cpu_count() or 1
    return SetUp(
        brokers=brokers,
        controllers=place.controllers if place.is_lab else None,
        machines=f"one of {cores} cores for all" if place.is_lab else None,
        kafka=kafka_version,
        records=plan.num_records,
        throughput=plan.throughput,
        record_size=plan.record_size,
        partitions=plan.partitions,
        acks=plan.acks,
        idempotence=plan.idempotence,
        rotations=plan.rotations,
        runs=plan.runs,
        metadata_delay_ms=plan.conditions.metadata_delay_us / 1000,
        stale_metadata_ms=plan.conditions.stale_metadata_us / 1000,
        measured=HERE_WHOLE if plan.whole_run else HERE,
    )


def document(
    plan: RedirectPlan, here: SetUp, measured: Sequence[ArmRuns], more_moves: str = _MORE_MOVES
) -> RedirectDocument:
    """What `--output json` prints of a measurement under one staleness, set up as it is `here`;
    `more_moves` is what lets clients meet more moved leaders."""
    differences, conditions = set_up_differences(here), plan.conditions.as_document()
    return {
        "kafka_version": here.kafka,
        "acks": plan.acks,
        "throughput": plan.throughput,
        "run_count": plan.runs,
        "metadata_delay_ms": conditions["metadata_delay_ms"],
        "stale_metadata_ms": conditions["stale_metadata_ms"],
        "doubts": doubts_of(measured, more_moves),
        "arms": [arm.as_document() for arm in measured],
        "comparisons": compared(measured),
        "beside_published": beside_published(measured, differences),
        "published_cut_percent": CUT_PERCENT,
        "set_up_otherwise": list(differences),
    }


def curve_document(points: Mapping[int, Sequence[ArmRuns]]) -> GainCurve:
    """The gain curve for JSON: points by staleness in milliseconds, and what hints save there."""
    lines = curve_lines(points)
    arms = [arm.arm for arm in next(iter(points.values()))]
    return {
        "curves": [
            {
                "arm": name,
                "points": [
                    {"stale_metadata_ms": ms, "move_wait_ms": wait_ms} for ms, wait_ms in line
                ],
            }
            for name, line in lines.items()
        ],
        "savings": [saving.as_document() for ms in points for saving in saved(lines, arms, ms)],
        "comparisons": [
            {**comparison, "stale_metadata_ms": ms}
            for ms, measured in points.items()
            for comparison in compared(measured)
            if comparison["takes_hints"]
        ],
    }


def curve_lines(points: Mapping[int, Sequence[ArmRuns]]) -> dict[str, Line]:
    """Each arm's wait for a moved leader by staleness, from what was measured at each; a point at
    which no move was met is left out."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for staleness_ms in sorted(points):
        for arm in points[staleness_ms]:
            if arm.move_wait_ms is not None:
                lines.setdefault(arm.arm.name, []).append((float(staleness_ms), arm.move_wait_ms))
    return {name: tuple(line) for name, line in lines.items()}
