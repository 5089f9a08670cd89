"""`kipctl experiment redirect`: KIP-951's micro-benchmark, for the probe and for other clients."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from kipctl.cli.environment import Environment
from kipctl.cli.experiment_options import Document, ExperimentOptions, Folders, Message
from kipctl.cli.options import RecordSizeOption, duration_option, pause_option
from kipctl.durations import Duration
from kipctl.errors import UsageError
from kipctl.next_step import Command


def redirect(
    environment: Environment,
    shared: ExperimentOptions,
    arms: Annotated[
        str | None,
        typer.Option(
            metavar="ARM,...",
            help="Clients under test: probe-kip951|refresh|baseline, java-X.Y.Z with -capped or "
            "-unhinted, librdkafka with -Nms (its backoff).",
        ),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Of each arm, in turn. Default: 3.")] = None,
    acks: Annotated[
        str | None,
        typer.Option(metavar="1|all", help="Of every client. Default: 1; with --scale kip all."),
    ] = None,
    num_records: Annotated[
        int | None, typer.Option(help="In a run. Default: enough for 4 rotations.")
    ] = None,
    throughput: Annotated[
        int | None, typer.Option(help="Records per second. Default: 150 for each core, up to 1500.")
    ] = None,
    record_size: RecordSizeOption = 1000,
    partitions: Annotated[
        int, typer.Option(help="Of the topic, all of whose leaders rotate.")
    ] = 100,
    every: Annotated[
        Duration | None,
        duration_option(
            "--every", "Between two rotations. Default: 2.5s, or what stale Metadata needs."
        ),
    ] = None,
    metadata_delay: Annotated[
        Duration, pause_option("--metadata-delay", "Hold answers to Metadata so long.")
    ] = Duration(0),
    stale_metadata: Annotated[
        Duration,
        pause_option(
            "--stale-metadata",
            "For so long after a change, let Metadata show the leaders of before.",
        ),
    ] = Duration(0),
    gain_curve: Annotated[
        bool, typer.Option(help="Measure with Metadata stale for 0, 100, 300 and 1000 ms.")
    ] = False,
    predict: Annotated[
        bool, typer.Option(help="Measure how stale Metadata gets here, and say what hints save.")
    ] = False,
    curve: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="For --predict: the gain curve recorded by that name."),
    ] = None,
    scale: Annotated[
        str, typer.Option(metavar="default|kip", help="kip: the KIP's own numbers.")
    ] = "default",
) -> None:
    """KIP-951's micro-benchmark: what it costs producers that all leaders of a topic rotate.

    Every client sends the same load through a tap of its own, in turn, and is measured there by
    the same rule. The result stands beside the published one, with what is set up otherwise.
    """
    from kipctl.experiments.arms.arm import parse_arms
    from kipctl.experiments.arms.tapped import Conditions
    from kipctl.experiments.redirect.experiment import Question, experiment
    from kipctl.experiments.redirect.gain_curve import STALENESS_MS
    from kipctl.experiments.redirect.plan import Scale, nodes_of, planned
    from kipctl.report.experiment_tables import redirect_answer, redirect_tables

    if scale not in ("default", "kip"):
        raise UsageError(f"--scale is {scale}; it is default or kip.")
    if shared.quick and scale == "kip":
        raise UsageError("--quick and --scale kip cannot both be.")
    if curve and not predict:
        raise UsageError("--curve is for --predict.")
    if curve and shared.html:
        raise UsageError(
            "--html shows what is measured here, and with --curve nothing is.",
            "A page of the curve: " + Command("report"),
        )
    size = Scale.QUICK if shared.quick else Scale(scale)
    conditions = Conditions(metadata_delay.us, stale_metadata.us)
    gain_curve = gain_curve or (predict and not curve)
    if gain_curve and conditions.stale_metadata_us:
        raise UsageError("A gain curve has its own staleness.", "Leave --stale-metadata out.")
    given = {
        "arms": None if arms is None else parse_arms(arms),
        "runs": runs,
        "acks": acks,
        "num_records": num_records,
        "throughput": throughput,
        "record_size": record_size,
        "partitions": partitions,
        "every_s": every,
    }

    def measure(record: Folders, message: Message) -> Document:
        stalest_us = 1000 * max(STALENESS_MS) if gain_curve else 0
        question = Question(
            plan=planned(size, given, conditions, stalest_us),
            place=shared.place(environment, nodes_of(size), makes_lab=not predict),
            gain_curve=gain_curve,
            predict=predict,
            curve=_recorded(curve, environment.variables) if curve else (),
            record=record,
        )
        return experiment(question, message)

    shared.report(environment, "experiment redirect", measure, redirect_answer, redirect_tables)


def _recorded(curve: str, variables: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders of the whole runs that were recorded by that name, or in that folder.

    Raises UsageError when there is none.
    """
    from kipctl.trace.stored_runs import folders_named, read_stored_run

    if "/" in curve:
        folders = tuple(sorted(Path(curve).glob("*")))
    else:
        folders = folders_named(f"{curve}-*", variables)
    whole = tuple(folder for folder in folders if not read_stored_run(folder).flaw)
    if not whole:
        raise UsageError(
            f"No whole run is recorded as {curve!r}.",
            "Record a curve: " + Command("experiment redirect --gain-curve --record NAME"),
        )
    return whole
