"""`kipctl analyze`: recorded runs and broker request logs into tables, on Spark."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kipctl.cli.environment import Environment
from kipctl.cli.options import OutputOption
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report


class _RunsUnlessNamed(TyperGroup):
    """`analyze RUN` is `analyze runs RUN`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["runs", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RunsUnlessNamed,
    help="Compute tables from recorded runs or from brokers' request logs, of any size, on Spark.",
    no_args_is_help=True,
)

MasterOption = Annotated[
    str,
    typer.Option(
        "--master", metavar="URL", help="Where Spark runs: local[N], spark://HOST:PORT, yarn, ..."
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Leave out what is earlier: 10s after the start, or a time."
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Leave out what is later.")
]
SaveOption = Annotated[
    str | None,
    typer.Option("--save", metavar="DIR", help="Write the tables there too, as Parquet."),
]


@app.command()
def runs(
    context: typer.Context,
    run: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Names in the run store, or folders.")
    ],
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="KEY,...",
            help="Break down by run, arm, client, topic, partition, broker, window, action, "
            "brokers; each table by those it has. Default: run,arm.",
        ),
    ] = None,
    window: Annotated[
        str, typer.Option("--window", metavar="DURATION", help="Length of a window of --by window.")
    ] = "10s",
    master: MasterOption = "local[*]",
    since: SinceOption = None,
    until: UntilOption = None,
    save: SaveOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Exact latency, redirects, RPCs, reads and actions of recorded runs.

    A folder of runs stands for all of them; paths may be anything that Spark reads.
    """
    environment: Environment = context.obj
    from kipctl.pipeline.analysis import Question, analyse_runs
    from kipctl.pipeline.period import duration_us, parse_period
    from kipctl.pipeline.session import spark_session
    from kipctl.report.analysis_tables import analysis_tables
    from kipctl.trace.runs import path_of

    keys = tuple(name.strip() for text in by or ["run,arm"] for name in text.split(","))
    question = Question(keys, duration_us("--window", window))
    period = parse_period(since, until)
    paths = [path_of(text) for text in run]
    with (
        environment.progress(f"Starting Spark on {master}.") as progress,
        spark_session(master, progress) as spark,
    ):
        document = analyse_runs(spark, paths, question, period, save)
    environment.report(Report("analyze", document, analysis_tables(document)), output)
