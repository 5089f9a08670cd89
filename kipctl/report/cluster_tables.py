"""Tables of `kipctl clusters`: those that have names, and a test of one step by step."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kipctl.counts import counted
from kipctl.next_step import Command
from kipctl.report.tables import Column, Paragraph, Report, Table, Tone, paragraphs
from kipctl.transport.address_map import suggested_map
from kipctl.transport.product import LIMITS

if TYPE_CHECKING:
    from kipctl.cluster.acls import CommandRights
    from kipctl.cluster.connection_steps import Step
    from kipctl.transport.access import Access
    from kipctl.transport.acl_errors import Right
    from kipctl.transport.clusters import NamedCluster


def clusters_report(file: Path, known: "list[NamedCluster]") -> Report:
    return Report(
        "clusters",
        {"file": str(file), "clusters": [_document(cluster) for cluster in known]},
        (
            Table(
                f"Clusters of {file}",
                ("name", "bootstrap servers", "command config", "rack", "id", "protected", "map"),
                tuple(
                    (
                        cluster.name,
                        cluster.bootstrap_servers,
                        cluster.command_config or None,
                        cluster.rack or None,
                        cluster.id or None,
                        "yes" if cluster.protected else "no",
                        ", ".join(f"{at}={to}" for at, to in cluster.map) or None,
                    )
                    for cluster in known
                ),
                name="clusters",
            ),
        ),
        opening=paragraphs(_counted(known)),
    )


def _counted(known: "list[NamedCluster]") -> str:
    if not known:
        add = Command("clusters add NAME --bootstrap-server HOST:PORT")
        return "No cluster has a name yet: " + add
    if len(known) == 1:
        return f"Cluster {known[0].name} is reached at {known[0].bootstrap_servers}."
    return f"{len(known)} clusters have a name."


def _document(cluster: "NamedCluster") -> dict[str, object]:
    return {
        "name": cluster.name,
        "bootstrap_servers": cluster.bootstrap_servers,
        "command_config": cluster.command_config,
        "rack": cluster.rack,
        "metrics_urls": list(cluster.metrics_urls),
        "protected": cluster.protected,
        "id": cluster.id,
        "map": dict(cluster.map),
    }


def connection_report(
    steps: "list[Step]", command_rights: "list[CommandRights]", access: "Access"
) -> Report:
    """The way to a cluster and its brokers, the rights there, and what does not work on the product
    that it is."""
    products = access.products
    cannot = [
        (", ".join(limit.commands), limit.what, limit.source)
        for product in sorted(products)
        for limit in LIMITS.get(product, ())
    ]
    elsewhere = Table(
        f"Not as on Kafka: {', '.join(sorted(products))}",
        (Column("commands", heads=True), "what", "source"),
        tuple(cannot),
        name="limits",
    )
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
        (Column("command", heads=True), "needs", "missing", "not known"),
        tuple(
            (
                rights.command,
                *(_words(some) for some in (rights.needed, rights.missing, rights.not_known)),
            )
            for rights in command_rights
        ),
        (
            "Rights on topics are those on the topics that --topic names. Topics of kipctl's own "
            "are made and removed by runs, with a name each: grant rights on them by prefix.",
        )
        if command_rights
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
                    "duration_ms": step.ms,
                    "what": step.detail,
                    "broker": step.broker,
                }
                for step in steps
            ],
            "products": sorted(products),
            "limits": [
                dict(zip(("applies_to", "what", "source"), row, strict=True)) for row in cannot
            ],
            "rights": [
                {
                    "command": rights.command,
                    "needed": [str(right) for right in rights.needed],
                    "not_granted": [str(right) for right in rights.missing],
                    "not_known": [str(right) for right in rights.not_known],
                }
                for rights in command_rights
            ],
        },
        (way, *([allowed] if command_rights else []), *([elsewhere] if cannot else [])),
        opening=(_reached(steps, command_rights, len(access.brokers)),),
        closing=tuple(_maps(steps, access)),
        fits_screen=True,
    )


def _maps(steps: "list[Step]", access: "Access") -> Iterator[str]:
    """What to do about brokers that are not reached where the cluster lists them."""
    if away := [step.server for step in steps if step.broker is not None and not step.is_good]:
        yield "Clients go there. Behind tunnels say where these are: " + Command(
            "clusters test", map=suggested_map(away, access.bootstrap[0])
        )


def _reached(steps: "list[Step]", command_rights: "list[CommandRights]", listed: int) -> Paragraph:
    """The first step that fails, or what a user who has come so far may not do; so many brokers are
    `listed`."""
    brokers = [step for step in steps if step.broker is not None]
    on_way = [step for step in steps if step.broker is None]
    servers = {step.server for step in on_way}
    if failed := [step for step in on_way if not step.is_good]:
        reached = len(servers - {step.server for step in failed})
        first = failed[0]
        return Paragraph(
            f"{reached} of {len(servers)} servers can be reached: {first.name} fails at"
            f" {first.server}.",
            tone=Tone.WARNING if reached else Tone.BAD,
        )
    said = f"All {len(servers)} servers can be reached"
    if away := [step for step in brokers if not step.is_good]:
        how_many = "none" if len(away) == listed else f"only {listed - len(away)}"
        return Paragraph(
            f"{said}, but {how_many} of {counted(listed, 'broker')} where the cluster lists"
            f" them, as {away[0].server}: {away[0].detail}.",
            tone=Tone.BAD if len(away) == listed else Tone.WARNING,
        )
    if missing := [rights for rights in command_rights if rights.missing]:
        return Paragraph(
            f"{said}; rights are missing for {', '.join(rights.command for rights in missing)}.",
            tuple(f"{rights.command}: {_words(rights.missing)}" for rights in missing),
            Tone.WARNING,
        )
    if not_known := sum(bool(rights.not_known) for rights in command_rights):
        return Paragraph(
            f"{said}, and no right is missing; for {counted(not_known, 'command')} some are not"
            " known (those on topics that no --topic names, or the cluster does not say)."
        )
    return Paragraph(f"{said}, and no right is missing.", tone=Tone.GOOD)


def _words(rights: "tuple[Right, ...]") -> str | None:
    """Those on one resource together: "Read, Write on Topic; Alter on Cluster"."""
    operations: dict[str, list[str]] = {}
    for right in rights:
        operations.setdefault(right.on, []).append(right.operation)
    return "; ".join(f"{', '.join(which)} on {on}" for on, which in operations.items()) or None
