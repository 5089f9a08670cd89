"""Many topics at once, for measuring: made, waited for, and removed."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from kipctl.errors import TimedOutError
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.list_offsets import (
    CONSUMER_REPLICA_ID,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from kipctl.protocol.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster
from kipctl.transport.rights import refusal

_TIMEOUT_S = 120.0
_TIMEOUT_MS = 60_000
_POLL_S = 0.2
_PARTITIONS_AT_ONCE = 2_000
"""Partitions that one request makes; a controller takes 10,000 records for a request."""


def create_topics(
    access: Access, names: Sequence[str], partitions: int, replication_factor: int
) -> None:
    """Create the topics. Raises RefusedError."""
    at_once = max(1, _PARTITIONS_AT_ONCE // partitions)
    with Cluster(access, timeout_s=_TIMEOUT_S) as cluster:
        for first in range(0, len(names), at_once):
            asked = CreateTopicsRequest(
                topics=tuple(
                    CreatableTopic(
                        name=name, num_partitions=partitions, replication_factor=replication_factor
                    )
                    for name in names[first : first + at_once]
                ),
                timeout_ms=_TIMEOUT_MS,
            )
            for made in cluster.ask_controller(asked).topics:
                if made.error_code:
                    what = f"Topic {made.name!r} cannot be made"
                    raise refusal(
                        what,
                        made.error_code,
                        ApiKey.CREATE_TOPICS,
                        access,
                        made.name,
                        made.error_message,
                    )


def delete_topics(access: Access, names: Sequence[str]) -> None:
    """Delete the topics; those that are gone already are no error. Raises RefusedError."""
    asked = DeleteTopicsRequest(
        topics=tuple(DeleteTopicState(name=name) for name in names),
        topic_names=tuple(names),
        timeout_ms=_TIMEOUT_MS,
    )
    with Cluster(access, timeout_s=_TIMEOUT_S) as cluster:
        for gone in cluster.ask_controller(asked).responses if names else ():
            if gone.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                what = f"Topic {gone.name!r} cannot be removed"
                name = gone.name or ""
                raise refusal(
                    what, gone.error_code, ApiKey.DELETE_TOPICS, access, name, gone.error_message
                )


def topics_named(cluster: Cluster, pattern: str) -> tuple[str, ...]:
    """The topics whose whole name this regular expression matches."""
    shown = (topic.name or "" for topic in cluster.metadata(None).topics)
    return tuple(name for name in shown if re.fullmatch(pattern, name))


def await_topics(cluster: Cluster, names: Sequence[str]) -> dict[str, UUID]:
    """Wait until every broker shows all topics led and in sync, and leaders know that they lead.

    A broker's Metadata shows a topic before it takes records for it. Returns their ids by name.
    Raises TimedOutError.
    """
    ids: dict[str, UUID] = {}

    def are_there() -> bool:
        seen: list[MetadataResponseTopic] = []
        for seen in _as_seen(cluster, names):
            if not all(map(_is_ready, seen)):
                return False
            ids.update((topic.name or "", topic.topic_id) for topic in seen)
        return all(_leads(cluster, broker, seen) for broker in cluster.nodes)

    _await(are_there, "are not in sync on all brokers")
    return ids


def await_no_topics(cluster: Cluster, names: Sequence[str]) -> None:
    """Wait until no broker shows any of the topics. Raises TimedOutError."""
    _await(
        lambda: all(topic.error_code for seen in _as_seen(cluster, names) for topic in seen),
        "are still shown by a broker",
    )


def _await(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimedOutError(
                f"The topics {otherwise} after {_TIMEOUT_S:.0f} s.",
                "Try fewer topics, or look: kipctl inspect leaders",
            )
        time.sleep(_POLL_S)


def _as_seen(cluster: Cluster, names: Sequence[str]) -> Iterator[list[MetadataResponseTopic]]:
    """The topics as each broker shows them, one broker after the other."""
    request = MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=name) for name in names),
        allow_auto_topic_creation=False,
    )
    for broker in cluster.nodes:
        yield list(cluster.broker(broker).request(request).topics)


def _leads(cluster: Cluster, broker: int, topics: Sequence[MetadataResponseTopic]) -> bool:
    """Whether the broker knows that it leads what Metadata says it leads."""
    by_topic = {
        topic.name or "": tuple(
            ListOffsetsPartition(partition_index=p.partition_index, timestamp=LATEST_TIMESTAMP)
            for p in topic.partitions
            if p.leader_id == broker
        )
        for topic in topics
    }
    request = ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        topics=tuple(
            ListOffsetsTopic(name=name, partitions=of) for name, of in by_topic.items() if of
        ),
    )
    answer = cluster.broker(broker).request(request)
    return not any(p.error_code for topic in answer.topics for p in topic.partitions)


def _is_ready(topic: MetadataResponseTopic) -> bool:
    return not topic.error_code and all(
        p.leader_id >= 0 and set(p.replica_nodes) - set(p.offline_replicas) <= set(p.isr_nodes)
        for p in topic.partitions
    )
