"""Transactions that are open on partitions, and whether a coordinator will end them (KIP-664).

Readers with read_committed stop at the last stable offset, where the first open transaction of a
partition begins. Its end is a marker that its coordinator writes. Where the marker is lost, as with
the records that an unclean election loses, the coordinator is done with it and writes no other: it
is a hanging transaction, and stays open until somebody aborts it.
"""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from kipctl.at_once import chunks
from kipctl.cluster.acls import may_be_shown_less
from kipctl.cluster.log_offsets import offsets_request, refused_offsets, reported_offsets
from kipctl.cluster.snapshot import NO_LEADER, Partition, PartitionId, by_topic, from_metadata
from kipctl.errors import KipctlError, RefusedError, UsageError
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode, error_text
from kipctl.protocol.list_offsets import CONSUMER_REPLICA_ID, LATEST_TIMESTAMP, READ_COMMITTED
from kipctl.protocol.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TransactionDescription,
)
from kipctl.transport.acl_errors import refusal
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import BrokerConnection, Cluster

T = TypeVar("T")
UNDER_WAY = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""The states in which a coordinator still has an end to write (`TransactionState`)."""
_STATES = "__transaction_state"
MOST_HELD_UP = 1000
"""Partitions whose producers are asked for: where applications write in transactions all the time,
thousands are behind for a moment."""
_AT_ONCE = 1000
"""Partitions, or transactional ids, in one request."""
_DEADLINE_S = 30.0
"""For all brokers together."""

Open = Mapping[PartitionId, tuple[ProducerState, ...]]
"""The producers that have a transaction open, by partition."""


class Ending(StrEnum):
    """Whether somebody will end an open transaction."""

    COMES = "its coordinator will end it"
    NEVER = "no coordinator will end it"
    NOT_KNOWN = "whether a coordinator will end it is not known"


@dataclass(frozen=True, slots=True)
class CoordinatedTransaction:
    """The last transaction of a transactional id, as its coordinator has it.

    `started_ms` is wall clock, -1 when none has begun. `partitions` are those that have no marker
    of its end yet.
    """

    transactional_id: str
    producer_id: int
    state: str
    started_ms: int = -1
    timeout_ms: int = 0
    partitions: frozenset[PartitionId] = frozenset()


@dataclass(frozen=True, slots=True)
class Coordinators:
    """What the coordinators know, by producer id. `incomplete` says why some may be missing."""

    transactions: Mapping[int, CoordinatedTransaction] = field(default_factory=dict)
    incomplete: str = ""

    def ending(self, id: PartitionId, producer_id: int) -> Ending:
        """Whether a transaction that this producer has open on the partition will be ended."""
        coordinated = self.transactions.get(producer_id)
        if coordinated is None:
            return Ending.NOT_KNOWN if self.incomplete else Ending.NEVER
        return Ending.COMES if id in coordinated.partitions else Ending.NEVER


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction on a partition that has not ended there.

    `start_offset` is where it begins in the log that was asked; None where that log has no record
    of it. `written_ms` is the timestamp of its last batch there, -1 without one.
    """

    id: PartitionId
    producer_id: int
    producer_epoch: int | None = None
    start_offset: int | None = None
    written_ms: int = -1
    coordinated: CoordinatedTransaction | None = None
    ending: Ending = Ending.NOT_KNOWN

    @property
    def since_ms(self) -> int:
        """When it began, or else when it was last written to; ms of the wall clock, -1 unknown."""
        begun = self.coordinated.started_ms if self.coordinated else -1
        return begun if begun > 0 else self.written_ms

    @property
    def is_hanging(self) -> bool:
        """Whether readers with read_committed stop there for good."""
        return self.start_offset is not None and self.ending is Ending.NEVER


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """Those on some partitions, by partition and start; `unknown` says what could not be asked."""

    open: tuple[OpenTransaction, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def hanging(self) -> tuple[OpenTransaction, ...]:
        return tuple(transaction for transaction in self.open if transaction.is_hanging)


def open_transactions(open_ones: Open, known: Coordinators) -> tuple[OpenTransaction, ...]:
    """What is open on logs, beside what coordinators know of it."""
    return tuple(
        OpenTransaction(
            id,
            producer.producer_id,
            producer.producer_epoch,
            producer.current_txn_start_offset,
            producer.last_timestamp,
            known.transactions.get(producer.producer_id),
            known.ending(id, producer.producer_id),
        )
        for id, producers in sorted(open_ones.items())
        for producer in sorted(producers, key=lambda producer: producer.current_txn_start_offset)
    )


def without_record(
    partitions: Collection[PartitionId], recorded: Iterable[OpenTransaction], known: Coordinators
) -> tuple[OpenTransaction, ...]:
    """Transactions under way on the partitions, but for those `recorded` in the logs asked."""
    there = {(transaction.id, transaction.producer_id) for transaction in recorded}
    return tuple(
        OpenTransaction(id, transaction.producer_id, coordinated=transaction, ending=Ending.COMES)
        for transaction in known.transactions.values()
        for id in sorted(transaction.partitions.intersection(partitions))
        if (id, transaction.producer_id) not in there
    )


def still_open(before: Open, now: Open) -> Open:
    """What is open at both looks, begun at the same offset: its end did not come in between."""

    def key(producer: ProducerState) -> tuple[int, int]:
        return producer.producer_id, producer.current_txn_start_offset

    return {
        id: tuple(
            producer_state
            for producer_state in producers
            if key(producer_state) in set(map(key, now.get(id, ())))
        )
        for id, producers in before.items()
    }


def look(cluster: Cluster, logs: Mapping[int, Sequence[PartitionId]]) -> OpenTransactions:
    """The transactions that are open on partitions, in the logs of these brokers, by broker.

    Brokers are asked for their producers, all of them for the transactions of those, and again for
    the producers of what seems to hang: its end may have come in between.
    """
    begun, unknown = ask_open(cluster, logs)
    producers = {producer.producer_id for each in begun.values() for producer in each}
    known = ask_coordinators(cluster, producers)
    transactions = open_transactions(begun, known)
    if suspected := {transaction.id for transaction in transactions if transaction.is_hanging}:
        again = {broker: suspected.intersection(ids) for broker, ids in logs.items()}
        now, more = ask_open(cluster, {broker: sorted(ids) for broker, ids in again.items() if ids})
        doubtful = {id: producers for id, producers in begun.items() if id in suspected}
        transactions = open_transactions({**begun, **still_open(doubtful, now)}, known)
        unknown += more
    if any(transaction.ending is Ending.NOT_KNOWN for transaction in transactions):
        unknown += (known.incomplete,)
    return OpenTransactions(transactions, tuple(dict.fromkeys(unknown)))


def ask_open(
    cluster: Cluster, logs: Mapping[int, Sequence[PartitionId]]
) -> tuple[dict[PartitionId, tuple[ProducerState, ...]], tuple[str, ...]]:
    """The open transactions in the logs of these brokers, and why some are not known."""

    def ask(broker: int, connection: BrokerConnection) -> list[tuple[str, PartitionResponse]]:
        return [
            (topic.name, partition)
            for some in chunks(logs[broker], _AT_ONCE)
            for topic in connection.request(
                DescribeProducersRequest(
                    tuple(TopicRequest(name, numbers) for name, numbers in by_topic(some).items())
                )
            ).topics
            for partition in topic.partitions
        ]

    producers: dict[PartitionId, tuple[ProducerState, ...]] = {}
    unknown: list[str] = []
    for broker, answer in ask_each(cluster, logs, ask, _DEADLINE_S).items():
        if isinstance(answer, KipctlError):
            unknown.append(answer.what)
            continue
        for topic, partition in answer:
            id = PartitionId(topic, partition.partition_index)
            what = f"The producers of {id} on broker {broker} are not known"
            if code := partition.error_code:
                api = ApiKey.DESCRIBE_PRODUCERS
                unknown.append(refusal(what, code, api, cluster.access, topic).what)
            elif begun := tuple(
                producer
                for producer in partition.active_producers
                if producer.current_txn_start_offset >= 0
            ):
                producers[id] = begun
    return producers, tuple(unknown)


def ask_coordinators(
    cluster: Cluster, producers: Collection[int] = (), states: Collection[str] = ()
) -> Coordinators:
    """What all brokers coordinate of these producers, or in these states.

    Nobody is asked when neither is given.
    """
    if not producers and not states:
        return Coordinators()
    listing = ListTransactionsRequest(
        state_filters=tuple(states), producer_id_filters=tuple(sorted(producers))
    )

    def ask(broker: int, connection: BrokerConnection) -> list[TransactionDescription]:
        listed = connection.request(listing)
        if listed.error_code:
            why = error_text(listed.error_code)
            raise RefusedError(f"The transactions that broker {broker} coordinates: {why}.")
        ids = [state.transactional_id for state in listed.transaction_states]
        return [
            described
            for some in chunks(ids, _AT_ONCE)
            for described in connection.request(
                DescribeTransactionsRequest(tuple(some))
            ).transaction_states
            if not described.error_code
        ]

    transactions: dict[int, CoordinatedTransaction] = {}
    incomplete = ""
    for answer in ask_each(cluster, cluster.nodes, ask, _DEADLINE_S).values():
        if isinstance(answer, KipctlError):
            incomplete = incomplete or answer.what
        else:
            transactions |= {described.producer_id: _coordinated(described) for described in answer}
    # Asked for all in some states nobody knows how many there are.
    if not incomplete and (states or not transactions.keys() >= set(producers)):
        incomplete = _why_some_may_be_missing(cluster)
    return Coordinators(transactions, incomplete)


def _coordinated(described: TransactionDescription) -> CoordinatedTransaction:
    partitions = frozenset(
        PartitionId(topic.topic, index) for topic in described.topics for index in topic.partitions
    )
    return CoordinatedTransaction(
        described.transactional_id,
        described.producer_id,
        described.transaction_state,
        described.transaction_start_time_ms,
        described.transaction_timeout_ms,
        partitions,
    )


def _why_some_may_be_missing(cluster: Cluster) -> str:
    """Why a transaction may be there that no broker shows; "" when it would be shown.

    A coordinator is the leader of a partition of `__transaction_state`; and ids that the user may
    not Describe are left out without a word.
    """
    try:
        states = from_metadata(cluster.metadata([_STATES]))
    except UsageError:
        return ""  # there is none: nobody has ever written in a transaction
    except KipctlError as failed:
        return failed.what
    if states.leaderless:
        return f"{states.leaderless[0].id} has no leader, and coordinates no transaction."
    if may_be_shown_less(cluster):
        user = cluster.access.security.principal
        return f"Transactions whose TransactionalId {user} may not Describe are not shown."
    return ""


@dataclass(frozen=True, slots=True)
class StableOffsets:
    """Last stable offset and high watermark of partitions, and those of which the high watermark
    `stands` below where their leader began to lead (OFFSET_NOT_AVAILABLE): nobody reads beyond it.
    """

    told: Mapping[PartitionId, tuple[int, int]]
    stands: frozenset[PartitionId]


def ask_stable_offsets(cluster: Cluster, led: Mapping[int, Sequence[PartitionId]]) -> StableOffsets:
    """Of partitions, by leader; of those that are told."""

    def ask(broker: int, connection: BrokerConnection) -> StableOffsets:
        told: dict[PartitionId, tuple[int, int]] = {}
        codes: dict[PartitionId, int] = {}
        for some in chunks(led[broker], _AT_ONCE):
            answers = [
                connection.request(offsets_request(some, LATEST_TIMESTAMP, *reader))
                for reader in ((CONSUMER_REPLICA_ID, READ_COMMITTED), (CONSUMER_REPLICA_ID,))
            ]
            stable, ends = map(reported_offsets, answers)
            told |= {id: (stable[id], ends[id]) for id in stable.keys() & ends.keys()}
            codes |= refused_offsets(answers[1])
        stands = (id for id, code in codes.items() if code == ErrorCode.OFFSET_NOT_AVAILABLE)
        return StableOffsets(told, frozenset(stands))

    answers = [
        answer
        for answer in ask_each(cluster, led, ask, _DEADLINE_S).values()
        if not isinstance(answer, KipctlError)
    ]
    return StableOffsets(
        {id: offsets for answer in answers for id, offsets in answer.told.items()},
        frozenset[PartitionId]().union(*(answer.stands for answer in answers)),
    )


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Partitions whose last stable offset is behind the high watermark, with both, and by whom.

    `not_told` are those whose leaders did not tell either, and of these `stands` are those of
    `StableOffsets`.
    """

    offsets: Mapping[PartitionId, tuple[int, int]] = field(default_factory=dict)
    transactions: OpenTransactions = field(default_factory=OpenTransactions)
    not_told: frozenset[PartitionId] = frozenset()
    stands: frozenset[PartitionId] = frozenset()


def held_up(cluster: Cluster, partitions: Iterable[Partition]) -> HeldUp:
    """What holds up readers with read_committed on these partitions.

    Each leader gets two ListOffsets a thousand partitions, which it answers from memory. Only of
    partitions that are behind, or whose high watermark stands, the first `MOST_HELD_UP` of them,
    are producers asked for, and of those their transactions: where no transaction is open nothing
    more is asked.
    """
    led: dict[int, list[PartitionId]] = {}
    for partition in partitions:
        if partition.leader != NO_LEADER:
            led.setdefault(partition.leader, []).append(partition.id)
    offsets = ask_stable_offsets(cluster, led)
    behind = {id: ends for id, ends in offsets.told.items() if ends[0] < ends[1]}
    some = frozenset(sorted({*behind, *offsets.stands})[:MOST_HELD_UP])
    logs = {leader: [id for id in ids if id in some] for leader, ids in led.items()}
    transactions = look(cluster, {leader: ids for leader, ids in logs.items() if ids})
    every = frozenset(id for ids in led.values() for id in ids)
    return HeldUp(behind, transactions, every - offsets.told.keys(), offsets.stands)


def abort_command(bootstrap_servers: str, transaction: OpenTransaction, *, is_secured: bool) -> str:
    """Kafka's own command that aborts a hanging transaction, which is the only end it can get."""
    return shlex.join(
        [
            *("kafka-transactions.sh", "--bootstrap-server", bootstrap_servers),
            *(("--command-config", "ADMIN.properties") if is_secured else ()),
            *("abort", "--topic", transaction.id.topic),
            *("--partition", str(transaction.id.partition)),
            *("--start-offset", str(transaction.start_offset)),
        ]
    )
