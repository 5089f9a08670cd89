"""Topics for measuring, one or many: made, waited for, looked at, and removed."""

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from kipctl.at_once import chunks
from kipctl.cluster.log_offsets import offsets_request
from kipctl.cluster.snapshot import (
    PartitionId,
    Snapshot,
    require_shown,
    take_snapshot,
)
from kipctl.errors import TimedOutError
from kipctl.next_step import Command
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsResponse,
)
from kipctl.protocol.message import only
from kipctl.protocol.metadata import MetadataResponseTopic, metadata_request
from kipctl.protocol.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kipctl.transport.access import Access
from kipctl.transport.acl_errors import refusal
from kipctl.transport.request import Cluster

EARLIEST, LATEST = EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
_DELETED_OR_UNKNOWN = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_ADMIN_TIMEOUT_S = 120.0
_AS_ASSIGNED = -1
_TIMEOUT_MS = 60_000
_ONE_TIMEOUT_S = 30.0
_MANY_TIMEOUT_S = 120.0
_POLL_S = 0.05
_POLL_MANY_S = 0.2
_PARTITIONS_AT_ONCE = 2_000
"""Partitions that one request makes; a controller takes 10,000 records for a request."""
_DELETED_AT_ONCE = 1_000
_LEADER_TIMEOUT_S = 10.0
_RETRIABLE = frozenset(code for code in ErrorCode if code.retriable)


