"""What a roll is planned from, asked of the cluster. Changes nothing."""

from kipctl.changes.execution.safety_checks import min_insync_replicas
from kipctl.cluster.acls import hidden_topics_warning, no_topics_warning
from kipctl.cluster.reassignments import list_reassignments
from kipctl.cluster.registered_brokers import registered_brokers
from kipctl.cluster.snapshot import PartitionId, take_snapshot
from kipctl.errors import KipctlError, RefusedError
from kipctl.roll.plan import Facts
from kipctl.roll.quorum import Quorum, ask_quorum
from kipctl.transport.request import Cluster


def ask_facts(cluster: Cluster) -> Facts:
    """Look at brokers, partitions, controllers, and what is being reassigned.

    What the cluster refuses to report is in `not_known`. Raises UnreachableError.
    """
    not_known = []
    moving: tuple[PartitionId, ...] = ()
    try:
        moving = tuple(reassignment.id for reassignment in list_reassignments(cluster))
    except RefusedError as refused:
        not_known.append(f"What is being reassigned is not known: {refused.what}")
    snapshot = take_snapshot(cluster)
    quorum: Quorum | None = None
    try:
        quorum = ask_quorum(cluster)
    except KipctlError as failed:
        not_known.append(failed.what)
    fenced: tuple[int, ...] = ()
    try:
        registered = registered_brokers(cluster)
        fenced = tuple(sorted(broker.broker_id for broker in registered if broker.is_fenced))
    except KipctlError as failed:
        not_known.append(f"Which registered brokers are down is not known: {failed.what}")
    hidden = no_topics_warning(cluster, snapshot.topics)
    if snapshot.topics and (some := hidden_topics_warning(cluster, snapshot.topics)):
        not_known.append(some)
    return Facts(
        snapshot,
        None if quorum is None else quorum.ids,
        None if quorum is None else quorum.active,
        fenced,
        min_insync_replicas(cluster, snapshot.topics),
        moving,
        tuple(not_known),
        quorum,
        hidden,
    )
