"""`kipctl demo`: the same rotations by three ways to the new leader, Metadata fresh and stale."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kipctl.documents.experiments import DemoDocument, RedirectMeasured
from kipctl.experiments.arms.names import parse_arms
from kipctl.experiments.arms.stand import Place, stand_at
from kipctl.experiments.arms.tapped import Conditions
from kipctl.experiments.redirect.experiment import measure_arms
from kipctl.experiments.redirect.plan import RedirectPlan, Scale, planned
from kipctl.experiments.redirect.result import document, set_up
from kipctl.measure.doubts import MIN_MOVES
from kipctl.progress import part_of

ARMS = "probe-kip951,probe-refresh,probe-baseline"
STALE_MS = 300
_MOST_ROTATIONS = 16
"""In a run, which ends before once its client has met enough moved leaders."""
_AGAIN_WARM_S = 2.0
_FRESH_SHARE = 0.6
"""Of the time that it takes: with fresh Metadata a rotation makes few clients wait."""
_MORE_MOVES = "a machine with less to do lets clients meet more."


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
    records = int(plan.throughput * plan.every_s * (_MOST_ROTATIONS + 1))
    warm_up = {"broker_warmup_s": _AGAIN_WARM_S} if stale_ms else {}
    sizes = {**arms, "num_records": records, "until_met": MIN_MOVES, **warm_up}
    return planned(Scale.QUICK, sizes, conditions)


def measure_demo(
    plan: DemoPlan,
    place: Place,
    record: Callable[[str], Path | None],
    message: Callable[[str], None],
) -> DemoDocument:
    """Measure; `fresh` and `stale` are documents of `experiment redirect`. Raises KipctlError."""
    with stand_at(place, plan.fresh.arms, message) as stand:

        def measured(asked: RedirectPlan, begins: float, ends: float) -> RedirectMeasured:
            here = set_up(asked, place, len(stand.cluster.nodes), stand.kafka_version)
            part = part_of(message, begins, ends)
            return document(asked, here, measure_arms(asked, stand, record, part), _MORE_MOVES)

        return {
            "kafka_version": stand.kafka_version,
            "partitions": plan.fresh.partitions,
            "fresh": measured(plan.fresh, 0.0, _FRESH_SHARE),
            "stale": measured(plan.stale, _FRESH_SHARE, 1.0),
        }
