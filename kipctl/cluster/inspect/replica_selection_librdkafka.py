"""Which broker librdkafka's bytes really come from: a stock client with a `client.rack`, watched.

It is given its partitions (no group is joined, no offset committed), reads the last few records of
each, and says in its statistics which broker each partition is fetched from.
"""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition, libversion

from kipctl.cluster.inspect.replica_selection import PartitionFacts
from kipctl.cluster.snapshot import PartitionId
from kipctl.transport.access import Access

RECORDS = 10
"""So many offsets before the high watermark it begins: the last ones may be transaction markers."""

_FETCH_BYTES = 10_000
_STATISTICS_MS = 100
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class ClientRead:
    """Which broker a partition's records came from; None when none came.

    `bytes` are of their keys and values. librdkafka counts transaction markers among the records,
    with 0 bytes.
    """

    id: PartitionId
    rack: str
    broker: int | None
    records: int
    bytes: int


def version() -> str:
    """The version of librdkafka."""
    return str(libversion()[0])


def read(
    access: Access,
    facts: Iterable[PartitionFacts],
    rack: str,
    timeout_s: float,
) -> tuple[ClientRead, ...]:
    """Let librdkafka read in a rack until records of each partition that has some have come.

    Those of aborted transactions count too: who serves them is what is asked. A partition whose
    offset is not known is left out. After `timeout_s` seconds it is over all the same.
    """
    facts = tuple(facts)
    begin = {fact.id: _begin(fact, fact.offset) for fact in facts if fact.offset is not None}
    ends = {
        fact.id: fact.offset
        for fact in facts
        if fact.offset is not None and fact.offset != begin[fact.id]
    }
    statistics: dict[str, Any] = {}
    consumer = Consumer(
        {
            **access.librdkafka(),
            "client.id": "kipctl-librdkafka",
            "client.rack": rack,
            "isolation.level": "read_uncommitted",
            "group.id": "kipctl-replica-selection",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "fetch.message.max.bytes": _FETCH_BYTES,
            "statistics.interval.ms": _STATISTICS_MS,
            "stats_cb": lambda text: statistics.update(json.loads(text)),
            "error_cb": lambda error: None,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(*i, offset) for i, offset in begin.items()])
        deadline = time.monotonic() + timeout_s
        reads: tuple[ClientRead, ...] = ()
        while time.monotonic() < deadline:
            consumer.poll(_POLL_S)
            reads = fetched_from(statistics, (fact.id for fact in facts), rack)
            if has_received(statistics, reads, ends):
                break
        return reads
    finally:
        consumer.close()


def fetched_from(
    statistics: Mapping[str, Any], ids: Iterable[PartitionId], rack: str
) -> tuple[ClientRead, ...]:
    """What librdkafka's statistics (STATISTICS.md) say of these partitions."""
    reads = []
    for id in ids:
        partition = _partition(statistics, id)
        records, broker = partition.get("rxmsgs", 0), partition.get("broker", -1)
        has_records = records > 0 and broker >= 0
        size = partition.get("rxbytes", 0)
        reads.append(ClientRead(id, rack, broker if has_records else None, records, size))
    return tuple(reads)


def has_received(
    statistics: Mapping[str, Any], reads: Iterable[ClientRead], ends: Mapping[PartitionId, int]
) -> bool:
    """Whether bytes of each of these partitions have come, or all there is until its end.

    After markers alone records may still come, until the next offset to be fetched is the end.
    """
    read = {client_read.id: client_read for client_read in reads if client_read.broker is not None}
    return all(
        id in read
        and (read[id].bytes > 0 or _partition(statistics, id).get("next_offset", -1) >= end)
        for id, end in ends.items()
    )


def _partition(statistics: Mapping[str, Any], id: PartitionId) -> Mapping[str, Any]:
    topic: Mapping[str, Any] = statistics.get("topics", {}).get(id.topic, {})
    partition: Mapping[str, Any] = topic.get("partitions", {}).get(str(id.partition), {})
    return partition


def _begin(facts: PartitionFacts, offset: int) -> int:
    leader = facts.replica(facts.leader)
    first = leader.log_start if leader and leader.log_start is not None else 0
    return max(first, offset - RECORDS)
