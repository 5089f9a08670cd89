"""What a run leaves in its folder when it is broken off: nothing, if it sent nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from strict_loopback import StrictLoopback

from kipctl.conform import cluster as conform
from kipctl.errors import UsageError
from kipctl.load.record import recording, snapshot_after
from kipctl.trace.schema import DATASETS
from kipctl.trace.store import ROWS_FOLDER, Run
from kipctl.transport.request import Cluster

VALUES: dict[pa.DataType, Any] = {pa.string(): "x", pa.bool_(): False}


def write_row(run: Run, dataset: str) -> None:
    schema = DATASETS[dataset]
    row = {field.name: VALUES.get(field.type, 1) for field in schema}
    run.write(dataset, [pa.RecordBatch.from_pylist([row], schema=schema)])


def failed_run(folder: Path, write: Callable[[Run], object]) -> None:
    """A recording that Ctrl-C ends after workers have ended without rows, and `write`."""

    def broken() -> None:
        with recording(folder) as run:
            assert run is not None
            for dataset in DATASETS:
                run.write(dataset, [], part=1)
            write(run)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()


def test_of_a_run_that_sent_nothing_nothing_is_left_but_what_is_not_its_own(tmp_path: Path) -> None:
    failed_run(tmp_path / "store" / "run", lambda run: write_row(run, "rpcs"))
    assert list((tmp_path / "store").iterdir()) == []
    (tmp_path / "mine").mkdir()
    failed_run(tmp_path / "mine", lambda run: write_row(run, "rpcs"))
    assert list((tmp_path / "mine").iterdir()) == []
    failed_run(tmp_path / "noted", lambda run: (run.folder / "notes.txt").touch())
    assert [path.name for path in (tmp_path / "noted").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    "write",
    [
        lambda run: write_row(run, "batches"),
        lambda run: (run.folder / "batches" / "part-0.parquet").write_bytes(b"PAR1 cut short"),
        lambda run: (run.folder / ROWS_FOLDER).mkdir(),
        lambda run: run.describe({}),
    ],
    ids=["batches", "a file cut short", "rows", "run.json"],
)
def test_what_was_recorded_is_kept(write: Callable[[Run], object], tmp_path: Path) -> None:
    failed_run(tmp_path / "run", write)
    assert {path.name for path in (tmp_path / "run").iterdir()} >= set(DATASETS)


def test_a_run_that_came_to_its_end_is_left_alone(tmp_path: Path) -> None:
    with recording(tmp_path / "run") as run:
        assert run is not None
    assert (tmp_path / "run").is_dir()
    with recording(None) as none:
        assert none is None


def test_a_folder_that_holds_something_is_refused_and_untouched(tmp_path: Path) -> None:
    Run.create(tmp_path).write("batches", [])
    with pytest.raises(UsageError, match="not empty"), recording(tmp_path):
        pytest.fail("it was taken")
    assert (tmp_path / "batches" / "part-0.parquet").exists()


def test_a_cluster_that_is_gone_at_the_end_is_said_and_loses_no_run() -> None:
    said: list[str] = []
    with StrictLoopback(conform.Cluster({"t": 1})) as fake:
        address = fake.bootstrap_server
        with Cluster(address, timeout_s=5) as cluster:
            assert snapshot_after(cluster, "t", said.append) is not None
            assert said == []
    with Cluster(address, timeout_s=5) as cluster:
        assert snapshot_after(cluster, "t", said.append) is None
    assert said[0].startswith("What the cluster is like now is not known.")
