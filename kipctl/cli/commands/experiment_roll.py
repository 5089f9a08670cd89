"""`kipctl experiment roll`: what it costs clients that every broker is restarted in turn."""

from functools import partial
from typing import Annotated

from kipctl.cli.commands.experiment_options import ExperimentOptions, on_stand, whole_numbers
from kipctl.cli.environment import Environment
from kipctl.cli.options import duration_option, finite, option
from kipctl.durations import Duration
from kipctl.errors import UsageError

_ACKS = ("all", "1")


def roll(
    environment: Environment,
    shared: ExperimentOptions,
    arms: Annotated[
        str, option("Clients, one after the other: see experiment redirect.", value="ARM,...")
    ] = "probe-baseline,probe-kip951",
    acks: Annotated[str, option("Of the producer: all, 1, or both.", value="all,1")] = "all,1",
    partitions: Annotated[
        str, option("Of the topic; several are cells. Default: 108.", value="N,...")
    ] = "",
    restarts: Annotated[int, option("Brokers restarted in each run; 0 for all.")] = 0,
    kill: Annotated[bool, option("Kill brokers (SIGKILL), as when a machine fails.")] = False,
    every: Annotated[
        Duration | None, duration_option("From a broker's return to the next restart. Default: 2s.")
    ] = None,
    scale: Annotated[
        str,
        option(
            "A workload of KIP-951's own: its partitions, rate, size and intervals.",
            value="default|kip-low|kip-high",
        ),
    ] = "default",
    throughput: Annotated[
        float | None, option("Records per second. Default: 500.", callback=finite)
    ] = None,
    record_size: Annotated[int | None, option("Bytes of a record. Default: 1000.")] = None,
    runs: Annotated[int | None, option("Of each arm, in turn. Default: 3.")] = None,
    workers: Annotated[
        int,
        option(
            "Share a probe arm's producer, and its consumer, among N processes (Spark).", value="N"
        ),
    ] = 1,
) -> None:
    """Restart brokers one by one under load, and show what that costs producer and consumer.

    For each restart: how long batches took to fail, and the p99 of produce and end to end while
    leaders move away and back. Beside it stands what KIP-951 published. It needs a lab: its own, or
    one that --bootstrap-server names.
    """
    from kipctl.experiments.arms.names import parse_arms
    from kipctl.experiments.roll.experiment import run_roll
    from kipctl.experiments.roll.plan import SCALES, RollPlan, nodes_of, sizes
    from kipctl.report.experiment_roll_tables import roll_answer, roll_tables

    chosen = tuple(dict.fromkeys(acks.split(",")))
    if wrong := set(chosen) - set(_ACKS):
        raise UsageError(f"--acks {min(wrong)!r}: it must be all, 1, or all,1.")
    if scale != "default" and scale not in SCALES:
        raise UsageError(f"--scale is {scale}; it is default, {' or '.join(SCALES)}.")
    if shared.quick and scale != "default":
        raise UsageError(f"--quick and --scale {scale} cannot both be.")
    cells = whole_numbers(partitions, "--partitions") if partitions else None
    given = {
        "partitions": cells[: 1 if shared.quick else None] if cells else None,
        "runs": 1 if shared.quick and runs is None else runs,
        "settle_s": every,
        "throughput": throughput,
        "record_size": record_size,
    }
    plan = RollPlan(
        arms=parse_arms(arms),
        acks=chosen[-1:] if shared.quick else chosen,
        broker_warmup_s=4 if shared.quick else 10,
        restarts=restarts or (1 if shared.quick else 0),
        controlled=not kill,
        workers=workers,
        **sizes(scale, given),
    )
    measure = on_stand(
        shared.place(environment, nodes_of(scale)), plan.arms, partial(run_roll, plan)
    )
    shared.report(environment, "experiment roll", measure, roll_answer, roll_tables)
