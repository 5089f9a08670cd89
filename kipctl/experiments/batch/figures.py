"""Results by batch size: the time of a rotation, and what it cost a producer. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kipctl.documents.experiments import BatchArm, BatchFigures, ComparedArms
from kipctl.experiments.arms.differ import middle_ms
from kipctl.experiments.arms.experiment import MOVE_WAIT, Measure, Measures, comparisons
from kipctl.experiments.arms.halves import Records
from kipctl.measure.distribution import Distribution, distribution
from kipctl.measure.doubts import Observed, doubts, few_moves_doubts
from kipctl.measure.moves import MOVE_COLUMNS, moves, moves_document, wait_ms
from kipctl.trace.rows import IntRows

LATE_MS = 100
"""Who waits so long for a record notices."""
_WAIT = MOVE_COLUMNS.index("wait_us")
_MORE_MOVES = "more --rotations, --partitions or --throughput let clients meet more."


@dataclass(frozen=True, slots=True)
class Rotation:
    """From when its first batch was called for until every broker knew its last leader:
    microseconds since the run's start."""

    began_us: int
    ended_us: int


@dataclass(frozen=True, slots=True)
class BatchRun:
    """One run of a batch size. `redirect_rows` are of `trace.columns`, `failed` are records;
    `busy` is the share of this machine's CPU time that was used.

    What a rotation leaves behind goes on when all brokers know (followers that asked the new leader
    too early wait): what is due for `after_us` microseconds after it is its own.
    """

    rotations: tuple[Rotation, ...]
    records: Records
    redirect_rows: IntRows
    failed: int = 0
    busy: float | None = None
    after_us: int = 0

    @property
    def rotation_ms(self) -> float:
        """The mean of its rotations."""
        took = [rotation.ended_us - rotation.began_us for rotation in self.rotations]
        return sum(took) / len(took) / 1000

    @property
    def latency(self) -> Distribution:
        """Of the records that were due while leaders moved and just after, from then to their
        acknowledgement."""
        after_us = self.after_us
        rows = [
            self.records.due(rotation.began_us, rotation.ended_us + after_us)
            for rotation in self.rotations
        ]
        return distribution([(of_one[:, 0], of_one[:, 1]) for of_one in rows])

    def latency_ms(self, q: float) -> float | None:
        """A quantile of it; None where no record was due meanwhile."""
        latency = self.latency
        return latency.quantile(q) / 1000 if latency.total else None

    @property
    def late(self) -> float:
        """How many of those records took longer than LATE_MS, of one rotation."""
        latency = self.latency
        is_late = latency.values > 1000 * LATE_MS
        return int(latency.counts[is_late].sum()) / len(self.rotations)

    @property
    def moves(self) -> IntRows:
        """The moved leaders that it met (`kipctl.measure.moves`)."""
        return moves(self.redirect_rows)

    @property
    def waited_ms(self) -> float:
        """What it waited for all of them together, of one rotation."""
        return int(self.moves[:, _WAIT].sum()) / 1000 / len(self.rotations)


MEASURES: Measures[BatchRun] = {
    "rotation": Measure("rotation", lambda run: run.rotation_ms),
    "latency_p99": Measure("latency p99", lambda run: run.latency_ms(0.99)),
    "move_wait": Measure(MOVE_WAIT, lambda run: wait_ms(run.moves)),
}
"""What sizes are compared by, in milliseconds: the time of a rotation, p99 of the records that were
due meanwhile and just after, and the median wait for a moved leader."""


def arm_document(size: int, leaders: int, runs: Sequence[BatchRun]) -> BatchArm:
    """All runs of one batch size. What leads is the geometric mean of its runs (None where one has
    no value), beside the value of each of them."""
    met = [run.moves for run in runs]
    latency = distribution([(run.latency.values, run.latency.counts) for run in runs])
    p50, p99 = ([run.latency_ms(q) for run in runs] for q in (0.5, 0.99))
    rotation_ms = [run.rotation_ms for run in runs]
    move_wait_ms = [wait_ms(of_run) for of_run in met]
    waited_ms = [run.waited_ms for run in runs]
    return {
        "batch": size,
        "batches": -(-leaders // size),
        "leader_count": leaders,
        "rotations": sum(len(run.rotations) for run in runs),
        "rotation_ms": middle_ms(rotation_ms) or 0.0,
        "rotation_ms_by_run": rotation_ms,
        "latency_ms_of_runs": {"p50": middle_ms(p50), "p99": middle_ms(p99)},
        "latency_ms_by_run": {"p50": p50, "p99": p99},
        "move_wait_ms": middle_ms(move_wait_ms),
        "move_wait_ms_by_run": move_wait_ms,
        "partition_wait_ms": middle_ms(waited_ms),
        "partition_wait_ms_by_run": [*waited_ms],
        "late_ms": LATE_MS,
        "late_records": sum(run.late for run in runs) / len(runs),
        "late_records_by_run": [run.late for run in runs],
        "latency_ms": latency.as_ms(),
        "moves": moves_document(met),
        "moves_met_by_run": [len(of_run) for of_run in met],
        "records_failed": sum(run.failed for run in runs),
    }


def differences(by_size: Mapping[int, Sequence[BatchRun]]) -> list[ComparedArms]:
    """Each size beside the largest one by each of MEASURES, all asked at once."""
    largest = max(by_size)
    pairs = [(largest, size) for size in by_size if size != largest]
    return comparisons(pairs, MEASURES, by_size, int)


def document(leaders: int, by_size: Mapping[int, Sequence[BatchRun]]) -> BatchFigures:
    """What was measured of each size, how they differ, and what spoils it, for JSON."""
    busy = [run.busy for runs in by_size.values() for run in runs if run.busy is not None]
    met = {str(size): [len(run.moves) for run in runs] for size, runs in by_size.items()}
    said = doubts(Observed(measured_p99_ms=math.inf, busy=max(busy, default=None)))
    return {
        "doubts": [*said, *few_moves_doubts(met, _MORE_MOVES)],
        "busy_percent": 100 * max(busy) if busy else None,
        "arms": [arm_document(size, leaders, runs) for size, runs in by_size.items()],
        "differences": differences(by_size),
    }
