"""A question about a trace, and the tables that answer it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from kipctl.documents.analysis import AnalysedRun, AnalysisDocument
from kipctl.documents.pages import Rows
from kipctl.errors import UsageError
from kipctl.pipeline.concurrent import all_at_once
from kipctl.pipeline.inputs import open_runs
from kipctl.pipeline.period import ALWAYS, Period
from kipctl.pipeline.recorded_runs import RecordedRun
from kipctl.pipeline.saving import make_new, written
from kipctl.pipeline.table import Source, Table
from kipctl.pipeline.tables import TABLES, keys_of
from kipctl.trace.settings import end_of

Make = Callable[[], DataFrame]
"""How a table is made: Spark looks at a plan as it grows, and that takes as long as the work."""

MOST_ROWS = 10_000
"""Rows of a table that are shown, unless it is asked for more or fewer."""
_FIRST = ("actions", "redirects", "latency", "metadata")
"""What takes longest is begun first."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to break the tables down by; `window_us` is the length of a `window`.

    Of each table the first `most_rows` are shown.
    """

    by: tuple[str, ...] = ("run", "arm")
    window_us: int = 10_000_000
    most_rows: int = MOST_ROWS
    tables: tuple[Table, ...] = TABLES

    def __post_init__(self) -> None:
        """Raises UsageError for what there is no table by."""
        known = keys_of(self.tables)
        if unknown := [name for name in self.by if name not in known]:
            raise UsageError(
                f"--by {', '.join(unknown)}: there is no table by that.",
                f"Known: {', '.join(known)}.",
            )
        if self.window_us <= 0:
            raise UsageError("--window must be above 0.")
        if self.most_rows <= 0:
            raise UsageError("--limit must be above 0.")


@dataclass(frozen=True, slots=True)
class Answer:
    """The first rows of a table, in order of their columns from the left; its schema and size."""

    rows: Rows
    schema: StructType
    total: int


def makes(source: Source, question: Question, *, whole: bool = False) -> dict[str, Make]:
    """How the tables are made, by name; their columns are in docs/pipeline.md.

    Those of datasets that no run has are left out, unless it is to be the `whole` of them.
    """
    slowest_first = sorted(question.tables, key=lambda table: table.name not in _FIRST)
    return {
        table.name: partial(table.documented, source, table.keys(question.by))
        for table in slowest_first
        if whole or table.dataset in source.trace.present
    }


def collected(tables: Mapping[str, Make]) -> dict[str, Answer]:
    """All that the tables hold, each made and computed in a thread of its own, some at once."""
    return all_at_once({name: partial(_answer, make) for name, make in tables.items()})


def _answer(make: Make) -> Answer:
    table = make()
    rows = _in_order(table.collect())
    return Answer(rows, table.schema, len(rows))


def first_rows(make: Make, keys: Sequence[str], most: int) -> Answer:
    """The first rows of a table by its keys: no more of them come here than are shown."""
    table = make()
    rows = table.orderBy(*keys).limit(most + 1).collect() if keys else table.collect()
    total = len(rows) if len(rows) <= most else table.count()
    return Answer(_in_order(rows[:most]), table.schema, total)


def _in_order(rows: Iterable[Row]) -> Rows:
    return sorted((row.asDict(recursive=True) for row in rows), key=_order)


def _order(row: Mapping[str, Any]) -> list[tuple[bool, str, float, str]]:
    """Sorts numbers as numbers, names as names, and nulls first."""
    return [
        (value is not None, type(value).__name__, value, "")
        if isinstance(value, int | float)
        else (value is not None, type(value).__name__, 0, str(value))
        for value in row.values()
    ]


def analyse_runs(
    spark: SparkSession,
    paths: Sequence[str],
    question: Question = Question(),
    period: Period = ALWAYS,
    save_to: str | None = None,
) -> AnalysisDocument:
    """The document of `analyze --output json`: the runs, and the rows of every table.

    `tables` says of each its title, its keys, how many `rows` it has and how many are `shown`. With
    `save_to` all of their rows are written there, each table as a folder of Parquet. Raises what
    `open_runs` raises, and UsageError when `save_to` is there already.
    """
    trace = open_runs(spark, paths)
    if save_to:
        make_new(spark, save_to)
    return analysed(Source(trace, period, question.window_us), question, save_to)


def analysed(source: Source, question: Question, save_to: str | None = None) -> AnalysisDocument:
    """The document of `analyse_runs`, of runs that are open; the folder `save_to` is there.

    Raises UsageError for a period that holds nothing.
    """
    keys = {table.name: table.key_columns(question.by) for table in question.tables}
    asked = {}
    for name, make in makes(source, question, whole=bool(save_to)).items():
        made = partial(_saved, make, f"{save_to.rstrip('/')}/{name}") if save_to else make
        asked[name] = partial(first_rows, made, keys[name], question.most_rows)
    answers = all_at_once(asked)
    if source.period != ALWAYS and not any(answer.rows for answer in answers.values()):
        raise UsageError(
            "Nothing of these runs lies in the period.",
            "Times without a date count from each run's start; see --since and --before.",
        )
    document = {
        "runs": [_described(run) for run in source.trace.runs],
        "by": list(question.by),
        "window_ms": question.window_us / 1000,
        "tables": {
            table.name: {
                "title": table.title,
                "keys": keys[table.name],
                "rows": answers[table.name].total if table.name in answers else 0,
                "shown": len(answers[table.name].rows) if table.name in answers else 0,
            }
            for table in question.tables
        },
        **{
            table.name: answers[table.name].rows if table.name in answers else []
            for table in question.tables
        },
    }
    return cast(AnalysisDocument, document)  # its keys are the names of the tables


def _described(run: RecordedRun) -> AnalysedRun:
    description = run.description
    return {
        "run": run.name,
        "path": run.path,
        "started": description.get("started"),
        "command": description.get("command"),
        "leader_discovery": description.get("leader_discovery"),
        "throughput": description.get("throughput"),
        "acks": description.get("producer", {}).get("acks"),
        "failure": description.get("failed"),
        "is_stopped": bool(description.get("stopped")),
        "end_of": end_of(description),
    }


def _saved(make: Make, folder: str) -> DataFrame:
    return written(make(), folder)
