"""Simulated runs whose truth is known: what the verdict is calibrated with.

Runs of 60 s with 20 records a second, all of them at once. Each has a factor of its own that makes
all its times longer and its rate lower; its seconds vary about that, each more or less like the one
before; in some runs a stall holds up all records that are due meanwhile.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kipctl.verdict import Scale

SECONDS = 60
RATE = 20
MOVES = 20
OUTAGE_S = 6
SCALES: Mapping[str, Scale] = {
    "p50": Scale.RATIO,
    "p99": Scale.RATIO,
    "p999": Scale.RATIO,
    "throughput": Scale.RATIO,
    "move_wait_p50": Scale.RATIO,
    "failed": Scale.COUNT,
    "redirected": Scale.COUNT,
}
Values = Mapping[str, npt.NDArray[np.float64]]
"""Each measure, one value of each run; times in milliseconds."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How runs vary: `spread` of the runs' factors, `alike` (correlation) of seconds one after the
    other, and whether stalls and failures come in bursts."""

    spread: float
    alike: float
    bursts: bool

    def __str__(self) -> str:
        return (
            f"runs vary by {100 * self.spread:g} %, autocorrelation {self.alike:g}"
            f"{', bursts' if self.bursts else ''}"
        )


KINDS = tuple(
    Kind(spread, alike, bursts)
    for spread in (0.03, 0.1)
    for alike in (0.0, 0.6)
    for bursts in (False, True)
)
FAULTS: Mapping[str, str] = {
    "outage": "10 % outage: of 60 s nothing is acknowledged for 6",
    "failures": "a burst of 800 failed records in each run",
    "redirects": "100 times the redirects",
    "wait": "a median wait of 5 against 1 ms, with 20 moves",
}


def runs(count: int, kind: Kind, chance: np.random.Generator, fault: str = "") -> Values:
    """So many runs of a kind, with a fault of FAULTS in each of them or none."""
    factor = np.exp(chance.normal(0, kind.spread, count))
    level = np.empty((count, SECONDS))
    level[:, 0] = chance.normal(0, 0.2, count)
    for second in range(1, SECONDS):
        fresh = chance.normal(0, 0.2 * np.sqrt(1 - kind.alike**2), count)
        level[:, second] = kind.alike * level[:, second - 1] + fresh
    ms = (
        chance.lognormal(
            np.log(5),
            0.4,
            (count, SECONDS, RATE),
        )
        * np.exp(level)[:, :, None]
    )
    ms = (ms * factor[:, None, None]).reshape(count, -1)
    due_ms = np.arange(SECONDS * RATE) * 1000 / RATE
    rate = RATE / factor
    failed = chance.poisson(0.2, count).astype(np.float64)
    redirected = chance.poisson(5 * factor).astype(np.float64)
    wait = np.full(count, 1.0)
    if kind.bursts:
        stalled_ms = np.where(chance.random(count) < 0.5, chance.uniform(200, 1500, count), 0)
        ms = _stalled(ms, due_ms, chance.uniform(5000, 50_000, count), stalled_ms)
        failed += np.where(chance.random(count) < 0.3, chance.poisson(60, count), 0)
        redirected += np.where(chance.random(count) < 0.3, chance.poisson(20, count), 0)
    if fault == "outage":
        outage_ms = np.full(count, 1000.0 * OUTAGE_S)
        ms = _stalled(ms, due_ms, chance.uniform(10_000, 40_000, count), outage_ms)
        rate = rate * (1 - OUTAGE_S / SECONDS)
    elif fault == "failures":
        failed += 800
    elif fault == "redirects":
        redirected = chance.poisson(500 * factor).astype(np.float64)
    elif fault == "wait":
        wait = np.full(count, 5.0)
    waits = chance.lognormal(0, 0.5, (count, MOVES)) * (wait * factor)[:, None]
    return {
        "p50": np.quantile(ms, 0.5, axis=1, method="inverted_cdf"),
        "p99": np.quantile(ms, 0.99, axis=1, method="inverted_cdf"),
        "p999": np.quantile(ms, 0.999, axis=1, method="inverted_cdf"),
        "throughput": rate,
        "failed": failed,
        "redirected": redirected,
        "move_wait_p50": np.median(waits, axis=1),
    }


def _stalled(
    ms: npt.NDArray[np.float64],
    due_ms: npt.NDArray[np.float64],
    begins_ms: npt.NDArray[np.float64],
    lasts_ms: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """What is due in a run's stall waits for its end."""
    until = (begins_ms + lasts_ms)[:, None] - due_ms[None, :]
    held: npt.NDArray[np.float64] = np.where(
        (due_ms[None, :] >= begins_ms[:, None]) & (until > 0), ms + until, ms
    )
    return held
