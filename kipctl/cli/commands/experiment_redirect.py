"""`kipctl experiment redirect`: KIP-951's micro-benchmark, for the probe and for other clients."""

from typing import TYPE_CHECKING, Annotated

from kipctl.cli.commands.experiment_options import ExperimentOptions, Folders, Message
from kipctl.cli.environment import Environment
from kipctl.cli.options import RecordSizeOption, duration_option, option, pause_option
from kipctl.durations import Duration
from kipctl.errors import UsageError
from kipctl.next_step import Command

if TYPE_CHECKING:
    from kipctl.documents.gain_curve import PredictionDocument, RedirectDocument


def redirect(
    environment: Environment,
    shared: ExperimentOptions,
    arms: Annotated[
        str | None,
        option(
            "Clients under test: probe-kip951|refresh|baseline, java-X.Y.Z with -capped or "
            "-unhinted, librdkafka with -Nms (its backoff), those of conform list; any other, with "
            "hints and without, as mine='COMMAND {bootstrap} {topic}'.",
            value="ARM,...",
        ),
    ] = None,
    runs: Annotated[int | None, option("Of each arm, in turn. Default: 3.")] = None,
    acks: Annotated[
        str | None, option("Of every client. Default: 1; with --scale kip all.", value="1|all")
    ] = None,
    num_records: Annotated[int | None, option("In a run. Default: enough for 4 rotations.")] = None,
    throughput: Annotated[
        int | None, option("Records per second. Default: 150 for each core, up to 1500.")
    ] = None,
    record_size: RecordSizeOption = 1000,
    partitions: Annotated[int, option("Of the topic, all of whose leaders rotate.")] = 100,
    every: Annotated[
        Duration | None,
        duration_option("Between two rotations. Default: 2.5s, or what stale Metadata needs."),
    ] = None,
    metadata_delay: Annotated[
        Duration, pause_option("Hold answers to Metadata so long.")
    ] = Duration(0),
    stale_metadata: Annotated[
        Duration,
        pause_option("For so long after a change, let Metadata show the leaders of before."),
    ] = Duration(0),
    gain_curve: Annotated[
        bool, option("Measure with Metadata stale for 0, 100, 300 and 1000 ms.")
    ] = False,
    predict: Annotated[
        bool, option("Measure how stale Metadata gets here, and say what hints save.")
    ] = False,
    curve: Annotated[
        str | None, option("For --predict: the gain curve recorded by that name.", value="NAME")
    ] = None,
    scale: Annotated[str, option("kip: the KIP's own numbers.", value="default|kip")] = "default",
) -> None:
    """KIP-951's micro-benchmark: what it costs producers that all leaders of a topic rotate.

    Every client sends the same load through a tap of its own, in turn, and is measured there by
    the same rule. The result stands beside the published one, with what is set up otherwise.
    """
    from kipctl.experiments.arms.names import parse_arms
    from kipctl.experiments.arms.tapped import Conditions
    from kipctl.experiments.redirect.experiment import Question, experiment
    from kipctl.experiments.redirect.gain_curve import STALENESS_MS
    from kipctl.experiments.redirect.plan import Scale, nodes_of, planned
    from kipctl.report.experiment_tables import redirect_answer, redirect_tables
    from kipctl.trace.stored_runs import recorded_as

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
        "arms": None if arms is None else parse_arms(arms, takes_producers=True),
        "runs": runs,
        "acks": acks,
        "num_records": num_records,
        "throughput": throughput,
        "record_size": record_size,
        "partitions": partitions,
        "every_s": every,
    }

    def measure(record: Folders, message: Message) -> "RedirectDocument | PredictionDocument":
        stalest_us = 1000 * max(STALENESS_MS) if gain_curve else 0
        question = Question(
            plan=planned(size, given, conditions, stalest_us),
            place=shared.place(environment, nodes_of(size), makes_lab=not predict),
            gain_curve=gain_curve,
            predict=predict,
            curve=recorded_as(curve, environment.variables) if curve else (),
            record=record,
        )
        return experiment(question, message)

    shared.report(environment, "experiment redirect", measure, redirect_answer, redirect_tables)
