"""Transactions: of a replica's producers, and as their coordinators know them (KIP-664).

DescribeProducers (API 61), DescribeTransactions (65), ListTransactions (66).
"""

from typing import Annotated

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Api, Field, Int16, Int32, Int64, Message, Request, Response


class ProducerState(Message):
    """A producer that a replica's log knows; `last_timestamp` is that of its last batch, in ms.

    `current_txn_start_offset` is where its open transaction began, -1 without one;
    `coordinator_epoch` is that of its last marker, -1 before the first.
    """

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...] = ()


class TopicResponse(Message):
    name: str = ""
    partitions: tuple[PartitionResponse, ...] = ()


class DescribeProducersResponse(Response):
    throttle_time_ms: Int32 = 0
    topics: tuple[TopicResponse, ...] = ()


class TopicRequest(Message):
    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


class DescribeProducersRequest(Request[DescribeProducersResponse]):
    """Every replica answers of its own log, whoever leads (`Partition.activeProducerState`)."""

    api = Api(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), flexible_since=0)

    topics: tuple[TopicRequest, ...] = ()


class TopicData(Message):
    """Partitions of a transaction; once it is to end, those that have no marker yet."""

    topic: str = ""
    partitions: tuple[Int32, ...] = ()


class TransactionDescription(Message):
    """A transaction as its coordinator knows it; the start is its wall clock in ms, -1 before."""

    error_code: Int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: tuple[TopicData, ...] = ()


class DescribeTransactionsResponse(Response):
    throttle_time_ms: Int32 = 0
    transaction_states: tuple[TransactionDescription, ...] = ()


class DescribeTransactionsRequest(Request[DescribeTransactionsResponse]):
    """Only the coordinator of a transactional id answers; others say NOT_COORDINATOR."""

    api = Api(ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), flexible_since=0)

    transactional_ids: tuple[str, ...] = ()


class TransactionState(Message):
    """A transactional id of the coordinator asked, with the producer that has it now."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""


class ListTransactionsResponse(Response):
    """COORDINATOR_LOAD_IN_PROGRESS is an error of the whole; ids without Describe are left out."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[TransactionState, ...] = ()


class ListTransactionsRequest(Request[ListTransactionsResponse]):
    """Each broker answers of those it coordinates. Empty filters let all through.

    `duration_filter` is in ms: those that have run for longer (KIP-994); below 0 all.
    """

    api = Api(ApiKey.LIST_TRANSACTIONS, versions=(0, 2), flexible_since=0)

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[Int64, ...] = ()
    duration_filter: Annotated[Int64, Field("1+")] = -1
    transactional_id_pattern: Annotated[str | None, Field("2+")] = None
