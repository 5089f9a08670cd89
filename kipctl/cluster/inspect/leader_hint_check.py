"""Whether brokers send KIP-951 hints, found out without moving or writing anything.

A broker that does not lead a partition answers a Produce for it with NOT_LEADER_OR_FOLLOWER and,
from version 10, names the leader it knows (KIP-951). The batch sent has a wrong CRC: a broker that
has become the leader meanwhile can only refuse it. One that speaks no version with hints is asked
in the last one before them, where an early draft of the KIP had them.

Then it is asked with a Fetch, which reads nothing. A broker without a replica answers
NOT_LEADER_OR_FOLLOWER; one with a replica, the leader too, answers FENCED_LEADER_EPOCH to a client
that says an older leader epoch than its own. Both name the leader from version 16 on. Where every
broker has a replica of every partition, and none has ever moved (epoch 0), there is no such
question.

What contradicts Metadata is asked again for a moment, by newer Metadata: just after a leader has
moved, one broker knows it before another.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kipctl.cluster.snapshot import (
    NO_LEADER,
    Broker,
    Partition,
    PartitionId,
    Snapshot,
    from_metadata,
    refresh_snapshot,
)
from kipctl.errors import KipctlError
from kipctl.protocol.address import host_port
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import LEADER_ERRORS, ErrorCode, error_name
from kipctl.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from kipctl.protocol.leader_hints import (
    FIRST_FETCH_WITH_HINTS,
    FIRST_PRODUCE_WITH_HINTS,
    LeaderHint,
    drafted_in_produce,
    hint_in_produce,
    leader_named,
)
from kipctl.protocol.message import only
from kipctl.protocol.metadata import metadata_request
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
_BEHIND_S, _BEHIND_POLL_S = 3.0, 0.1
"""How long Metadata may be behind what brokers answer, and how often it is asked again."""


class Verdict(StrEnum):
    """What a broker did when it was asked as if it led."""

    AGREES = "hint agrees with Metadata"
    DIFFERS = "hint differs from Metadata"
    OTHER_ENDPOINT = "hint with another endpoint than Metadata's"
    NO_ENDPOINT = "hint without endpoint"
    DRAFT = "hint in the form of KIP-951's early draft: no client reads it"
    NO_HINT = "no hint"
    TOO_OLD = "too old for hints"
    NOT_ASKED = "no partition is led elsewhere: not asked"
    READS_ALL = "it has a replica of each partition, and none has moved: not asked"
    NO_RIGHT = "no right to write to the topic: not known"
    UNEXPECTED = "answered otherwise"
    UNREACHABLE = "does not answer"


_CONTRADICTIONS = frozenset({Verdict.DIFFERS, Verdict.OTHER_ENDPOINT, Verdict.UNEXPECTED})
_NO_ANSWER = frozenset({Verdict.NOT_ASKED, Verdict.READS_ALL, Verdict.NO_RIGHT})
"""Nothing is known of hints by that request; the other one may tell."""


@dataclass(frozen=True, slots=True)
class FetchCheck:
    """What a broker answered to a Fetch; `error` is its error's name."""

    verdict: Verdict
    asked: PartitionId | None = None
    error: str | None = None
    hint: LeaderHint | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class BrokerHints:
    """What one broker speaks, and what it answered; versions are (lowest, highest)."""

    broker: Broker
    verdict: Verdict
    produce: tuple[int, int] | None = None
    fetch: tuple[int, int] | None = None
    metadata: tuple[int, int] | None = None
    asked: PartitionId | None = None
    hint: LeaderHint | None = None
    detail: str = ""
    fetched: FetchCheck = field(default_factory=lambda: FetchCheck(Verdict.NOT_ASKED))
    """What it answered to a Fetch."""

    @property
    def contradicts_metadata(self) -> bool:
        """Whether an answer, to Produce or Fetch, is not what Metadata made expect."""
        return not _CONTRADICTIONS.isdisjoint(self.verdicts)

    @property
    def verdicts(self) -> frozenset[Verdict]:
        """Those by which hints are judged, of Produce and Fetch; empty where it was not asked."""
        return frozenset((self.verdict, self.fetched.verdict)) - _NO_ANSWER

    @property
    def agrees(self) -> bool:
        """Whether it was asked, and each hint is what Metadata says."""
        return self.verdicts == {Verdict.AGREES}

    @property
    def hints(self) -> tuple[tuple[Verdict, LeaderHint], ...]:
        """The hints that it gave, with what each is judged to be."""
        given = ((self.verdict, self.hint), (self.fetched.verdict, self.fetched.hint))
        return tuple((verdict, hint) for verdict, hint in given if hint is not None)


