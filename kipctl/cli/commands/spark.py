"""`kipctl spark`: a Spark JVM that is kept warm between analyses."""

from typing import Annotated

from kipctl.cli.environment import Environment
from kipctl.cli.grouped import Commands
from kipctl.cli.options import ConfOption, OutputOption, duration_option, option
from kipctl.durations import Duration
from kipctl.next_step import Command
from kipctl.report.formats import OutputFormat
from kipctl.report.warm_jvm_tables import warm_jvm_report

app = Commands(
    "analyze and runs compare use it by themselves, one at a time, where Java, Spark and "
    "settings are those it was started with; else they start their own."
)
IdleTimeoutOption = Annotated[
    Duration, duration_option("It ends when nobody has used it for so long.")
]

ForceOption = Annotated[bool, option("End it also while an analysis uses it, which fails then.")]


@app.command()
def start(
    environment: Environment,
    conf: ConfOption = None,
    idle_timeout: IdleTimeoutOption = Duration(600),
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Start a JVM that waits for analyses; it takes up to 2 GB, or spark.driver.memory."""
    from kipctl.extras import require
    from kipctl.pipeline import warm
    from kipctl.pipeline.place import Place, parse_conf

    require("pyspark", "This command")
    place = Place(conf=parse_conf(conf or []))
    with environment.progress("Starting Spark."):
        status = warm.start(place, idle_timeout)
    if status.idle_timeout_s != idle_timeout:
        environment.message(
            f"One runs already, and ends after {status.idle_timeout_s:.0f} s without use. "
            "For another time end it first: " + Command("spark stop") + "."
        )
    environment.report(warm_jvm_report("spark start", status), output)


@app.command()
def status(environment: Environment, output: OutputOption = OutputFormat.AUTO) -> None:
    """Say what JVM is kept warm: its processes, memory and last use."""
    from kipctl.pipeline import warm

    now, is_starting = warm.status(), warm.is_starting()
    environment.report(warm_jvm_report("spark status", now, is_starting=is_starting), output)


@app.command()
def stop(environment: Environment, force: ForceOption = False) -> None:
    """End the JVM that is kept warm, and wait until it is gone."""
    from kipctl.pipeline import warm

    ended = warm.stop(force=force)
    environment.message("It has ended." if ended else "No JVM is kept warm.")