def create_topics(
    access: Access | str,
    names: Sequence[str],
    partitions: int,
    replication_factor: int,
    may_exist: set[str] | None = None,
    configs: Mapping[str, str] | None = None,
    replicas: Sequence[Sequence[int]] = (),
) -> None:
    """Create the topics. Raises RefusedError; some of them may be there then: see `may_exist`.

    That gets those that were asked for, less those that the cluster has refused. `configs` are
    settings that all of them get. `replicas` are the brokers of each partition, by number; without
    them the controller chooses.
    """
    may_exist = set() if may_exist is None else may_exist
    at_once = max(1, _PARTITIONS_AT_ONCE // partitions)
    with Cluster(access, timeout_s=_ADMIN_TIMEOUT_S) as cluster:
        for some in chunks(names, at_once):
            asked = CreateTopicsRequest(
                topics=tuple(
                    CreatableTopic(
                        name=name,
                        num_partitions=_AS_ASSIGNED if replicas else partitions,
                        replication_factor=_AS_ASSIGNED if replicas else replication_factor,
                        assignments=tuple(
                            CreatableReplicaAssignment(
                                partition_index=number, broker_ids=tuple(brokers)
                            )
                            for number, brokers in enumerate(replicas)
                        ),
                        configs=tuple(
                            CreatableTopicConfig(name=setting, value=value)
                            for setting, value in (configs or {}).items()
                        ),
                    )
                    for name in some
                ),
                timeout_ms=_TIMEOUT_MS,
            )
            may_exist.update(topic.name for topic in asked.topics)
            answer = cluster.ask_controller(asked).topics
            may_exist.difference_update(made.name for made in answer if made.error_code)
            for made in answer:
                if made.error_code:
                    raise refusal(
                        f"Topic {made.name!r} cannot be made",
                        made.error_code,
                        ApiKey.CREATE_TOPICS,
                        cluster.access,
                        made.name,
                        made.error_message,
                    )


def delete_topics(access: Access | str, names: Sequence[str]) -> None:
    """Delete the topics; those that are gone already are no error. Raises RefusedError."""
    with Cluster(access, timeout_s=_ADMIN_TIMEOUT_S) as cluster:
        for some in map(tuple, chunks(names, _DELETED_AT_ONCE)):
            asked = DeleteTopicsRequest(
                topics=tuple(DeleteTopicState(name=name) for name in some),
                topic_names=some,
                timeout_ms=_TIMEOUT_MS,
            )
            for gone in cluster.ask_controller(asked).responses:
                if gone.error_code not in _DELETED_OR_UNKNOWN:
                    name = gone.name or ""
                    raise refusal(
                        f"Topic {name!r} cannot be removed",
                        gone.error_code,
                        ApiKey.DELETE_TOPICS,
                        cluster.access,
                        name,
                        gone.error_message,
                    )


def topics_named(cluster: Cluster, pattern: str) -> dict[str, UUID]:
    """The topics whose whole name this regular expression matches, with their ids.

    As one broker shows them; an id is all zero before Kafka 2.8.
    """
    shown = {topic.name or "": topic.topic_id for topic in cluster.metadata(None).topics}
    return {name: topic_id for name, topic_id in shown.items() if re.fullmatch(pattern, name)}


def topic_ids(cluster: Cluster, names: Sequence[str]) -> dict[str, UUID]:
    """The ids of those of the topics that one broker shows; all zero before Kafka 2.8."""
    shown = cluster.metadata(names).topics
    return {topic.name or "": topic.topic_id for topic in shown if not topic.error_code}


def await_topic(cluster: Cluster, name: str, partitions: int) -> Snapshot:
    """Wait until every broker shows the topic with a leader and all live replicas in sync.

    And until the leaders lead: a broker shows a new topic a moment before. Raises TimedOutError.
    """
    await_topics(cluster, [name], partitions)
    return take_snapshot(cluster, [name])


def await_topics(
    cluster: Cluster,
    names: Sequence[str],
    partitions: int | None = None,
    timeout_s: float | None = None,
) -> Mapping[str, UUID]:
    """Wait until every broker shows the same topics (by id) in sync, led by the same leaders in the
    same epochs, and leaders know that they lead.

    With so many `partitions` each, if that is given. A broker's Metadata shows a leader before it
    takes records as one. Returns their ids by name. Raises TimedOutError, after 30 s for one topic
    and 120 s for many if nothing else is said, and RefusedError where the client may not Describe
    one: who may Create it need not see it.
    """
    ids: dict[str, UUID] = {}

    def are_there() -> bool:
        seen: list[MetadataResponseTopic] = []
        leaders: list[_Leaders] = []
        for seen in _shown_by_each_broker(cluster, names):
            require_shown(cluster, seen)  # who may not see it would wait in vain
            if not all(_is_ready(topic, partitions) for topic in seen):
                return False
            ids.update((topic.name or "", topic.topic_id) for topic in seen)
            leaders.append(_leaders_of(seen))
            if leaders[-1] != leaders[0]:
                return False
        return all(_knows_it_leads(cluster, broker, seen) for broker in cluster.nodes)

    _wait_until(are_there, names, "not in sync on all brokers", timeout_s)
    return ids


def await_no_topics(cluster: Cluster, names: Sequence[str]) -> None:
    """Wait until no broker shows any of the topics. Raises TimedOutError."""
    _wait_until(
        lambda: (
            not any(
                topic.partitions for seen in _shown_by_each_broker(cluster, names) for topic in seen
            )
        ),
        names,
        "still shown by a broker",
    )


def _wait_until(
    holds: Callable[[], bool],
    names: Sequence[str],
    otherwise: str,
    timeout_s: float | None = None,
) -> None:
    is_one = len(names) == 1
    if timeout_s is None:
        timeout_s = _ONE_TIMEOUT_S if is_one else _MANY_TIMEOUT_S
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            which = f"Topic {names[0]!r} is" if is_one else "The topics are"
            look = Command("inspect leaders", topic=names[0] if is_one else None)
            raise TimedOutError(f"{which} {otherwise} after {timeout_s:g} s.", "Look: " + look)
        time.sleep(_POLL_S if is_one else _POLL_MANY_S)


def _shown_by_each_broker(
    cluster: Cluster, names: Sequence[str]
) -> Iterator[list[MetadataResponseTopic]]:
    """The topics as each broker shows them, one broker after the other."""
    request = metadata_request(names)
    for broker in cluster.nodes:
        yield list(cluster.broker(broker).request(request).topics)


def _is_ready(topic: MetadataResponseTopic, partitions: int | None) -> bool:
    return (
        not topic.error_code
        and len(topic.partitions) == (partitions or len(topic.partitions))
        and all(
            p.leader_id >= 0 and set(p.replica_nodes) - set(p.offline_replicas) <= set(p.isr_nodes)
            for p in topic.partitions
        )
    )


_Leaders = Mapping[tuple[str, int], tuple[UUID, int, int]]
"""By topic and partition: the topic's id, the leader, and its epoch."""


def _leaders_of(topics: Sequence[MetadataResponseTopic]) -> _Leaders:
    return {
        (topic.name or "", p.partition_index): (topic.topic_id, p.leader_id, p.leader_epoch)
        for topic in topics
        for p in topic.partitions
    }


def _knows_it_leads(cluster: Cluster, broker: int, topics: Sequence[MetadataResponseTopic]) -> bool:
    """Whether the broker knows that it leads what Metadata says it leads."""
    led = [
        PartitionId(topic.name or "", p.partition_index)
        for topic in topics
        for p in topic.partitions
        if p.leader_id == broker
    ]
    if not led:
        return True
    answer = _offsets_at(cluster, broker, led, LATEST)
    return not any(p.error_code for topic in answer.topics for p in topic.partitions)


def offsets(cluster: Cluster, topic: str, timestamp: int) -> dict[int, int]:
    """Each partition's offset at a timestamp in milliseconds, or EARLIEST or LATEST.

    Asked of the leaders, for 10 s of those that have just been moved: the broker that names them
    may be behind, and a new leader knows its high watermark a moment later (KIP-207). Raises
    RefusedError.
    """
    known: dict[int, int] = {}
    deadline = time.monotonic() + _LEADER_TIMEOUT_S
    while True:
        by_leader: dict[int, list[PartitionId]] = {}
        for partition in take_snapshot(cluster, [topic]).partitions:
            if partition.id.partition not in known:
                by_leader.setdefault(partition.leader, []).append(partition.id)
        refused: dict[int, int] = {}
        for leader, led in by_leader.items():
            for offset in only(_offsets_at(cluster, leader, led, timestamp).topics).partitions:
                into = refused if offset.error_code else known
                into[offset.partition_index] = offset.error_code or offset.offset
        if not refused:
            return known
        if not _RETRIABLE.issuperset(refused.values()) or time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    # The first that is in vain to repeat, or else the first.
    partition_index, error = min(refused.items(), key=lambda answer: answer[1] in _RETRIABLE)
    raise refusal(
        f"Offsets of {topic}:{partition_index}", error, ApiKey.LIST_OFFSETS, cluster.access, topic
    )


def _offsets_at(
    cluster: Cluster, broker: int, partitions: Iterable[PartitionId], timestamp: int
) -> ListOffsetsResponse:
    return cluster.broker(broker).request(offsets_request(partitions, timestamp))


def record_count(cluster: Cluster, topic: str, partitions: Collection[int] = ()) -> int:
    """How many records the topic's log holds now, or these partitions of it (an upper bound for
    compacted topics)."""
    earliest = offsets(cluster, topic, EARLIEST)
    latest = offsets(cluster, topic, LATEST)
    chosen = frozenset(partitions or latest).intersection(latest, earliest)
    return sum(latest[partition] - earliest[partition] for partition in chosen)
