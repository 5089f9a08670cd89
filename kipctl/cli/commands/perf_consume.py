"""`kipctl perf consume`: read a topic, and show from whom and why."""

from pathlib import Path
from typing import Annotated

from kipctl.cli.combinations import combined
from kipctl.cli.commands.perf_results import (
    carry_out,
    given_properties,
    raise_for_failed,
    raise_for_run,
)
from kipctl.cli.environment import Environment
from kipctl.cli.options import (
    ClientRackOption,
    ReportingIntervalOption,
    RunOptions,
    milliseconds_option,
    option,
)
from kipctl.durations import Duration
from kipctl.errors import UsageError


@combined(
    exclusive=(("--offset", "--from-latest"),),
    # How many records there are is counted from the earliest on.
    needs=dict.fromkeys(("--offset", "--from-latest"), "--num-records"),
)
def consume(
    environment: Environment,
    options: RunOptions,
    topic: Annotated[str | None, option("What to read.", value="TOPIC")] = None,
    num_records: Annotated[
        int | None,
        option("--num-records", "--messages", "Records to read; default all that are there."),
    ] = None,
    partition: Annotated[
        list[str] | None, option("Only this partition; repeatable.", value="TOPIC:PARTITION")
    ] = None,
    offset: Annotated[
        int | None, option("Begin each partition here, not at its earliest record.", min=0)
    ] = None,
    from_latest: Annotated[bool, option("Begin at the end of each partition.")] = False,
    client_rack: ClientRackOption = None,
    fetch_size: Annotated[int | None, option("Bytes of a partition in one answer.")] = None,
    socket_buffer_size: Annotated[int | None, option("Bytes of the receive buffer.")] = None,
    timeout: Annotated[
        Duration, milliseconds_option("End when no record came for so long.")
    ] = Duration(10),
    group: Annotated[str | None, option("Taken and left alone: partitions are assigned.")] = None,
    command_property: Annotated[
        list[str] | None, option("Consumer settings.", value="NAME=VALUE...")
    ] = None,
    command_config: Annotated[
        Path | None,
        option("--command-config", "--consumer.config", "File of such settings.", value="FILE"),
    ] = None,
    show_detailed_stats: Annotated[bool, option("Print Kafka's line for each interval.")] = False,
    reporting_interval: ReportingIntervalOption = Duration(5),
    hide_header: Annotated[bool, option("Leave Kafka's header line out.")] = False,
) -> None:
    """Read a topic's partitions and show which brokers they came from, and why that changed.

    Records are counted, not unpacked. The last lines on stdout are those of Kafka's own perf tool;
    its MB are of keys and values, these are of whole record batches as they come over the wire.
    """
    from kipctl.cluster.snapshot import parse_partition
    from kipctl.load.consume import ConsumeLoad, ConsumePlan, all_of
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
    partitions = [parse_partition(text) for text in partition or ()]
    topics = {*([topic] if topic else ()), *(partition_id.topic for partition_id in partitions)}
    if len(topics) > 1:
        raise UsageError(f"It reads one topic; named are {', '.join(sorted(topics))}.")
    topic = next(iter(topics), None)
    numbers = tuple(partition_id.partition for partition_id in partitions)
    if topic is None or num_records is None:
        topic, num_records = all_of(access, topic, numbers)
    plan = ConsumePlan(
        probe=ConsumeSpec(
            access=access,
            topic=topic,
            num_records=num_records,
            timeout_ms=timeout.ms,
            partitions=numbers,
            offset=NO_OFFSET if offset is None else offset,
            discovery=options.leader_discovery,
            config=config,
        ),
        reporting_interval_s=reporting_interval,
        show_detailed_stats=show_detailed_stats,
        **options.of_plan(options.every or USUAL_EVERY_S, environment),
    )
    result = carry_out(
        environment,
        options,
        ConsumeLoad(plan),
        consume_answer,
        consume_tables,
        draws=not show_detailed_stats,
        leaves_out=int(hide_header),
    )
    document, outcome = result.document, result.outcome
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
