"""Which cluster a command means, and as whom it goes there."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kipctl.errors import UsageError, no_such
from kipctl.java_properties import is_ascii, read
from kipctl.next_step import Command
from kipctl.security.dialects import as_javas
from kipctl.security.settings import (
    ignored_properties,
    is_about_security,
    refused_by_java,
    unused_by_protocol,
    with_suggestion,
)
from kipctl.transport.clusters import NamedCluster, clusters_file, named_clusters

BOOTSTRAP = "KIPCTL_BOOTSTRAP_SERVER"
CLUSTER = "KIPCTL_CLUSTER"
CONFIG = "KIPCTL_COMMAND_CONFIG"
_WITHOUT_PROTOCOL = (
    "There is no security.protocol, and without it, as with Java's clients, no TLS and no login:"
)


@dataclass(frozen=True, slots=True)
class Target:
    """`servers` is empty where nothing names any: then it is the running lab.

    `cluster` is the named one, if it is one; `properties` those of Java's clients, of which
    `file`, if there is one, says all but what the command was given itself.
    """

    servers: str
    cluster: NamedCluster | None
    properties: Mapping[str, str]
    file: str
    protected_ids: tuple[str, ...]
    """Of all clusters that have a name, those of the protected ones."""
    notes: tuple[str, ...] = ()
    """What was made of the properties, in sentences."""


def target_of(
    servers: str | None,
    options: Mapping[str, Any],
    properties: Mapping[str, str],
    variables: Mapping[str, str],
    labs: Callable[[], Mapping[str, NamedCluster]] = dict,
) -> Target:
    """`servers` is --bootstrap-server, `options` are those of `connecting`, `properties` those that
    the command gives to a client of its own, `labs` tells the labs that run on this machine: their
    names are clusters' names too, where clusters.toml has no such one.

    What is given to the command beats the environment's variables. A named cluster is reached as
    its entry says, unless --command-config says otherwise. Raises UsageError.
    """
    name, file = options.get("cluster"), options.get("command_config") or ""
    if servers and name:
        raise UsageError("--bootstrap-server and --cluster name two clusters.", "Give one.")
    known = named_clusters(clusters_file(variables))
    given, taken = own = as_javas(_read(file) | dict(properties))
    servers = servers or given.get("bootstrap.servers")
    if not name and not servers:
        name = variables.get(CLUSTER)
    if name and name not in known:
        known = {**known, **labs()}
    cluster = named_cluster(name, known) if name else None
    if cluster is not None:
        servers = cluster.bootstrap_servers
    notes = []
    if not any(map(is_about_security, given)):
        if cluster is not None:
            if file:
                notes.append(f"{file} says nothing of security: the entry of {name} does.")
            file = cluster.command_config
        elif file:  # what a command is given beats the variable, also where it says nothing
            notes.append(f"{file} says nothing of security: no TLS, and no login.")
        else:
            file = variables.get(CONFIG, "")
        theirs, taken = as_javas(_read(file))
        if properties and cluster is None and any(map(is_about_security, theirs)):
            notes.append(f"How to connect is said by {CONFIG}: {file}.")
        given = theirs | given
    servers = servers or variables.get(BOOTSTRAP) or given.get("bootstrap.servers", "")
    if not servers:  # a variable's login is not the lab's
        given, taken = own
        file, notes = options.get("command_config") or "", []
    if taken:
        notes.append(f"{file or 'The properties'}, as Java's clients say it: {', '.join(taken)}.")
    protected = (entry.id for entry in known.values() if entry.protected and entry.id)
    return Target(servers, cluster, given, file, tuple(protected), tuple(notes))


def repeated_options(servers: str | None, options: Mapping[str, Any]) -> tuple[str, ...]:
    """What names the same cluster to the next command: `servers` is --bootstrap-server.

    What a variable says, or which lab runs, is as true for that one. --expect-cluster is a
    consent, which nobody else gives.
    """
    words = ["--bootstrap-server", servers] if servers else []
    for option in ("--cluster", "--command-config"):
        if value := options.get(option.removeprefix("--").replace("-", "_")):
            words += [option, str(value)]
    for mapped in options.get("map") or ():
        words += ["--map", mapped]
    return tuple(words)


def _read(file: str) -> dict[str, str]:
    return read(Path(file).expanduser()) if file else {}


def named_cluster(name: str, known: Mapping[str, NamedCluster]) -> NamedCluster:
    """The one of that name. Raises UsageError, which names those that there are."""
    if name not in known:
        raise UsageError(
            no_such("cluster", name, known),
            "Add it: " + Command("clusters add NAME --bootstrap-server HOST:PORT"),
        )
    return known[name]


def unused(properties: Mapping[str, str], file: str) -> Iterator[str]:
    """Which of them do nothing, in sentences: they may be misspelt, or be Java's alone."""
    others = [name for name in properties if not is_about_security(name)]
    others = [name for name in others if name != "bootstrap.servers"]
    if file and others:
        yield f"Of {file} this says nothing of how to connect: {', '.join(others)}."
    if names := ignored_properties(properties):
        yield f"Not used by kipctl: {', '.join(map(with_suggestion, names))}."
    yield from refused_by_java(properties)
    if file and not is_ascii(Path(file)):
        yield (
            f"{file} is read as UTF-8, and by Java as ISO 8859-1: write what is not ASCII as"
            r" \uXXXX."
        )
    if names := unused_by_protocol(properties):
        protocol = properties.get("security.protocol")
        why = f"With security.protocol={protocol}" if protocol else _WITHOUT_PROTOCOL
        yield f"{why} these do nothing: {', '.join(names)}."
