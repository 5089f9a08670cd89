"""Fetch sessions: what a broker remembers of the partitions that a client reads (KIP-227)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    PartitionData,
)

Asked = tuple[str, UUID, int]
"""A partition as a Fetch names it: by its topic's name or by its id."""
SESSIONS_SINCE = 7
_FINAL_EPOCH = -1
_FIRST = 100


@dataclass
class Session:
    """What is read for a client, and the last high watermarks and log starts that it was told."""

    broker: int
    partitions: dict[Asked, FetchPartition]
    number: int = 0
    """0 for one that is not kept."""
    epoch: int = 1
    told: dict[Asked, tuple[int, int]] = field(default_factory=dict)

    def news(
        self,
        read: Mapping[Asked, PartitionData],
        is_full: bool,
        order: Callable[[list[PartitionData]], list[PartitionData]],
    ) -> tuple[FetchableTopicResponse, ...]:
        """What there is to say of its partitions; all, if it is new."""
        topics: dict[tuple[str, UUID], list[PartitionData]] = {}
        for asked, p in read.items():
            now = -1 if p.error_code else p.high_watermark, p.log_start_offset
            is_same = self.told.get(asked) == now
            self.told[asked] = now
            if is_full or not is_same or p.error_code or p.records or p.preferred_read_replica >= 0:
                topics.setdefault(asked[:2], []).append(p)
        return tuple(FetchableTopicResponse(*topic, tuple(order(p))) for topic, p in topics.items())


class Sessions:
    """Those that the brokers keep."""

    def __init__(self) -> None:
        self.keeps: Callable[[], bool] = lambda: False
        """Whether there is room for one more."""
        self.kept: dict[int, Session] = {}
        """By number."""
        self.closed: list[int] = []
        """Those that clients have closed."""
        self._numbers = count(_FIRST)

    def forget(self, broker: int) -> None:
        """As one does that starts anew."""
        for number in [n for n, session in self.kept.items() if session.broker == broker]:
            del self.kept[number]

    def asked(self, broker: int, request: FetchRequest, version: int) -> Session | int:
        """The session as it is now, a new one if need be; or the error of one that is not known."""
        asked = {
            (topic.topic, topic.topic_id, p.partition): p
            for topic in request.topics
            for p in topic.partitions
        }
        if version < SESSIONS_SINCE or request.session_epoch <= 0:
            self.kept.pop(request.session_id, None)
            if request.session_id and request.session_epoch == _FINAL_EPOCH:
                self.closed.append(request.session_id)
            opened = Session(broker, asked)
            if version >= SESSIONS_SINCE and request.session_epoch == 0 and self.keeps():
                opened.number = next(self._numbers)
                self.kept[opened.number] = opened
            return opened
        session = self.kept.get(request.session_id)
        if session is None or session.broker != broker:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.epoch += 1
        session.partitions |= asked
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                session.partitions.pop((topic.topic, topic.topic_id, index), None)
        if not session.partitions:  # it is closed (FetchManager.newContext)
            del self.kept[session.number]
            return Session(broker, {})
        return session
