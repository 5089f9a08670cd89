"""The run store: names and folders, what is found in them, what leaves and what is removed."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pytest

from kipctl.errors import UsageError
from kipctl.trace.schema import DATASETS, EVENTS, SCHEMA_VERSION
from kipctl.trace.store import Run
from kipctl.trace.stored_runs import (
    export_archive,
    export_csv,
    find_run,
    folder_of,
    folders_named,
    path_of,
    read_stored_run,
    removable,
    remove,
    runs_folder,
    stored_runs,
)

EVENT = {"kind": "leader seen", "topic": "t", "partition": 3, "time_us": 12}


@pytest.fixture
def store(tmp_path: Path) -> dict[str, str]:
    """The variables under which the store is in this test's folder."""
    return {"KIPCTL_RUNS": str(tmp_path / "store")}


def record(folder: Path, **description: Any) -> Run:
    run = Run.create(folder)
    rows = [EVENT | {"partition": 3}, EVENT | {"partition": 4}]
    for name in DATASETS:
        batches = [pa.RecordBatch.from_pylist(rows, schema=EVENTS)] if name == "events" else []
        run.write(name, batches)
    run.describe({"command": "perf produce", "started": "2026-01-01", **description})
    return run


def stored(store: dict[str, str], name: str, **description: Any) -> Run:
    return record(folder_of(name, store), **description)


def test_where_the_store_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs_folder({"KIPCTL_RUNS": "/r", "XDG_STATE_HOME": "/s"}) == Path("/r")
    assert runs_folder({"XDG_STATE_HOME": "/s"}) == Path("/s/kipctl/runs")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert runs_folder({}) == tmp_path / ".local/state/kipctl/runs"


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("before", "/store/before"),
        ("2026-01-02_a+b.1", "/store/2026-01-02_a+b.1"),
        ("./before", "before"),
        ("runs/before", "runs/before"),
        ("/tmp/x", "/tmp/x"),
        (".", "."),
        ("..", ".."),
    ],
)
def test_a_text_without_a_separator_is_a_name_in_the_store(text: str, folder: str) -> None:
    assert folder_of(text, {"KIPCTL_RUNS": "/store"}) == Path(folder)


@pytest.mark.parametrize("text", ["a,b", "-x", ".hidden", "a b", "*"])
def test_a_name_that_would_not_be_found_again_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot be a run's name") as refused:
        folder_of(text, {"KIPCTL_RUNS": "/store"})
    assert "./" in refused.value.next_step


def test_a_run_is_found_by_its_name_and_by_its_folder(
    tmp_path: Path, store: dict[str, str]
) -> None:
    kept = stored(store, "kept")
    elsewhere = record(tmp_path / "elsewhere")
    assert find_run("kept", store).folder == kept.folder
    assert find_run(str(elsewhere.folder), store).folder == elsewhere.folder


