"""`kipctl analyze`: recorded runs and broker request logs into tables, on Spark."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from typer.core import TyperGroup

from kipctl.cli.combinations import combined
from kipctl.cli.environment import Environment
from kipctl.cli.grouped import Commands
from kipctl.cli.options import (
    BeforeOption,
    HtmlOption,
    OutputOption,
    SinceOption,
    SparkOptions,
    TimezoneOption,
    argument,
    duration_option,
    finite,
    option,
    started_spark,
)
from kipctl.counts import counted
from kipctl.durations import Duration
from kipctl.errors import KipctlError
from kipctl.pipeline.keys import LOG_KEYS, RUN_KEYS
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report, paragraphs

if TYPE_CHECKING:
    from kipctl.documents.analysis import RequestLogAnalysis
    from kipctl.pipeline.request_log.follow import Following, Look


class _RunsUnlessNamed(TyperGroup):
    """`analyze RUN` is `analyze runs RUN`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["runs", *args]
        return super().parse_args(ctx, args)


app = Commands(
    "Of recorded runs: kipctl analyze RUN... (`kipctl analyze runs --help` has its options).",
    "Of brokers' logs: kipctl analyze request-log PATH...",
    cls=_RunsUnlessNamed,
    subcommand_metavar="{RUN... | request-log PATH...}",
)

SaveOption = Annotated[str | None, option("Write the tables there too, as Parquet.", value="DIR")]


