"""Whether brokers send KIP-951 hints, found out without moving or writing anything.

A broker that does not lead a partition answers a Produce for it with NOT_LEADER_OR_FOLLOWER and,
from version 10, names the leader it knows (KIP-951). The batch sent has a wrong CRC: a broker that
has become the leader meanwhile can only refuse it. One that speaks no version with hints is asked
in the last one before them, where an early draft of the KIP had them. What it answers to a Fetch is
in `kipctl.cluster.inspect.leader_hints_in_fetch`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kipctl.cluster.inspect.leader_hint_verdicts import Hint, Verdict, compare_with_metadata
from kipctl.cluster.inspect.leader_hints_in_fetch import FetchCheck, check_fetch
from kipctl.cluster.snapshot import (
    NO_LEADER,
    Broker,
    Partition,
    PartitionId,
    Snapshot,
    from_metadata,
    metadata_request,
)
from kipctl.errors import KipctlError
from kipctl.protocol.address import host_port
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode, error_name
from kipctl.protocol.leader_hints import FIRST_PRODUCE_WITH_HINTS, drafted_in_produce
from kipctl.protocol.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kipctl.protocol.records import CRC_AT, one_record_batch
from kipctl.transport.request import BrokerConnection, Cluster

DRAFT_VERSION = FIRST_PRODUCE_WITH_HINTS - 1
LAST_VERSION_WITH_NAMES = 12
PRODUCE_TIMEOUT_MS = 1000


@dataclass(frozen=True, slots=True)
class BrokerHints:
    """What one broker speaks, and what it answered; versions are (lowest, highest)."""

    broker: Broker
    verdict: Verdict
    produce: tuple[int, int] | None = None
    fetch: tuple[int, int] | None = None
    metadata: tuple[int, int] | None = None
    asked: PartitionId | None = None
    hint: Hint | None = None
    detail: str = ""
    fetched: FetchCheck = field(default_factory=lambda: FetchCheck(Verdict.NOT_ASKED))
    """What it answered to a Fetch."""


def check_hints(cluster: Cluster, snapshot: Snapshot) -> tuple[BrokerHints, ...]:
    """Ask every broker for a partition of the snapshot that it does not lead."""
    return tuple(_check(cluster, broker, snapshot.partitions) for broker in snapshot.brokers)


def _check(cluster: Cluster, broker: Broker, partitions: Iterable[Partition]) -> BrokerHints:
    connection = cluster.broker(broker.id)
    checked = _check_produce(connection, broker, partitions)
    if checked.fetch is None:
        return checked
    return replace(checked, fetched=check_fetch(connection, broker.id, partitions, checked.fetch))


def _check_produce(
    connection: BrokerConnection, broker: Broker, partitions: Iterable[Partition]
) -> BrokerHints:
    try:
        versions = connection.api_versions
        ranges = (
            versions.get(ApiKey.PRODUCE),
            versions.get(ApiKey.FETCH),
            versions.get(ApiKey.METADATA),
        )
        if not ranges[0] or ranges[0][1] < DRAFT_VERSION:
            return BrokerHints(broker, Verdict.TOO_OLD, *ranges)
        asked = next((p.id for p in partitions if p.leader not in (broker.id, NO_LEADER)), None)
        if asked is None:
            return BrokerHints(broker, Verdict.NOT_ASKED, *ranges)
        version = min(ranges[0][1], LAST_VERSION_WITH_NAMES)
        answer = connection.request(_unwritable(asked), version=version)
        if version == DRAFT_VERSION:
            hint = _drafted(answer)
            verdict = Verdict.DRAFT if hint else Verdict.TOO_OLD
            return BrokerHints(broker, verdict, *ranges, asked, hint)
        shown = from_metadata(connection.request(metadata_request([asked.topic])))
        verdict, hint, detail = _judge(answer, shown, asked)
        return BrokerHints(broker, verdict, *ranges, asked, hint, detail)
    except KipctlError as error:
        return BrokerHints(broker, Verdict.UNREACHABLE, detail=error.what)


def _unwritable(partition_id: PartitionId) -> ProduceRequest:
    """A Produce that no broker can append: its CRC is wrong."""
    batch = bytearray(one_record_batch(b""))
    batch[CRC_AT] ^= 0xFF
    return ProduceRequest(
        acks=1,
        timeout_ms=PRODUCE_TIMEOUT_MS,
        topic_data=(
            TopicProduceData(
                name=partition_id.topic,
                partition_data=(
                    PartitionProduceData(index=partition_id.partition, records=bytes(batch)),
                ),
            ),
        ),
    )


def _drafted(answer: ProduceResponse) -> Hint | None:
    """The hint of an answer in the version before hints, where no Kafka as released has one."""
    partition = answer.responses[0].partition_responses[0]
    draft = drafted_in_produce(DRAFT_VERSION, partition.unknown_tags, answer.unknown_tags)
    if draft is None:
        return None
    at = draft.endpoint
    return Hint(draft.leader_id, draft.leader_epoch, host_port(at.host, at.port) if at else None)


def _judge(
    answer: ProduceResponse, metadata: Snapshot, asked: PartitionId
) -> tuple[Verdict, Hint | None, str]:
    """The verdict, the hint, and what is to be said about it."""
    partition = answer.responses[0].partition_responses[0]
    if partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return Verdict.NO_RIGHT, None, error_name(partition.error_code)
    if partition.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return Verdict.UNEXPECTED, None, error_name(partition.error_code)
    return compare_with_metadata(partition.current_leader, answer.node_endpoints, metadata, asked)
