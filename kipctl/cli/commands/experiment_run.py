"""`kipctl experiment run`: a user's own experiment, from a file."""

from functools import partial
from pathlib import Path
from typing import Annotated

from kipctl.cli.commands.experiment_options import ExperimentOptions
from kipctl.cli.environment import Environment
from kipctl.cli.options import argument


def run(
    environment: Environment,
    file: Annotated[Path, argument("FILE", "TOML: see docs/experiments.md, Your own.")],
    shared: ExperimentOptions,
) -> None:
    """Your own experiment: clients, settings or versions of Kafka against each other, in turn.

    Every arm sends the same load through a tap of its own while leaders move, and is measured by
    the same rule. Each is compared with the first, with a verdict: whether they differ by more than
    runs do. It gates an upgrade of a client, or of brokers.
    """
    from kipctl.experiments.own.experiment import run_own
    from kipctl.experiments.own.file import read_experiment
    from kipctl.report.experiment_tables import own_answer, own_tables

    plan = read_experiment(file)
    if shared.quick:
        plan = plan.quick
    place = shared.place(environment, (plan.file.lab.brokers, plan.file.lab.controllers))
    shared.report(
        environment, "experiment run", partial(run_own, plan, place), own_answer, own_tables
    )
