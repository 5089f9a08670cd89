"""`kipctl runs list`, `show`, `export`, `remove`: what a user sees of the store."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from in_process import kipctl
from one_process import Said

from kipctl.cli.commands.runs import compare
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

    def kipctl(self, words: str, status: int = 0, typed: str | None = None) -> Said:
        """Ends with this status."""
        said = kipctl("runs", *words.split(), typed=typed, KIPCTL_RUNS=str(self.folder))
        assert said.status == status, said
        return said


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_an_empty_store_says_how_to_fill_it(store: Store) -> None:
    assert "kipctl perf produce --record first" in store.kipctl("list").out


def test_the_list_has_a_line_for_each_run(store: Store) -> None:
    store.record("before")
    store.record("dead", failed="worker 1 died", summary=None, started="2026-01-03")
    store.record("halved", stopped=True, num_records=80_000, started="2026-01-04")
    Run.create(store.folder / "cut")
    out = store.kipctl("list").out
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
    said = store.kipctl("list --output json").document
    assert said["_command"] == "runs list"
    assert said["store"] == str(store.folder)
    assert said["runs"] == [
        {
            "name": "before",
            "started": "2026-01-02T03:04:05.000006+00:00",
            "command": "perf produce",
            "records": 49_990,
            "records_per_second": 4987.6,
            "acks": "all",
            "leader_discovery": "kip951",
            "during": "1 x rotate",
            "latency_ms": {"p999": 41.25},
            "folder": str(recorded.folder),
            "state": "whole",
            "bytes": sum(f.stat().st_size for f in recorded.folder.rglob("*.*") if f.is_file()),
        }
    ]


def test_show_has_the_settings_and_the_tables_told_at_the_end(store: Store) -> None:
    store.record("before", workers=3)
    out = store.kipctl("show before").out
    lines = {tuple(line.split(maxsplit=1)) for line in out.splitlines()}
    expected = {("throughput", "5000"), ("acks", "all"), ("workers", "3"), ("topic", "orders")}
    assert expected < lines
    assert "sasl.password" in out
    assert "hunter2" not in out
    for title in ("Records to orders", "Redirects: 3 batches", "Metadata requests: 7", "Actions"):
        assert title in out


@pytest.mark.parametrize("damage", [{"redirects": []}, {"records": {}}, {"service_ms": {}}])
def test_show_of_what_other_hands_wrote_says_so(store: Store, damage: dict[str, Any]) -> None:
    recorded = store.record("other", summary=SUMMARY | damage)
    said = store.kipctl("show other", status=2)
    assert said.err.startswith(f"kipctl: {recorded.folder}/run.json is damaged, or is not kipctl's")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": 1e999}', "[" * 150 + "]" * 150])
def test_one_run_that_is_no_json_hides_no_other(store: Store, text: str) -> None:
    store.record("whole")
    (store.record("other").folder / "run.json").write_text(text)
    assert "run.json is not JSON" in store.kipctl("list").out
    assert "whole" in store.kipctl("list").out


def test_show_of_a_tap_has_its_answer_and_its_clients(store: Store) -> None:
    of_client = {
        "client_id": "shop",
        "verdict": {"sentence": "follows hints.", "advice": None},
        "records_took_ms": None,
        "software_name": None,
        "software_version": None,
        "connections": {"open": 0, "made": 1, "lost": 0},
        "requests": {"total": 9, "per_second": 1.0, "not_decoded": 0, "acks_0": 0},
        "produce_errors": {},
        "fetch_errors": {},
        "leader_errors": 20,
        "redirects": 20,
        "hints": {"sent": 20, "draft": 0, "dropped": 0},
        "refused_by_hint": {"followed": 20},
        "moves": {"met": 20, "given_up": 0, "wait_ms": {"p50": 0.5, "p99": 1.0, "max": 1.0}},
        "metadata_rpcs": {"total": 0, "by_cause": {}},
    }
    seen = {"conditions": {}, "clients": [of_client], "listeners": [], "dropped": []}
    store.record("noon", command="tap", summary=seen)
    out = store.kipctl("show noon").out
    assert out.splitlines()[0] == "shop follows hints."
    assert "Clients through the tap" in out


def test_show_as_json_is_all_that_is_known(store: Store) -> None:
    recorded = store.record("before")
    said = store.kipctl(f"show {recorded.folder} --output json").document
    assert said["name"] == "before"
    assert said["summary"] == SUMMARY
    assert said["producer"] == {"acks": "all", "sasl.password": "[hidden]"}


def test_show_of_a_run_cut_short_says_so_first(store: Store) -> None:
    store.record("dead", failed="worker 1 died", summary=None)
    assert store.kipctl("show dead").out.startswith("Run dead: it failed: worker 1 died.\n")
    store.record("halved", stopped=True, num_records=80_000)
    out = store.kipctl("show halved").out
    assert out.startswith("Run halved: interrupted: 50,000 of 80,000 records.\n")
    assert "Records to orders" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        *((words, "There is no run 'x'") for words in ("show x", "export x out", "remove x")),
        ("compare before after --fail-if p42>10%", "no measure 'p42'"),
        ("compare before after --fail-if slower", "no condition"),
        ("compare before x", "There is no run 'x'"),
        ("compare before after,before", "on both sides"),
        ("compare before ,", "names no run"),
        ("remove before after", "--yes"),  # without a terminal nobody can be asked
        ("remove before {mine} --yes", "is no run"),
    ],
)
def test_wrong_usage_changes_nothing_and_starts_no_spark(
    store: Store, tmp_path: Path, words: str, told: str
) -> None:
    folders = [store.record(name).folder for name in ("before", "after")]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    said = store.kipctl(words.format(mine=tmp_path / "mine"), status=2)
    assert said.out == ""
    assert told in said.err
    assert ("before" in said.err) or "'x'" not in told
    assert "Spark" not in said.err
    assert all(folder.exists() for folder in (*folders, tmp_path / "mine" / "thesis.txt"))


@pytest.mark.parametrize(("form", "name"), [("archive", "r.tar.gz"), ("csv", "r")])
def test_export_says_what_it_wrote(store: Store, tmp_path: Path, form: str, name: str) -> None:
    store.record("before")
    out = tmp_path / name
    document = store.kipctl(f"export before {out} --format {form} -o json").document
    files = [out] if out.is_file() else list(out.iterdir())
    assert document["file"] == str(out)
    assert document["bytes"] == sum(file.stat().st_size for file in files) > 0
    again = store.kipctl(f"export before {out} --format {form}", status=2)
    assert "is there already" in again.err


def test_remove_asks_first(store: Store) -> None:
    kept, gone = store.record("kept"), store.record("gone")
    assert store.kipctl("remove gone", status=4, typed="n\n").err.startswith("Remove gone (")
    assert gone.folder.exists()
    out = store.kipctl("remove gone gone", typed="y\n").out
    assert out.splitlines()[0].startswith("Removed gone, ")
    assert out.count("gone") == 3  # also by its name in the table, and in its path
    assert not gone.folder.exists()
    assert kept.folder.exists()


def test_remove_takes_wildcards_and_asks_nothing_with_yes(store: Store) -> None:
    folders = [store.record(name).folder for name in ("w1", "w2", "kept", "a")]
    assert store.kipctl("remove w* w2", typed="y\n").err.startswith("Remove w1, w2 (")
    assert [folder.exists() for folder in folders] == [False, False, True, True]
    assert "There is no run 'w*'" in store.kipctl("remove w* --yes", status=2).err
    removed = store.kipctl("remove a kept --yes -o json").document["removed"]
    assert [run["name"] for run in removed] == ["a", "kept"]
    assert not any(folder.exists() for folder in folders)


def test_help_and_documentation_name_every_measure() -> None:
    documented = (Path(__file__).parents[2] / "docs" / "runs.md").read_text()
    (table,) = re.findall(r"\| measure \|.*?\n\n", documented, re.DOTALL)
    first_cells = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    assert re.findall(r"`(\w+)`", " ".join(first_cells)) == list(UNITS)
    (listed,) = re.findall(r"Measures: (.*)\.$", " ".join(inspect.getdoc(compare).split()))
    assert re.findall(r"\w+(?=[,. ]|$)", re.sub(r" \([^)]*\)", "", listed)) == list(UNITS)
