"""`kipctl runs list`, `show`, `export`, `remove`: what a user sees of the store."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
from in_process import kipctl

from kipctl.cli.runs import compare
from kipctl.pipeline.compare import UNITS
from kipctl.trace.codes import PHASES
from kipctl.trace.schema import DATASETS
from kipctl.trace.store import Run

TIMES = {"mean": 1.5, "p50": 1.0, "p95": 2.0, "p99": 3.0, "p999": 41.25, "max": 50.0}
SUMMARY: dict[str, Any] = {
    "topic": "orders",
    "records": {"sent": 50_000, "acknowledged": 49_990, "failed": 10, "errors": {}},
    "warmup_records": 0,
    "latency_ms": TIMES,
    "service_ms": TIMES,
    "records_per_second": 4987.6,
    "cpu_seconds": 1.0,
    "redirects": {
        "batches": 3,
        "errors": 4,
        "appended_then_failed": 0,
        "hints": {"present": 4, "followed": 3, "absent": 0},
        "same_epoch_retries": 1,
        "client_share_ms": {"p50": 0.1, "p99": 0.2, "sum": 0.3},
        "phases_ms": {phase: {"p50": 1.0, "p99": 2.0, "sum": 3.0} for phase in PHASES},
    },
    "metadata_rpcs": {"total": 7, "on_critical_path": 1, "bytes": 700, "by_cause": {"start": 7}},
    "actions": [
        {
            "action": "rotate",
            "called_ms": 1000.0,
            "answered_ms": 1040.0,
            "converged_ms": 1100.0,
            "partitions": 100,
            "error": None,
        }
    ],
    "leader_discovery": "kip951",
    "kafka_version": "4.3.1",
}


class Store:
    """A run store of a test's own, and kipctl working on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def record(self, name: str, **description: Any) -> Run:
        recorded = Run.create(self.folder / name)
        for dataset in DATASETS:
            recorded.write(dataset, [])
        recorded.describe(
            {
                "command": "perf produce",
                "started": "2026-01-02T03:04:05.000006+00:00",
                "leader_discovery": "kip951",
                "throughput": 5000.0,
                "producer": {"acks": "all", "sasl.password": "hunter2"},
                "summary": SUMMARY,
                **description,
            }
        )
        return recorded

    def kipctl(self, *words: str, typed: str | None = None) -> tuple[int, str, str]:
        said = kipctl("runs", *words, typed=typed, KIPCTL_RUNS=str(self.folder))
        return said.status, said.out, said.err


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_an_empty_store_says_how_to_fill_it(store: Store) -> None:
    status, out, _ = store.kipctl("list")
    assert status == 0
    assert "kipctl perf produce --record NAME" in out


def test_the_list_has_a_line_for_each_run(store: Store) -> None:
    store.record("before")
    store.record("dead", failed="worker 1 died", summary=None, started="2026-01-03")
    store.record("halved", stopped=True, num_records=80_000, started="2026-01-04")
    Run.create(store.folder / "cut")
    status, out, _ = store.kipctl("list")
    assert status == 0
    lines = {line.split()[0]: line for line in out.splitlines()[4:]}
    assert list(lines) == ["before", "dead", "halved", "cut"]
    shown = ("2026-01-02 03:04:05", "perf produce", "49990", "4988", "all", "kip951", "1 x rotate")
    for word in (*shown, "41.250", "whole"):
        assert word in lines["before"]
    assert "it failed: worker 1 died" in lines["dead"]
    assert lines["halved"].endswith("interrupted: 50,000 of 80,000 records")
    assert "nothing was measured" in lines["cut"]
    assert "hunter2" not in out


def test_the_list_as_json(store: Store) -> None:
    recorded = store.record("before")
    said = json.loads(store.kipctl("list", "--output", "json")[1])
    assert said["_command"] == "runs list"
    assert said["store"] == str(store.folder)
    (listed,) = said["runs"]
    assert listed["bytes"] == sum(
        f.stat().st_size for f in recorded.folder.rglob("*.*") if f.is_file()
    )
    del listed["bytes"]
    assert listed == {
        "name": "before",
        "started": "2026-01-02T03:04:05.000006+00:00",
        "command": "perf produce",
        "records": 49_990,
        "records_per_second": 4987.6,
        "acks": "all",
        "leader_discovery": "kip951",
        "actions": "1 x rotate",
        "p999_ms": 41.25,
        "folder": str(recorded.folder),
        "state": "whole",
    }


def test_show_has_the_settings_and_the_tables_told_at_the_end(store: Store) -> None:
    store.record("before", workers=3)
    status, out, _ = store.kipctl("show", "before")
    assert status == 0
    lines = {tuple(line.split(maxsplit=1)) for line in out.splitlines()}
    expected = {("throughput", "5000"), ("acks", "all"), ("workers", "3"), ("topic", "orders")}
    assert expected < lines
    assert "sasl.password" in out
    assert "hunter2" not in out
    for title in ("Records to orders", "Redirects: 3 batches", "Metadata requests: 7", "Actions"):
        assert title in out


def test_show_of_a_tap_has_its_answer_and_its_clients(store: Store) -> None:
    of_client = {
        "client_id": "shop",
        "software_name": None,
        "software_version": None,
        "connections": {"open": 0, "made": 1, "lost": 0},
        "requests": {"total": 9, "per_second": 1.0, "not_decoded": 0},
        "produce_errors": {},
        "fetch_errors": {},
        "leader_errors": 20,
        "redirects": 20,
        "hints": {"sent": 20, "draft": 0, "dropped": 0},
        "refused_by_hint": {"followed": 20},
        "moves": {"met": 20, "wait_ms": {"p50": 0.5, "p99": 1.0, "max": 1.0}},
        "metadata_rpcs": {"total": 0, "by_cause": {}},
    }
    seen = {"conditions": {}, "clients": [of_client], "listeners": [], "dropped": []}
    store.record("noon", command="tap", summary=seen)
    _, out, _ = store.kipctl("show", "noon")
    assert out.splitlines()[0] == "shop follows hints: waits p50 0.5 ms for 20 moved leaders."
    assert "Clients through the tap" in out