def test_a_folder_here_is_found_too_but_the_store_comes_first(
    tmp_path: Path, store: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record(tmp_path / "here")
    record(tmp_path / "both")
    kept = stored(store, "both")
    assert find_run("here", store).folder == Path("here")
    assert find_run("both", store).folder == kept.folder


def test_what_spark_can_find_is_left_to_spark(store: dict[str, str]) -> None:
    for text in ("hdfs://host/runs/a", "/nowhere/a", "run-*"):
        assert path_of(text, store) == text


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("w*", ["w1", "w2", "w2.old"]),
        ("w?", ["w1", "w2"]),
        ("w[2-9]", ["w2"]),
        ("w[^1]", ["w2"]),
        ("{w1,w2}*", ["w1", "w2", "w2.old"]),
        ("{w{1,2},v}", ["w1", "w2"]),
        ("W*", None),
        ("here-*", ["here-1"]),
    ],
)
def test_wildcards_match_names_in_the_store_or_else_folders_here(
    pattern: str,
    names: list[str] | None,
    tmp_path: Path,
    store: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("w1", "w2", "w2.old"):
        stored(store, name)
    (runs_folder(store) / "w3").write_text("no folder")
    monkeypatch.chdir(tmp_path)
    record(tmp_path / "w4")
    record(tmp_path / "here-1")
    if names is None:
        with pytest.raises(UsageError, match=r"no run 'W\*'"):
            folders_named(pattern, store)
        assert path_of(pattern, store) == pattern
        return
    folders = folders_named(pattern, store)
    assert [folder.name for folder in folders] == names
    in_store = names != ["here-1"]
    assert {folder.parent for folder in folders} == {runs_folder(store) if in_store else tmp_path}
    assert path_of(pattern, store) == (f"file:{tmp_path}/store/{pattern}" if in_store else pattern)
    if len(names) == 1:
        assert find_run(pattern, store).folder == folders[0]
    else:
        with pytest.raises(UsageError, match=f"stands for several runs: {', '.join(names)}"):
            find_run(pattern, store)


def test_a_name_that_is_not_there_says_which_are(store: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="There is no run 'x'") as refused:
        find_run("x", store)
    assert "none yet" in refused.value.next_step
    for number in range(12):
        stored(store, f"run-{number:02}", started=f"2026-01-{number + 1:02}")
    with pytest.raises(UsageError) as refused:
        find_run("x", store)
    assert "run-11" in refused.value.next_step
    assert "run-01" not in refused.value.next_step
    assert "2 older" in refused.value.next_step


def test_the_store_lists_runs_by_time_and_says_what_is_wrong(store: dict[str, str]) -> None:
    assert stored_runs(store) == ()
    stored(store, "late", started="2026-03-01")
    stored(store, "early", started="2026-01-01")
    stored(store, "dead", started="2026-02-01", failed="worker 1 died")
    records = {"stopped": True, "num_records": 80_000, "summary": {"records": {"sent": 27_391}}}
    stored(store, "halved", started="2026-02-02", **records)
    Run.create(folder_of("cut", store))
    broken = stored(store, "broken")
    (broken.folder / "run.json").write_text("{")
    newer = stored(store, "newer")
    (newer.folder / "run.json").write_text(json.dumps({"schema_version": SCHEMA_VERSION + 1}))
    stored(store, "changed", producer=None)
    (runs_folder(store) / "a-file").write_text("")
    runs = {run.name: run for run in stored_runs(store)}
    named = [name for name in runs if name in ("early", "dead", "halved", "late")]
    assert named == ["early", "dead", "halved", "late"]
    assert list(runs).index("cut") > list(runs).index("late")  # by when it was made
    assert runs["late"].flaw == runs["early"].flaw == ""
    assert runs["dead"].flaw == "it failed: worker 1 died"
    assert runs["halved"].flaw == "interrupted: 27,391 of 80,000 records"
    assert runs["cut"].flaw.endswith("nothing was measured (kipctl runs remove cut)")
    assert "not JSON" in runs["broken"].flaw
    assert "newer" in runs["newer"].flaw
    assert runs["changed"].flaw == "run.json cannot be used: producer is null"
    assert len(runs) == 8
    for name in ("late", "dead", "halved"):
        assert (runs[name].description or {})["command"] == "perf produce"
        assert find_run(name, store).folder == runs[name].folder
    for name in ("cut", "broken", "newer", "changed"):
        assert runs[name].description is None
        with pytest.raises(UsageError, match=f"{name} is no whole run"):
            find_run(name, store)


def test_a_runs_size_is_that_of_its_files(store: dict[str, str]) -> None:
    run = stored(store, "r")
    files = [path for path in run.folder.rglob("*") if path.is_file()]
    assert len(files) == len(DATASETS) + 1
    assert read_stored_run(run.folder).bytes == sum(len(path.read_bytes()) for path in files)


SECRET = {"producer": {"acks": "all", "sasl.password": "hunter2", "deep": [{"token": "hunter2"}]}}


def unpack(archive: Path) -> None:
    """As a user does. (`tarfile` wants a filter from Python 3.12 on, and 3.11.2 knows none.)"""
    into = archive.parent / "unpacked"
    into.mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", into], check=True)


def test_no_secret_leaves_even_if_one_was_recorded(tmp_path: Path, store: dict[str, str]) -> None:
    run = stored(store, "r", **SECRET)
    shown = read_stored_run(run.folder).description
    assert shown is not None
    assert shown["producer"]["acks"] == "all"
    export_archive(run, tmp_path / "r.tar.gz")
    export_csv(run, tmp_path / "csv")
    unpack(tmp_path / "r.tar.gz")
    texts = [
        json.dumps(dict(shown)),
        (tmp_path / "unpacked/r/run.json").read_text(),
        (tmp_path / "csv/run.json").read_text(),
    ]
    for text in texts:
        assert "hunter2" not in text
        assert text.count("[hidden]") == 2


def test_an_archive_unpacks_to_the_run(tmp_path: Path, store: dict[str, str]) -> None:
    run = stored(store, "r", answer=42)
    (run.folder / ".rows").mkdir()
    archived = tmp_path / "out.tar.gz"
    assert export_archive(run, archived) == archived.stat().st_size
    unpack(archived)
    again = find_run(str(tmp_path / "unpacked/r"), store)
    assert again.description == run.description
    for name in DATASETS:
        assert again.read(name) == run.read(name)
    assert sorted(path.name for path in again.folder.iterdir()) == sorted([*DATASETS, "run.json"])


def test_csv_has_every_dataset(tmp_path: Path, store: dict[str, str]) -> None:
    run = stored(store, "r")
    more = [pa.RecordBatch.from_pylist([EVENT | {"partition": 5}], schema=EVENTS)]
    run.write("events", more, part=1)
    written = export_csv(run, tmp_path / "out")
    files = sorted((tmp_path / "out").iterdir())
    assert written == sum(file.stat().st_size for file in files)
    assert [file.name for file in files] == sorted([*(f"{d}.csv" for d in DATASETS), "run.json"])
    events = pcsv.read_csv(tmp_path / "out/events.csv")
    assert events.column_names == EVENTS.names
    assert events["partition"].to_pylist() == [3, 4, 5]
    assert pcsv.read_csv(tmp_path / "out/batches.csv").column_names == DATASETS["batches"].names


@pytest.mark.parametrize("export", [export_archive, export_csv])
def test_an_export_overwrites_nothing_and_leaves_nothing_half_done(
    export: Any, tmp_path: Path, store: dict[str, str]
) -> None:
    run = stored(store, "r")
    there = tmp_path / "there"
    there.write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        export(run, there)
    assert there.read_text() == "mine"
    with pytest.raises(UsageError, match="cannot be written"):
        export(run, tmp_path / "no" / "folder")
    before = sorted(tmp_path.iterdir())
    (run.folder / "batches" / "part-0.parquet").write_bytes(b"PAR1 cut short")
    if export is export_csv:
        with pytest.raises(UsageError, match=r"part-0\.parquet cannot be read"):
            export(run, tmp_path / "out")
        assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("export", [export_archive, export_csv])
def test_an_export_follows_no_link_that_somebody_laid_beside_it(
    export: Any, tmp_path: Path, store: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder such as /tmp, where others make what they like."""
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    used: list[Path] = []
    rename = Path.rename
    monkeypatch.setattr(Path, "rename", lambda at, to: (used.append(at), rename(at, to)))
    run, out = stored(store, "r"), tmp_path / "out"
    (tmp_path / f".{out.name}.unfinished").symlink_to(victim)
    export(run, out)
    assert victim.read_text() == "theirs"
    assert not out.is_symlink()
    rename(out, tmp_path / "first")
    export(run, out)
    assert used[0] != used[1], "a name that others can foresee"


def test_a_run_is_removed_whole(tmp_path: Path, store: dict[str, str]) -> None:
    kept = stored(store, "kept")
    for folder in (stored(store, "a").folder, record(tmp_path / "b").folder):
        text = folder.name if folder.parent == runs_folder(store) else str(folder)
        remove(removable(text, store))
        assert not folder.exists()
    assert [run.name for run in stored_runs(store)] == [kept.folder.name]


def test_what_a_cut_off_run_left_can_be_removed_from_the_store(store: dict[str, str]) -> None:
    folder = folder_of("cut", store)
    Run.create(folder).write("events", [])
    (folder / ".rows").mkdir()
    remove(removable("cut", store))
    assert not folder.exists()


def test_a_folder_that_is_no_run_is_not_removed(tmp_path: Path, store: dict[str, str]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.txt").write_text("")
    for text in (str(home), str(tmp_path), "/nowhere/at/all", "missing"):
        with pytest.raises(UsageError):
            removable(text, store)
    (home / "run.json").write_text('{"name": "of something else"}')
    with pytest.raises(UsageError, match="is no run"):
        removable(str(home), store)


def test_a_run_that_holds_something_else_is_not_removed(store: dict[str, str]) -> None:
    run = stored(store, "r")
    (run.folder / "notes.txt").write_text("")
    (run.folder / "photos").mkdir()
    (run.folder / "photos" / "one.jpg").write_text("")
    with pytest.raises(UsageError, match=r"notes\.txt, photos"):
        removable("r", store)
    assert (run.folder / "notes.txt").exists()
