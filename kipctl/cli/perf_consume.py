"""`kipctl perf consume`: read a topic, and show from whom and why."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kipctl.cli.combinations import combined
from kipctl.cli.confirm import confirm_moves
from kipctl.cli.environment import Environment
from kipctl.cli.options import (
    ClientRackOption,
    ReportingIntervalOption,
    RunOptions,
    milliseconds_option,
)
from kipctl.cli.perf_results import (
    followed,
    given_properties,
    raise_for_failed,
    raise_for_run,
    report_run,
)
from kipctl.durations import Duration
from kipctl.errors import UsageError
from kipctl.next_step import Command

if TYPE_CHECKING:
    from kipctl.transport.access import Access

_NAMED = 5


@combined(
    exclusive=(("--offset", "--from-latest"),),
    # How many records there are is counted for whole topics.
    needs=dict.fromkeys(("--partition", "--offset", "--from-latest"), "--num-records"),
)
def consume(
    environment: Environment,
    options: RunOptions,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="What to read.")] = None,
    num_records: Annotated[
        int | None,
        typer.Option(
            "--num-records", "--messages", help="Records to read; default all that are there."
        ),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option(metavar="P", help="Only this partition; repeatable.")
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option(min=0, help="Begin each partition here, not at its earliest record."),
    ] = None,
    from_latest: Annotated[bool, typer.Option(help="Begin at the end of each partition.")] = False,
    client_rack: ClientRackOption = None,
    fetch_size: Annotated[
        int | None, typer.Option(help="Bytes of a partition in one answer.")
    ] = None,
    socket_buffer_size: Annotated[
        int | None, typer.Option(help="Bytes of the receive buffer.")
    ] = None,
    timeout: Annotated[
        Duration, milliseconds_option("--timeout", "End when no record came for so long.")
    ] = Duration(10),
    group: Annotated[
        str | None, typer.Option(help="Taken and left alone: partitions are assigned.")
    ] = None,
    command_property: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE...", help="Consumer settings.")
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config", "--consumer.config", metavar="FILE", help="File of such settings."
        ),
    ] = None,
    show_detailed_stats: Annotated[
        bool, typer.Option(help="Print Kafka's line for each interval.")
    ] = False,
    reporting_interval: ReportingIntervalOption = Duration(5),
    hide_header: Annotated[bool, typer.Option(help="Leave Kafka's header line out.")] = False,
) -> None:
    """Read a topic's partitions and show which brokers they came from, and why that changed.

    Records are counted, not unpacked. The last lines on stdout are those of Kafka's own perf tool;
    its MB are of keys and values, these are of whole record batches as they come over the wire.
    """
    from kipctl.load.consume import ConsumeLoad, ConsumePlan
    from kipctl.load.measure import run
    from kipctl.load.plan import USUAL_EVERY_S
    from kipctl.probe.consume.config import parse_properties
    from kipctl.probe.consume.positions import NO_OFFSET
    from kipctl.probe.consume.run import ConsumeSpec
    from kipctl.protocol.api import ApiKey
    from kipctl.report.consume_tables import consume_answer, consume_tables

    named = given_properties(command_config, command_property)
    access = environment.access(options.bootstrap_server, named, command_config)
    cluster = environment.cluster
    given = {
        "client.rack": client_rack or (cluster and cluster.rack) or None,
        "max.partition.fetch.bytes": fetch_size,
        "receive.buffer.bytes": socket_buffer_size,
    }
    properties = {"auto.offset.reset": "earliest", **named}
    properties |= {name: str(value) for name, value in given.items() if value is not None}
    if from_latest:
        properties["auto.offset.reset"] = "latest"
    config = parse_properties(properties)
    if topic is None or num_records is None:
        topic, num_records = _all_of(access, topic)
    plan = ConsumePlan(
        probe=ConsumeSpec(
            access=access,
            topic=topic,
            num_records=num_records,
            timeout_ms=timeout.ms,
            partitions=tuple(partition or ()),
            offset=NO_OFFSET if offset is None else offset,
            discovery=options.leader_discovery,
            config=config,
        ),
        reporting_interval_s=reporting_interval,
        show_detailed_stats=show_detailed_stats,
        **options.of_plan(options.every or USUAL_EVERY_S, environment),
    )
    confirm_moves(environment, access, topic, plan.during, options.yes)
    with followed(environment, draws=not (plan.on_spark or show_detailed_stats)) as listeners:
        result = run(ConsumeLoad(plan), listeners)
    document = result.document
    closing = result.kafka_lines[hide_header:]
    report_run(
        environment, options, "perf consume", document, consume_answer, consume_tables, closing
    )
    outcome = result.outcome
    given_up = sum(outcome.errors.values())
    if outcome.records < num_records and given_up < outcome.partitions:
        environment.message(
            f"kipctl: {outcome.records:,} of {num_records:,} records were there: none came for "
            f"{timeout} (--timeout)."
        )
    if outcome.errors:
        reported = ", ".join(f"{count} x {name}" for name, count in outcome.errors.items())
        environment.message(f"kipctl: partitions that were given up: {reported}.")
        raise_for_failed(
            environment,
            outcome.errors,
            ApiKey.FETCH,
            access,
            topic,
            done=outcome.records,
            acted=bool(document["actions"]),
        )
    raise_for_run(document, plan.during, options)


def _all_of(access: "Access", topic: str | None) -> tuple[str, int]:
    """The topic and how many records it holds. Raises UsageError without one to read."""
    from kipctl.cluster.snapshot import take_snapshot
    from kipctl.cluster.topics import record_count
    from kipctl.transport.request import Cluster

    with Cluster(access) as cluster:
        if topic is None:
            there = [name for name in take_snapshot(cluster).topics if not name.startswith("__")]
            named = ", ".join(there[:_NAMED]) + (" and more" if len(there) > _NAMED else "")
            raise UsageError(
                f"--topic says what to read; there is: {named or 'none yet'}.",
                "Without a topic of yours, on one that is made and removed: " + Command("perf e2e"),
            )
        take_snapshot(cluster, [topic])
        if held := record_count(cluster, topic):
            return topic, held
    raise UsageError(
        f"Topic {topic} holds no records.",
        "Wait for new ones with --num-records, or produce some: "
        + Command("perf produce", topic=topic),
    )
