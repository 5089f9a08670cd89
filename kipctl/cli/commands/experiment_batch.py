"""`kipctl experiment batch`: batch size against time, and against what clients wait."""

from functools import partial
from typing import Annotated, Any

from kipctl.cli.commands.experiment_options import ExperimentOptions, on_stand
from kipctl.cli.environment import Environment
from kipctl.cli.options import LeaderDiscoveryOption, RecordSizeOption, finite, option
from kipctl.probe.leadership import LeaderDiscovery


def batch(
    environment: Environment,
    shared: ExperimentOptions,
    batches: Annotated[
        str, option("Leaders moved at a time; all: at once.", value="N,...")
    ] = "1,5,20,all",
    runs: Annotated[int, option("Of each batch size, sizes taking turns.")] = 3,
    rotations: Annotated[int | None, option("Of all leaders, in each run. Default: 3.")] = None,
    partitions: Annotated[
        int | None, option("Of the topic, all of whose leaders rotate. Default 60.")
    ] = None,
    throughput: Annotated[
        float | None,
        option("Records per second. Default: 150 for each core, up to 1500.", callback=finite),
    ] = None,
    record_size: RecordSizeOption = 1000,
    acks: Annotated[str, option("Of the producer.", value="all|1")] = "all",
    leader_discovery: LeaderDiscoveryOption = LeaderDiscovery.KIP951,
) -> None:
    """How many leaders to move at a time: batch size against time and what clients wait.

    All leaders of a topic made for it rotate in batches of each size while a producer writes to
    every partition: how long a rotation takes, the latency meanwhile, and the wait for each moved
    leader that was met. Choose --batch of `kipctl reassign` by it.
    """
    from kipctl.experiments.batch.experiment import run_batches
    from kipctl.experiments.batch.plan import PARTITIONS, BatchPlan, parse_sizes
    from kipctl.report.experiment_batch_tables import batch_answer, batch_tables

    given: dict[str, Any] = {"rotations": 1, "partitions": 30, "broker_warmup_s": 5.0}
    given = given if shared.quick else {}
    chosen = {"rotations": rotations, "partitions": partitions, "throughput": throughput}
    given |= {name: value for name, value in chosen.items() if value is not None}
    plan = BatchPlan(
        sizes=parse_sizes(batches, given.get("partitions", PARTITIONS)),
        runs=runs,
        record_size=record_size,
        acks=acks,
        discovery=leader_discovery,
        **given,
    )
    measure = on_stand(shared.place(environment), (), partial(run_batches, plan))
    shared.report(
        environment, "experiment batch", measure, lambda shown: (batch_answer(shown),), batch_tables
    )
