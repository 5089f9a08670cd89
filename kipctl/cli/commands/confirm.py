"""Questions that are asked on every cluster but kipctl's own labs, which are there to be tried."""

from typing import TYPE_CHECKING

from kipctl.cli.environment import Environment
from kipctl.counts import counted

if TYPE_CHECKING:
    from kipctl.load.actions import Action
    from kipctl.transport.access import Access
    from kipctl.transport.request import Cluster


def is_lab(cluster: "Cluster") -> bool:
    """Whether it is a lab of kipctl's that runs."""
    from kipctl.errors import UsageError
    from kipctl.load.actions import lab_of

    try:
        lab_of(cluster)
    except UsageError:
        return False
    return True


def confirm_unless_lab(
    environment: Environment, cluster: "Cluster", question: str, yes: bool
) -> None:
    """Ask, unless it is a lab. Raises what `Environment.confirm` raises."""
    if not is_lab(cluster):
        environment.confirm(question, yes)


def confirm_moves(
    environment: Environment, access: "Access", topic: str, during: "Action | None", yes: bool
) -> None:
    """Ask before the leaders of a topic are moved that kipctl has not made itself.

    Raises UsageError when there is no such topic, and what `Environment.confirm` raises.
    """
    from kipctl.cluster.snapshot import take_snapshot
    from kipctl.load.actions import ActionKind
    from kipctl.load.plan import OWN_TOPIC
    from kipctl.transport.request import Cluster

    if during is None or topic == OWN_TOPIC or during.kind is ActionKind.RESTART:  # labs' alone
        return
    with Cluster(access) as cluster:
        partitions = len(take_snapshot(cluster, [topic]).partitions)
        confirm_unless_lab(
            environment,
            cluster,
            f"--during {during} moves the leaders of {counted(partitions, 'partition')} of topic"
            f" {topic!r}, again and again while it runs: each time all its clients have to find"
            " them. Begin?",
            yes,
        )


def confirm_topics(
    environment: Environment, access: "Access", topics: int, partitions: int, yes: bool
) -> None:
    """Ask before many topics are made. Raises what `Environment.confirm` raises."""
    from kipctl.load.metadata.run import REPLICAS
    from kipctl.transport.request import Cluster

    with Cluster(access) as cluster:
        replicas = topics * partitions * min(REPLICAS, len(cluster.nodes))
        confirm_unless_lab(
            environment,
            cluster,
            f"It makes {counted(topics, 'topic')} with {counted(replicas, 'replica')} in all,"
            " moves leaders of them,"
            " and removes them. Begin?",
            yes,
        )
