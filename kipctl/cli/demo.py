"""`kipctl demo`: a cluster, rotations under load, and what each way to the new leader cost."""

from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from kipctl.cli.environment import Environment
from kipctl.cli.options import OutputOption
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report, Table


def demo(context: typer.Context, output: OutputOption = OutputFormat.AUTO) -> None:
    """Start a cluster, rotate leaders under load, and show where each redirect's time went.

    The traces of all runs then go through the Spark pipeline. It takes about three minutes, needs
    no cluster, and leaves nothing behind.
    """
    from kipctl.experiments.conduct import Listeners
    from kipctl.experiments.demo import DemoPlan, compare, findings
    from kipctl.lab.cluster import Lab
    from kipctl.lab.properties import LabSpec, suits_c1
    from kipctl.pipeline.analysis import Question, analyse_runs
    from kipctl.pipeline.session import spark_session
    from kipctl.report.analysis_tables import analysis_tables
    from kipctl.report.demo_tables import arms_table

    environment: Environment = context.obj
    arms = []
    tables: list[Table] = []
    with TemporaryDirectory(prefix="kipctl-") as scratch:
        spec = LabSpec(name="demo", c1_only=suits_c1(nodes=4), of_a_run=True)
        lab = Lab.up(spec, environment.message)
        try:
            for acks in ("1", "all"):
                listeners = Listeners(environment.message)
                compared = compare(lab.access, acks, DemoPlan(), listeners, Path(scratch))
                documents = [arm.as_document() for arm in compared]
                arms += documents
                tables.append(arms_table(documents, findings(compared)))
        finally:
            environment.message("Stopping the cluster.")
            lab.down()
        with (
            environment.progress("Reading the traces of all runs with Spark.") as progress,
            spark_session(progress=progress, is_light=True) as spark,
        ):
            pipeline = analyse_runs(spark, [scratch], Question(("arm",)))
    document = {"kafka_version": lab.kafka_version, "arms": arms, "pipeline": pipeline}
    tables += analysis_tables(pipeline, ("moves", "records", "latency", "redirects", "metadata"))
    environment.report(Report("demo", document, tuple(tables)), output)
