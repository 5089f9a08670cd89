"""What a report draws is what `kipctl analyze` computes, and its page shows those numbers."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from one_process import Kipctl, Said, in_this_process
from pyspark.sql import SparkSession
from request_log_lines import analysed_log, log_files
from runs import write_run
from sample_runs import experiment_run

from kipctl.errors import ExitStatus
from kipctl.pipeline import pictures, session
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
def kipctl(spark: SparkSession) -> Iterator[Kipctl]:
    """Commands on this process's Spark, without a start of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "spark_session", lambda *args, **settings: nullcontext(spark))
        yield in_this_process


class Reported(NamedTuple):
    """What `kipctl report` drew, wrote and said; the analysis in it is that of `analyze`."""

    drawn: dict[str, Any]
    page: str
    said: Said


@pytest.fixture(scope="module")
def reported(
    kipctl: Kipctl, folders: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Reported:
    drawn: list[dict[str, Any]] = []

    def noted(*args: Any, **more: Any) -> Any:
        drawn.append(report_document(*args, **more))
        return drawn[-1]

    file, svg = (tmp_path_factory.mktemp("pages") / name for name in ("noon.html", "svg"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pictures, "report_document", noted)
        said = kipctl("report", *folders, "--html", file, "--svg", svg, "--output", "json")
    assert said.status == ExitStatus.DONE, said.err
    assert said.document["bytes"] == len(file.read_bytes())
    return Reported(*drawn, file.read_text(), said)


@pytest.mark.spark
def test_the_page_shows_the_numbers_of_analyze(reported: Reported) -> None:
    shown = Tables(reported.page).tables
    analysis = reported.drawn["analysis"]
    expected = analysis_tables(analysis)
    assert len(expected) == len(analysis["tables"]) + 1  # redirects are two
    for table in expected:
        assert shown[table.title] == in_page(table), table.title
    document = reported.said.document
    assert escape(document["answer"]) in reported.page
    acknowledged, failed, moves, episodes = (
        sum(row[column] for row in analysis[table])
        for table, column in (
            *(("records", "acknowledged"), ("records", "failed")),
            *(("moves", "moves"), ("redirects", "episodes")),
        )
    )
    assert f"of {acknowledged + failed:,} records {failed:,} failed." in document["answer"]
    assert f"met {moves:,} moved leaders" in document["answer"]
    assert {Path(path).stem for path in document["svg"]} == {
        *("timeline1", "timeline2", "waits", "latency", "metadata", "racks"),
        *(f"waterfall{number}" for number in range(1, min(episodes, MOST_SLOWEST) + 1)),
    }


@pytest.mark.spark
def test_what_is_drawn_is_what_is_counted(reported: Reported) -> None:
    document, analysis = reported.drawn, reported.drawn["analysis"]
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
        # Time passes as the record has it: each failed attempt ends when its error came.
        ended = {phase: at + took for phase, at, took in steps(batch)}
        for number, attempt in enumerate(batch["failed_attempts"], 1):
            error_us = ended.get(f"detect {number}", ended.get(f"not ready {number}"))
            assert error_us == attempt["error_us"] - batch["intended_us"]
    [of_arm] = document["arms"]["records"]
    assert of_arm["failed"] == sum(row["failed"] for row in analysis["records"])


@pytest.mark.spark
def test_two_sides_are_compared_in_a_page(kipctl: Kipctl, tmp_path: Path) -> None:
    for number, factor in enumerate((1.0, 1.0, 1.0, 2.0, 2.0, 2.0)):
        experiment_run(tmp_path / f"r{number}", seed=number, records=1000, factor=factor)
    sides = [",".join(str(tmp_path / f"r{at + n}") for n in range(3)) for at in (0, 3)]
    file = tmp_path / "page.html"
    said = kipctl("runs", "compare", *sides, "--html", file, "--output", "json")
    assert said.status == ExitStatus.DONE, said.err
    shown = Tables(file.read_text()).tables
    [(_, *verdicts)] = [rows for title, rows in shown.items() if title.startswith("A: r0, r1, r2;")]
    measures = said.document["measures"]
    measured = [measure for measure in measures if (measure["a"], measure["b"]) != (None, None)]
    assert len(measured) < len(measures)  # nobody reads in these runs
    titles = [f"{measure['title']}, {measure['unit']}" for measure in measured]
    assert [row[0] for row in verdicts] == titles
    told = {measure["title"]: measure["verdict"].split(":")[0] for measure in measured}
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
    strange = {"cluster_before": cluster | {"partitions": [{"id": 7, "replicas": []}]}}
    write_run(tmp_path / "strange", strange, batches=[batch])
    document = report_document(spark, [str(tmp_path / name) for name in ("run", "strange")])
    assert document["runs"][0]["settings"]["acks"] == "1"
    assert "a password" not in str(document)
    assert "a key" not in str(document)
    drawn, of_strange = document["timelines"]
    assert drawn["leaders"]["rows"] == [
        {"names": ["t-0"], "count": 1, "leads": [(0, 1), (300_000, 2)]},
        {"names": ["t-1"], "count": 1, "leads": [(0, 1)]},
    ]
    assert of_strange["leaders"]["rows"] == []


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
    kipctl: Kipctl, spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "log.html"
    said = kipctl("analyze", "request-log", *log_files(LOG), "--html", file, "--output", "json")
    assert said.status == ExitStatus.DONE, said.err
    assert analysed_log(spark, LOG).document.items() <= said.document.items()
    [cluster] = said.document["clusters"]
    shown = Tables(file.read_text()).tables
    for table in request_log_tables(said.document):
        assert shown[table.title] == in_page(table), table.title

    def in_time(title: str) -> Counter[str]:
        """The sums that the picture's words tell."""
        match = re.search(rf"{title}: (.*?)\.[ <]", file.read_text())
        assert match, title
        parts = (part.rpartition(" ") for part in match[1].split(", "))
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
