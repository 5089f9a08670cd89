"""What the cluster's ACLs let the client do, and which topics they may hide from it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kipctl.cluster.snapshot import is_glob
from kipctl.errors import KipctlError, RefusedError
from kipctl.own_topic_names import OWN_MANY, OWN_ONE, OWN_TOPICS, new_name
from kipctl.protocol.describe_cluster import DescribeClusterRequest
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import only
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic
from kipctl.transport.acl_errors import CLUSTER, TOPIC, Right, grant_it
from kipctl.transport.request import Cluster

_OPERATIONS = {
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    "Describe": 8,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
    "IdempotentWrite": 12,
}
"""Bits of authorized operations: the codes of Kafka's `AclOperation`."""
_NOT_DESCRIBABLE = -1
"""Of a topic that the client may not Describe: its other rights are not shown."""
_IMPLY_DESCRIBE = ("Describe", "Read", "Write", "Delete", "Alter")
"""Who may one of these may Describe (Kafka's documentation, "Operations in Kafka")."""
_CONFIGS = {
    resource: (Right("DescribeConfigs", resource), Right("AlterConfigs", resource))
    for resource in (CLUSTER, TOPIC)
}
_MOVES_LEADERS = (Right("Describe", CLUSTER), Right("Alter", CLUSTER))


def _on_own_topics(prefix: str, *operations: str) -> tuple[Right, ...]:
    """On topics that kipctl makes, whose names begin with this, and removes again."""
    return tuple(Right(operation, TOPIC, prefix) for operation in ("Create", *operations, "Delete"))


NEEDED: dict[str, tuple[Right, ...]] = {
    "inspect leaders, metadata": (Right("Describe", TOPIC),),
    "inspect metadata --measure-convergence": (*_on_own_topics(OWN_MANY), *_MOVES_LEADERS),
    "inspect hints": (Right("Write", TOPIC), Right("Read", TOPIC)),
    "inspect replica-selection": (Right("Read", TOPIC), Right("DescribeConfigs", CLUSTER)),
    "inspect brokers": (
        Right("Describe", TOPIC),
        Right("DescribeConfigs", TOPIC),
        Right("DescribeConfigs", CLUSTER),
    ),
    "reassign, undo, elect": _MOVES_LEADERS,
    "throttle": (
        Right("Describe", CLUSTER),
        *_CONFIGS[CLUSTER],
        *_CONFIGS[TOPIC],
        Right("Describe", TOPIC),
    ),
    "throttle adapt, --guard of latencies": _on_own_topics(OWN_ONE, "Write"),
    "wait": (Right("Describe", TOPIC), Right("Describe", CLUSTER)),
    "roll": (*_MOVES_LEADERS, Right("Describe", TOPIC), Right("DescribeConfigs", TOPIC)),
    "request-log": _CONFIGS[CLUSTER],
    "perf produce --topic": (Right("Write", TOPIC),),
    "perf consume --topic": (Right("Read", TOPIC),),
    "perf e2e --topic": (Right("Write", TOPIC), Right("Read", TOPIC)),
    "perf --during": _MOVES_LEADERS,
    "perf without --topic": _on_own_topics(OWN_ONE, "Write", "Read"),
    "perf metadata": (*_on_own_topics(OWN_MANY, "Write"), *_MOVES_LEADERS),
    "tap": (),
}
"""What commands need. A tap asks for nothing itself: what passes it are its clients' requests, with
their rights. (Who may write to any topic may be idempotent: KIP-679.)"""


@dataclass(frozen=True, slots=True)
class CommandRights:
    """What a command needs, and what of it is missing; what cannot be known is in neither."""

    command: str
    needed: tuple[Right, ...]
    missing: tuple[Right, ...]
    not_known: tuple[Right, ...]


def rights(cluster: Cluster, topics: Sequence[str]) -> list[CommandRights]:
    """What the client lacks for each command, on the cluster, on these topics, and on kipctl's own.

    Without ACLs nothing is missing. Those of kipctl's own are asked for by a name of that kind,
    which no topic has. Topics that the client may not even see lack everything that lets it see
    them.
    """
    of_cluster = _cluster_operations(cluster)
    of_topics = [_topic_operations(cluster, topic) for topic in topics]
    of_own = {prefix: _topic_operations(cluster, new_name(prefix)) for prefix in OWN_TOPICS}

    def is_granted(right: Right) -> bool | None:
        if right.resource == CLUSTER:
            return _granted_on_all(right, [of_cluster])
        if right.operation == "Create" and of_cluster and _allows(of_cluster, right):
            return True  # on the cluster: of any topic
        return _granted_on_all(right, [of_own[right.prefix]] if right.prefix else of_topics)

    commands = []
    for command, needed in NEEDED.items():
        granted = {right: is_granted(right) for right in needed}
        missing = tuple(right for right in needed if granted[right] is False)
        not_known = tuple(right for right in needed if granted[right] is None)
        commands.append(CommandRights(command, needed, missing, not_known))
    return commands


