"""`kipctl demo`: a cluster, rotations under load, and what each way to the new leader felt."""

import typer

from kipctl.cli.environment import Environment
from kipctl.cli.options import OutputOption
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report


def demo(context: typer.Context, output: OutputOption = OutputFormat.AUTO) -> None:
    """Start a cluster, rotate leaders under load, and show where each redirect's time went.

    It takes about three minutes, needs no cluster, and leaves nothing behind.
    """
    from kipctl.experiments.demo import DemoPlan, compare, findings
    from kipctl.experiments.perf import Listeners
    from kipctl.lab.cluster import Lab
    from kipctl.lab.properties import LabSpec
    from kipctl.report.demo_tables import arms_table

    environment: Environment = context.obj
    lab = Lab.up(LabSpec(name="demo"), environment.message)
    arms = []
    tables = []
    try:
        for acks in ("1", "all"):
            compared = compare(
                lab.bootstrap_server, acks, DemoPlan(), Listeners(environment.message)
            )
            documents = [arm.as_document() for arm in compared]
            arms += documents
            tables.append(arms_table(documents, findings(compared)))
    finally:
        environment.message("Stopping the cluster.")
        lab.down()
    document = {"kafka_version": lab.kafka_version, "arms": arms}
    environment.report(Report("demo", document, tuple(tables)), output)
