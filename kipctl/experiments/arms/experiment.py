"""Arms that take turns, each run of them recorded, and what they are compared by."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from kipctl.documents.experiments import ComparedArms
from kipctl.experiments.arms.arm import in_turn
from kipctl.experiments.arms.differ import adjusted, differing
from kipctl.load.record import recording
from kipctl.progress import ProgressText
from kipctl.trace.store import Run

AnyArm = TypeVar("AnyArm")
AnyRun = TypeVar("AnyRun")


@dataclass(frozen=True, slots=True)
class Measure(Generic[AnyRun]):
    """What arms are compared by: how it is called, and the milliseconds of a run; None of one that
    has no value."""

    title: str
    of: Callable[[AnyRun], float | None]


Measures = Mapping[str, Measure[AnyRun]]
"""By their names in JSON."""
MOVE_WAIT = "wait for a moved leader, p50"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(Generic[AnyArm, AnyRun]):
    """`runs` runs of each arm. `run_one` measures the run of this number, from 1, of an arm.

    `record` says where the run of a name is recorded, None where it is not kept. `name` is that of
    an arm, `condition` what they are measured under, where there are several: both name the run, as
    "stale-800ms.probe-kip951.1". When it begins `told` says the condition in words.
    """

    arms: Sequence[AnyArm]
    runs: int
    run_one: Callable[[AnyArm, int, Run], AnyRun]
    record: Callable[[str], Path | None]
    message: Callable[[str], None]
    name: Callable[[AnyArm], str] = str
    condition: str = ""
    told: str = ""

    def carry_out(self) -> dict[AnyArm, list[AnyRun]]:
        """The runs of every arm. Raises KipctlError."""
        runs: dict[AnyArm, list[AnyRun]] = {arm: [] for arm in self.arms}
        turns = in_turn(self.arms, self.runs)
        for done, (arm, number) in enumerate(turns):
            words = filter(None, (self.told, self.name(arm), f"run {number} of {self.runs}."))
            self.message(ProgressText(", ".join(words), done, len(turns)))
            names = filter(None, (self.condition, self.name(arm), str(number)))
            with recorded_in(self.record(".".join(names))) as run:
                runs[arm].append(self.run_one(arm, number, run))
        return runs


@contextmanager
def recorded_in(folder: Path | None) -> Iterator[Run]:
    """The run to record into; without a folder, one that is gone after the block."""
    with (
        tempfile.TemporaryDirectory(prefix="kipctl-") as scratch,
        recording(folder or Path(scratch, "run")) as run,
    ):
        assert run
        yield run


def comparisons(
    pairs: Iterable[tuple[AnyArm, AnyArm]],
    measures: Measures[AnyRun],
    runs: Mapping[AnyArm, Sequence[AnyRun]],
    name: Callable[[AnyArm], str | int] = str,
) -> list[ComparedArms]:
    """Each pair of arms (without, with) by each measure, all asked at once, for JSON."""
    asked = [(without, with_it, measure) for without, with_it in pairs for measure in measures]
    answers = adjusted(
        [
            differing(
                *([measures[measure].of(run) for run in runs[arm]] for arm in (without, with_it))
            )
            for without, with_it, measure in asked
        ]
    )
    return [
        answer.as_document(name(without), name(with_it), measure, measures[measure].title)
        for (without, with_it, measure), answer in zip(asked, answers, strict=True)
    ]
