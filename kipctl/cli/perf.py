"""`kipctl perf`: measure clients, also while leaders move."""

from pathlib import Path
from typing import Annotated

import typer

from kipctl.cli.environment import Environment
from kipctl.cli.guard import confirm_moves
from kipctl.cli.options import (
    USUAL_RATE,
    BootstrapOption,
    ConfOption,
    CountOption,
    DuringOption,
    EveryOption,
    ForceOption,
    LeaderDiscoveryOption,
    MasterOrHereOption,
    NumRecordsOption,
    OutputOption,
    OwnTopicOption,
    PartitionsOption,
    PrintMetricsOption,
    RecordOption,
    RecordRateOption,
    ReplicationFactorOption,
    StartTimeoutOption,
    StrictOption,
    WarmupOption,
    WorkersOption,
    YesOption,
    load_of,
    milliseconds,
    record_folder,
)
from kipctl.cli.perf_consume import consume
from kipctl.cli.perf_e2e import e2e
from kipctl.cli.perf_metadata import metadata
from kipctl.cli.perf_results import (
    followed,
    given_properties,
    raise_for_actions,
    raise_for_doubts,
    report_denied,
    report_record,
    show,
    status_of_failed,
)
from kipctl.durations import Duration
from kipctl.errors import UsageError
from kipctl.pipeline.place import parse_conf
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.report.formats import OutputFormat

app = typer.Typer(
    help="Measure producers and consumers, also while leaders move.", no_args_is_help=True
)
app.command()(consume)
app.command()(e2e)
app.command()(metadata)


@app.command()
def produce(
    context: typer.Context,
    num_records: NumRecordsOption = None,
    throughput: RecordRateOption = USUAL_RATE,
    record_size: Annotated[
        int | None, typer.Option("--record-size", help="Bytes of a record's value; default 1000.")
    ] = None,
    payload_file: Annotated[
        Path | None,
        typer.Option("--payload-file", help="Draw the values from this file (UTF-8) at random."),
    ] = None,
    payload_delimiter: Annotated[
        str, typer.Option("--payload-delimiter", help="What separates the file's values.")
    ] = "\\n",
    topic: OwnTopicOption = None,
    partitions: PartitionsOption = 100,
    replication_factor: ReplicationFactorOption = 0,
    warmup_records: WarmupOption = None,
    command_property: Annotated[
        list[str] | None,
        typer.Option(
            "--command-property",
            "--producer-props",
            metavar="NAME=VALUE...",
            help="Producer settings.",
        ),
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config", "--producer.config", metavar="FILE", help="File of such settings."
        ),
    ] = None,
    print_metrics: PrintMetricsOption = False,
    reporting_interval: Annotated[
        Duration,
        typer.Option(
            "--reporting-interval",
            metavar="MS|DURATION",
            parser=milliseconds,
            help="Between progress lines.",
        ),
    ] = Duration(5),
    leader_discovery: LeaderDiscoveryOption = LeaderDiscovery.KIP951,
    during: DuringOption = None,
    every: EveryOption = None,
    count: CountOption = 0,
    record: RecordOption = None,
    force: ForceOption = False,
    yes: YesOption = False,
    workers: WorkersOption = 1,
    master: MasterOrHereOption = None,
    conf: ConfOption = None,
    start_timeout: StartTimeoutOption = Duration(60),
    bootstrap_server: BootstrapOption = None,
    strict: StrictOption = False,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Produce at a fixed rate and show each record's latency and where redirects spent theirs.

    Latency counts from when a record should have been sent, so a stall is charged to every record
    that had to wait. The last line on stdout is that of Kafka's own perf tool.
    """
    from kipctl.probe.produce.config import parse_properties
    from kipctl.probe.produce.run import ProduceSpec
    from kipctl.protocol.api import ApiKey
    from kipctl.report.perf_tables import perf_answer, perf_tables
    from kipctl.runs.actions import parse_action
    from kipctl.runs.plan import OWN_TOPIC
    from kipctl.runs.produce import PerfPlan
    from kipctl.runs.produce import produce as run

    environment: Environment = context.obj
    if record_size is not None and payload_file is not None:
        raise UsageError("Give one of --record-size and --payload-file, not both.")
    load = load_of(num_records, warmup_records, throughput, every, count)
    properties = given_properties(command_config, command_property)
    config = parse_properties(properties)
    plan = PerfPlan(
        probe=ProduceSpec(
            access=environment.access(bootstrap_server, properties, command_config),
            topic=OWN_TOPIC if topic is None else topic,
            num_records=load.records,
            throughput=throughput,
            record_size=1000 if record_size is None else record_size,
            payload_file=payload_file,
            payload_delimiter=payload_delimiter.replace("\\n", "\n").replace("\\t", "\t"),
            warmup_records=load.warmup,
            discovery=leader_discovery,
            config=config,
        ),
        during=None if during is None else parse_action(during),
        every_s=load.every_s,
        count=count,
        record=record_folder(record, environment.variables),
        force=force,
        partitions=partitions,
        replication_factor=replication_factor,
        reporting_interval_s=reporting_interval,
        workers=workers,
        master=master,
        conf=parse_conf(conf or []),
        start_timeout_s=start_timeout,
    )
    confirm_moves(environment, plan.probe.access, plan.probe.topic, plan.during, yes)
    with followed(environment, draws=not plan.on_spark) as listeners:
        result = run(plan, listeners)
    show(
        environment,
        "perf produce",
        result.document,
        perf_answer(result.document),
        perf_tables(result.document),
        result.kafka_lines,
        print_metrics,
        output,
    )
    report_record(environment, record)
    outcome = result.measured.outcome
    if outcome.failed:
        environment.message(
            f"kipctl: {outcome.failed:,} of {outcome.generated:,} records failed: "
            + ", ".join(f"{name} {count:,}" for name, count in outcome.errors.items())
        )
        probe = plan.probe
        report_denied(environment, outcome.errors, ApiKey.PRODUCE, probe.access, probe.topic)
        acted = bool(result.document["actions"])
        raise typer.Exit(status_of_failed(outcome.errors, outcome.acknowledged, acted))
    raise_for_actions(result.document, plan.during)
    raise_for_doubts(result.document, strict)
