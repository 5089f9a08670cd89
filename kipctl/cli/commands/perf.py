"""`kipctl perf`: measure clients, also while leaders move."""

from pathlib import Path
from typing import Annotated

from kipctl.cli.combinations import combined
from kipctl.cli.commands.perf_consume import consume
from kipctl.cli.commands.perf_e2e import e2e
from kipctl.cli.commands.perf_metadata import metadata
from kipctl.cli.commands.perf_results import (
    carry_out,
    given_properties,
    raise_for_failed,
    raise_for_run,
)
from kipctl.cli.environment import Environment
from kipctl.cli.grouped import Commands
from kipctl.cli.options import (
    LoadOptions,
    PartitionsOption,
    ReportingIntervalOption,
    RunOptions,
    option,
)
from kipctl.durations import Duration

app = Commands()
app.add(consume, e2e, metadata)


@app.command()
@combined(exclusive=(("--record-size", "--payload-file"),))
def produce(
    environment: Environment,
    sent: LoadOptions,
    options: RunOptions,
    record_size: Annotated[int | None, option("Bytes of a record's value; default 1000.")] = None,
    payload_file: Annotated[
        Path | None, option("Draw the values from this file (UTF-8) at random.")
    ] = None,
    payload_delimiter: Annotated[str, option("What separates the file's values.")] = "\\n",
    partitions: PartitionsOption = 100,
    command_property: Annotated[
        list[str] | None,
        option(
            "--command-property", "--producer-props", "Producer settings.", value="NAME=VALUE..."
        ),
    ] = None,
    command_config: Annotated[
        Path | None,
        option("--command-config", "--producer.config", "File of such settings.", value="FILE"),
    ] = None,
    reporting_interval: ReportingIntervalOption = Duration(5),
) -> None:
    """Produce at a fixed rate and show each record's latency and where redirects spent theirs.

    Latency counts from when a record should have been sent, so a stall is charged to every record
    that had to wait. The last line on stdout is that of Kafka's own perf tool.
    """
    from kipctl.load.plan import OWN_TOPIC
    from kipctl.load.produce import PerfPlan, ProduceLoad
    from kipctl.probe.produce.config import parse_properties
    from kipctl.probe.produce.run import ProduceSpec
    from kipctl.protocol.api import ApiKey
    from kipctl.report.perf_tables import perf_answer, perf_tables

    load = sent.load(options.every, options.count)
    properties = given_properties(command_config, command_property)
    config = parse_properties(properties)
    plan = PerfPlan(
        probe=ProduceSpec(
            access=environment.access(options.bootstrap_server, properties, command_config),
            topic=OWN_TOPIC if sent.topic is None else sent.topic,
            num_records=load.records,
            throughput=sent.throughput,
            record_size=1000 if record_size is None else record_size,
            payload_file=payload_file,
            payload_delimiter=payload_delimiter.replace("\\n", "\n").replace("\\t", "\t"),
            warmup_records=load.warmup,
            discovery=options.leader_discovery,
            config=config,
        ),
        partitions=partitions,
        replication_factor=sent.replication_factor,
        reporting_interval_s=reporting_interval,
        **options.of_plan(load.every_s, environment),
    )
    result = carry_out(environment, options, ProduceLoad(plan), perf_answer, perf_tables)
    document, outcome = result.document, result.outcome
    if outcome.failed:
        environment.message(
            f"kipctl: {outcome.failed:,} of {outcome.generated:,} records failed: "
            + ", ".join(f"{name} {count:,}" for name, count in outcome.errors.items())
        )
        raise_for_failed(
            environment,
            outcome.errors,
            ApiKey.PRODUCE,
            plan.probe.access,
            plan.probe.topic,
            done=outcome.acknowledged,
            acted=bool(document["actions"]),
        )
    raise_for_run(document, plan.during, options)
