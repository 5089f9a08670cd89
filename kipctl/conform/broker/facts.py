"""What brokers answer where they have to name a leader, or a replica to read.

Hints are provoked as by `inspect hints`: by a Produce with a wrong CRC, which no broker can append,
and by a Fetch. Of each broker one partition that it leads is read, and one that it follows; of the
partitions that it leads the first ten are asked about for each rack.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from kipctl.cluster.inspect.leader_hint_check import (
    DRAFT_VERSION,
    BrokerHints,
    check_hints,
    unwritable,
)
from kipctl.cluster.inspect.replica_selection import Choice, PartitionFacts
from kipctl.cluster.inspect.replica_selection_facts import (
    FIRST_VERSION_WITH_RACK,
    LAST_VERSION_WITH_NAMES,
    observe,
)
from kipctl.cluster.log_offsets import offsets_request, reported_offsets
from kipctl.cluster.snapshot import NO_LEADER, Partition, PartitionId, Snapshot
from kipctl.errors import KipctlError, RefusedError
from kipctl.protocol.api import ApiKey
from kipctl.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from kipctl.protocol.leader_hints import LeaderHint, drafted_in_produce
from kipctl.protocol.list_offsets import EARLIEST_TIMESTAMP
from kipctl.protocol.message import only
from kipctl.transport.request import BrokerConnection, Cluster

_PARTITIONS_OF_A_LEADER = 10


@dataclass(frozen=True)
class Read:
    """What a broker answered to a Fetch of one partition from the beginning of its log on."""

    broker: int
    partition: PartitionId
    version: int
    rack: str
    follows: bool
    """It is an in-sync follower; else it leads."""
    error: int = 0
    preferred: int = -1
    size: int = 0
    """Bytes of records."""


@dataclass(frozen=True)
class Facts:
    """`drafts` are the hints in Produce 9, by broker; None is none. `no_racks` says why nobody was
    asked about racks."""

    hints: tuple[BrokerHints, ...] = ()
    drafts: Mapping[int, LeaderHint | None] = field(default_factory=dict)
    choices: tuple[Choice, ...] = ()
    partitions: tuple[PartitionFacts, ...] = ()
    no_racks: str = ""
    reads: tuple[Read, ...] = ()


def look(cluster: Cluster, snapshot: Snapshot) -> Facts:
    """Ask the brokers of the snapshot. Raises UnreachableError when none answers."""
    hints = check_hints(cluster, snapshot)
    drafts = {}
    for told in hints:
        low, high = told.produce or (0, -1)
        if told.asked is None or not low <= DRAFT_VERSION <= high:
            continue
        with suppress(KipctlError):
            drafts[told.broker.id] = _draft(cluster.broker(told.broker.id), told.asked)
    reads = tuple(_reads(cluster, snapshot))
    try:
        observed = observe(cluster, snapshot.only(_sample(snapshot)))
    except RefusedError as no_racks:
        return Facts(hints, drafts, no_racks=no_racks.what, reads=reads)
    return Facts(hints, drafts, observed.choices, observed.facts, reads=reads)


def _draft(connection: BrokerConnection, asked: PartitionId) -> LeaderHint | None:
    answer = connection.request(unwritable(asked), version=DRAFT_VERSION)
    partition = only(only(answer.responses).partition_responses)
    return drafted_in_produce(DRAFT_VERSION, partition.unknown_tags, answer.unknown_tags)


def _sample(snapshot: Snapshot) -> Iterator[PartitionId]:
    led: dict[int, int] = {}
    for partition in snapshot.partitions:
        led[partition.leader] = led.get(partition.leader, 0) + 1
        if partition.leader != NO_LEADER and led[partition.leader] <= _PARTITIONS_OF_A_LEADER:
            yield partition.id


def _reads(cluster: Cluster, snapshot: Snapshot) -> Iterator[Read]:
    racks = sorted({broker.rack for broker in snapshot.brokers if broker.rack})
    for broker in snapshot.broker_ids:
        led = next((p for p in snapshot.partitions if p.leader == broker), None)
        followed = next(
            (
                p
                for p in snapshot.partitions
                if p.leader not in (broker, NO_LEADER) and broker in p.isr
            ),
            None,
        )
        with suppress(KipctlError):
            if led is not None:
                for rack in ("", *racks):
                    yield from _read(cluster, broker, led, LAST_VERSION_WITH_NAMES, rack)
        with suppress(KipctlError):
            if followed is not None:
                for version in (LAST_VERSION_WITH_NAMES, FIRST_VERSION_WITH_RACK - 1):
                    yield from _read(cluster, broker, followed, version)


def _read(
    cluster: Cluster, broker: int, partition: Partition, newest: int, rack: str = ""
) -> Iterator[Read]:
    connection, id = cluster.broker(broker), partition.id
    low, high = connection.api_versions.get(ApiKey.FETCH, (0, -1))
    version = min(newest, high)
    if version < low:
        return
    asked = offsets_request([id], EARLIEST_TIMESTAMP)
    start = reported_offsets(cluster.broker(partition.leader).request(asked)).get(id)
    if start is None:
        return
    part = FetchPartition(id.partition, fetch_offset=start, partition_max_bytes=1)
    request = FetchRequest(
        max_bytes=1,
        topics=(FetchTopic(id.topic, partitions=(part,)),),
        rack_id=rack if version >= FIRST_VERSION_WITH_RACK else "",
    )
    answer = connection.request(request, version=version)
    fetched = only(only(answer.responses).partitions)
    yield Read(
        broker,
        id,
        version,
        rack,
        partition.leader != broker,
        fetched.error_code,
        fetched.preferred_read_replica,
        len(fetched.records or b""),
    )
