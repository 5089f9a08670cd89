"""What a report draws is what `kipctl analyze` computes, and its page shows those numbers."""

import json
import re
from collections import Counter
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from one_process import OneProcess
from pyspark.sql import SparkSession
from request_log_lines import analysed_log, log_files
from runs import write_run
from sample_runs import experiment_run

from kipctl.errors import ExitStatus
from kipctl.pipeline.pictures import MOST_BUCKETS, MOST_SLOWEST, bucket, report_document, shown_runs
from kipctl.report.analysis_tables import analysis_tables
from kipctl.report.html.parts import MOST_ROWS
from kipctl.report.html.spread import steps
from kipctl.report.request_log_tables import request_log_tables
from kipctl.report.tables import Table as ReportTable

RECORDS = 2400
LOG = "kafka-4.3.1"


class Tables(HTMLParser):
    """The tables of a page by their title: the cells of each row."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self._rows: list[list[str]] = []
        self._in_cell = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._rows = []
            self.tables[dict(attrs)["aria-label"] or ""] = self._rows
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._in_cell = True
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self._rows[-1][-1] += data


def in_page(table: ReportTable) -> list[list[str]]:
    """The cells that a page has of a table."""
    shown = table.rows[:MOST_ROWS]
    rows = ([table.text(at, cell, ",") for at, cell in enumerate(row)] for row in shown)
    return [list(table.titles), *rows]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two runs, each with moved leaders and records that failed."""
    names = ((tmp_path_factory.mktemp("runs") / name, at) for at, name in enumerate(("a", "b")))
    return [str(experiment_run(path, seed=at, records=RECORDS).folder) for path, at in names]


@pytest.fixture(scope="module")
def drawn_runs(spark: SparkSession, folders: list[str]) -> dict[str, Any]:
    """What is drawn of them; the analysis in it is that of `analyze`."""
    return report_document(spark, folders)


@pytest.mark.spark
def test_the_page_shows_the_numbers_of_analyze(
    kipctl_again: OneProcess, folders: list[str], drawn_runs: dict[str, Any], tmp_path: Path
) -> None:
    file, pictures = tmp_path / "noon.html", tmp_path / "svg"
    said = kipctl_again("report", *folders, "--html", file, "--svg", pictures, "--output", "json")
    assert said.status == ExitStatus.DONE, said.err
    page = file.read_text()
    shown = Tables(page).tables
    analysis = drawn_runs["analysis"]
    expected = analysis_tables(analysis)
    assert len(expected) == len(analysis["tables"]) + 1  # redirects are two
    for table in expected:
        assert shown[table.title] == in_page(table), table.title
    document = said.document
    assert escape(document["answer"]) in page
    acknowledged, failed, moves, episodes = (
        sum(row[column] for row in analysis[table])
        for table, column in (
            *(("records", "acknowledged"), ("records", "failed")),
            *(("moves", "moves"), ("redirects", "episodes")),
        )
    )
    assert f"of {acknowledged + failed:,} records {failed:,} failed." in document["answer"]
    assert f"met {moves:,} moved leaders" in document["answer"]
    assert document["bytes"] == len(file.read_bytes())
    assert {Path(path).stem for path in document["svg"]} == {
        *("timeline1", "timeline2", "waits", "latency", "metadata", "racks"),
        *(f"waterfall{number}" for number in range(1, min(episodes, MOST_SLOWEST) + 1)),
    }


@pytest.mark.spark
def test_what_is_drawn_is_what_is_counted(drawn_runs: dict[str, Any]) -> None:
    document, analysis = drawn_runs, drawn_runs["analysis"]
    json.dumps(document)
    for number, drawn in enumerate(document["timelines"]):
        name = drawn["run"]
        [latency] = of_run(analysis["latency"], name, time="latency")
        assert sum(row["records"] for row in drawn["latency"]) == latency["records"]
        assert max(row["time_ms"]["max"] for row in drawn["latency"]) == latency["time_ms"]["max"]
        [redirects] = of_run(analysis["redirects"], name)
        assert sum(row["count"] for row in drawn["refused"]) == redirects["episodes"]
        causes = of_run(analysis["metadata"], name)
        for cause in causes:
            rows = [row for row in drawn["metadata"] if row["cause"] == cause["cause"]]
            assert sum(row["count"] for row in rows) == cause["requests"]
        assert {row["cause"] for row in drawn["metadata"]} == {row["cause"] for row in causes}
        bins = document["latencies"][number]["bins"]
        assert sum(count for _, count in bins) == latency["records"]
        assert bins[-2][0] < 1000 * latency["time_ms"]["max"] <= bins[-1][0]
        [moves] = of_run(analysis["moves"], name)
        waits = document["waits"][number]["bins"]
        assert sum(count for _, count in waits) == moves["moves"]
        assert waits[-1][0] >= 1000 * moves["wait_ms"]["max"]
        assert (drawn["until_us"] - drawn["from_us"]) <= MOST_BUCKETS * document["bucket_us"]
    slowest = document["slowest"]
    assert sum(row["episodes"] for row in analysis["redirects"]) > len(slowest) == MOST_SLOWEST
    assert slowest[0]["latency_us"] == 1000 * max(
        row["latency_ms"]["max"] for row in analysis["redirects"]
    )
    for batch in slowest:
        assert sum(took for *_, took in steps(batch)) == batch["latency_us"]
    [of_arm] = document["arms"]["records"]
    assert of_arm["failed"] == sum(row["failed"] for row in analysis["records"])


