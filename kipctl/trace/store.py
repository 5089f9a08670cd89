"""A run on disk: a folder with `run.json` and a Parquet file for each dataset."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kipctl.errors import UsageError
from kipctl.next_step import Command
from kipctl.state import make_private
from kipctl.trace.schema import DATASETS, SCHEMA_VERSION
from kipctl.typed_json import plain_json

RUN_FILE = "run.json"
UNFINISHED_FILE = ".run.json"
ROWS_FOLDER = ".rows"
"""What a run's clients write down while it lasts, and what is known of it when it begins."""
ROWS_A_GROUP = 1 << 17
"""Rows of a Parquet row group at most: what is shared out when a file is read."""


def require_new(folder: Path) -> None:
    """Raise UsageError when the folder of a run to be recorded holds something, or is none."""
    try:
        is_free = not folder.exists() or not any(folder.iterdir())
    except OSError as refused:
        raise UsageError(
            f"The record folder {folder} cannot be written: {refused.strerror}.",
            "Name another one with --record.",
        ) from None
    if not is_free:
        raise UsageError(
            f"The record folder {folder} is not empty.",
            "Name a new one with --record, or remove that run: "
            + Command("runs remove", folder.name),
        )


class Run:
    """The folder of one run. `run.json` is written last: without it the run is not whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls, folder: Path) -> "Run":
        """Make the folder. Raises UsageError when it cannot be written or holds something."""
        require_new(folder)
        try:
            make_private(folder)
            probe = folder / ".writable"
            probe.touch()
            probe.unlink()
        except OSError as refused:
            raise UsageError(
                f"The record folder {folder} cannot be written: {refused.strerror}.",
                "Name another one with --record.",
            ) from refused
        return cls(folder)

    def write(self, dataset: str, batches: Iterable[pa.RecordBatch], part: int = 0) -> int:
        """Write one Parquet file of a dataset, `part` by number; returns its number of rows."""
        folder = self.folder / dataset
        folder.mkdir(exist_ok=True)
        rows = 0
        schema = DATASETS[dataset]
        path = folder / f"part-{part}.parquet"
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch, row_group_size=ROWS_A_GROUP)
                rows += batch.num_rows
        return rows

    def read(self, dataset: str) -> pa.Table:
        """A dataset, whole."""
        return pq.read_table(self.folder / dataset, schema=DATASETS[dataset])

    def describe(self, what: Mapping[str, Any]) -> None:
        """Write `run.json`: what was run. Who sees it sees it whole."""
        document = {"schema_version": SCHEMA_VERSION, **what}
        unfinished = self.folder / UNFINISHED_FILE
        unfinished.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        unfinished.replace(self.folder / RUN_FILE)

    @property
    def description(self) -> dict[str, Any]:
        """What `run.json` says."""
        text = (self.folder / RUN_FILE).read_text(encoding="utf-8")
        return plain_json(text)  # type: ignore[no-any-return]
