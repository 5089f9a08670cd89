"""A recorded run's datasets as rows of integers again, whoever recorded them: probe or tap.

`kipctl.trace.store` writes what rows mean; the arithmetic of `kipctl.probe` is done on rows. With
this an experiment computes every arm's numbers from its record, by the same code.
"""

from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kipctl.trace.codes import Decision, MetadataCause
from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import IntRows
from kipctl.trace.schema import DATASETS
from kipctl.trace.store import Run

_CODES: dict[str, type[IntEnum]] = {"decision": Decision, "cause": MetadataCause}
_ABSENT_IS_0 = ("sent_us", "received_us", "throttled_us")
"""Moments that may be absent: 0, as the probe writes them; and a phase that older runs have not."""


def dataset(run: Run, name: str, client: str | None = None) -> pa.Table:
    """A dataset of the run, empty if none was recorded; of one client id if it is given."""
    if not (run.folder / name).is_dir():
        return DATASETS[name].empty_table()
    table = run.read(name)
    return table if client is None else table.filter(pc.equal(table["client"], client))


def rows(table: pa.Table, name: str) -> IntRows:
    """The table of a dataset as rows in the order of its columns (`trace.columns`).

    Times stay relative to the run's start. What is absent is -1, or 0 for a moment; decisions and
    causes are their codes; other texts are the positions of their distinct values in order, so
    rows of one table alone can be told apart by them.
    """
    columns = [
        _same_epoch(table) if column == "same_epoch_retry" else _integers(table[column], column)
        for column in COLUMNS[name]
    ]
    return np.stack(columns, axis=1)


def _integers(column: pa.ChunkedArray, name: str) -> IntRows:
    if pa.types.is_string(column.type):
        return _coded(column, _CODES.get(name))
    absent = 0 if name in _ABSENT_IS_0 else -1
    filled = pc.fill_null(pc.cast(column, pa.int64()), absent)
    numbers: IntRows = filled.to_numpy().astype(np.int64, copy=False)
    return numbers


def _coded(column: pa.ChunkedArray, codes: type[IntEnum] | None) -> IntRows:
    texts = column.to_pylist()
    if codes is not None:
        known = {code.name.lower(): int(code) for code in codes}
        numbers = [known.get((text or "").lower(), -1) for text in texts]
    else:
        places = {text: place for place, text in enumerate(sorted({t for t in texts if t}))}
        numbers = [places.get(text, -1) for text in texts]
    return np.array(numbers, dtype=np.int64)


def _same_epoch(table: pa.Table) -> IntRows:
    """Whether the next attempt went by no newer leader epoch (`trace.redirects.redirect_columns`);
    the dataset says both epochs."""
    to_epoch, from_epoch = (pc.fill_null(table[name], -1) for name in ("to_epoch", "from_epoch"))
    went_on = pc.is_valid(table["to_broker"])
    return _integers(pc.and_(went_on, pc.less_equal(to_epoch, from_epoch)), "same_epoch_retry")
