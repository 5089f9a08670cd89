"""`kipctl clusters`: clusters by name, and whether they can be reached."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kipctl.cli.environment import Environment
from kipctl.cli.options import BootstrapOption, OutputOption
from kipctl.cli.target import named_cluster
from kipctl.errors import ExitStatus, RefusedError, UsageError
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Column, Paragraph, Report, Table, Tone, paragraphs

if TYPE_CHECKING:
    from kipctl.cluster.acls import CommandRights
    from kipctl.cluster.connection_steps import Step
    from kipctl.transport.acl_errors import Right
    from kipctl.transport.clusters import NamedCluster

app = typer.Typer(help="Name clusters, and see whether they can be reached.", no_args_is_help=True)


@app.command("list")
def list_(context: typer.Context, output: OutputOption = OutputFormat.AUTO) -> None:
    """Show the clusters that have a name, in clusters.toml of kipctl's configuration."""
    environment = context.ensure_object(Environment)
    from kipctl.transport.clusters import clusters_file, named_clusters

    file = clusters_file(environment.variables)
    known = named_clusters(file)
    environment.report(_listed(file, list(known.values())), output)


@app.command()
def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="CLUSTER")],
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Show one cluster's entry."""
    environment = context.ensure_object(Environment)
    from kipctl.transport.clusters import clusters_file, named_clusters

    file = clusters_file(environment.variables)
    known = named_clusters(file)
    environment.report(_listed(file, [named_cluster(name, known)]), output)


@app.command()
def add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    servers: Annotated[
        str,
        typer.Option("--bootstrap-server", metavar="HOST:PORT,...", help="Brokers to ask first."),
    ],
    command_config: Annotated[
        str,
        typer.Option("--command-config", metavar="FILE", help="Properties of Java's clients."),
    ] = "",
    rack: Annotated[
        str, typer.Option("--client-rack", metavar="RACK", help="Where this machine is.")
    ] = "",
    metrics_url: Annotated[
        list[str] | None,
        typer.Option("--metrics-url", metavar="URL", help="A broker's metrics; repeatable."),
    ] = None,
    protected: Annotated[
        bool,
        typer.Option("--protected", help="Changes need --expect-cluster beside --yes."),
    ] = False,
    id_: Annotated[
        str, typer.Option("--expect-cluster", metavar="ID", help="Refuse a cluster of another id.")
    ] = "",
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="HOST:PORT=HOST:PORT",
            help="Reach a broker at another address; repeatable.",
        ),
    ] = None,
) -> None:
    """Give a cluster a name, for --cluster and KIPCTL_CLUSTER.

    Nothing is connected to; kipctl clusters test does that.
    """
    environment = context.ensure_object(Environment)
    from kipctl.cluster.metrics_url import demand_url
    from kipctl.java_properties import read
    from kipctl.security.settings import security_of
    from kipctl.transport.access import parse_bootstrap_servers, parse_map
    from kipctl.transport.clusters import NamedCluster, add_cluster, clusters_file

    if not name.strip() or name != name.strip():
        raise UsageError(f"{name!r} is no name for a cluster.")
    parse_bootstrap_servers(servers)
    if command_config:
        command_config = str(Path(command_config).expanduser().absolute())
        security_of(read(Path(command_config)))
    for url in metrics_url or ():
        demand_url(url)
    mapped = tuple((str(at), str(to)) for at, to in parse_map(map_ or []).items())
    file = clusters_file(environment.variables)
    entry = NamedCluster(
        name, servers, command_config, rack, tuple(metrics_url or ()), protected, id_, mapped
    )
    add_cluster(file, entry)
    environment.message(f"Added to {file}. See whether it answers: kipctl clusters test {name}")


