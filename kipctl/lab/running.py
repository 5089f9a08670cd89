"""The labs that run on this machine, where no cluster is named, or none answers."""

from collections.abc import Callable, Sequence

from kipctl.errors import UsageError
from kipctl.lab.cluster import Lab, running_labs
from kipctl.next_step import Command
from kipctl.protocol.address import in_brief
from kipctl.transport.access import parse_bootstrap_servers
from kipctl.transport.clusters import NamedCluster

_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")


def orphaned(lab: str) -> str:
    """What to say of a lab whose run is gone."""
    return f"The run that made lab {lab!r} is gone. Remove it: " + Command("lab down", name=lab)


def labs_of_users() -> list[Lab]:
    """The labs that run, but for those that a run has made for itself: they are nobody else's, and
    least of all one that nobody looks after."""
    return [lab for lab in running_labs() if lab.owner is None]


def labs_elsewhere(asked: Sequence[tuple[str, int]]) -> list[str]:
    """The labs that are not where this machine was asked for a cluster, and their addresses."""
    return [
        f"{lab.name!r} at {in_brief(lab.bootstrap_server)}"
        for lab in (labs_of_users() if any(host in _THIS_MACHINE for host, _ in asked) else ())
        if set(asked).isdisjoint(parse_bootstrap_servers(lab.bootstrap_server))
    ]


def labs_as_clusters() -> dict[str, NamedCluster]:
    """The labs that a user may name, by name, as an entry of clusters.toml has them."""
    return {
        lab.name: NamedCluster(
            lab.name,
            lab.bootstrap_server,
            command_config=str(lab.client_properties or ""),
            metrics_urls=lab.metrics_urls,
        )
        for lab in labs_of_users()
    }


def the_running_lab(say: Callable[[str], None]) -> Lab:
    """The one that a command means which names no cluster. Raises UsageError.

    It is said which one that is, and of which labs the run is gone.
    """
    for lab in running_labs():
        if lab.is_orphan:
            say(orphaned(lab.name))
    labs = labs_of_users()
    if len(labs) == 1:
        say(f"Using the running lab {labs[0].name!r} at {in_brief(labs[0].bootstrap_server)}.")
        return labs[0]
    if labs:
        names = ", ".join(f"{lab.name} ({in_brief(lab.bootstrap_server)})" for lab in labs)
        raise UsageError(
            f"No cluster was named, and several labs run: {names}.",
            f"Give --cluster {labs[0].name}, or another of them.",
        )
    raise UsageError(
        "No cluster was named, and no lab runs.",
        "Give --bootstrap-server, set KIPCTL_BOOTSTRAP_SERVER, or start one: "
        + Command("lab up")
        + ".",
    )
