"""Column expressions that several tables share: percentiles, leader errors, names of codes."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from kipctl.protocol.error_codes import LEADER_ERRORS, ErrorCode

NONE = "-"
"""Stands for nothing where a column of names must have a value: no action yet, no broker."""

_LEADER_ERRORS = sorted(int(code) for code in LEADER_ERRORS)
_API_NAMES = """
PRODUCE FETCH LIST_OFFSETS METADATA LEADER_AND_ISR STOP_REPLICA UPDATE_METADATA
CONTROLLED_SHUTDOWN OFFSET_COMMIT OFFSET_FETCH FIND_COORDINATOR JOIN_GROUP HEARTBEAT LEAVE_GROUP
SYNC_GROUP DESCRIBE_GROUPS LIST_GROUPS SASL_HANDSHAKE API_VERSIONS CREATE_TOPICS DELETE_TOPICS
DELETE_RECORDS INIT_PRODUCER_ID OFFSET_FOR_LEADER_EPOCH ADD_PARTITIONS_TO_TXN ADD_OFFSETS_TO_TXN
END_TXN WRITE_TXN_MARKERS TXN_OFFSET_COMMIT DESCRIBE_ACLS CREATE_ACLS DELETE_ACLS DESCRIBE_CONFIGS
ALTER_CONFIGS ALTER_REPLICA_LOG_DIRS DESCRIBE_LOG_DIRS SASL_AUTHENTICATE CREATE_PARTITIONS
CREATE_DELEGATION_TOKEN RENEW_DELEGATION_TOKEN EXPIRE_DELEGATION_TOKEN DESCRIBE_DELEGATION_TOKEN
DELETE_GROUPS ELECT_LEADERS INCREMENTAL_ALTER_CONFIGS ALTER_PARTITION_REASSIGNMENTS
LIST_PARTITION_REASSIGNMENTS OFFSET_DELETE DESCRIBE_CLIENT_QUOTAS ALTER_CLIENT_QUOTAS
DESCRIBE_USER_SCRAM_CREDENTIALS ALTER_USER_SCRAM_CREDENTIALS VOTE BEGIN_QUORUM_EPOCH
END_QUORUM_EPOCH DESCRIBE_QUORUM ALTER_PARTITION UPDATE_FEATURES ENVELOPE FETCH_SNAPSHOT
DESCRIBE_CLUSTER DESCRIBE_PRODUCERS BROKER_REGISTRATION BROKER_HEARTBEAT UNREGISTER_BROKER
DESCRIBE_TRANSACTIONS LIST_TRANSACTIONS ALLOCATE_PRODUCER_IDS CONSUMER_GROUP_HEARTBEAT
CONSUMER_GROUP_DESCRIBE CONTROLLER_REGISTRATION GET_TELEMETRY_SUBSCRIPTIONS PUSH_TELEMETRY
ASSIGN_REPLICAS_TO_DIRS LIST_CONFIG_RESOURCES DESCRIBE_TOPIC_PARTITIONS SHARE_GROUP_HEARTBEAT
SHARE_GROUP_DESCRIBE SHARE_FETCH SHARE_ACKNOWLEDGE ADD_RAFT_VOTER REMOVE_RAFT_VOTER
UPDATE_RAFT_VOTER INITIALIZE_SHARE_GROUP_STATE READ_SHARE_GROUP_STATE WRITE_SHARE_GROUP_STATE
DELETE_SHARE_GROUP_STATE READ_SHARE_GROUP_STATE_SUMMARY STREAMS_GROUP_HEARTBEAT
STREAMS_GROUP_DESCRIBE DESCRIBE_SHARE_GROUP_OFFSETS ALTER_SHARE_GROUP_OFFSETS
DELETE_SHARE_GROUP_OFFSETS
"""
API_NAMES: Mapping[int, str] = dict(enumerate(_API_NAMES.split()))
"""Kafka's `ApiKeys` of 4.3 by number: a proxy sees more of them than kipctl speaks."""


def nearest_rank(value: str, q: float) -> Column:
    """An aggregate: the exact nearest-rank quantile of a whole number in SQL (bigint).

    It is the least value that a share `q` of all do not exceed, as in
    `kipctl.measure.distribution.Distribution.quantile`; null where there is none. It holds the
    distinct values of a group in memory: meant for requests and episodes, not for records.
    """
    return F.expr(f"percentile_disc({q}) within group (order by {value})").cast("bigint")


def count_if(condition: Column) -> Column:
    """An aggregate: in how many rows it holds (bigint); unknown counts as no."""
    return F.count(F.when(condition, True))


def sum_of_rates(rate: Column) -> Column:
    """The sum of fractions, each to a billionth: as a decimal, since a sum of doubles hangs on the
    order in which Spark adds them."""
    return F.sum(rate.cast("decimal(28, 9)")).cast("double")


def sum_of(value: str | Column) -> Column:
    """An aggregate: the sum, 0 where all is null."""
    return F.coalesce(F.sum(value), F.lit(0).cast("bigint"))


def is_leader_error(error: str | Column = "error") -> Column:
    """Whether an error says that another broker leads; never null."""
    code = F.col(error) if isinstance(error, str) else error
    return F.coalesce(code.isin(_LEADER_ERRORS), F.lit(False))


def api_name(api_key: str = "api_key") -> Column:
    """The name of an API as in Kafka's `ApiKeys` (PRODUCE); `API <n>` for a newer one."""
    return _named(api_key, API_NAMES, "API ")


def error_name(error: str = "error") -> Column:
    """The name of an error code as in Kafka's `Errors`; `UNKNOWN_ERROR_<n>` for a newer one."""
    return _named(error, {int(code): code.name for code in ErrorCode}, "UNKNOWN_ERROR_")


def _named(code: str, names: Mapping[int, str], otherwise: str) -> Column:
    # As text: Column by Column it would be a thousand calls of the JVM.
    pairs = ", ".join(f"{number}, '{name}'" for number, name in names.items())
    return F.expr(f"coalesce(try_element_at(map({pairs}), {code}), concat('{otherwise}', {code}))")


def brokers_named(first: Column, last: Column) -> Column:
    """`1->2`, with `-` for a broker that is not known or was not tried."""
    ends = [F.coalesce(broker.cast("string"), F.lit(NONE)) for broker in (first, last)]
    return F.concat_ws("->", *ends)


def columns_of(keys: Sequence[str], made_of: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns that these keys stand for: most are one of that name, some are several."""
    return [column for key in keys for column in made_of.get(key, (key,))]
