"""Rows of traces as the probe and the tap write them, with the values that a test wants."""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np

from kipctl.probe.schedule import Schedule
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.export import Meaning, record_batches
from kipctl.trace.rows import IntRows
from kipctl.trace.store import Run


def table(dataset: str, *given: Mapping[str, int], other: int = 0) -> IntRows:
    """Rows of a dataset in which all is `other` but what is given."""
    rows = np.full((len(given), len(COLUMNS[dataset])), other, dtype=np.int64)
    for row, values in zip(rows, given, strict=True):
        for name, value in values.items():
            row[COLUMNS[dataset].index(name)] = value
    return rows


def table_of(dataset: str, count: int, **columns: object) -> IntRows:
    """So many rows, by columns: a value for all rows, or one for each; what is not given is 0."""
    rows = np.zeros((count, len(COLUMNS[dataset])), dtype=np.int64)
    for name, value in columns.items():
        rows[:, COLUMNS[dataset].index(name)] = value
    return rows


def random_batches(choose: Random, schedule: Schedule) -> list[dict[str, int]]:
    """300 batches of a run or more: strides of 1 and more, every record in one; some failed."""
    batches: list[dict[str, int]] = []
    seq = 0
    while len(batches) < 300:
        stride = choose.choice([1, 1, 3, 10])
        for lane, count in enumerate([choose.randint(1, 20)] * stride):
            first = seq + lane
            intended = schedule.start_us + choose.randrange(10**6)
            if schedule.throttled:
                intended = schedule.intended_us(first)
            due = max(intended, schedule.intended_us(first + (count - 1) * stride))
            sent = due + choose.randrange(1, choose.choice([40, 5000]))
            batches.append(
                {
                    "partition": lane,
                    "first_seq": first,
                    "seq_stride": stride,
                    "records": count,
                    "bytes": 100 * count,
                    "intended_us": intended,
                    "sent_us": sent,
                    "acked_us": sent + choose.choice([7, 7, 500, choose.randrange(1, 50_000)]),
                    "error": choose.choice([0] * 7 + [7]),
                }
            )
        seq += stride * batches[-1]["records"]
    return batches


def record(
    run: Run, dataset: str, rows: IntRows, client: str, part: int = 0, start: int = 0
) -> None:
    """Write rows that a tap saw of a client of that id into a run; their topic 0 is "t"."""
    meaning = Meaning(
        start,
        {
            "source": "tap",
            "client": client,
            "software_name": "x",
            "software_version": "1",
            "api": "produce",
        },
        {"topic": ["t", "u"], "hint_endpoint": ["h:1"], "broker_rack": []},
    )
    with TemporaryDirectory() as folder:
        rows.tofile(raw_path(Path(folder), dataset))
        run.write(dataset, record_batches(meaning, Path(folder), dataset), part)
