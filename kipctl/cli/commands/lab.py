"""`kipctl lab`: a real Apache Kafka cluster on this machine."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from kipctl.cli.environment import Environment
from kipctl.cli.grouped import Commands
from kipctl.cli.options import OutputOption, argument, option
from kipctl.errors import UsageError
from kipctl.lab.properties import LabSpec
from kipctl.lab.security import Security
from kipctl.next_step import Command
from kipctl.report.formats import OutputFormat
from kipctl.report.lab_tables import lab_report

if TYPE_CHECKING:
    from kipctl.lab.cluster import Lab
    from kipctl.lab.seed import Release

app = Commands()

_DEFAULT = LabSpec()
_COLD = (
    "Its brokers are cold: before you measure, do a run of 10 s that does not count, or leave the "
    "beginning out with --warmup-records."
)
NameOption = Annotated[
    str | None,
    option(f"Which lab. Default: the only one there is, or {_DEFAULT.name}.", value="LAB"),
]


@dataclass(frozen=True)
class NodesOptions:
    """Nodes of a lab on which something is done."""

    nodes: Annotated[list[int] | None, argument("[NODE]...", "Node ids. Default: every node.")] = (
        None
    )
    name: NameOption = None
    output: OutputOption = OutputFormat.AUTO


def lab_name(name: str | None) -> str:
    """The lab that --name means: without it the only one there is that no run looks after."""
    from kipctl.lab.cluster import labs

    there = [lab.name for lab in labs() if lab.owner is None]
    return name or (there[0] if len(there) == 1 else _DEFAULT.name)


def lab_of(name: str | None) -> "Lab":
    """The one of `lab_name`. Raises UsageError where there is none of that name."""
    from kipctl.lab.cluster import Lab

    return Lab.load(lab_name(name))


@app.command()
def up(
    environment: Environment,
    name: Annotated[str, option("What to call it.", value="LAB")] = _DEFAULT.name,
    brokers: Annotated[int, option("How many brokers.")] = _DEFAULT.brokers,
    controllers: Annotated[int, option("How many controllers.")] = _DEFAULT.controllers,
    racks: Annotated[int, option("Over how many racks; 0: none.")] = _DEFAULT.racks,
    kafka_version: Annotated[
        str, option("The Kafka to fetch, once.", value="VERSION")
    ] = _DEFAULT.kafka_version,
    kafka_home: Annotated[
        Path | None, option("Use this unpacked Kafka instead.", value="DIR")
    ] = None,
    config: Annotated[
        list[str] | None, option("A server property for every node; repeatable.", value="KEY=VALUE")
    ] = None,
    port: Annotated[
        int | None, option("The first of consecutive ports. Default: free ones.")
    ] = None,
    request_log: Annotated[
        bool,
        option("Let every node log each request, in request.log beside its log (up to 256 MB)."),
    ] = False,
    metrics: Annotated[
        bool, option("Let every broker serve its metrics over HTTP, for Prometheus.")
    ] = False,
    security: Annotated[
        Security, option("The security.protocol of the listener for clients.", case_sensitive=False)
    ] = _DEFAULT.security,
    acl: Annotated[
        bool, option("Let users do what they were granted: admin all, reader read, alice nothing.")
    ] = False,
    kerberos: Annotated[
        bool, option("Start a KDC (Debian: krb5-kdc, krb5-admin-server), for GSSAPI.")
    ] = False,
    host: Annotated[
        str, option("Where clients find the brokers: 127.0.0.1, ::1 or localhost.", value="HOST")
    ] = _DEFAULT.host,
    log_dirs: Annotated[
        int, option("How many log directories a broker has, as with several disks.", value="N")
    ] = _DEFAULT.log_dirs,
    topic: Annotated[
        list[str] | None,
        option(
            "Make this topic, with 100 records in each partition; repeatable.",
            value="TOPIC[:PARTITIONS[:REPLICAS]]",
        ),
    ] = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Start a cluster and wait until it is ready.

    Ready, it is still cold: before you measure, do a run of 10 s that does not count (kipctl perf
    produce --during rotate), or leave the beginning out with --warmup-records.

    What a crash left of a lab of that name is removed first. Brokers come back quickly: one that is
    silent is given up after 3 s, not Kafka's 9. To measure what a crash costs, ask for Kafka's own:
    --config broker.session.timeout.ms=9000 --config broker.heartbeat.interval.ms=2000.

    With --security clients need a file of the lab's folder clients, and are admin, alice or reader;
    brokers keep a plaintext listener among themselves. ssl knows them by their certificates,
    sasl_plaintext and sasl_ssl by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER, and with
    --kerberos by GSSAPI.
    """
    from kipctl.cluster.sample_topics import make_sample_topics, parse_sample_topic
    from kipctl.lab.cluster import Lab

    topics = [parse_sample_topic(text) for text in topic or ()]
    spec = LabSpec(
        name=name,
        brokers=brokers,
        controllers=controllers,
        racks=racks,
        kafka_version=kafka_version,
        kafka_home=kafka_home,
        config=tuple(_key_and_value(text) for text in config or ()),
        port=port,
        request_log=request_log,
        metrics=metrics,
        security=security,
        acl=acl,
        kerberos=kerberos,
        host=host,
        log_dirs=log_dirs,
    )
    with environment.progress(f"Bringing up lab {name!r}.") as progress:
        lab = Lab.up(spec, progress)
        make_sample_topics(lab.access, topics)
    environment.message(_COLD)
    environment.report(lab_report("up", [lab]), output)