def passes_proxy(checked: Iterable[BrokerHints]) -> bool:
    """Whether each hint names Metadata's leader and epoch, at an address of no broker there.

    So it is behind what rewrites the addresses in Metadata, and not those in hints (KIP-951): who
    follows a hint goes past it.
    """
    checked = list(checked)
    shown = {
        host_port(broker_hints.broker.host, broker_hints.broker.port) for broker_hints in checked
    }
    hints = [given for broker_hints in checked for given in broker_hints.hints]
    return bool(hints) and all(
        verdict is Verdict.OTHER_ENDPOINT and hint.address not in shown for verdict, hint in hints
    )


def flaws(checked: Iterable[BrokerHints]) -> list[str]:
    """Why clients cannot follow the hints of each broker that could be asked; empty if they can.

    Without a broker that could be asked that is the flaw.
    """
    known = {hints.broker.id: hints.verdicts for hints in checked}
    if not any(known.values()):
        return ["no broker could be asked"]
    return [
        f"broker {broker}: {next(verdict for verdict in Verdict if verdict in wrong)}"
        for broker, verdicts in known.items()
        if (wrong := verdicts - {Verdict.AGREES})
    ]


def check_hints(cluster: Cluster, snapshot: Snapshot) -> tuple[BrokerHints, ...]:
    """Ask every broker for a partition of the snapshot that it does not lead.

    Answers that contradict Metadata are asked for again: of each broker once at least, and for 3 s
    of all together.
    """
    deadline = time.monotonic() + _BEHIND_S
    return tuple(_check_settled(cluster, broker, snapshot, deadline) for broker in snapshot.brokers)


def _check_settled(
    cluster: Cluster, broker: Broker, snapshot: Snapshot, deadline: float
) -> BrokerHints:
    connection = cluster.broker(broker.id)
    checked = _check(connection, broker, snapshot.partitions)
    is_over = False
    while checked.contradicts_metadata and not is_over:
        time.sleep(_BEHIND_POLL_S)
        is_over = time.monotonic() > deadline
        try:
            shown = refresh_snapshot(cluster, snapshot.topics)
        except KipctlError:
            break
        checked = _check(connection, broker, shown.partitions)
    return checked


def _check(
    connection: BrokerConnection, broker: Broker, partitions: Iterable[Partition]
) -> BrokerHints:
    checked = _check_produce(connection, broker, partitions)
    if checked.fetch is None:
        return checked
    return replace(checked, fetched=_check_fetch(connection, broker.id, partitions, checked.fetch))


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
        answer = connection.request(unwritable(asked), version=version)
        if version == DRAFT_VERSION:
            partition = only(only(answer.responses).partition_responses)
            hint = drafted_in_produce(version, partition.unknown_tags, answer.unknown_tags)
            verdict = Verdict.DRAFT if hint else Verdict.TOO_OLD
            return BrokerHints(broker, verdict, *ranges, asked, hint)
        shown = from_metadata(connection.request(metadata_request([asked.topic])))
        verdict, hint, detail = _judge(answer, version, shown, asked)
        return BrokerHints(broker, verdict, *ranges, asked, hint, detail)
    except KipctlError as error:
        return BrokerHints(broker, Verdict.UNREACHABLE, detail=error.what)


def unwritable(partition_id: PartitionId) -> ProduceRequest:
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


