"""Kafka's error codes: number, whether trying again can help, and what it means in few words.

Numbers and names are those of Kafka's `Errors`; `retriable` is whether its exception class is a
`RetriableException`.
"""

from enum import IntEnum

_RETRIABLE = True


class ErrorCode(IntEnum):
    """An error code of the protocol, with `retriable` and a short `message`."""

    retriable: bool
    message: str

    def __new__(cls, code: int, message: str = "", retriable: bool = False) -> "ErrorCode":
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = retriable
        return member

    @classmethod
    def _missing_(cls, value: object) -> "ErrorCode | None":
        """A code that is newer than this list becomes a member that is not in it."""
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = f"UNKNOWN_ERROR_{value}"
        member._value_ = value
        member.message = "newer than this kipctl"
        member.retriable = False
        return member

    def __reduce_ex__(self, protocol: object) -> tuple[type["ErrorCode"], tuple[int]]:
        # Python 3.11.2, Debian's, pickles members by their names, and a newer code has none.
        return type(self), (int(self),)

    UNKNOWN_SERVER_ERROR = -1, "the broker met an unexpected error; its log says more"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the offset is outside the log"
    CORRUPT_MESSAGE = (
        2,
        "the batch has a wrong CRC or size, or no key on a compacted topic",
        _RETRIABLE,
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, "the broker does not host this topic or partition", _RETRIABLE
    INVALID_FETCH_SIZE = 4, "the fetch size is invalid"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader now", _RETRIABLE
    NOT_LEADER_OR_FOLLOWER = 6, "the broker is not the leader, or not a replica", _RETRIABLE
    REQUEST_TIMED_OUT = 7, "the request timed out in the broker", _RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "the replica is not available", _RETRIABLE
    MESSAGE_TOO_LARGE = 10, "the batch is larger than the topic or broker allows"
    STALE_CONTROLLER_EPOCH = 11, "the controller has moved to another node"
    OFFSET_METADATA_TOO_LARGE = 12, "the metadata string of the offset commit is too large"
    NETWORK_EXCEPTION = 13, "the broker disconnected before it answered", _RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading", _RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, "the coordinator is not available", _RETRIABLE
    NOT_COORDINATOR = 16, "the broker is not the coordinator", _RETRIABLE
    INVALID_TOPIC_EXCEPTION = 17, "the topic name is invalid, or the topic is internal"
    RECORD_LIST_TOO_LARGE = 18, "the batch is larger than a log segment"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than min.insync.replicas", _RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "written, but to fewer in-sync replicas than min.insync.replicas",
        _RETRIABLE,
    )
    INVALID_REQUIRED_ACKS = 21, "acks has to be 0, 1 or -1"
    ILLEGAL_GENERATION = 22, "the group has moved on to another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member's protocols do not fit those of the group"
    INVALID_GROUP_ID = 24, "the group id is invalid"
    UNKNOWN_MEMBER_ID = 25, "the coordinator does not know this member"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout is outside what the broker allows"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the committed offset data has an invalid size"
    TOPIC_AUTHORIZATION_FAILED = 29, "not authorized for the topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not authorized for the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not authorized for the cluster"
    INVALID_TIMESTAMP = 32, "a record's timestamp is out of range"
    UNSUPPORTED_SASL_MECHANISM = 33, "the broker does not offer this SASL mechanism"
    ILLEGAL_SASL_STATE = 34, "the request does not fit the state of authentication"
    UNSUPPORTED_VERSION = 35, "the broker does not know this version of the API"
    TOPIC_ALREADY_EXISTS = 36, "the topic exists already"
    INVALID_PARTITIONS = 37, "the number of partitions is invalid"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is invalid, or may not change"
    INVALID_REPLICA_ASSIGNMENT = (
        39,
        "the replicas are empty, repeated or not brokers of the cluster",
    )
    INVALID_CONFIG = 40, "the configuration is invalid"
    NOT_CONTROLLER = 41, "the node is not the controller", _RETRIABLE
    INVALID_REQUEST = 42, "the broker finds the request malformed or contradictory"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the log's message format does not support this"
    POLICY_VIOLATION = 44, "a policy of the cluster forbids it"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "the sequence number does not follow the last one"
    DUPLICATE_SEQUENCE_NUMBER = 46, "the sequence number was used before"
    INVALID_PRODUCER_EPOCH = 47, "the producer epoch is old"
    INVALID_TXN_STATE = 48, "the transaction's state does not allow this"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id does not belong to the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is larger than the broker allows"
    CONCURRENT_TRANSACTIONS = 51, "another operation on the transaction is under way", _RETRIABLE
    TRANSACTION_COORDINATOR_FENCED = 52, "the transaction coordinator has been replaced"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not authorized for the transactional id"
    SECURITY_DISABLED = 54, "security features are switched off"
    OPERATION_NOT_ATTEMPTED = 55, "not tried, because another operation of the batch failed"
    KAFKA_STORAGE_ERROR = 56, "the broker could not access a log folder", _RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "the broker has no such log folder"
    SASL_AUTHENTICATION_FAILED = 58, "SASL authentication failed"
    UNKNOWN_PRODUCER_ID = 59, "the broker has nothing on record for the producer id"
    REASSIGNMENT_IN_PROGRESS = 60, "a partition is being reassigned"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are switched off"
    DELEGATION_TOKEN_NOT_FOUND = 62, "there is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the principal neither owns nor may renew the token"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "delegation tokens need an authenticated channel"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not authorized for the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "the principal type is not supported"
    NON_EMPTY_GROUP = 68, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, "there is no such fetch session", _RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, "the fetch session epoch is invalid", _RETRIABLE
    LISTENER_NOT_FOUND = 72, "the leader has no listener of the name that was asked", _RETRIABLE
    TOPIC_DELETION_DISABLED = 73, "topic deletion is switched off"
    FENCED_LEADER_EPOCH = 74, "the leader epoch is older than the broker's", _RETRIABLE
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch is newer than the broker's", _RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = 76, "the client's version does not support the compression"
    STALE_BROKER_EPOCH = 77, "the broker epoch has changed"
    OFFSET_NOT_AVAILABLE = 78, "the new leader's high watermark has not caught up yet", _RETRIABLE
    MEMBER_ID_REQUIRED = 79, "the member needs an id before it joins"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader is not available", _RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "the group is full"
    FENCED_INSTANCE_ID = 82, "another member has taken over the group instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica is eligible to lead", _RETRIABLE
    ELECTION_NOT_NEEDED = 84, "the partition has the right leader already", _RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "the partition is not being reassigned"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group is subscribed to the topic"
    INVALID_RECORD = 87, "the broker's validation refused a record"
    UNSTABLE_OFFSET_COMMIT = 88, "offsets of an open transaction are pending", _RETRIABLE
    THROTTLING_QUOTA_EXCEEDED = 89, "the quota is used up for now", _RETRIABLE
    PRODUCER_FENCED = 90, "a newer producer has the same transactional id"
    RESOURCE_NOT_FOUND = 91, "there is no such resource"
    DUPLICATE_RESOURCE = 92, "the same resource is named twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential does not meet the criteria"
    INCONSISTENT_VOTER_SET = 94, "sender or receiver is not one of the expected voters"
    INVALID_UPDATE_VERSION = 95, "the update's version is invalid"
    FEATURE_UPDATE_FAILED = 96, "the features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the forwarded principal could not be read"
    SNAPSHOT_NOT_FOUND = 98, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, "the position is outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, "the broker does not host this topic id", _RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "the broker id is in use"
    BROKER_ID_NOT_REGISTERED = 102, "the broker id is not registered"
    INCONSISTENT_TOPIC_ID = 103, "the log has another topic id", _RETRIABLE
    INCONSISTENT_CLUSTER_ID = 104, "the cluster has another id"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session mixes uses of topic ids", _RETRIABLE
    INELIGIBLE_REPLICA = 107, "a replica of the new ISR is not eligible"
    NEW_LEADER_ELECTED = 108, "the partition was altered, and its leader has changed"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset has moved to tiered storage"
    FENCED_MEMBER_EPOCH = 110, "the member epoch is fenced; the member has to join again"
    UNRELEASED_INSTANCE_ID = 111, "another member still uses the instance id"
    UNSUPPORTED_ASSIGNOR = 112, "the group does not support the assignor or its version"
    STALE_MEMBER_EPOCH = 113, "the member epoch is stale"
    MISMATCHED_ENDPOINT_TYPE = 114, "the endpoint is of the other type (broker or controller)"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "the endpoint type is not supported"
    UNKNOWN_CONTROLLER_ID = 116, "the controller id is not known"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription is invalid or outdated"
    TELEMETRY_TOO_LARGE = 118, "the telemetry is larger than the broker accepts"
    INVALID_REGISTRATION = 119, "the controller finds the broker's registration invalid"
    TRANSACTION_ABORTABLE = 120, "the transaction failed and can be aborted"
    INVALID_RECORD_STATE = 121, "the record's state does not allow the acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, "there is no such share session", _RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = 123, "the share session epoch is invalid", _RETRIABLE
    FENCED_STATE_EPOCH = 124, "the share group's state epoch does not match"
    INVALID_VOTER_KEY = 125, "the voter key is not that of the replica"
    DUPLICATE_VOTER = 126, "the voter is in the set already"
    VOTER_NOT_FOUND = 127, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression is invalid"
    REBOOTSTRAP_REQUIRED = 129, "the client has to start again from its bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, "the streams topology is invalid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the streams topology epoch is invalid"
    STREAMS_TOPOLOGY_FENCED = 132, "the streams topology epoch is outdated"
    SHARE_SESSION_LIMIT_REACHED = (
        133,
        "the broker has no room for another share session",
        _RETRIABLE,
    )
    GROUP_DELETION_FAILED = 134, "a group could not be deleted"
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (
        135,
        "the broker could not take the description of the topology",
    )
    CONTROLLER_ID_NOT_REGISTERED = 136, "no controller of this id is registered"


LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""The errors that say that another broker leads, and may name it (KIP-951)."""


def error_name(code: int) -> str:
    """The name of an error code; `UNKNOWN_ERROR_<code>` for one that is newer than this list."""
    return ErrorCode(code).name


def error_text(code: int) -> str:
    """Name and meaning, for messages: `NOT_CONTROLLER (41): the node is not the controller`."""
    error = ErrorCode(code)
    return f"{error.name} ({code}): {error.message}"
