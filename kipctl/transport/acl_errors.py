"""What the cluster's ACLs refuse, in their own words: operation, resource and principal."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from kipctl.errors import RefusedError
from kipctl.own_topic_names import OWN_TOPICS
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.transport.access import Access

CLUSTER, TOPIC = "Cluster", "Topic"


class Right(NamedTuple):
    """An operation of Kafka's ACLs on a kind of resource."""

    operation: str
    resource: str
    prefix: str = ""
    """Of the names of topics that are meant, as of kipctl's own; "" for those that are named."""

    @property
    def on(self) -> str:
        """The resource, and how its names begin: "Topic kipctl-perf-*"."""
        return f"{self.resource} {self.prefix}-*" if self.prefix else self.resource

    def __str__(self) -> str:
        return f"{self.operation} on {self.on}"

    @property
    def option(self) -> str:
        """Of kafka-acls, for the resource."""
        return "--cluster" if self.resource == CLUSTER else f"--{self.resource.lower()}"


RIGHTS = {
    ApiKey.PRODUCE: Right("Write", TOPIC),
    ApiKey.FETCH: Right("Read", TOPIC),
    ApiKey.LIST_OFFSETS: Right("Describe", TOPIC),
    ApiKey.METADATA: Right("Describe", TOPIC),
    ApiKey.CREATE_TOPICS: Right("Create", TOPIC),
    ApiKey.DELETE_TOPICS: Right("Delete", TOPIC),
    ApiKey.INIT_PRODUCER_ID: Right("Write", TOPIC),  # on any (KIP-679, Kafka 2.8)
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Right("Describe", TOPIC),
    ApiKey.DESCRIBE_CONFIGS: Right("DescribeConfigs", CLUSTER),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Right("Alter", CLUSTER),
    ApiKey.DESCRIBE_LOG_DIRS: Right("Describe", CLUSTER),
    ApiKey.ELECT_LEADERS: Right("Alter", CLUSTER),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Right("AlterConfigs", CLUSTER),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Right("Alter", CLUSTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Right("Describe", CLUSTER),
    ApiKey.DESCRIBE_QUORUM: Right("Describe", CLUSTER),
    ApiKey.DESCRIBE_CLUSTER: Right("Describe", CLUSTER),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Right("Describe", TOPIC),
    ApiKey.DESCRIBE_PRODUCERS: Right("Read", TOPIC),
}
"""What each request needs (Kafka's documentation, "Protocol"; `KafkaApis`, `ControllerApis`)."""

_DENIED = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


def refusal(
    what: str,
    code: int,
    request: ApiKey,
    access: Access,
    topic: str = "",
    broker_message: str | None = None,
    otherwise: str = "",
) -> RefusedError:
    """The error that `what` has met; `broker_message` are the broker's own words, if any.

    Where a right is missing it is named, with the command that grants it, and what to do
    `otherwise`.
    """
    denied = denial(code, request, access, topic)
    if denied is None:
        error = ErrorCode(code)
        why = (broker_message or error.message).rstrip(".")
        return RefusedError(f"{what}: {error.name} ({why}).")
    return RefusedError(
        f"{what}: {denied.what}", denied.next_step + (f"\nOr {otherwise}." if otherwise else "")
    )


def denial(code: int, request: ApiKey, access: Access, topic: str = "") -> RefusedError | None:
    """The right that is missing, as a sentence, and the command that grants it.

    None for an error code that tells of something else.
    """
    error = ErrorCode(code)
    if error not in _DENIED or request not in RIGHTS:
        return None
    right = RIGHTS[request]
    if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        right = right._replace(resource=TOPIC)  # as of DescribeConfigs, which is of either
    resource = f"{right.resource} {topic}".strip() if right.resource == TOPIC else "the Cluster"
    principal = access.security.principal
    return RefusedError(
        f"{principal} has no right to {right.operation} on {resource} ({error.name}).",
        grant_it((right,), access, topic),
    )


def grant_it(rights: Sequence[Right], access: Access, topic: str = "") -> str:
    """What gives these rights on one resource to the client."""
    if access.security.is_iam:
        return "Its IAM policy has to allow the kafka-cluster: action for that."
    return f"Grant it: {shlex.join(_granting(rights, access, topic))}"


def _granting(rights: Sequence[Right], access: Access, topic: str) -> list[str]:
    """The command that grants rights on one resource; who may do so has a file of his own."""
    return [
        *("kafka-acls", "--bootstrap-server", access.bootstrap_servers),
        *(("--command-config", "ADMIN.properties") if access.is_secured else ()),
        *("--add", "--allow-principal", access.security.principal),
        *(word for right in rights for word in ("--operation", right.operation)),
        rights[0].option,
        *(_pattern(topic) if rights[0].resource == TOPIC and topic else ()),
    ]


def _pattern(topic: str) -> tuple[str, ...]:
    """What names the topic to kafka-acls, or all of kipctl's own, as each run has another one."""
    for prefix in OWN_TOPICS:
        if topic.startswith(f"{prefix}-"):
            return prefix, "--resource-pattern-type", "prefixed"
    return (topic,)
