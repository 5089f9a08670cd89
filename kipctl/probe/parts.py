"""What the probes of one run have each recorded, read together: one run on one clock."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kipctl.probe.produce.run import ProbeOutcome, ProbeSpec
from kipctl.probe.tracing import COLUMNS, MOMENTS, raw_path
from kipctl.trace.rows import IntRows, chunks

_CHUNK_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Part:
    """What one probe did of a run: what it came to, and the folder that holds its rows.

    `recorded`: they are in the run's Parquet files already.
    """

    outcome: ProbeOutcome
    directory: Path
    recorded: bool = False


def moved(rows: IntRows, dataset: str, by_us: int) -> IntRows:
    """Rows of a dataset with every moment later by so much; 0, which is never, stays."""
    if not by_us or not len(rows):
        return rows
    later = rows.copy()
    for position, name in enumerate(COLUMNS[dataset]):
        if name in MOMENTS:
            column = later[:, position]
            column[column != 0] += by_us
    return later


def rows_of_parts(parts: Sequence[Part], dataset: str, start_us: int) -> Iterator[IntRows]:
    """The rows of all parts, some at a time, as if all had started at `start_us`.

    Each machine has its own monotonic clock; what they share is the start.
    """
    for part in parts:
        later_us = start_us - part.outcome.start_us
        for rows in chunks(raw_path(part.directory, dataset), len(COLUMNS[dataset]), _CHUNK_ROWS):
            yield moved(rows, dataset, later_us)


def together(parts: Sequence[Part], spec: ProbeSpec, start_us: int) -> ProbeOutcome:
    """What the parts come to as one run of `spec` that started at `start_us`; at least one part.

    The outcome ends with the last of them, and fails if one of them did.
    """
    outcomes = [part.outcome for part in parts]
    errors: dict[str, int] = {}
    for outcome in outcomes:
        for name, records in outcome.errors.items():
            errors[name] = errors.get(name, 0) + records
    return replace(
        outcomes[0],
        spec=spec,
        start_us=start_us,
        end_us=start_us + max(outcome.end_us - outcome.start_us for outcome in outcomes),
        generated=sum(outcome.generated for outcome in outcomes),
        acknowledged=sum(outcome.acknowledged for outcome in outcomes),
        failed=sum(outcome.failed for outcome in outcomes),
        errors=errors,
        endpoints=tuple(sorted({name for outcome in outcomes for name in outcome.endpoints})),
        cpu_s=sum(outcome.cpu_s for outcome in outcomes),
        stopped=any(outcome.stopped for outcome in outcomes),
        host=", ".join(dict.fromkeys(outcome.host for outcome in outcomes)),
        failure=next((outcome.failure for outcome in outcomes if outcome.failure), ""),
    )
