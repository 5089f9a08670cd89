"""`kipctl experiment metadata`: what KIP-526 claims, for any producer."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from kipctl.cli.commands.confirm import confirm_topics
from kipctl.cli.commands.experiment_options import ExperimentOptions, Folders, Message, on_stand
from kipctl.cli.environment import Environment
from kipctl.cli.options import (
    InTurnThroughputOption,
    PhaseSecondsOption,
    RecordSizeOption,
    YesOption,
    option,
)
from kipctl.durations import Duration
from kipctl.load.metadata.plan import Phase

if TYPE_CHECKING:
    from kipctl.documents.experiments import ClaimsDocument
    from kipctl.experiments.arms.stand import Stand

_SETTINGS = {"acks": "1", "enable.idempotence": "false"}
_QUICK_TOPICS, _QUICK_S = 60, 3.0


def metadata(
    environment: Environment,
    shared: ExperimentOptions,
    arms: Annotated[
        str,
        option(
            "probe-legacy, probe-preload, probe-kip526, java-X.Y.Z, librdkafka; one after the"
            " other.",
            value="ARM,...",
        ),
    ] = "probe-legacy,probe-kip526,probe-preload,java-3.6.0,java-4.3.1,librdkafka",
    topics: Annotated[int, option("Made for the run, and removed.")] = 200,
    partitions: Annotated[int, option("Of each topic.")] = 3,
    throughput: InTurnThroughputOption = 300,
    seconds: PhaseSecondsOption = Duration(6),
    record_size: RecordSizeOption = 100,
    phase: Annotated[
        list[Phase] | None, option("What is done after startup; repeatable. Default: all.")
    ] = None,
    yes: YesOption = False,
) -> None:
    """Produce to many topics with any client, and show its Metadata requests by cause (KIP-526).

    Each client starts with all topics new, renews what it knows, sees leaders move, and comes back
    to topics that it left idle; a tap counts its requests, the topics they ask for, their bytes.
    """
    from kipctl.experiments.metadata.experiment import parse_clients, run_claims
    from kipctl.load.metadata.plan import MetadataPlan
    from kipctl.probe.produce.config import parse_properties
    from kipctl.report.experiment_metadata_tables import claims_answer, claims_tables
    from kipctl.transport.access import Access

    watched = parse_clients(arms)
    stock = [client.arm for client in watched if client.arm is not None]
    place = shared.place(environment)
    plan = MetadataPlan(
        access=Access(""),
        topics=min(topics, _QUICK_TOPICS) if shared.quick else topics,
        partitions=partitions,
        throughput=throughput,
        record_size=record_size,
        seconds=min(seconds, _QUICK_S) if shared.quick else seconds,
        phases=tuple(phase or Phase),
        config=parse_properties(_SETTINGS),
    )
    if place.access is not None:
        confirm_topics(environment, place.access, plan.topics, partitions, yes)

    def measure(stand: "Stand", record: Folders, message: Message) -> "ClaimsDocument":
        return run_claims(replace(plan, access=stand.access), watched, stand, record, message)

    on_place = on_stand(place, stock, measure)
    shared.report(environment, "experiment metadata", on_place, claims_answer, claims_tables)