@app.command()
def status(
    environment: Environment,
    name: Annotated[str | None, option("Which lab. Default: every lab.", value="LAB")] = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Show the labs, their nodes, and how many partitions each broker leads."""
    from kipctl.lab.cluster import Lab, labs, unfinished_labs
    from kipctl.lab.running import orphaned

    shown_labs = labs() if name is None else [Lab.load(name)]
    if name is None:
        for left in unfinished_labs():
            environment.message(
                f"A start that was cut off left {left!r} behind; remove it: "
                + Command("lab down", name=left)
            )
        for lab in shown_labs:
            if lab.is_orphan:
                environment.message(orphaned(lab.name))
    environment.report(lab_report("status", shown_labs), output)


@app.command()
def down(environment: Environment, name: NameOption = None) -> None:
    """End every node and remove everything of the lab, also of one that a crash left."""
    from kipctl.lab.cluster import no_such_lab, take_down

    chosen = lab_name(name)
    if not take_down(chosen):
        raise no_such_lab(chosen)
    environment.message(f"Lab {chosen!r} is down; nothing of it is left.")


@app.command()
def stop(
    environment: Environment,
    chosen: NodesOptions,
    kill: Annotated[bool, option("SIGKILL, as when a machine fails.")] = False,
) -> None:
    """Stop nodes with SIGTERM: a broker first hands its leaders over. Their data stays."""
    _each_node(
        environment,
        "stop",
        chosen,
        lambda lab, node_id: lab.kill(node_id) if kill else lab.stop(node_id),
    )


@app.command()
def start(environment: Environment, chosen: NodesOptions) -> None:
    """Start nodes that were stopped or that crashed, and wait until they are ready."""
    lab = lab_of(chosen.name)
    with environment.progress(f"Starting nodes of lab {lab.name!r}."):
        lab.start(*(chosen.nodes or (node.id for node in lab.nodes)))
    environment.report(lab_report("start", [lab]), chosen.output)


@app.command()
def restart(
    environment: Environment,
    chosen: NodesOptions,
    kafka_version: Annotated[
        str | None, option("Start them with this release from now on.", value="VERSION")
    ] = None,
) -> None:
    """Stop and start nodes, one after the other, each time until the lab is ready again.

    With --kafka-version that is a rolling upgrade, or half of one. metadata.version stays as it is.
    """
    release: Release | None = None
    if kafka_version is not None:
        lab = lab_of(chosen.name)
        with environment.progress(f"Kafka {kafka_version} for lab {lab.name!r}.") as progress:
            release = lab.release(kafka_version, progress)
    _each_node(environment, "restart", chosen, lambda lab, node_id: lab.restart(node_id, release))


@app.command()
def pause(environment: Environment, chosen: NodesOptions) -> None:
    """Pause nodes with SIGSTOP: they stand still, and keep their connections open."""
    _each_node(environment, "pause", chosen, lambda lab, node_id: lab.pause(node_id))


@app.command()
def resume(environment: Environment, chosen: NodesOptions) -> None:
    """Let paused nodes go on."""
    _each_node(environment, "resume", chosen, lambda lab, node_id: lab.resume(node_id))


@app.command()
def logs(
    environment: Environment,
    node: Annotated[int | None, argument("[NODE]", "A node id. Default: every node.")] = None,
    name: NameOption = None,
    follow: Annotated[bool, option("--follow", "-f", "Go on with new lines until Ctrl-C.")] = False,
    lines: Annotated[int, option("How many of the last lines of each.", min=0)] = 20,
) -> None:
    """Print the last lines of the nodes' logs."""
    stdout = environment.stdout
    from kipctl.lab.logs import follow as follow_logs
    from kipctl.lab.logs import tail

    lab = lab_of(name)
    chosen = lab.nodes if node is None else (lab.node(node),)
    # Lines of several nodes say whose they are.
    prefixes = {n.log_path: f"{n.spec.label} | " if node is None else "" for n in chosen}
    last = ((path, line) for path in prefixes for line in tail(path, lines))
    for path, line in follow_logs(prefixes, lines) if follow else last:
        stdout.write(f"{prefixes[path]}{line}\n")
        stdout.flush()


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(
            f"--config {text!r} is not KEY=VALUE.", "For instance: --config num.io.threads=4"
        )
    return key.strip(), value


def _each_node(
    environment: Environment, command: str, chosen: NodesOptions, act: "Callable[[Lab, int], None]"
) -> None:
    """Act on one node after the other, and show how the lab stands then."""
    lab = lab_of(chosen.name)
    nodes = [lab.node(node_id) for node_id in chosen.nodes] if chosen.nodes else lab.nodes
    with environment.progress(f"Lab {lab.name!r}: {command}.") as progress:
        for node in nodes:
            progress(f"{node.spec.label}: {command}")
            act(lab, node.id)
    environment.report(lab_report(command, [lab]), chosen.output)