@pytest.mark.spark
def test_two_sides_are_compared_in_a_page(kipctl_again: OneProcess, tmp_path: Path) -> None:
    for number, factor in enumerate((1.0, 1.0, 1.0, 2.0, 2.0, 2.0)):
        experiment_run(tmp_path / f"r{number}", seed=number, records=1000, factor=factor)
    sides = [",".join(str(tmp_path / f"r{at + n}") for n in range(3)) for at in (0, 3)]
    file = tmp_path / "page.html"
    said = kipctl_again("runs", "compare", *sides, "--html", file, "--output", "json")
    assert said.status == ExitStatus.DONE, said.err
    shown = Tables(file.read_text()).tables
    [(_, *verdicts)] = [rows for title, rows in shown.items() if title.startswith("A: r0, r1, r2;")]
    measured = [one for one in said.document["measures"] if (one["a"], one["b"]) != (None, None)]
    assert len(measured) < len(said.document["measures"])  # nobody reads in these runs
    assert [row[0] for row in verdicts] == [f"{one['title']}, {one['unit']}" for one in measured]
    told = {one["title"]: one["verdict"].split(":")[0] for one in measured}
    assert {row[0].rpartition(",")[0]: row[-1] for row in verdicts} == told
    # The sides take the place of the arms.
    waits = shown["Moved leaders: how long each made the client wait, by arm"]
    assert [row[0] for row in waits] == ["arm", "A", "B"]


def of_run(rows: list[dict[str, Any]], run: str, **known: Any) -> list[dict[str, Any]]:
    wanted = {"run": run, **known}.items()
    return [row for row in rows if wanted <= row.items()]


@pytest.mark.spark
def test_leaders_are_those_before_and_those_that_brokers_showed(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen = [
        {"kind": "leader seen", "topic": "t", "partition": 0, "from_broker": 1, "to_broker": 2}
        | {"epoch": 5, "seen_by": broker, "time_us": at}
        for broker, at in ((1, 350_000), (2, 300_000), (3, 400_000))
    ]
    called = {"kind": "election called", "topic": None, "partition": None, "time_us": 290_000}
    cluster: dict[str, Any] = {"cluster_id": "c", "brokers": []}
    before = [{"id": ["t", number], "leader": 1, "replicas": [1, 2]} for number in range(2)]
    batch = {"first_seq": 0, "bytes": 1, "intended_us": 0, "sent_us": 1, "acked_us": 900_000}
    write_run(
        tmp_path / "run",
        {
            "cluster_before": cluster | {"partitions": before},
            "producer": {"acks": "1", "sasl.jaas.config": "a password", "ssl.key": "a key"},
        },
        batches=[batch],
        events=[called, *seen],
    )
    document = report_document(spark, [str(tmp_path / "run")])
    assert document["runs"][0]["settings"]["acks"] == "1"
    assert "a password" not in str(document)
    assert "a key" not in str(document)
    [drawn] = document["timelines"]
    assert drawn["leaders"]["rows"] == [
        {"names": ["t-0"], "count": 1, "leads": [(0, 1), (300_000, 2)]},
        {"names": ["t-1"], "count": 1, "leads": [(0, 1)]},
    ]
    strange = {"cluster_before": cluster | {"partitions": [{"id": 7, "replicas": []}]}}
    write_run(tmp_path / "odd", strange, batches=[batch])
    [drawn] = report_document(spark, [str(tmp_path / "odd")])["timelines"]
    assert drawn["leaders"]["rows"] == []


@pytest.mark.parametrize(
    ("lasts_us", "expected_us"),
    [
        (0, 1000),
        (150_000, 1000),
        (150_001, 2000),
        (30_000_000, 200_000),
        (30_500_000, 250_000),
        (10**15, 10**13 // 2),
    ],
)
def test_a_bucket_is_a_round_number(lasts_us: int, expected_us: int) -> None:
    assert bucket(lasts_us) == expected_us


def test_each_arm_has_its_first_run_drawn_before_any_has_its_second() -> None:
    runs = [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c")]
    assert shown_runs(runs, 4) == ["a1", "b1", "c1", "a2"]
    assert shown_runs(runs[:2], 4) == ["a1", "a2"]


@pytest.mark.spark
def test_a_page_of_request_logs_shows_the_numbers_of_analyze(
    kipctl_again: OneProcess, spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "log.html"
    paths = log_files(LOG)
    said = kipctl_again("analyze", "request-log", *paths, "--html", file, "--output", "json")
    assert said.status == ExitStatus.DONE, said.err
    assert analysed_log(spark, LOG).document.items() <= said.document.items()
    [cluster] = said.document["clusters"]
    shown = Tables(file.read_text()).tables
    for table in request_log_tables(said.document):
        assert shown[table.title] == in_page(table), table.title

    def in_time(title: str) -> Counter[str]:
        """The sums that the picture's words tell."""
        found = re.search(rf"{title}: (.*?)\.[ <]", file.read_text())
        assert found, title
        parts = (part.rpartition(" ") for part in found[1].split(", "))
        return Counter({name: int(count.replace(",", "")) for name, _, count in parts})

    apis: Counter[str] = Counter()
    for row in cluster["apis"]:
        apis[row["api"]] += row["requests"]
    counted = in_time("Requests by API")
    followers = counted.pop("FETCH of followers")
    counted["FETCH"] += followers
    # As many as a panel has rows for, with the most requests.
    assert len(counted) > 5
    assert {name: apis[name] for name in counted} == dict(counted)
    assert in_time("Metadata requests by cause") == Counter(cluster["metadata"]["by_cause"])
    software = Counter({f"{r['software']} {r['version']}": r["requests"] for r in cluster["fleet"]})
    assert in_time("Requests of clients by software") == software
    errors: Counter[str] = Counter()
    for kind in ("produce_errors", "fetch_errors"):
        for code, count in cluster[kind].items():
            errors[cluster["error_names"][code]] += count
    assert +in_time("Errors in answers, by partition") == +errors