@app.command()
def runs(
    environment: Environment,
    run: Annotated[list[str], argument("RUN...", "Names in the run store, or folders.")],
    on: SparkOptions,
    by: Annotated[
        list[str] | None,
        option(
            f"Break down by {', '.join(RUN_KEYS)}; each table by those it has. Default: run,arm.",
            value="KEY,...",
        ),
    ] = None,
    window: Annotated[Duration, duration_option("Length of a window of --by window.")] = Duration(
        10
    ),
    limit: Annotated[int, option("Show so many rows of a table at most.", value="ROWS")] = 10_000,
    since: SinceOption = None,
    before: BeforeOption = None,
    save: SaveOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Exact latency, redirects, RPCs, reads and actions of recorded runs.

    A folder of runs stands for all of them; paths may be anything that Spark reads.
    """
    from kipctl.pipeline.analysis import Question, analyse_runs
    from kipctl.pipeline.period import parse_period
    from kipctl.pipeline.preflight import check_runs, check_save
    from kipctl.report.analysis_tables import analysis_answer, analysis_tables
    from kipctl.trace.stored_runs import path_of

    place = on.place
    question = Question(_names(by or ["run,arm"]), window.us, limit)
    period = parse_period(since, before)
    paths = [path_of(text, environment.variables) for text in run]
    check_runs(paths)
    check_save(save)
    with started_spark(environment, place, paths) as spark:
        document = analyse_runs(spark, paths, question, period, save)
    for opened in document["runs"]:
        if failed := opened["failure"]:
            environment.message(f"{opened['run']} failed, and is analysed as it is: {failed}")
        elif opened["is_stopped"]:
            environment.message(f"{opened['run']} was interrupted, and is analysed as it is.")
        if opened["end_of"]:
            environment.message(f"{opened['run']} is the end of a longer run: {opened['end_of']}.")
    opening = (analysis_answer(document),)
    tables = analysis_tables(document)
    report = Report("analyze", document, tables, opening=opening, fits_screen=True)
    environment.report(report, output)


@app.command("request-log")
@combined(exclusive=(("--follow", "--html"), ("--follow", "--before")))
def request_log(
    environment: Environment,
    path: Annotated[list[str], argument("PATH...", "Files, folders or wildcards; .gz too; packs.")],
    on: SparkOptions,
    by: Annotated[
        list[str] | None,
        option(
            f"Break requests by API down further by {', '.join(LOG_KEYS)}.",
            value="KEY,...",
        ),
    ] = None,
    timezone: TimezoneOption = None,
    broker_at: Annotated[
        list[str] | None,
        option(
            "The broker that lines name as HOST:PORT, or HOST, where it is not found.",
            value="ADDRESS=ID",
        ),
    ] = None,
    since: Annotated[
        str | None,
        option("Leave out what is earlier than a time: 2026-01-31T12:00:00.", value="TIME"),
    ] = None,
    before: BeforeOption = None,
    price_per_gb: Annotated[
        float | None, option("Of bytes across racks.", min=0, callback=finite)
    ] = None,
    follow: Annotated[
        bool,
        option("Go on with what is written, and say what is new, until Ctrl-C."),
    ] = False,
    save: SaveOption = None,
    html: HtmlOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """What brokers' request logs say of a fleet: its clients, latency, bytes, hints, Metadata.

    Lines of `kafka.request.logger`, of Kafka 3.6 to 4.3, among any other lines. Broken ones are
    counted and shown. Paths may be anything that Spark reads.
    """
    from kipctl import __version__
    from kipctl.pipeline.period import parse_period
    from kipctl.pipeline.preflight import check_followed, check_logs, check_save
    from kipctl.pipeline.request_log import LogQuestion, analyse, read_request_log
    from kipctl.pipeline.request_log.files import check_period, parse_timezones
    from kipctl.pipeline.request_log.follow import following
    from kipctl.pipeline.request_log.over_time import over_time
    from kipctl.pipeline.request_log.places import parse_broker_at
    from kipctl.pipeline.saving import make_new
    from kipctl.report.html.file import check_html, write_html
    from kipctl.report.request_log_answer import request_log_answer
    from kipctl.report.request_log_tables import request_log_tables

    place = on.place
    if follow:
        check_followed(path, place)
    question = LogQuestion(_names(by or []), price_per_gb)
    period = check_period(parse_period(since, before))
    zones, brokers = parse_timezones(timezone or ()), parse_broker_at(broker_at or ())
    check_logs([*path, *(at for at, _ in zones.at)])
    check_save(save)
    if html:
        check_html(html)
    with started_spark(environment, place, path, ships_python=True, follows=follow) as spark:
        if save:
            make_new(spark, save)
        if follow:
            with following(spark, path, question, zones, period, brokers) as written:
                failed = _show_looks(environment, written)
                document = written.document(save)
        else:
            failed = None
            log = read_request_log(spark, path, zones, period, brokers, by_time=html is not None)
            document = analyse(log, question, save)
            in_time = over_time(log) if html else []
    for cluster in document["clusters"]:
        not_known = sum(cluster["requests_of_unknown_brokers"].values())
        if 2 * not_known > cluster["requests_served"]:
            environment.message(
                "Of most requests the broker is not known, and neither are its rack and what "
                "follows from that: name it with --broker-at ADDRESS=ID."
            )
    if html:
        from kipctl.report.html.request_log_page import request_log_page

        write_html(html, request_log_page(path, document, in_time, __version__))
        environment.message(f"Written: {html}")
    opening = paragraphs(*request_log_answer(document))
    tables = request_log_tables(document)
    report = Report("analyze request-log", document, tables, opening=opening, fits_screen=True)
    environment.report(report, output)
    if failed:
        raise failed


def _show_looks(environment: Environment, log: "Following") -> KipctlError | None:
    """Say what is new in the log, until a signal to end; returns what ended it before."""
    from kipctl.report.request_log_look import look_sentences
    from kipctl.signals import noted_signals

    before: RequestLogAnalysis | None = None

    def show(look: "Look") -> None:
        nonlocal before
        at = datetime.now().isoformat(sep=" ", timespec="seconds")
        if look.document is None:
            lines = counted(look.lines, "line")
            environment.message(f"{at} {lines}, none of them a request that was answered.")
            return
        for sentence in look_sentences(before, look.document, look.behind):
            environment.message(f"{at} {sentence}")
        before = look.document

    with noted_signals(then_raises=True) as has_ended:
        environment.message("Ctrl-C (or SIGTERM) ends it, and prints what was found.")
        return log.until(has_ended, show)


def _names(options: list[str]) -> tuple[str, ...]:
    """The names in repeated and comma-separated options."""
    return tuple(name.strip() for text in options for name in text.split(","))