@app.command("test")
def check(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[CLUSTER]")] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Look at rights on this too; repeatable."),
    ] = None,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Show step by step whether a cluster can be reached, and which rights are missing.

    Of each bootstrap server: its name, TCP, TLS with its certificate, the login, its versions. Of
    each command of kipctl: what the cluster's ACLs have to grant, and what they do not. Nothing is
    changed. It ends with status 3 if no server can be reached, and 4 if the login is refused or it
    is another cluster than expected.
    """
    environment = context.ensure_object(Environment)
    from kipctl.cluster.acls import rights
    from kipctl.cluster.connection_steps import LOGIN, connection_steps
    from kipctl.cluster.snapshot import is_missing, no_topic
    from kipctl.transport.request import Cluster

    if name is not None:
        if environment.connecting.get("cluster") not in (None, name):
            raise UsageError("CLUSTER and --cluster name two clusters.", "Give one.")
        environment.connecting["cluster"] = name
    access = environment.access(bootstrap_server)
    steps = connection_steps(access)
    reached = [step.server for step in steps if step.name == "versions" and step.is_good]
    found: list[CommandRights] = []
    refused: RefusedError | None = None
    if reached:
        with Cluster(access) as cluster:
            try:
                shown = cluster.metadata(topic or ()).topics
                found = rights(cluster, topic or [])
                for one in shown:
                    if is_missing(one.error_code):
                        missing = no_topic(one.name or "", cluster.metadata().topics)
                        environment.message(missing.what)
            except RefusedError as other:  # another cluster than the one that is expected
                refused = other
    environment.report(_tested(steps, found), output)
    if refused:
        raise refused
    if not reached:
        logins = any(step.name == LOGIN and not step.is_good for step in steps)
        raise typer.Exit(ExitStatus.REFUSED if logins else ExitStatus.UNREACHABLE)


def _listed(file: Path, known: "list[NamedCluster]") -> Report:
    return Report(
        "clusters",
        {"file": str(file), "clusters": [_document(one) for one in known]},
        (
            Table(
                f"Clusters of {file}",
                ("name", "bootstrap servers", "command config", "rack", "id", "protected", "map"),
                tuple(
                    (
                        one.name,
                        one.bootstrap_servers,
                        one.command_config or None,
                        one.rack or None,
                        one.id or None,
                        "yes" if one.protected else "no",
                        ", ".join(f"{at}={to}" for at, to in one.map) or None,
                    )
                    for one in known
                ),
            ),
        ),
        opening=paragraphs(_counted(known)),
    )


def _counted(known: "list[NamedCluster]") -> str:
    if not known:
        return "No cluster has a name yet: kipctl clusters add NAME --bootstrap-server HOST:PORT"
    if len(known) == 1:
        return f"Cluster {known[0].name} is reached at {known[0].bootstrap_servers}."
    return f"{len(known)} clusters have a name."


def _document(one: "NamedCluster") -> dict[str, object]:
    return {
        "name": one.name,
        "bootstrap_servers": one.bootstrap_servers,
        "command_config": one.command_config,
        "rack": one.rack,
        "metrics_urls": list(one.metrics_urls),
        "protected": one.protected,
        "id": one.id,
        "map": dict(one.map),
    }


def _tested(steps: "list[Step]", found: "list[CommandRights]") -> Report:
    way = Table(
        "The way there",
        ("server", "step", "", Column("ms", 1), "what"),
        tuple(
            (str(step.server), step.name, "ok" if step.is_good else "fails", step.ms, step.detail)
            for step in steps
        ),
        name="steps",
    )
    allowed = Table(
        "Rights",
        ("command", "needs", "missing", "not known"),
        tuple(
            (one.command, *(_words(some) for some in (one.needed, one.missing, one.not_known)))
            for one in found
        ),
        (
            "Rights on topics are those on the topics that --topic names. Topics of kipctl's own "
            "are made and removed by runs, with a name each: grant rights on them by prefix.",
        )
        if found
        else (),
        name="rights",
    )
    return Report(
        "clusters test",
        {
            "steps": [
                {
                    "server": str(step.server),
                    "step": step.name,
                    "ok": step.is_good,
                    "ms": step.ms,
                    "what": step.detail,
                }
                for step in steps
            ],
            "rights": [
                {
                    "command": one.command,
                    "needed": [str(right) for right in one.needed],
                    "missing": [str(right) for right in one.missing],
                    "not_known": [str(right) for right in one.not_known],
                }
                for one in found
            ],
        },
        (way, allowed) if found else (way,),
        opening=(_reached(steps, found),),
    )


def _reached(steps: "list[Step]", found: "list[CommandRights]") -> Paragraph:
    """The first step that fails, or what a user who has come so far may not do."""
    servers = {step.server for step in steps}
    if failed := [step for step in steps if not step.is_good]:
        reached = len(servers - {step.server for step in failed})
        first = failed[0]
        return Paragraph(
            f"{reached} of {len(servers)} servers can be reached: {first.name} fails at"
            f" {first.server}.",
            tone=Tone.WARNING if reached else Tone.BAD,
        )
    said = f"All {len(servers)} servers can be reached"
    if missing := [one.command for one in found if one.missing]:
        listed = ", ".join(missing)
        return Paragraph(f"{said}; rights are missing for {listed}.", tone=Tone.WARNING)
    return Paragraph(f"{said}, and no right is missing.", tone=Tone.GOOD)


def _words(rights: "tuple[Right, ...]") -> str | None:
    return ", ".join(map(str, rights)) or None
