"""What a comparison of runs says, as a document."""

from typing import TYPE_CHECKING

from kipctl.documents.analysis import ComparisonDocument
from kipctl.measure.doubts import FEW_MOVES, few_moves_doubts
from kipctl.pipeline.compare import SIDES
from kipctl.report.tap_tables import verdicts
from kipctl.trace.settings import differences

if TYPE_CHECKING:
    from kipctl.pipeline.compare import Comparison
    from kipctl.pipeline.inputs import Trace


def comparison_document(
    a: "Trace", b: "Trace", comparison: "Comparison", names: tuple[str, str] = ("A", "B")
) -> ComparisonDocument:
    """What `runs compare --output json` prints of two sides, of these names, but for its gates."""
    by_name = {compared.measure.name: compared for compared in comparison.measures}
    made_with = [[run.description for run in side.runs] for side in (a, b)]
    return {
        "a_runs": [run.name for run in a.runs],
        "b_runs": [run.name for run in b.runs],
        "settings": differences(*made_with),
        "doubts": few_moves_doubts(
            {
                f"{label}'s {client}": [int(met or 0) for met in by_name[name].of_side(side)]
                for name, client in (("moves_met", "producer"), ("read_moves_met", "consumer"))
                if any(by_name[name].by_run.values())
                for side, label in zip(SIDES, names, strict=True)
            }
        )
        + [
            f"{run.name}: {doubt}"
            for run in (*a.runs, *b.runs)
            for doubt in run.summary.get("doubts") or ()
            if not doubt.endswith(FEW_MOVES)  # said of both sides
        ],
        "clients_by_side": {"a": _tap_verdicts(a), "b": _tap_verdicts(b)},
        "lengths_differ": comparison.lengths_differ,
        "measures": [compared.as_document() for compared in comparison.measures],
    }


def _tap_verdicts(side: "Trace") -> list[str]:
    """What taps said of clients."""
    taps = (run for run in side.runs if run.is_of_tap)
    return [f"{run.name}: {said}" for run in taps for said in verdicts(run.summary["clients"])]
