"""What leader hints would save on a cluster: how stale its Metadata gets, read off a gain curve."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kipctl.documents.gain_curve import Prediction
from kipctl.errors import UsageError
from kipctl.experiments.arms.arm import Arm
from kipctl.experiments.arms.differ import middle_ms
from kipctl.experiments.arms.figures import Figures, figures
from kipctl.experiments.arms.names import parse_arm
from kipctl.experiments.arms.stand import Stand
from kipctl.experiments.redirect.gain_curve import Line, behind_ms, hinted_pairs, saved
from kipctl.load.metadata.convergence import Sightings, measure_convergence
from kipctl.next_step import Command
from kipctl.trace.store import Run

MOVES = 5


def prediction(
    stand: Stand,
    arms: Sequence[Arm],
    lines: Mapping[str, Line],
    message: Callable[[str], None],
    moves: int = MOVES,
) -> Prediction:
    """Measure how long Metadata is behind on this cluster, and read off what hints save there.

    For JSON. A topic of its own is made for it, its leaders moved, and removed. Raises KipctlError.
    """
    message("Measuring how long the brokers' Metadata stay behind.")
    seen = measure_convergence(stand.cluster, moves, lambda _: None)
    return predicted(seen, arms, lines)


def predicted(
    seen: Sequence[Sightings], arms: Sequence[Arm], lines: Mapping[str, Line]
) -> Prediction:
    """For JSON: how far brokers were behind the first that knew, and what hints save at that."""
    behind = behind_ms([time_us for sightings in seen for time_us in sightings.behind_us])
    return {
        "behind_ms": behind,
        "brokers": [
            {"broker": sightings.broker, "behind_ms": behind_ms(sightings.behind_us)}
            for sightings in seen
        ],
        "savings": [
            {**saving.as_document(), "behind_statistic": name}
            for name, staleness_ms in behind.items()
            for saving in saved(lines, arms, staleness_ms)
        ],
    }


def recorded_curve(folders: Sequence[Path]) -> tuple[tuple[Arm, ...], dict[str, Line]]:
    """The arms and lines of a gain curve, from the runs that were recorded of it.

    Raises UsageError when they are none of `experiment redirect`, or show no arm with hints beside
    one without.
    """
    runs: dict[tuple[str, float], list[Figures]] = {}
    for folder in folders:
        run = Run(folder)
        description = run.description
        try:
            where = (description["arm"], description["tap"]["stale_metadata_ms"])
        except (KeyError, TypeError):
            raise UsageError(
                f"{folder} was not recorded by " + Command("experiment redirect") + ".",
                "Record a curve: " + Command("experiment redirect --gain-curve --record curve"),
            ) from None
        runs.setdefault(where, []).append(figures(run))
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, staleness_ms in sorted(runs):
        waits = [run.move_wait_ms for run in runs[name, staleness_ms]]
        if (wait_ms := middle_ms(waits)) is not None:
            lines.setdefault(name, []).append((staleness_ms, wait_ms))
    arms = tuple(parse_arm(name) for name in lines)
    if not hinted_pairs(arms):
        raise UsageError(
            f"The curve has {', '.join(lines) or 'no arm'}: none with hints beside one without.",
            "Record one with probe-baseline and probe-kip951, say.",
        )
    return arms, {name: tuple(line) for name, line in lines.items()}
