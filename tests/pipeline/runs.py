"""Runs made by hand, for tests of what reads them."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from kipctl.trace.schema import DATASETS
from kipctl.trace.store import Run

DEFAULTS: dict[str, Any] = {
    "source": "probe",
    "client": "kipctl-perf",
    "topic": "t",
    "partition": 0,
    "error": 0,
    "seq_stride": 1,
    "records": 1,
}


def write_run(folder: Path, description: dict[str, Any], **datasets: list[dict[str, Any]]) -> Run:
    """A run folder with these rows; a column that a row does not name has DEFAULTS', or null."""
    run = Run.create(folder)
    for name, rows in datasets.items():
        schema = DATASETS[name]
        whole = [{f.name: row.get(f.name, DEFAULTS.get(f.name)) for f in schema} for row in rows]
        for row in rows:
            assert set(row) <= set(schema.names)
        run.write(name, [pa.RecordBatch.from_pylist(whole, schema=schema)])
    run.describe({"leader_discovery": "kip951", "interval_ns": 0, **description})
    return run
