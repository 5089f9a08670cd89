"""`kipctl clusters`: clusters by name, and whether they can be reached."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kipctl.cli.environment import Environment
from kipctl.cli.grouped import Commands
from kipctl.cli.options import ClusterOptions, OutputOption, YesOption, argument, option
from kipctl.errors import ExitStatus, RefusedError, UsageError
from kipctl.next_step import Command
from kipctl.report.cluster_tables import clusters_report, connection_report
from kipctl.report.formats import OutputFormat
from kipctl.transport.target import named_cluster

if TYPE_CHECKING:
    from kipctl.cluster.acls import CommandRights

app = Commands()


@app.command("list")
def list_(environment: Environment, output: OutputOption = OutputFormat.AUTO) -> None:
    """Show the clusters that have a name, in clusters.toml of kipctl's configuration."""
    from kipctl.transport.clusters import clusters_file, named_clusters

    file = clusters_file(environment.variables)
    known = named_clusters(file)
    environment.report(clusters_report(file, list(known.values())), output)


@app.command()
def show(
    environment: Environment,
    name: Annotated[str, argument("CLUSTER")],
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Show one cluster's entry."""
    from kipctl.transport.clusters import clusters_file, named_clusters

    file = clusters_file(environment.variables)
    known = named_clusters(file)
    environment.report(clusters_report(file, [named_cluster(name, known)]), output)


@app.command()
def add(
    environment: Environment,
    name: Annotated[str, argument("NAME")],
    servers: Annotated[
        str, option("--bootstrap-server", "Brokers to ask first.", value="HOST:PORT,...")
    ],
    command_config: Annotated[str, option("Properties of Java's clients.", value="FILE")] = "",
    rack: Annotated[str, option("--client-rack", "Where this machine is.", value="RACK")] = "",
    metrics_url: Annotated[
        list[str] | None, option("A broker's metrics; repeatable.", value="URL")
    ] = None,
    protected: Annotated[bool, option("Changes need --expect-cluster beside --yes.")] = False,
    id_: Annotated[
        str, option("--expect-cluster", "Refuse a cluster of another id.", value="ID")
    ] = "",
    map: Annotated[
        list[str] | None,
        option(
            "Reach a broker at another address; repeatable. * is any text, or its port.",
            value="HOST:PORT=HOST:PORT",
        ),
    ] = None,
) -> None:
    """Give a cluster a name, for --cluster and KIPCTL_CLUSTER.

    Nothing is connected to; kipctl clusters test does that.
    """
    from kipctl.cluster.metrics_url import require_url
    from kipctl.java_properties import read
    from kipctl.security.dialects import as_javas
    from kipctl.security.settings import security_of
    from kipctl.transport.access import parse_bootstrap_servers, parse_map
    from kipctl.transport.clusters import NamedCluster, add_cluster, clusters_file

    if not name.strip() or name != name.strip():
        raise UsageError(f"{name!r} is no name for a cluster.")
    parse_bootstrap_servers(servers)
    if command_config:
        command_config = str(Path(command_config).expanduser().absolute())
        security_of(as_javas(read(Path(command_config))).properties, servers)
    for url in metrics_url or ():
        require_url(url)
    mapped = tuple((str(at), str(to)) for at, to in parse_map(map or []).items())
    file = clusters_file(environment.variables)
    entry = NamedCluster(
        name, servers, command_config, rack, tuple(metrics_url or ()), protected, id_, mapped
    )
    add_cluster(file, entry)
    if protected and not id_:
        environment.message(
            f"--protected without --expect-cluster guards the name alone: by its address {name} is"
            " changed without a question.",
            f"See its id, and add it to {file} as id: " + Command("clusters test", name),
        )
    environment.message(
        f"Added to {file}. See whether it answers: " + Command("clusters test", name)
    )


@app.command()
def remove(
    environment: Environment, name: Annotated[str, argument("CLUSTER")], yes: YesOption = False
) -> None:
    """Take a cluster's entry out of clusters.toml. The cluster is not connected to."""
    from kipctl.transport.clusters import clusters_file, named_clusters, remove_cluster

    file = clusters_file(environment.variables)
    entry = named_cluster(name, named_clusters(file))
    environment.confirm(f"Remove {name} ({entry.bootstrap_servers}) from {file}?", yes)
    remove_cluster(file, name)
    environment.message(f"Removed from {file}.")


@app.command("test")
def check(
    environment: Environment,
    options: ClusterOptions,
    name: Annotated[str | None, argument("[CLUSTER]")] = None,
    topic: Annotated[
        list[str] | None, option("Look at rights on this too; repeatable.", value="TOPIC")
    ] = None,
) -> None:
    """Show step by step whether a cluster can be reached, and which rights are missing.

    Of each bootstrap server: its name, TCP, TLS with its certificate, the login, its versions. Of
    each broker that the cluster lists elsewhere: whether it is reached there, as clients need. Of
    each command of kipctl: what the cluster's ACLs have to grant, and what they do not. Nothing is
    changed. It ends with status 3 if no server, or none of those brokers, can be reached, and 4 if
    the login is refused or it is another cluster than expected.
    """
    from kipctl.cluster.acls import rights
    from kipctl.cluster.connection_steps import LOGIN, broker_steps, connection_steps
    from kipctl.cluster.snapshot import is_missing, no_topic
    from kipctl.transport.request import Cluster

    if name is not None:
        if environment.connecting.get("cluster") not in (None, name):
            raise UsageError("CLUSTER and --cluster name two clusters.", "Give one.")
        environment.connecting["cluster"] = name
    access = environment.access(options.bootstrap_server)
    steps = connection_steps(access)
    reached = [step.server for step in steps if step.name == "versions" and step.is_good]
    command_rights: list[CommandRights] = []
    refused: RefusedError | None = None
    if reached:
        with Cluster(access) as cluster:
            try:
                shown = cluster.metadata(topic or ()).topics
                command_rights = rights(cluster, topic or [])
                for asked in shown:
                    if is_missing(asked.error_code):
                        missing = no_topic(asked.name or "", cluster.metadata().topics)
                        environment.message(missing.what)
            except RefusedError as other:  # another cluster than the one that is expected
                refused = other
        if not refused:
            steps += broker_steps(access)
    environment.report(connection_report(steps, command_rights, access), options.output)
    if refused:
        raise refused
    away = [step for step in steps if step.broker is not None and not step.is_good]
    if not reached or (away and len(away) == len(access.brokers)):
        logins = any(step.name == LOGIN and not step.is_good for step in steps)
        raise typer.Exit(ExitStatus.REFUSED if logins else ExitStatus.UNREACHABLE)