def test_show_as_json_is_all_that_is_known(store: Store) -> None:
    recorded = store.record("before")
    said = json.loads(store.kipctl("show", str(recorded.folder), "--output", "json")[1])
    assert said["name"] == "before"
    assert said["summary"] == SUMMARY
    assert said["producer"] == {"acks": "all", "sasl.password": "[hidden]"}


def test_show_of_a_run_cut_short_says_so_first(store: Store) -> None:
    store.record("dead", failed="worker 1 died", summary=None)
    status, out, _ = store.kipctl("show", "dead")
    assert status == 0
    assert out.startswith("Run dead: it failed: worker 1 died.\n")
    store.record("halved", stopped=True, num_records=80_000)
    status, out, _ = store.kipctl("show", "halved")
    assert status == 0
    assert out.startswith("Run halved: interrupted: 50,000 of 80,000 records.\n")
    assert "Records to orders" in out


@pytest.mark.parametrize("command", [("show", "x"), ("export", "x", "out"), ("remove", "x")])
def test_a_run_that_is_not_there_is_wrong_usage(store: Store, command: tuple[str, ...]) -> None:
    store.record("before")
    status, out, told = store.kipctl(*command)
    assert (status, out) == (2, "")
    assert "There is no run 'x'" in told
    assert "before" in told


@pytest.mark.parametrize(("form", "name"), [("archive", "r.tar.gz"), ("csv", "r")])
def test_export_says_what_it_wrote(store: Store, tmp_path: Path, form: str, name: str) -> None:
    store.record("before")
    out = tmp_path / name
    status, said, _ = store.kipctl("export", "before", str(out), "--format", form, "-o", "json")
    assert status == 0
    document = json.loads(said)
    files = [out] if out.is_file() else list(out.iterdir())
    assert document["file"] == str(out)
    assert document["bytes"] == sum(file.stat().st_size for file in files) > 0
    status, _, told = store.kipctl("export", "before", str(out), "--format", form)
    assert status == 2
    assert "is there already" in told


def test_remove_asks_first(store: Store) -> None:
    kept, gone = store.record("kept"), store.record("gone")
    status, _, told = store.kipctl("remove", "gone", typed="n\n")
    assert status == 4
    assert told.startswith("Remove gone (")
    assert gone.folder.exists()
    status, out, _ = store.kipctl("remove", "gone", "gone", typed="y\n")
    assert status == 0
    assert out.splitlines()[0].startswith("Removed gone, ")
    assert out.count("gone") == 3  # also by its name in the table, and in its path
    assert not gone.folder.exists()
    assert kept.folder.exists()


def test_remove_takes_wildcards(store: Store) -> None:
    folders = [store.record(name).folder for name in ("w1", "w2", "kept")]
    status, _, told = store.kipctl("remove", "w*", "w2", typed="y\n")
    assert status == 0
    assert told.startswith("Remove w1, w2 (")
    assert [folder.exists() for folder in folders] == [False, False, True]
    status, _, told = store.kipctl("remove", "w*", "--yes")
    assert status == 2
    assert "There is no run 'w*'" in told


def test_remove_without_a_terminal_needs_yes(store: Store) -> None:
    gone = [store.record(name).folder for name in ("a", "b")]
    status, _, told = store.kipctl("remove", "a", "b")
    assert status == 2
    assert "--yes" in told
    status, out, _ = store.kipctl("remove", "a", "b", "--yes", "-o", "json")
    assert status == 0
    assert [one["name"] for one in json.loads(out)["removed"]] == ["a", "b"]
    assert not any(folder.exists() for folder in gone)


def test_remove_removes_nothing_when_one_of_them_is_no_run(store: Store, tmp_path: Path) -> None:
    recorded = store.record("before")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    status, _, told = store.kipctl("remove", "before", str(tmp_path / "mine"), "--yes")
    assert status == 2
    assert "is no run" in told
    assert recorded.folder.exists()
    assert (tmp_path / "mine" / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("before", "after", "--fail-if", "p42 > 10%"), "no measure 'p42'"),
        (("before", "after", "--fail-if", "slower"), "no condition"),
        (("before", "x"), "There is no run 'x'"),
        (("before", "after,before"), "on both sides"),
        (("before", ","), "names no run"),
    ],
)
def test_a_comparison_asked_for_wrongly_starts_no_spark(
    store: Store, words: tuple[str, ...], told: str
) -> None:
    for name in ("before", "after"):
        store.record(name)
    status, out, said = store.kipctl("compare", *words)
    assert (status, out) == (2, "")
    assert told in said
    assert "Spark" not in said


def test_help_and_documentation_name_every_measure() -> None:
    documented = (Path(__file__).parents[2] / "docs" / "runs.md").read_text()
    (table,) = re.findall(r"\| measure \|.*?\n\n", documented, re.DOTALL)
    first_cells = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    assert re.findall(r"`(\w+)`", " ".join(first_cells)) == list(UNITS)
    (listed,) = re.findall(r"Measures: (.*)\.$", " ".join(inspect.getdoc(compare).split()))
    assert re.findall(r"\w+(?=[,. ]|$)", re.sub(r" \([^)]*\)", "", listed)) == list(UNITS)
