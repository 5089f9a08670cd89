"""`kipctl demo`: a cluster, rotations under load, and what each way to the new leader cost."""

from kipctl.cli.commands.experiment_options import RecordRunsOption
from kipctl.cli.environment import Environment
from kipctl.cli.options import OutputOption
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report


def demo(
    environment: Environment,
    record: RecordRunsOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Start a cluster, rotate leaders under load, and show what moved leaders cost a client.

    It takes about three minutes, needs no cluster, and leaves nothing behind but the runs that
    --record keeps.
    """
    from kipctl.experiments.arms.stand import Place
    from kipctl.experiments.demo import DemoPlan, measure_demo
    from kipctl.report.demo_tables import demo_answer, demo_closing, demo_table
    from kipctl.trace.stored_runs import run_folders

    folders = run_folders(record, environment.variables)
    with environment.progress():
        document = measure_demo(DemoPlan.usual(), Place(), folders, environment.message)
    tables, closing = (demo_table(document),), demo_closing(document, record)
    environment.report(Report("demo", document, tables, closing, demo_answer(document)), output)
