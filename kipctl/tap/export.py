"""A tap's rows of integers as the datasets of the trace."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from kipctl.left_files import read_left
from kipctl.tap.process import OUTCOME_FILE, TapOutcome
from kipctl.tap.recorder import COLUMNS, DATASETS
from kipctl.trace import export
from kipctl.trace.columns import raw_path
from kipctl.trace.names import names_in
from kipctl.trace.rows import chunks
from kipctl.trace.run_start import RunStart
from kipctl.trace.store import Run
from kipctl.typed_json import DamagedError, decoded

_LARGEST = 64 << 20
"""Bytes of an outcome, or of names: a tap has up to 10,000 clients, of 1 to 3 KiB each."""


_CONSTANTS = {"source": "tap", "kind": "leader seen"}
"""Of its events each is one that passed it, whichever broker showed it."""


def left_in(directory: Path, failure: str, shown: TapOutcome | None = None) -> TapOutcome | None:
    """The outcome of a tap that died; None if it had not begun.

    If it ended in good order it has left its outcome there. Else, or if that is damaged, what its
    clients did is known as far as it was `shown`, and its rows are there. Raises DamagedError where
    its beginning or its names are damaged.
    """
    begun = RunStart.read(directory)
    if begun is None:
        return None
    left = directory / OUTCOME_FILE
    try:
        shown = decoded(read_left(left, _LARGEST), TapOutcome, str(left))
    except FileNotFoundError:
        pass
    except DamagedError as damaged:
        failure = f"{failure} {damaged.what}"
    last_us = begun.start_us
    moments = [COLUMNS["rpcs"].index(name) for name in ("sent_us", "received_us")]
    for rows in chunks(raw_path(directory, "rpcs"), len(COLUMNS["rpcs"])):
        last_us = max(last_us, int(rows[:, moments].max()))
    known = shown or TapOutcome(
        begun.start_us, last_us, begun.wall_start_us, "", (), {}, (), 0, 0.0, 0, {}
    )
    return replace(
        known,
        now_us=max(known.now_us, last_us),
        names=names_in(directory, _LARGEST) or known.names,
        failure=failure,
    )


def write(
    run: Run,
    outcome: TapOutcome,
    directory: Path,
    datasets: Iterable[str] = DATASETS,
    part: int = 0,
) -> None:
    """Write what a tap has left in that directory into the run, as its part of that number."""
    for dataset in datasets:
        run.write(dataset, record_batches(outcome, directory, dataset), part)


def record_batches(outcome: TapOutcome, directory: Path, dataset: str) -> Iterator[pa.RecordBatch]:
    """The rows of a dataset, in Arrow's form with the schema of `kipctl.trace.schema`."""
    meaning = export.Meaning(outcome.start_us, _CONSTANTS, outcome.names, COLUMNS)
    return export.record_batches(meaning, directory, dataset)
