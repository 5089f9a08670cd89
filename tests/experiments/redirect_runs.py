"""Runs of arms as a tap would have recorded them, with the latencies that a test wants."""

from collections.abc import Sequence

from trace_rows import table

from kipctl.experiments.arms.arm_runs import ArmRuns
from kipctl.experiments.arms.figures import Figures, latencies_of
from kipctl.experiments.arms.names import parse_arm
from kipctl.experiments.arms.tapped import ArmRun
from kipctl.trace.rows import IntRows

SECOND = 1_000_000


def batch(first_seq: int, intended_us: int, latency_us: int, **more: int) -> dict[str, int]:
    return {
        "first_seq": first_seq,
        "records": 2,
        "intended_us": intended_us,
        "acked_us": intended_us + latency_us,
        **more,
    }


def figures(batches: IntRows, redirects: IntRows | None = None) -> Figures:
    rows = table("redirects") if redirects is None else redirects
    return Figures(latencies_of(batches, 0), batches, rows, table("rpcs"))


def redirect(partition: int, wait_ms: float) -> dict[str, int]:
    """A batch that met a move, and waited so long for it."""
    return {
        "partition": partition,
        "attempt": 1,
        "error": 6,
        "from_epoch": 1,
        "to_epoch": 2,
        "backoff_us": round(1000 * wait_ms),
    }


def measured_runs(*runs: Sequence[int]) -> list[Figures]:
    """A run has a second for each number: its slowest records took so many milliseconds, and a
    leader that moved in it made the client wait as long.

    There are 1,000 records in a second.
    """
    made = []
    for run in runs:
        rows = [
            batch(
                1000 * second + 10 * k,
                second * SECOND + 10_000 * k,
                1000 * (slowest if k < 5 else 5),
                records=10,
            )
            for second, slowest in enumerate(run)
            for k in range(100)
        ]
        moved = [redirect(partition, wait_ms) for partition, wait_ms in enumerate(run)]
        made.append(figures(table("batches", *rows), table("redirects", *moved)))
    return made


def arm_runs(name: str, *runs: Sequence[int]) -> ArmRuns:
    arm = parse_arm(name)
    claims = {"latency_ms": {"p999": 1.5}, "failed": 0, "error": None}
    return ArmRuns(arm, tuple(ArmRun(arm, run, claims, []) for run in measured_runs(*runs)))
