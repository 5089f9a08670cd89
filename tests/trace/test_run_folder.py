"""A run on disk: its folder, its datasets and what run.json may say."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from kipctl.errors import UsageError
from kipctl.trace.clock import wall_time
from kipctl.trace.schema import DATASETS, EVENTS, SCHEMA_VERSION
from kipctl.trace.store import Run


def test_a_run_is_a_new_folder_also_several_levels_down(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    run = Run.create(folder)
    assert list(folder.iterdir()) == []
    assert run.folder == folder
    Run.create(folder)  # it is still empty


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UsageError, match="is not empty") as refused:
        Run.create(tmp_path)
    assert str(tmp_path) in refused.value.what
    assert "--record" in refused.value.next_step


@pytest.mark.parametrize("below", ["", "folder"])
def test_a_folder_that_cannot_be_made_is_refused_with_the_reason(
    tmp_path: Path, below: str
) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / below
    with pytest.raises(UsageError, match="cannot be written: ") as refused:
        Run.create(folder)
    assert str(folder) in refused.value.what
    assert "--record" in refused.value.next_step


EVENT = {
    "kind": "leader seen",
    "topic": "t",
    "partition": 3,
    "from_broker": None,
    "to_broker": 2,
    "epoch": 7,
    "seen_by": 1,
    "time_us": -12,
}


def test_datasets_read_back_as_written(tmp_path: Path) -> None:
    run = Run.create(tmp_path)
    batches = [
        pa.RecordBatch.from_pylist(rows, schema=EVENTS)
        for rows in ([EVENT], [], [EVENT | {"partition": 4}] * 2)
    ]
    assert run.write("events", batches) == 3
    table = run.read("events")
    assert table.schema == EVENTS
    assert table.to_pylist() == [EVENT, *[EVENT | {"partition": 4}] * 2]


@pytest.mark.parametrize("dataset", sorted(DATASETS))
def test_a_dataset_without_rows_is_there_with_its_columns(tmp_path: Path, dataset: str) -> None:
    run = Run.create(tmp_path)
    assert run.write(dataset, []) == 0
    assert run.read(dataset).num_rows == 0
    assert run.read(dataset).schema == DATASETS[dataset]


def test_run_json_says_what_was_run_and_in_which_schema(tmp_path: Path) -> None:
    run = Run.create(tmp_path)
    run.describe({"topic": "t", "actions": [1, 2]})
    assert run.description == {"schema_version": SCHEMA_VERSION, "topic": "t", "actions": [1, 2]}
    assert json.loads((tmp_path / "run.json").read_text()) == Run(tmp_path).description


def test_wall_times_are_utc_to_the_microsecond() -> None:
    assert wall_time(1_790_000_000_000_001) == "2026-09-21T14:13:20.000001+00:00"
    assert wall_time(0) == "1970-01-01T00:00:00.000000+00:00"
