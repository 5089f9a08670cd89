"""All runs of an arm that produced through a tap, and what spoils them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kipctl.documents.experiments import ArmDocument
from kipctl.experiments.arms.arm import Arm
from kipctl.experiments.arms.differ import middle_ms
from kipctl.experiments.arms.figures import pooled
from kipctl.experiments.arms.tapped import ArmRun
from kipctl.measure.doubts import Observed, doubts, few_moves_doubts


@dataclass(frozen=True, slots=True)
class ArmRuns:
    """All runs of an arm."""

    arm: Arm
    runs: tuple[ArmRun, ...]

    @property
    def p999_ms(self) -> float:
        """Of all records of all runs together."""
        return pooled([run.figures for run in self.runs]).latency.quantile(0.999) / 1000

    @property
    def move_waits_ms(self) -> list[float | None]:
        """The median wait for a moved leader of each run; None of a run that met none."""
        return [run.figures.move_wait_ms for run in self.runs]

    @property
    def move_wait_ms(self) -> float | None:
        """The geometric mean of those."""
        return middle_ms(self.move_waits_ms)

    @property
    def records_per_second(self) -> float:
        """The mean of its runs; less than was asked for when client or cluster cannot keep up."""
        rates = [run.figures.acknowledged / (run.figures.seconds or 1) for run in self.runs]
        return sum(rates) / len(rates)

    def as_document(self) -> ArmDocument:
        """For JSON. Which records failed is what the clients say: the tap cannot tell a batch that
        was given up from one whose records were sent again in others, as librdkafka does.
        """
        figures = pooled([run.figures for run in self.runs])
        document = figures.as_document()
        return {
            "arm": self.arm.name,
            "kip_arm": self.arm.kip_arm or None,
            "takes_hints": self.arm.takes_hints,
            **document,
            "records": {
                "acknowledged": figures.acknowledged,
                "failed": _sum([run.claims["failed"] for run in self.runs]),
                "refused_and_not_sent_again_alike": sum(figures.failed.values()),
            },
            "records_per_second": round(self.records_per_second, 1),
            "move_wait_ms": self.move_wait_ms,
            "move_wait_ms_by_run": self.move_waits_ms,
            "latency_ms_by_run": {
                "p999": [run.figures.latency.quantile(0.999) / 1000 for run in self.runs]
            },
            "client_says": [run.claims for run in self.runs],
            "rotations": sum(not action["error"] for run in self.runs for action in run.actions),
        }


def _sum(counts: Sequence[int | None]) -> int | None:
    """None where a run's client does not say."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def doubts_of(measured: Sequence[ArmRuns], more_moves: str) -> list[str]:
    """What spoils the measurement as a whole (`kipctl.measure.doubts`); `more_moves` is what lets
    clients meet more moved leaders, "" where none is to be moved."""
    busy = [run.busy for arm in measured for run in arm.runs if run.busy is not None]
    sentences = list(doubts(Observed(measured_p99_ms=math.inf, busy=max(busy, default=None))))
    if more_moves:
        met = {arm.arm.name: [run.figures.moves_met for run in arm.runs] for arm in measured}
        sentences += few_moves_doubts(met, more_moves)
    return sentences
