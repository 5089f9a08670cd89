"""What the probes of one run have each recorded, read together: one run on one clock."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Generic

import numpy as np

from kipctl.probe.run import AnyOutcome
from kipctl.trace.columns import COLUMNS, MOMENTS, raw_path
from kipctl.trace.rows import IntRows, chunks


@dataclass(frozen=True, slots=True)
class ProbeResult(Generic[AnyOutcome]):
    """What one probe did of a run: its outcome, and the folder that holds its rows.

    `recorded`: they are in the run's Parquet files already.
    """

    outcome: AnyOutcome
    directory: Path
    recorded: bool = False

    @property
    def number(self) -> int:
        """Its number among the probes of the run, which its folder is called by."""
        return int(self.directory.name)


def shifted(rows: IntRows, dataset: str, by_us: int) -> IntRows:
    """Rows of a dataset with every moment later by so much; 0, which is never, stays."""
    if not by_us or not len(rows):
        return rows
    later = rows.copy()
    for position, name in enumerate(COLUMNS[dataset]):
        if name in MOMENTS:
            column = later[:, position]
            column[column != 0] += by_us
    return later


def concatenated(dataset: str, chunks: Iterable[IntRows]) -> IntRows:
    """Rows of a dataset, in one array."""
    return np.concatenate([np.empty((0, len(COLUMNS[dataset])), dtype=np.int64), *chunks])


def rows_of_probes(
    results: Sequence[ProbeResult[AnyOutcome]], dataset: str, start_us: int
) -> Iterator[IntRows]:
    """The rows of all parts, some at a time, as if all had started at `start_us`.

    Each machine has its own monotonic clock; what they share is the start.
    """
    for part in results:
        later_us = start_us - part.outcome.start_us
        for rows in chunks(raw_path(part.directory, dataset), len(COLUMNS[dataset])):
            yield shifted(rows, dataset, later_us)


def in_time_order(
    results: Sequence[ProbeResult[AnyOutcome]], dataset: str, moment: str, start_us: int
) -> Iterator[IntRows]:
    """The same, in the order of a moment over all parts, as far as each part's own rows are.

    None is read ahead of the others, so whoever follows two datasets keeps little of either.
    """
    at = COLUMNS[dataset].index(moment)
    sources = [rows_of_probes([part], dataset, start_us) for part in results]
    held = [(source, rows) for source in sources for rows in islice(source, 1)]
    while held:
        until = min(int(rows[:, at].max()) for _, rows in held)
        left = []
        for source, rows in held:
            due = int(np.searchsorted(np.maximum.accumulate(rows[:, at]), until, side="right"))
            yield rows[:due]
            if due < len(rows):
                left.append((source, rows[due:]))
            else:
                left.extend((source, more) for more in islice(source, 1))
        held = left
