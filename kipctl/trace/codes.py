"""What the trace's columns may say: decisions, causes, phases."""

from enum import IntEnum

TAP_ARM = "tap"
"""The arm of a tap's run that was given no name: each of its clients is an arm of its own."""


class Decision(IntEnum):
    """What the client did with the leader hint of an error (KIP-951, "Client behaviour")."""

    ABSENT = 0
    """No hint, or one that names no leader (-1)."""
    FOLLOWED = 1
    """It named a newer leader epoch, and the client took it."""
    KNOWN = 2
    """What the client knows by now: another batch's hint, or Metadata, was there before."""
    STALE = 3
    """Older than what the client knows: the answering broker has not heard yet. In older runs it
    is SAME_EPOCH and REFUSER as well."""
    UNKNOWN_NODE = 4
    """Its leader is in neither the response's endpoints nor the client's cache."""
    IGNORED = 5
    """The client does not take hints (`--leader-discovery` refresh or baseline)."""
    NOT_APPLICABLE = 6
    """The error is not about the leader: a disconnect, a timeout."""
    DRAFT = 7
    """In the form of the KIP's early draft (`kipctl.protocol.leader_hints`), which no client reads;
    it does not count among the hints that were there."""
    SAME_EPOCH = 8
    """Another leader at the epoch that the client knows: by the answering broker's fault."""
    REFUSER = 9
    """It names the very broker that answers that it does not lead."""
    OTHER_ENDPOINT = 10
    """Its endpoint is another node's, as far as the tap knows; in older runs it is UNKNOWN_NODE."""


class MetadataCause(IntEnum):
    """Why a Metadata request was sent (KIP-526)."""

    START = 0
    NEW_TOPIC = 1
    LEADER_CHANGE = 2
    MAX_AGE = 3
    IDLE_EVICTION = 4
    ERROR_RETRY = 5
    """A connection was lost, a request timed out, or the last Metadata answer was an error."""
    UNEXPLAINED = 6
    """None of these, as far as the wire shows it; in older runs it is MAX_AGE."""
    FIRST_SEEN = 7
    """The first that a log shows of a client that was there before: why it asks is not known."""


class RangeCase(IntEnum):
    """What a consumer's position is to a broker that does not have it (KIP-392, "Out of range").

    Kafka as it is says OFFSET_OUT_OF_RANGE in all but the first, and never OFFSET_NOT_AVAILABLE,
    as the KIP has it for the first two: what it is only the leader can tell.
    """

    UNCOMMITTED = 0
    """Between the high watermark and the end of the log: no error, and no records."""
    UNAVAILABLE = 1
    """The leader has it, the follower not yet (case 2)."""
    TOO_SMALL = 2
    """Before the start of the leader's log."""
    TOO_LARGE = 3
    """Beyond the end of the leader's log, or of what it still has of the epoch read last."""
    FOLLOWER_BEGINS_LATER = 4
    """The leader has it, the follower no more: its own log begins after it (case 3)."""


class RangeHandling(IntEnum):
    """What the consumer did about it."""

    WAIT = 0
    ASK_LEADER = 1
    RESET = 2
    """To where `auto.offset.reset` says."""
    TRUNCATE = 3
    """To where the leader's log left the one that was read (KIP-320)."""
    FAIL = 4
    """`auto.offset.reset` is none."""


PHASES = (
    "queued",
    "detect",
    "backoff",
    "metadata",
    "connect",
    "throttled",
    "not_ready",
    "acknowledge",
)
"""The phases of a redirect. Summed over a batch's rows they are its latency, exactly."""

WAITS_BELOW_MS = (3, 30, 90, 150, 1000)
"""What the waits of moved leaders are counted by: a hint, Metadata that is fresh, a part of
`retry.backoff.ms`, all of it, several of them; and more."""
