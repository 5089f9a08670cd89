"""Recorded rows become the integers again that they were made of."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from trace_rows import record, table

from kipctl.trace.codes import Decision, MetadataCause
from kipctl.trace.columns import COLUMNS
from kipctl.trace.redirect_phases import FailedAttempt, phases, redirect_columns
from kipctl.trace.run_rows import dataset, rows
from kipctl.trace.schema import DATASETS
from kipctl.trace.store import Run

START_US = 5_000_000


def written(folder: Path, name: str, *entries: dict[str, int]) -> Run:
    """A run with these rows of one dataset, of client "one"; what is not given is 1."""
    run = Run.create(folder / "run")
    record(run, name, table(name, *entries, other=1), "one", start=START_US)
    return run


def test_rows_come_back_with_times_from_the_start(tmp_path: Path) -> None:
    row = {
        "error_us": START_US + 40,
        "decision": int(Decision.FOLLOWED),
        "hint_endpoint": -1,
        "to_broker": 3,
        "from_epoch": 7,
        "to_epoch": 7,
        "detect_us": 12,
    }
    run = written(tmp_path, "redirects", row, row | {"to_epoch": 8})
    read = rows(dataset(run, "redirects", "one"), "redirects")
    column = {name: read[:, i].tolist() for i, name in enumerate(COLUMNS["redirects"])}
    assert column["error_us"] == [40, 40]
    assert column["decision"] == [int(Decision.FOLLOWED)] * 2
    assert column["hint_endpoint"] == [-1, -1]
    assert column["detect_us"] == [12, 12]
    assert column["same_epoch_retry"] == [1, 0]


@pytest.mark.parametrize(
    ("from_epoch", "to_epoch", "to_broker"),
    [(7, 7, 3), (7, 8, 3), (7, 6, 3), (-1, -1, 3), (7, -1, 3), (7, -1, -1)],
)
def test_a_retry_to_no_newer_epoch_is_what_the_client_wrote(
    tmp_path: Path, from_epoch: int, to_epoch: int, to_broker: int
) -> None:
    """Older brokers tell no epochs, and those of a topic that is made anew begin again."""
    attempt = FailedAttempt(1, 0, 10, 6, True, 1, from_epoch, -1, Decision.ABSENT)
    attempt.to_broker, attempt.to_epoch = to_broker, to_epoch
    (share,) = phases([attempt], 0, 10, 10)
    names = COLUMNS["redirects"]
    values = zip(names[names.index("attempt") :], redirect_columns(attempt, share), strict=True)
    row = {name: int(value) for name, value in values}
    run = written(tmp_path, "redirects", row)
    read = rows(dataset(run, "redirects"), "redirects")
    assert read[0, names.index("same_epoch_retry")] == row["same_epoch_retry"]


def test_what_never_came_is_nothing_again_and_others_have_rows_of_their_own(tmp_path: Path) -> None:
    sent = {"sent_us": START_US + 1, "received_us": 0, "cause": int(MetadataCause.MAX_AGE)}
    run = written(tmp_path, "rpcs", sent, sent | {"cause": -1})
    read = rows(dataset(run, "rpcs"), "rpcs")
    at = {name: i for i, name in enumerate(COLUMNS["rpcs"])}
    assert read[:, at["received_us"]].tolist() == [0, 0]
    assert read[:, at["cause"]].tolist() == [int(MetadataCause.MAX_AGE), -1]
    assert len(dataset(run, "rpcs", "one")) == 2
    assert rows(dataset(run, "rpcs", "two"), "rpcs").shape == (0, len(COLUMNS["rpcs"]))


def test_a_dataset_that_was_not_recorded_is_empty(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    for name in COLUMNS:
        empty = dataset(run, name)
        assert empty.schema == DATASETS[name]
        assert rows(empty, name).shape == (0, len(COLUMNS[name]))
        assert rows(empty, name).dtype == np.int64
    assert isinstance(dataset(run, "reads"), pa.Table)
