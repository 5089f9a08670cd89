"""`kipctl report`: recorded runs as one HTML page to look at."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from kipctl.cli.environment import Environment
from kipctl.cli.options import (
    BeforeOption,
    OutputOption,
    SinceOption,
    SparkOptions,
    argument,
    option,
    started_spark,
)
from kipctl.pipeline.place import Place
from kipctl.report.formats import OutputFormat
from kipctl.report.html.file import check_html, write_page
from kipctl.report.tables import Paragraph, Report, Tone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kipctl.documents.analysis import NamedComparison, ReportDocument
    from kipctl.documents.pages import RunPictures
    from kipctl.pipeline.period import Period

_ENOUGH_ARMS = range(2, 5)


def report(
    environment: Environment,
    run: Annotated[list[str], argument("RUN...", "Names in the run store, or folders.")],
    on: SparkOptions,
    html: Annotated[
        Path | None, option("The page. Default: report-RUN.html in this folder.", value="FILE")
    ] = None,
    svg: Annotated[str | None, option("Write each picture there too, as SVG.", value="DIR")] = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Recorded runs as one HTML page: what happened when leaders moved, in pictures and tables.

    It needs no network and no script. Latency, leaders, actions and Metadata requests stand on one
    time axis; then the waits for moved leaders by arm, latencies, causes, racks, the slowest
    redirected batches by phase, all tables of `kipctl analyze`, and for two to four arms of three
    or more runs each the verdicts of `kipctl runs compare`.
    """
    from kipctl.pipeline.period import parse_period
    from kipctl.pipeline.preflight import check_runs, check_save
    from kipctl.trace.stored_runs import path_of

    place = on.place
    period = parse_period(since, before)
    paths = [path_of(text, environment.variables) for text in run]
    check_runs(paths)
    file = check_html(html or Path(f"report-{_file_name(run[0])}.html"))
    check_save(svg, "--svg")
    document = report_runs(environment, paths, file, place, period, svg)
    care = Paragraph("Read with care:", tuple(document["doubts"]), Tone.WARNING)
    opening = (Paragraph(document["answer"]), *([care] if document["doubts"] else []))
    closing = (f"Open it in a browser: {file}",)
    environment.report(Report("report", document, closing=closing, opening=opening), output)


def report_runs(
    environment: Environment,
    paths: Sequence[str],
    file: Path,
    place: Place,
    period: "Period | None" = None,
    svg: str | None = None,
    result: Report | None = None,
) -> "ReportDocument":
    """Write the page of recorded runs, by Spark at `place`, and its pictures into the folder `svg`;
    the page begins with the `result` of their experiment. What was written, and its answer.
    Raises what Spark does."""
    from kipctl.pipeline.period import ALWAYS
    from kipctl.pipeline.pictures import report_document

    with started_spark(environment, place, paths) as spark:
        document = report_document(spark, paths, period or ALWAYS)
        comparisons = _comparisons(spark, document)
    return write_page(file, document, comparisons, svg, result)


def _file_name(run: str) -> str:
    """A run's name, or the last part of its folder, for a file's."""
    last = run.rstrip("/").rpartition("/")[2]
    kept = "".join(c if c.isalnum() or c in "._+=@-" else "-" for c in last)
    return kept.strip("-.") or "runs"


def _comparisons(spark: "SparkSession", document: "RunPictures") -> "list[NamedComparison]":
    """The first arm against each other, where there are few, each with runs enough."""
    from kipctl.pipeline.compare import compare
    from kipctl.pipeline.inputs import open_runs
    from kipctl.report.comparison import comparison_document
    from kipctl.verdict import LEAST_RUNS

    by_arm: dict[str, list[str]] = {}
    for run, opened in zip(document["runs"], document["analysis"]["runs"], strict=True):
        by_arm.setdefault(run["arm"], []).append(opened["path"])
    if len(by_arm) not in _ENOUGH_ARMS or min(map(len, by_arm.values())) < LEAST_RUNS:
        return []
    (first, of_first), *others = by_arm.items()
    a = open_runs(spark, of_first)
    comparisons: list[NamedComparison] = []
    for arm, paths in others:
        b = open_runs(spark, paths)
        compared = comparison_document(a, b, compare(a, b), (first, arm))
        comparisons.append({**compared, "names": (first, arm), "gates": []})
    return comparisons
