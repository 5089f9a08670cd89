"""`kipctl runs`: what was recorded, kept by name, shown, compared, exported and removed."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from kipctl.cli.environment import Environment
from kipctl.cli.grouped import Commands
from kipctl.cli.options import (
    HtmlOption,
    OutputOption,
    SparkOptions,
    YesOption,
    argument,
    option,
    started_spark,
)
from kipctl.counts import format_bytes
from kipctl.errors import PartlyDoneError, ThresholdError, UsageError
from kipctl.next_step import Command
from kipctl.report.formats import OutputFormat
from kipctl.report.html.file import check_html, write_page
from kipctl.report.tables import Report, paragraphs

if TYPE_CHECKING:
    from kipctl.documents.analysis import RemovedDocument, RemovedRun

app = Commands()

RunArgument = Annotated[
    str, argument("RUN", "A name in the run store (kipctl runs list), or a folder.")
]
_SIDE_HELP = (
    "A run, or several with commas between them: names in the store (kipctl runs list), or folders."
)


class ExportFormat(StrEnum):
    """`--format` of `runs export`."""

    ARCHIVE = "archive"
    CSV = "csv"


@app.command("list")
def list_runs(environment: Environment, output: OutputOption = OutputFormat.AUTO) -> None:
    """List the runs in the store, the latest last.

    The store is $KIPCTL_RUNS, else $XDG_STATE_HOME/kipctl/runs. `perf produce --record NAME`
    writes to it.
    """
    from kipctl.report.run_tables import list_report
    from kipctl.trace.stored_runs import runs_folder, stored_runs

    variables = environment.variables
    environment.report(list_report(runs_folder(variables), stored_runs(variables)), output)


@app.command()
def show(
    environment: Environment, run: RunArgument, output: OutputOption = OutputFormat.AUTO
) -> None:
    """Show what a run was made with and what it came to, as its last tables had it.

    JSON is all of its `run.json`. `kipctl analyze RUN` computes more.
    """
    from kipctl.report.run_tables import run_report
    from kipctl.trace.store import RUN_FILE
    from kipctl.trace.stored_runs import find_run, read_stored_run
    from kipctl.typed_json import damaged_if_unfit

    stored_run = read_stored_run(find_run(run, environment.variables).folder)
    with damaged_if_unfit(stored_run.folder / RUN_FILE):
        environment.report(run_report(stored_run, run), output)


@app.command()
def repair(
    environment: Environment, run: RunArgument, output: OutputOption = OutputFormat.AUTO
) -> None:
    """Make a run whole whose recorder was killed, or that a power cut left open.

    One that was recorded, but not evaluated, is evaluated.

    `perf produce`, `perf consume`, `perf e2e` and `tap` write down what they measure while they
    run. What was settled by then becomes the run, which says that it failed. What kipctl did to the
    cluster meanwhile is not known of such a run.
    """
    from kipctl.load.repair import left_undone
    from kipctl.load.repair import repair as repaired
    from kipctl.report.run_tables import summary_of
    from kipctl.trace.stored_runs import folder_of, read_stored_run

    folder = folder_of(run, environment.variables)
    document = repaired(folder)
    stored_run = read_stored_run(folder)
    how = f"It says: {stored_run.flaw}" if stored_run.flaw else "It is whole."
    environment.message(f"{stored_run.name} was repaired. {how}")
    for sentence in left_undone(stored_run.description or {}):
        environment.message(sentence)
    answer, tables = summary_of(stored_run)
    report = Report("runs repair", dict(document), tables, opening=answer, fits_screen=True)
    environment.report(report, output)


@app.command()
def compare(
    environment: Environment,
    a: Annotated[str, argument("A", _SIDE_HELP)],
    b: Annotated[str, argument("B", _SIDE_HELP)],
    on: SparkOptions,
    fail_if: Annotated[
        list[str] | None,
        option(
            "End with status 7 if it holds: 'p999 > +10%' (of A, and the difference is "
            "one), 'p999 > +5ms' (above A, likewise) or 'p999 > 50ms' (B alone).",
            value="CONDITION",
        ),
    ] = None,
    html: HtmlOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Compare runs measure by measure, and tell differences from chance.

    Runs vary, so give three or more for each side: 'a1,a2,a3' 'b1,b2,b3'. Settings in which they
    differ come first. Measures: move_wait_p50, move_wait_p99, moves_met (the producer's),
    read_move_wait_p50, read_move_wait_p99, read_moves_met (the consumer's), mean, p50, p95, p99,
    p999, max (of the latency), service_p99, throughput, read, failed, redirected, metadata_rpcs.
    """
    from kipctl.pipeline.compare import UNITS
    from kipctl.pipeline.compare import compare as compare_traces
    from kipctl.pipeline.gates import parse_gate
    from kipctl.pipeline.inputs import open_runs
    from kipctl.pipeline.pictures import report_document
    from kipctl.pipeline.preflight import check_runs
    from kipctl.report.comparison import comparison_document
    from kipctl.report.run_tables import compare_answer, compare_tables, run_warnings, side_names
    from kipctl.trace.stored_runs import path_of

    place = on.place
    gates = [parse_gate(text, UNITS) for text in fail_if or ()]
    paths = [[path_of(run, environment.variables) for run in _runs_of(side)] for side in (a, b)]
    if both := set(paths[0]) & set(paths[1]):
        raise UsageError(f"{min(both)} is on both sides of the comparison.")
    check_runs(paths[0] + paths[1])
    if html:
        check_html(html)
    pictured = None
    with started_spark(environment, place, paths[0] + paths[1], compiles=True) as spark:
        of_a, of_b = (open_runs(spark, side) for side in paths)
        for opened in (*of_a.runs, *of_b.runs):
            for sentence in run_warnings(opened.name, opened.description):
                environment.message(sentence)
        comparison = compare_traces(of_a, of_b)
        if html:
            names = side_names(*([run.name for run in side.runs] for side in (of_a, of_b)))
            sides = {
                run.path: name
                for side, name in zip((of_a, of_b), names, strict=True)
                for run in side.runs
            }
            pictured = report_document(spark, list(sides), arms=sides)
    by_name = {compared.measure.name: compared for compared in comparison.measures}
    holding = [gate for gate in gates if gate.trips(by_name[gate.measure].for_gates)]
    document = comparison_document(of_a, of_b, comparison) | {
        "gates": [{"condition": gate.text, "holds": gate in holding} for gate in gates]
    }
    if html and pictured:
        named = comparison_document(of_a, of_b, comparison, names)
        named["gates"] = document["gates"]
        answered = paragraphs(*compare_answer(named, names))
        tables = compare_tables(named, names)
        write_page(
            html, pictured, result=Report("runs compare", document, tables, opening=answered)
        )
        environment.message(f"Written: {html}")
    opening = paragraphs(*compare_answer(document))
    report = Report("runs compare", document, compare_tables(document), opening=opening)
    environment.report(report, output)
    if holding:
        texts = (
            gate.text + (" (nothing was measured)" if by_name[gate.measure].lacks_value else "")
            for gate in holding
        )
        raise ThresholdError(f"It holds: {'; '.join(texts)}.")


