"""`kipctl demo`: the same rotations by three ways to the new leader, Metadata fresh and stale."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kipctl.experiments.arms.arm import parse_arms
from kipctl.experiments.arms.stand import Place, standing
from kipctl.experiments.arms.tapped import Conditions
from kipctl.experiments.redirect.experiment import measure_arms
from kipctl.experiments.redirect.plan import RedirectPlan, Scale, planned
from kipctl.experiments.redirect.result import document, set_up
from kipctl.progress import part_of

ARMS = "probe-kip951,probe-refresh,probe-baseline"
STALE_MS = 300
_ROTATIONS_FRESH, _ROTATIONS_STALE = 8, 3
"""In a run: with fresh Metadata a rotation makes few clients wait for a moved leader."""
_AGAIN_WARM_S = 2.0


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """What is measured with fresh Metadata, and with Metadata stale for STALE_MS after a change."""

    fresh: RedirectPlan
    stale: RedirectPlan

    @classmethod
    def usual(cls) -> "DemoPlan":
        """Sized for this machine: two to three minutes on two cores."""
        return cls(_planned(0), _planned(STALE_MS))


def _planned(stale_ms: int) -> RedirectPlan:
    conditions = Conditions(stale_metadata_us=1000 * stale_ms)
    arms = {"arms": parse_arms(ARMS)}
    plan = planned(Scale.QUICK, arms, conditions)
    rotations = _ROTATIONS_STALE if stale_ms else _ROTATIONS_FRESH
    records = int(plan.throughput * plan.every_s * (rotations + 1))
    warm_up = {"broker_warmup_s": _AGAIN_WARM_S} if stale_ms else {}
    return planned(Scale.QUICK, {**arms, "num_records": records, **warm_up}, conditions)


def measure_demo(
    plan: DemoPlan,
    place: Place,
    record: Callable[[str], Path | None],
    message: Callable[[str], None],
) -> dict[str, Any]:
    """Measure; `fresh` and `stale` are documents of `experiment redirect`. Raises KipctlError."""
    half = plan.fresh.seconds / (plan.fresh.seconds + plan.stale.seconds)
    parts = {"fresh": (plan.fresh, 0.0, half), "stale": (plan.stale, half, 1.0)}
    with standing(place, plan.fresh.arms, message) as stand:
        found = {
            name: document(
                asked,
                set_up(asked, place, len(stand.cluster.nodes), stand.kafka_version),
                measure_arms(asked, stand, record, part_of(message, begins, ends)),
            )
            for name, (asked, begins, ends) in parts.items()
        }
        return {
            "kafka_version": stand.kafka_version,
            "partitions": plan.fresh.partitions,
            **found,
        }
