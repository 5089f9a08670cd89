"""`kipctl experiment roll`: what clients feel when every broker is restarted in turn."""

from typing import Annotated

import typer

from kipctl.cli.environment import Environment
from kipctl.cli.experiment_options import (
    ExperimentBootstrapOption,
    LabBrokersOption,
    LabControllersOption,
    QuickOption,
    RecordRunsOption,
    RunsOption,
    run_folders,
    whole_numbers,
)
from kipctl.cli.options import OutputOption, RecordSizeOption, ThroughputOption
from kipctl.errors import UsageError
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report

_ACKS = ("all", "1")


def roll(
    context: typer.Context,
    arms: Annotated[
        str,
        typer.Option(
            "--arms",
            metavar="ARM,...",
            help="Clients, one after the other: see experiment redirect.",
        ),
    ] = "probe-baseline,probe-kip951",
    acks: Annotated[
        str, typer.Option("--acks", metavar="all,1", help="Of the producer: all, 1, or both.")
    ] = "all,1",
    partitions: Annotated[
        str, typer.Option("--partitions", metavar="N,...", help="Of the topic; several are cells.")
    ] = "100,6",
    restarts: Annotated[
        int, typer.Option("--restarts", help="Brokers restarted in each run; 0 for all.")
    ] = 0,
    uncontrolled: Annotated[
        bool, typer.Option("--uncontrolled", help="Kill brokers, as when a machine fails.")
    ] = False,
    throughput: ThroughputOption = 500,
    record_size: RecordSizeOption = 1000,
    runs: RunsOption = 1,
    quick: QuickOption = False,
    brokers: LabBrokersOption = 3,
    controllers: LabControllersOption = 1,
    record: RecordRunsOption = None,
    bootstrap_server: ExperimentBootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Restart brokers one by one under load, and show what that costs producer and consumer.

    For each restart: how long batches took to fail, and the p99 of produce and end to end while
    leaders move away and back. Beside it stands what KIP-951 published. It needs a lab: its own, or
    one that --bootstrap-server names.
    """
    from kipctl.experiments.arms.arm import parse_arms
    from kipctl.experiments.arms.stand import Place, standing
    from kipctl.experiments.roll.experiment import RollPlan, run_roll
    from kipctl.report.experiment_roll_tables import roll_tables

    environment: Environment = context.obj
    chosen = tuple(dict.fromkeys(acks.split(",")))
    if wrong := set(chosen) - set(_ACKS):
        raise UsageError(f"--acks {min(wrong)!r}: it must be all, 1, or all,1.")
    plan = RollPlan(
        arms=parse_arms(arms),
        acks=chosen[-1:] if quick else chosen,
        partitions=whole_numbers(partitions, "--partitions")[: 1 if quick else None],
        runs=runs,
        broker_warmup_s=4 if quick else 10,
        restarts=restarts or (1 if quick else 0),
        controlled=not uncontrolled,
        throughput=throughput,
        record_size=record_size,
    )
    folder = run_folders(record, environment.variables)
    place = Place(bootstrap_server, brokers, controllers)
    with standing(place, plan.arms, environment.message) as stand:
        document = run_roll(plan, stand, folder, environment.message)
    environment.report(Report("experiment roll", document, roll_tables(document)), output)