def _runs_of(side: str) -> Sequence[str]:
    names = [name for name in side.split(",") if name]
    if not names:
        raise UsageError(f"{side!r} names no run.", "See: " + Command("runs list"))
    return names


@app.command()
def export(
    environment: Environment,
    run: RunArgument,
    destination: Annotated[Path, argument("DEST", "The file or folder to make.")],
    form: Annotated[
        ExportFormat,
        option(
            "--format",
            "archive: one .tar.gz that unpacks to a run; csv: a folder with a file for each "
            "dataset, and run.json.",
        ),
    ] = ExportFormat.ARCHIVE,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Write a run to a file that can be passed on, or to CSV."""
    from kipctl.trace.stored_runs import export_archive, export_csv, find_run

    stored_run = find_run(run, environment.variables)
    write = export_archive if form is ExportFormat.ARCHIVE else export_csv
    written = write(stored_run, destination)
    document = {"run": run, "format": form.value, "file": str(destination), "bytes": written}
    opening = paragraphs(f"Exported {run} to {destination}, {format_bytes(written)}.")
    environment.report(Report("runs export", document, opening=opening), output)


@app.command()
def remove(
    environment: Environment,
    run: Annotated[list[str], argument("RUN...", "Names in the run store, or folders.")],
    yes: YesOption = False,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Remove runs from the disk. A folder that is no run is refused."""
    from kipctl.report.run_tables import removed_table
    from kipctl.trace.stored_runs import folders_named, removable
    from kipctl.trace.stored_runs import remove as remove_run

    named = (path for text in run for path in folders_named(text, environment.variables))
    stored = (removable(str(path), environment.variables) for path in named)
    stored_runs = list({each.folder: each for each in stored}.values())
    names = ", ".join(stored_run.name for stored_run in stored_runs)
    total = format_bytes(sum(stored_run.bytes for stored_run in stored_runs))
    environment.confirm(f"Remove {names} ({total})?", yes)
    removed: list[RemovedRun] = []
    for stored_run in stored_runs:
        try:
            remove_run(stored_run)
        except UsageError as refused:
            done = ", ".join(entry["name"] for entry in removed) or "nothing"
            raise PartlyDoneError(f"{refused.what} Removed before: {done}.") from refused
        removed.append(
            {"name": stored_run.name, "folder": str(stored_run.folder), "bytes": stored_run.bytes}
        )
    document: RemovedDocument = {"removed": removed}
    opening = paragraphs(f"Removed {names}, {total}.")
    report = Report("runs remove", document, (removed_table(document),), opening=opening)
    environment.report(report, output)
