"""Questions about a trace: what tables are broken down by, and of which part of it they are."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from runs import write_run

from kipctl.errors import UsageError
from kipctl.pipeline.analysis import Question, analyse_runs
from kipctl.pipeline.period import parse_period
from kipctl.pipeline.table import Columns, Table
from kipctl.pipeline.table_docs import written_into
from kipctl.pipeline.tables import TABLES, keys_of
from kipctl.protocol.error_codes import ErrorCode
from kipctl.report.analysis_tables import analysis_tables
from kipctl.trace.codes import PHASES

pytestmark = pytest.mark.spark

SECOND_US = 1_000_000


def batch(second: float, took_us: int, seq: int) -> dict[str, Any]:
    due = int(second * SECOND_US)
    return {
        "first_seq": seq,
        "bytes": 100,
        "intended_us": due,
        "sent_us": due,
        "acked_us": due + took_us,
        "attempts": 1,
        "broker": 1,
    }


def redirect(second: float, seq: int, took_us: int) -> dict[str, Any]:
    return {
        "api": "produce",
        "first_seq": seq,
        "attempt": 1,
        "error": ErrorCode.NOT_LEADER_OR_FOLLOWER,
        "error_us": int(second * SECOND_US),
        "from_broker": 1,
        "from_epoch": 1,
        "hint_leader": 2,
        "hint_epoch": 2,
        "decision": "followed",
        "to_broker": 2,
        "to_epoch": 2,
        **{f"{phase}_us": 0 for phase in PHASES},
        "detect_us": took_us,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten records a second for ten seconds; two rotations, each met by a batch due before it."""
    actions = [
        {
            "action": "rotate",
            "called_ms": called,
            "answered_ms": called + 10,
            "converged_ms": called + 20,
            "partitions": 1,
            "error": None,
        }
        for called in (3000.0, 7000.0)
    ]
    batches = [batch(n / 10, 1000, n) for n in range(100)]
    batches[29] = batch(2.9, 600_000, 29)
    batches[69] = batch(6.9, 400_000, 69)
    run = write_run(
        tmp_path_factory.mktemp("runs") / "run",
        {"summary": {"actions": actions}},
        batches=batches,
        redirects=[redirect(3.1, 29, 600_000), redirect(7.1, 69, 400_000)],
    )
    return str(run.folder)


LONGEST = Table(
    "longest",
    "The longest waits",
    "batches",
    by=("run", "partition"),
    always=("broker",),
    columns=(Columns(("longest_ms",), "from the intended time to the acknowledgement"),),
    make=lambda source, keys: source.batches.groupBy(*keys).agg(
        F.expr("max(acked_us - intended_us)").alias("longest_us")
    ),
)


@pytest.fixture(scope="module")
def document(spark: SparkSession, folder: str) -> dict[str, Any]:
    """By all keys that there are, with one table more."""
    question = Question(keys_of(TABLES), window_us=5 * SECOND_US, tables=(*TABLES, LONGEST))
    return analyse_runs(spark, [folder], question)


def test_a_period_takes_actions_and_episodes_whole(
    spark: SparkSession, folder: str, document: dict[str, Any]
) -> None:
    part = analyse_runs(spark, [folder], period=parse_period("6.95s", "8s"))
    assert part["actions"] == [document["actions"][1]]
    assert part["actions"][0]["recovery_ms"] == 300
    assert part["actions"][0]["before_records"] == 19  # one of the 20 was settled later
    # Of the second rotation: it is the one that was met in the period.
    [episode] = part["redirects"]
    assert (episode["episodes"], episode["latency_ms"]["max"]) == (1, 400)
    assert part["records"][0]["acknowledged"] == 10


def test_a_period_that_holds_nothing_is_told(spark: SparkSession, folder: str) -> None:
    with pytest.raises(UsageError, match="lies in the period"):
        analyse_runs(spark, [folder], period=parse_period("100s", None))


def test_every_dimension_is_one_of_some_table(document: dict[str, Any]) -> None:
    assert {table.name for table in TABLES} <= set(document)
    assert [row["window"] for row in document["latency"] if row["time"] == "service"] == [0, 1]
    rows = document["redirects"]
    assert [(row["number"], row["action"], row["brokers"]) for row in rows] == [
        (1, "rotate", "1->2"),
        (2, "rotate", "1->2"),
    ]


def test_a_table_is_added_by_declaring_it(document: dict[str, Any]) -> None:
    [row] = document["longest"]
    assert row == {"run": "run", "partition": 0, "broker": 1, "longest_ms": 600.0}
    assert document["tables"]["longest"]["keys"] == ["run", "partition", "broker"]
    shown = analysis_tables(document, ["longest"])
    assert [table.title for table in shown] == ["The longest waits"]
    assert list(shown[0].titles) == ["run", "partition", "broker", "longest ms"]
    assert shown[0].rows == (("run", "0", "1", 600.0),)
    for unknown in ("moon", "topic"):
        with pytest.raises(UsageError, match=unknown):
            Question((unknown,), tables=(LONGEST,))
    page = "## longest\n\nHow long.\n\nKeys\n\n| column |\n"
    assert written_into(page, (LONGEST,)).splitlines()[4:] == [
        "Keys for `--by`: `run`, `partition`. Always there: `broker`.",
        "",
        "| column | what it is |",
        "|---|---|",
        "| `longest_ms` | from the intended time to the acknowledgement |",
    ]


def test_a_table_shows_its_first_rows_and_says_how_many_it_has(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [batch(n, 10, n) | {"partition": 99 - n} for n in range(100)]
    write_run(tmp_path / "run", {}, batches=rows)
    question = Question(("partition",), most_rows=7)
    saved = tmp_path / "saved"
    document = analyse_runs(spark, [str(tmp_path / "run")], question, save_to=str(saved))
    about = document["tables"]["records"]
    assert (about["rows"], about["shown"]) == (100, 7)
    assert [row["partition"] for row in document["records"]] == list(range(7))
    assert pq.read_table(saved / "records").num_rows == 100
    # All tables are there, those without rows too: their columns do not hang on the run.
    assert {path.name for path in saved.iterdir()} == {table.name for table in TABLES}
    assert pq.read_table(saved / "redirects").num_rows == 0
    with pytest.raises(UsageError, match="--limit"):
        Question(most_rows=0)


def test_what_there_is_no_table_by_is_refused() -> None:
    with pytest.raises(UsageError, match="moon"):
        Question(("run", "moon"))
    with pytest.raises(UsageError, match="--window"):
        Question(("run",), window_us=0)
