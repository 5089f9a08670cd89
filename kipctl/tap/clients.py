"""The clients that the tap has seen, what they did, and what it still knows of each."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kipctl.tap.leaders import PartitionId

_REMEMBERED_ANSWERS = 32
_REMEMBERED_WAITS = 250
"""A summary of them is made once a second, for every client."""
_FORGOTTEN_US = 300_000_000


class Identity(NamedTuple):
    """What a client says of itself; the software is "" where it does not say (before KIP-511)."""

    client_id: str
    software_name: str
    software_version: str


class MetadataAnswer(NamedTuple):
    """An answer that a client got, with the leaders that it showed. Monotonic microseconds."""

    sent_us: int
    answered_us: int
    leaders: Mapping[PartitionId, int]


@dataclass(slots=True)
class Counts:
    """What a client did since it was first seen."""

    connections: int = 0
    lost: int = 0
    """Connections that ended while requests were in flight."""
    resets: int = 0
    """Connections that the tap has reset (`--reset`)."""
    requests: Counter[int] = field(default_factory=Counter)
    """By API key."""
    not_decoded: int = 0
    """Requests of APIs or versions that kipctl does not know, of those that it would read."""
    produce_errors: Counter[int] = field(default_factory=Counter)
    """Partitions answered with an error, by its code."""
    fetch_errors: Counter[int] = field(default_factory=Counter)
    leader_errors: int = 0
    """Of both, those that say that the leader is another."""
    hints: int = 0
    draft_hints: int = 0
    """Hints in the form of KIP-951's earlier draft, which clients do not read."""
    dropped_hints: int = 0
    """Hints that `--drop-hints` has taken out."""
    redirects: int = 0
    """Batches and fetches that were sent again after a leader error, and then succeeded."""
    metadata: Counter[str] = field(default_factory=Counter)
    """Metadata requests by cause."""
    decisions: Counter[int] = field(default_factory=Counter)
    """Answers that the leader is another, by what became of the hint (`Decision`)."""
    moves: int = 0
    """Moved leaders that batches and fetches of the client met, and found."""


class Client:
    """One client: all connections with the same identity."""

    def __init__(self, identity: Identity, number: tuple[int, int, int]) -> None:
        self.identity = identity
        self.number = number
        """Its id, software and version, as the rows have them."""
        self.counts = Counts()
        self.open_connections = 0
        self.has_requested_metadata = False
        """For Metadata."""
        self.known_topics: set[str] = set()
        """Topics that Metadata has shown it."""
        self.leader_error = False
        """It got one since its last Metadata request."""
        self.had_error = False
        self.waiting = 0
        """Batches and fetches that met an error, and have not been sent again."""
        self.answers: deque[MetadataAnswer] = deque(maxlen=_REMEMBERED_ANSWERS)
        """Metadata answers while something was waiting."""
        self.hinted: dict[PartitionId, int] = {}
        """The newest leader epoch that a hint has told it."""
        self._waits: dict[tuple[PartitionId, int, int], int] = {}
        """Of the leaders met last, by partition, generation and epoch, in microseconds."""
        self._disconnected_us = 0
        """Since when it has had no connection; 0 while it has."""

    def met(self, partition: PartitionId, generation: int, epoch: int, wait_us: int) -> None:
        """It met a leader that had moved, and took so long itself before it sent to the new one.

        The epoch is of the topic's generation (`Leaders.generation`). Of several batches that met
        it the longest counts.
        """
        key = partition, generation, epoch
        self.counts.moves += key not in self._waits
        self._waits[key] = max(wait_us, self._waits.get(key, 0))
        if len(self._waits) > _REMEMBERED_WAITS:
            del self._waits[next(iter(self._waits))]

    @property
    def waits_us(self) -> tuple[int, int, int]:
        """For the leaders met last: the median, p99 and the longest; zeros for none."""
        waits = sorted(self._waits.values()) or [0]
        return waits[(len(waits) - 1) // 2], waits[(99 * len(waits) - 1) // 100], waits[-1]

    def forget_if_gone(self, now_us: int) -> None:
        """Drop what it knew some minutes after its last connection: it begins anew then."""
        if self.open_connections:
            self._disconnected_us = 0
        elif not self._disconnected_us:
            self._disconnected_us = now_us
        elif now_us - self._disconnected_us > _FORGOTTEN_US and self.has_requested_metadata:
            self.has_requested_metadata = False
            self.known_topics, self.hinted = set(), {}
            self.answers.clear()

    def metadata_named_us(
        self, partition: PartitionId, leader: int, since_us: int, until_us: int
    ) -> tuple[int, int]:
        """When Metadata first named that leader in that time: it was asked for, and answered.

        (0, 0) if it did not.
        """
        asked_us = 0
        for answer in self.answers:
            if since_us <= answer.answered_us <= until_us:
                asked_us = asked_us or answer.sent_us
                if answer.leaders.get(partition) == leader:
                    return asked_us, answer.answered_us
        return 0, 0
