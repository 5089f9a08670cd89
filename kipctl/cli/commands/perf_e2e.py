"""`kipctl perf e2e`: how long a record takes from its producer to its consumer."""

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
    LoadOptions,
    PartitionsOption,
    RecordSizeOption,
    RunOptions,
    duration_option,
    milliseconds_option,
    option,
)
from kipctl.durations import Duration
from kipctl.errors import UsageError


@combined(exclusive=(("--forever", "--num-records"),), needs={"--keep": "--forever"})
def e2e(
    environment: Environment,
    sent: LoadOptions,
    options: RunOptions,
    record_size: RecordSizeOption = 1000,
    producer_acks: Annotated[
        str | None, option("The producer's acks; default all.", value="all|1")
    ] = None,
    partitions: PartitionsOption = 12,
    client_rack: ClientRackOption = None,
    command_property: Annotated[
        list[str] | None, option("Settings that both clients have.", value="NAME=VALUE...")
    ] = None,
    producer_property: Annotated[
        list[str] | None, option("Producer settings.", value="NAME=VALUE...")
    ] = None,
    consumer_property: Annotated[
        list[str] | None, option("Consumer settings.", value="NAME=VALUE...")
    ] = None,
    command_config: Annotated[Path | None, option("File of such settings.", value="FILE")] = None,
    timeout: Annotated[
        Duration, milliseconds_option("After the last send: end when none came for so long.")
    ] = Duration(10),
    forever: Annotated[
        bool, option("Until Ctrl-C or SIGTERM: then the usual result and status.")
    ] = False,
    keep: Annotated[
        Duration | None,
        duration_option("With --forever: how much of the newest trace is kept; default 1h."),
    ] = None,
    lost_after: Annotated[
        Duration,
        duration_option(
            "With --forever or --metrics: lost is what was not delivered so long after its "
            "acknowledgement."
        ),
    ] = Duration(60),
    metrics: Annotated[
        str | None,
        option(
            "Serve Prometheus text there while it runs; HOST is 127.0.0.1 by default.",
            value="[HOST:]PORT",
        ),
    ] = None,
) -> None:
    """Produce at a fixed rate, read it back at once, and show how long records took to come.

    Latency counts from when a record should have been sent to the Fetch answer that brought it, so
    a stall on either side is charged to every record that had to wait. The last lines on stdout are
    those of Kafka's own EndToEndLatency.

    --forever watches for days what others do to the cluster: memory and disk do not grow.
    """
    from kipctl.load.e2e import FOREVER_RECORDS, TOPIC_OF_DAYS, EndToEndLoad, EndToEndPlan
    from kipctl.load.forever import WatchOptions, parse_listen
    from kipctl.load.plan import OWN_TOPIC
    from kipctl.load.produce import PerfPlan
    from kipctl.probe.config import parse_pairs
    from kipctl.probe.consume.config import parse_properties as consumer_config
    from kipctl.probe.produce.config import parse_properties as producer_config
    from kipctl.probe.produce.run import ProduceSpec
    from kipctl.protocol.api import ApiKey
    from kipctl.report.e2e_tables import e2e_answer, e2e_tables, what_failed

    load = sent.load(options.every, options.count)
    shared = given_properties(command_config, command_property)
    produced = {"client.id": "kipctl-perf", **shared, **parse_pairs(producer_property or [])}
    consumed = {"client.id": "kipctl-perf-consumer", **shared}
    consumed |= parse_pairs(consumer_property or [])
    if producer_acks is not None:
        produced["acks"] = producer_acks
    if produced.get("acks") == "0":
        raise UsageError(
            "With acks=0 nobody says which offset a record got, so none can be followed.",
            "Give --producer-acks all or 1.",
        )
    if consumed.setdefault("auto.offset.reset", "latest") != "latest":
        raise UsageError(
            f"auto.offset.reset is {consumed['auto.offset.reset']!r}, and perf e2e reads what it "
            "sends itself, from the end on.",
            "Leave it out.",
        )
    access = environment.access(options.bootstrap_server, shared, command_config)
    if rack := client_rack or (environment.cluster and environment.cluster.rack):
        consumed["client.rack"] = rack
    plan = EndToEndPlan(
        produce=PerfPlan(
            probe=ProduceSpec(
                access=access,
                topic=OWN_TOPIC if sent.topic is None else sent.topic,
                num_records=FOREVER_RECORDS if forever else load.records,
                throughput=sent.throughput,
                record_size=record_size,
                warmup_records=load.warmup,
                discovery=options.leader_discovery,
                config=producer_config(produced),
            ),
            partitions=partitions,
            replication_factor=sent.replication_factor,
            topic_configs=TOPIC_OF_DAYS if forever else {},
            **options.of_plan(load.every_s, environment),
        ),
        consumer=consumer_config(consumed),
        quiet_s=timeout,
        watched=WatchOptions(
            forever=forever,
            keep_s=3600.0 if keep is None else keep,
            metrics=None if metrics is None else parse_listen(metrics),
            lost_after_s=lost_after,
        ),
    )
    document = carry_out(environment, options, EndToEndLoad(plan), e2e_answer, e2e_tables).document
    records = document["records"]
    if records["failed"] or records["missing"]:
        environment.message(f"kipctl: {what_failed(records, plan.produce.probe.config.acks)}")
        raise_for_failed(
            environment,
            records["errors"],
            ApiKey.PRODUCE,
            access,
            plan.produce.probe.topic,
            done=records["acknowledged"],
            acted=bool(document["actions"]),
        )
    raise_for_run(document, plan.produce.during, options)