def _judge(
    answer: ProduceResponse, version: int, metadata: Snapshot, asked: PartitionId
) -> tuple[Verdict, LeaderHint | None, str]:
    """The verdict, the hint, and what is to be said about it."""
    partition = only(only(answer.responses).partition_responses)
    if partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return Verdict.NO_RIGHT, None, error_name(partition.error_code)
    if partition.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return Verdict.UNEXPECTED, None, error_name(partition.error_code)
    return compare_with_metadata(hint_in_produce(partition, answer, version), metadata, asked)


def compare_with_metadata(
    hint: LeaderHint, metadata: Snapshot, asked: PartitionId
) -> tuple[Verdict, LeaderHint | None, str]:
    """The verdict, the hint, and what is to be said about it.

    Both were asked for over the same connection, so endpoints are those of one listener.
    """
    if hint.leader_id == NO_LEADER:
        return Verdict.NO_HINT, None, ""
    if hint.endpoint is None:
        return Verdict.NO_ENDPOINT, hint, ""
    known = metadata.by_id.get(asked)
    if known is None:
        return Verdict.DIFFERS, hint, "Metadata: no such partition"
    brokers = {broker.id: host_port(broker.host, broker.port) for broker in metadata.brokers}
    expected = brokers.get(known.leader)
    if (hint.leader_id, hint.leader_epoch) != (known.leader, known.leader_epoch):
        told = f"Metadata: {known.leader} epoch {known.leader_epoch} {expected}"
        return Verdict.DIFFERS, hint, told
    if hint.address == expected:
        return Verdict.AGREES, hint, ""
    told = f"Metadata: {expected}"
    owner = next((broker for broker, address in brokers.items() if address == hint.address), None)
    if owner is not None:
        return Verdict.OTHER_ENDPOINT, hint, f"{told}; {hint.address} is broker {owner}"
    # What rewrites Metadata alone shows clients a way round itself.
    return Verdict.OTHER_ENDPOINT, hint, f"{told}; does a proxy rewrite Metadata alone?"


def _check_fetch(
    connection: BrokerConnection,
    broker: int,
    partitions: Iterable[Partition],
    versions: tuple[int, int],
) -> FetchCheck:
    """Ask a broker for a partition that it must refuse: see the module."""
    if versions[1] < FIRST_FETCH_WITH_HINTS:
        return FetchCheck(Verdict.TOO_OLD)
    question = _question(broker, list(partitions))
    if question is None:
        return FetchCheck(Verdict.READS_ALL)
    asked, epoch = question
    try:
        known = connection.request(metadata_request([asked.topic]))
        request = FetchRequest(
            topics=(
                FetchTopic(
                    topic=asked.topic,
                    topic_id=only(known.topics).topic_id,
                    partitions=(
                        FetchPartition(partition=asked.partition, current_leader_epoch=epoch),
                    ),
                ),
            ),
        )
        answer = connection.request(request)
        if not answer.responses:
            return FetchCheck(Verdict.UNEXPECTED, asked, error_name(answer.error_code))
        partition = only(only(answer.responses).partitions)
        error = error_name(partition.error_code)
        if partition.error_code not in LEADER_ERRORS:
            return FetchCheck(Verdict.UNEXPECTED, asked, error)
        leader = partition.current_leader
        named = leader_named(leader.leader_id, leader.leader_epoch, answer.node_endpoints)
        verdict, hint, detail = compare_with_metadata(named, from_metadata(known), asked)
        return FetchCheck(verdict, asked, error, hint, detail)
    except KipctlError as failed:
        return FetchCheck(Verdict.UNREACHABLE, asked, detail=failed.what)


def _question(broker: int, partitions: list[Partition]) -> tuple[PartitionId, int] | None:
    """A partition that the broker refuses to be read, and the leader epoch to say (-1: none)."""
    led = [partition for partition in partitions if partition.leader != NO_LEADER]
    for partition in led:  # a follower, or the leader, of one that has moved
        if broker in partition.replicas and partition.leader_epoch > 0:
            return partition.id, partition.leader_epoch - 1
    return next(((partition.id, -1) for partition in led if broker not in partition.replicas), None)
