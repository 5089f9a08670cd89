"""A/A: how often are two equal arms of `experiment redirect` called different?

    python benchmarks/same_arms.py [--arm probe-kip951] [--comparisons 20] [--runs 3] [--every 0.8]

Each comparison measures the same arm twice, as A and as B, in turn, on one lab of 3 brokers, and
asks the experiment's own verdict (`kipctl.experiments.arms.differ`) whether the waits for moved
leaders differ. They do not: at most 1 of 20 may be called different. With the defaults it takes 14
minutes.
"""

import argparse
import sys
from dataclasses import replace

from kipctl.experiments.arms.differ import Differing, differing
from kipctl.experiments.arms.names import parse_arm
from kipctl.experiments.arms.stand import Place, Stand, stand_at
from kipctl.experiments.arms.tapped import Conditions
from kipctl.experiments.redirect.experiment import measure_arms
from kipctl.experiments.redirect.plan import RedirectPlan, Scale, planned
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table

MOST_DIFFERENT = 0.05
"""Of all comparisons: the level of the gate."""


def told(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def compared(plan: RedirectPlan, stand: Stand) -> Differing:
    """Measure both sides in turn, on a topic of their own."""
    a, b = measure_arms(plan, stand, lambda _: None, lambda _: None)
    return differing(a.move_waits_ms, b.move_waits_ms)


def show(arm: str, comparisons: list[Differing]) -> None:
    rows = tuple(
        (
            number,
            comparison.without,
            comparison.with_it,
            None if comparison.cut_percent is None else -comparison.cut_percent,
            comparison.verdict.p_value,
            comparison.verdict.text,
        )
        for number, comparison in enumerate(comparisons, 1)
    )
    table = Table(
        f"{arm} against itself, wait for a moved leader",
        (
            "comparison",
            Column("A ms", 1),
            Column("B ms", 1),
            Column("difference %", 1),
            Column("p", 4),
            "verdict",
        ),
        rows,
    )
    write(Report("same_arms", {}, (table,)), OutputFormat.TABLE, sys.stdout, sys.stdout.isatty())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arm", default="probe-kip951")
    parser.add_argument("--comparisons", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--every", type=float, default=0.8)
    options = parser.parse_args()
    arm = parse_arm(options.arm)
    sides = (replace(arm, name=f"{arm.name}-a"), replace(arm, name=f"{arm.name}-b"))
    given = {"arms": sides, "runs": options.runs, "every_s": options.every}
    plan = planned(Scale.QUICK, given, Conditions())
    comparisons = []
    with stand_at(Place(), (arm,), told) as stand:
        for number in range(options.comparisons):
            # One long warm-up, and after it short ones: the topic is new each time.
            warm_up_s = 12.0 if number == 0 else 1.0
            done = compared(replace(plan, broker_warmup_s=warm_up_s), stand)
            comparisons.append(done)
            runs = (done.without_by_run, done.with_it_by_run)
            a, b = (" | ".join(f"{ms or 0:.1f}" for ms in side) for side in runs)
            told(f"{number + 1} of {options.comparisons}: {a} and {b} ms, {done.verdict.text}")
    show(arm.name, comparisons)
    different = sum(comparison.verdict.is_different is True for comparison in comparisons)
    print(f"{different} of {len(comparisons)} comparisons of equal arms were called different.")
    return 1 if different > MOST_DIFFERENT * len(comparisons) else 0


if __name__ == "__main__":
    sys.exit(main())