def _granted_on_all(right: Right, granted: Sequence[int | None]) -> bool | None:
    """Whether the right is among the bits granted on each resource; None if that is not known."""
    if any(
        bits is not None and bits != _NOT_DESCRIBABLE and not _allows(bits, right)
        for bits in granted
    ):
        return False
    if _NOT_DESCRIBABLE in granted and right.operation in _IMPLY_DESCRIBE:
        return False
    return None if not granted or None in granted or _NOT_DESCRIBABLE in granted else True


_ALL_CLUSTER_OPERATIONS = ("Create", "Alter", "Describe", "DescribeConfigs", "AlterConfigs")
"""On the cluster. Without an authorizer everybody has them, and super users do."""


def hidden_topics_warning(
    cluster: Cluster, topics: Collection[str], named: Sequence[str] = ()
) -> str:
    """What a look at `topics` may not have shown, as a sentence; "" for nothing.

    A cluster shows the topics that the client may Describe, and is silent about others. Who holds
    every operation on the cluster is taken to see them all. Topics that are `named` themselves, not
    by a glob, are not passed over in silence: they are refused.
    """
    security = cluster.access.security
    if not security.is_authenticated or (named and not any(map(is_glob, named))):
        return ""
    if not topics:
        return f"No topic is shown: there is none, or none that {security.principal} may Describe."
    if not may_be_shown_less(cluster):
        return ""
    return f"Topics that {security.principal} may not Describe are not among these."


def no_topics_warning(cluster: Cluster, topics: Collection[str]) -> str:
    """A sentence when there may be no `topics` because the client may not Describe any; else "".

    Who holds every operation on the cluster is taken to see them all: then there are none.
    """
    if topics or not cluster.access.security.is_authenticated:
        return ""
    if _sees_all_topics(cluster):
        return ""
    return hidden_topics_warning(cluster, topics)


def require_topics_shown(cluster: Cluster, topics: Collection[str]) -> None:
    """Raise RefusedError where there may be no `topics` because the client may not Describe any:
    what is asked of all topics would be said of none."""
    if nothing := no_topics_warning(cluster, topics):
        raise RefusedError(nothing, grant_it((Right("Describe", TOPIC),), cluster.access, "*"))


def require_to_move_leaders(cluster: Cluster) -> None:
    """Raise RefusedError for a client that lacks a right on the cluster to move leaders, as far as
    the cluster says: before a load that would be spent in vain."""
    bits = _cluster_operations(cluster)
    missing = [right for right in _MOVES_LEADERS if bits is not None and not _allows(bits, right)]
    if missing:
        operations = " and ".join(right.operation for right in missing)
        raise RefusedError(
            f"{cluster.access.security.principal} has no right to {operations} on the Cluster, as"
            " moving leaders needs.",
            grant_it(missing, cluster.access),
        )


def may_be_shown_less(cluster: Cluster) -> bool:
    """Whether the client may be shown less than there is, of what ACLs hide without a word."""
    return cluster.access.security.is_authenticated and _sees_all_topics(cluster) is False


def _sees_all_topics(cluster: Cluster) -> bool | None:
    """None if the cluster does not say."""
    bits = _cluster_operations(cluster)
    if bits is None:
        return None
    return all(_allows(bits, Right(operation, CLUSTER)) for operation in _ALL_CLUSTER_OPERATIONS)


def _allows(bits: int, right: Right) -> bool:
    return bool(bits >> _OPERATIONS[right.operation] & 1)


def _cluster_operations(cluster: Cluster) -> int | None:
    """Bits; None if the cluster does not say."""
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    try:
        answer = cluster.any_broker().request(asked)
    except KipctlError:
        return None
    if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return 0
    return None if answer.error_code else answer.cluster_authorized_operations


def _topic_operations(cluster: Cluster, topic: str) -> int | None:
    """Bits, also of a topic that does not exist; None if the cluster does not say."""
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=topic),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    described = only(cluster.any_broker().request(request).topics)
    if described.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return _NOT_DESCRIBABLE
    bits = described.topic_authorized_operations
    return bits if bits >= 0 else None
