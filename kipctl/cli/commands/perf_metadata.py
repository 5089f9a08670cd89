"""`kipctl perf metadata`: what many topics cost a client in Metadata."""

from collections import Counter
from typing import Annotated

from kipctl.cli.commands.confirm import confirm_topics
from kipctl.cli.commands.perf_results import raise_for_failed
from kipctl.cli.environment import Environment
from kipctl.cli.options import (
    ClusterOptions,
    InTurnThroughputOption,
    PhaseSecondsOption,
    RecordSizeOption,
    YesOption,
    option,
)
from kipctl.durations import Duration
from kipctl.load.metadata.plan import ClientKind, Phase
from kipctl.probe.idle_eviction import TopicPolicy
from kipctl.report.tables import Report, paragraphs

DEFAULTS = {"acks": "1", "enable.idempotence": "false"}
"""What is measured is Metadata: with acks=all it would stand behind replication."""


def metadata(
    environment: Environment,
    options: ClusterOptions,
    topics: Annotated[
        int, option("How many topics (kipctl-metadata-...) are made, and removed afterwards.")
    ] = 1000,
    partitions: Annotated[int, option("Of each topic.")] = 3,
    throughput: InTurnThroughputOption = 500,
    seconds: PhaseSecondsOption = Duration(6),
    record_size: RecordSizeOption = 100,
    phase: Annotated[
        list[Phase] | None, option("What is done after startup; repeatable. Default: all.")
    ] = None,
    client: Annotated[
        list[ClientKind] | None, option("Whose requests are looked at; repeatable. Default: probe.")
    ] = None,
    policy: Annotated[
        list[TopicPolicy] | None,
        option(
            "For a new topic the probe asks for it alone, or, as before KIP-526, for all that"
            " it knows (legacy), or is given all beforehand (preload); repeatable. Default: kip526"
            " and legacy."
        ),
    ] = None,
    command_property: Annotated[
        list[str] | None,
        option(
            "Producer settings. acks is 1 and enable.idempotence false if not given.",
            value="NAME=VALUE...",
        ),
    ] = None,
    metrics_url: Annotated[
        list[str] | None,
        option(
            "A broker's metrics, each broker's once: its own count of requests is shown too."
            " Nobody else may be at work on the cluster then.",
            value="URL",
        ),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Produce to many topics and show what that costs in Metadata requests, and why (KIP-526).

    Clients under test go one after another through the same phases: startup, steady,
    leader-changes and idle-return, in which topics come back that were idle too long.
    """
    from kipctl.load.metadata.phases import RENEWED_MS
    from kipctl.load.metadata.plan import POLICIES, MetadataPlan
    from kipctl.load.metadata.run import run
    from kipctl.probe.config import parse_pairs
    from kipctl.probe.produce.config import LEAST_IDLE_MS, parse_properties
    from kipctl.protocol.api import ApiKey
    from kipctl.report.metadata_tables import perf_metadata_answer, perf_metadata_tables

    properties = parse_pairs(command_property or [])
    plan = MetadataPlan(
        config=parse_properties(DEFAULTS | properties),
        access=environment.access(options.bootstrap_server, properties),
        topics=topics,
        partitions=partitions,
        throughput=throughput,
        record_size=record_size,
        seconds=seconds,
        phases=tuple(phase or Phase),
        clients=tuple(dict.fromkeys(client or [ClientKind.PROBE])),
        policies=tuple(dict.fromkeys(policy or POLICIES)),
        metrics_urls=tuple(metrics_url or ()),
    )
    if properties.keys() & {"metadata.max.age.ms", "metadata.max.idle.ms"}:
        environment.message(
            f"steady and idle-return have metadata.max.age.ms={RENEWED_MS} of their own, and "
            f"idle-return metadata.max.idle.ms={LEAST_IDLE_MS}: what takes minutes, in seconds."
        )
    confirm_topics(environment, plan.access, topics, partitions, yes)
    document = run(plan, environment.message)
    tables = perf_metadata_tables(document)
    opening = paragraphs(perf_metadata_answer(document))
    report = Report("perf metadata", document, tables, opening=opening, fits_screen=True)
    environment.report(report, options.output)
    phases = [phase for row in document["clients"] for phase in row["phases"]]
    if failed := sum(phase["failed"] for phase in phases):
        errors = sum((Counter(phase["errors"]) for phase in phases), Counter[str]())
        environment.message(
            f"kipctl: {failed:,} records failed: "
            + ", ".join(f"{name} {count:,}" for name, count in errors.items())
        )
        raise_for_failed(
            environment,
            errors,
            ApiKey.PRODUCE,
            plan.access,
            plan.names[0],
            done=sum(phase["records"] for phase in phases) - failed,
            acted=any(phase["move_count"] for phase in phases),
        )
