"""`kipctl experiment closest-replica`: what reading in one's own rack saves, and what it costs."""

from functools import partial
from typing import Annotated

from kipctl.cli.commands.experiment_options import ExperimentOptions, on_stand
from kipctl.cli.environment import Environment
from kipctl.cli.options import RecordSizeOption, ThroughputOption, duration_option, option
from kipctl.durations import Duration
from kipctl.verdict import LEAST_RUNS

_QUICK_S = 8.0
_GONE_S, _GONE_KILLED_S = 5.0, 15.0
"""One that was killed is taken for alive until its session ends, by default 9 s later."""


def closest_replica(
    environment: Environment,
    shared: ExperimentOptions,
    arms: Annotated[
        str, option("Consumers; named as in experiment redirect.", value="ARM,...")
    ] = "probe-kip951,java-4.3.1,librdkafka",
    client_rack: Annotated[
        str | None, option("The consumers'; default: the first.", value="RACK")
    ] = None,
    partitions: Annotated[int, option("Of the topic.")] = 12,
    seconds: Annotated[
        Duration, duration_option("--for", "How long a run is before the rack goes.")
    ] = Duration(15),
    stay: Annotated[bool, option("Do not end the brokers of the consumer's rack.")] = False,
    kill: Annotated[bool, option("Kill them (SIGKILL), as when a machine fails.")] = False,
    throughput: ThroughputOption = 500,
    record_size: RecordSizeOption = 1000,
    runs: Annotated[int | None, option("Of each arm, in turn. Default: 3; --quick: 1.")] = None,
) -> None:
    """Read from leaders and from the closest replica, and show what that saves and costs (KIP-392).

    For each client, without and with its rack: bytes by rack, the end-to-end latency that following
    adds, and what it feels when the brokers of its rack are ended and started again (on a lab).
    """
    from kipctl.experiments.arms.names import parse_arms
    from kipctl.experiments.closest_replica.experiment import ClosestPlan, chosen_rack, run_closest
    from kipctl.report.experiment_replica_tables import replica_answer, replica_tables

    plan = ClosestPlan(
        clients=parse_arms(arms),
        rack=client_rack or "",
        partitions=partitions,
        throughput=throughput,
        record_size=record_size,
        seconds=min(seconds, _QUICK_S) if shared.quick else seconds,
        goes=not stay,
        controlled=not kill,
        gone_s=_GONE_KILLED_S if kill else _GONE_S,
        runs=runs or (1 if shared.quick else LEAST_RUNS),
        broker_warmup_s=4 if shared.quick else 10,
    )
    place = shared.place(environment)
    if place.is_lab:
        chosen_rack(plan.rack, place.lab_racks)
    measure = on_stand(place, plan.clients, partial(run_closest, plan))
    shared.report(
        environment, "experiment closest-replica", measure, replica_answer, replica_tables
    )
