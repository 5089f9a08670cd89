"""The fake cluster's other half: logs that are read, with fetch sessions and Kafka's refusals.

A log is the same on all replicas but for what a test takes away from one of them. As with Produce
the cluster behaves by itself, and a test scripts what a real one shows only by chance.
"""

import itertools
import struct
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Condition
from typing import Any, NamedTuple
from uuid import UUID

from fake_broker import TOPIC, TOPIC_ID, VERSIONS, FakeCluster
from record_batches import Record, encode_batch

from kipctl.probe.leadership import Leader
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kipctl.protocol.list_offsets import (
    DEBUGGING_REPLICA_ID,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataResponse
from kipctl.protocol.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kipctl.protocol.produce import LeaderIdAndEpoch, NodeEndpoint
from kipctl.protocol.records import PARTITION_LEADER_EPOCH_AT

READ_VERSIONS = VERSIONS | {1: (4, 18), 2: (1, 11), 23: (2, 4)}
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


@dataclass(frozen=True)
class Fetching:
    """One partition that a broker reads for a Fetch, as it stands in the request or session."""

    broker: int
    connection: int
    version: int
    partition: int
    offset: int
    epoch: int
    rack: str


class ReadReply(NamedTuple):
    """What a partition is answered, in place of what the cluster would answer."""

    error: int = 0
    hint: Leader | None = None
    endpoint: tuple[int, int] | None = None
    """(node id, port) among the response's endpoints."""
    preferred: int = -1
    records: bytes = b""
    high_watermark: int = 0
    aborted: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class FetchSeen:
    """A Fetch as it came to a broker: what it said of its session, and told it."""

    broker: int
    connection: int
    version: int
    session_id: int
    session_epoch: int
    told: dict[int, int]
    """The offset of each partition in the request."""
    forgotten: frozenset[int]
    request: FetchRequest


@dataclass
class _Session:
    epoch: int = 1
    partitions: dict[int, FetchPartition] = field(default_factory=dict)
    shown: dict[int, int] = field(default_factory=dict)
    """The high watermark that the reader has seen of each partition."""


@dataclass
class _Batch:
    base: int
    count: int
    epoch: int
    content: bytes
    written_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)


@dataclass
class Log:
    """A partition's batches; `start` and `end` are offsets."""

    start: int = 0
    batches: list[_Batch] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.batches[-1].base + self.batches[-1].count if self.batches else self.start

    def since(self, time_ms: int) -> int:
        """The offset of the first record that was written at that time or later; -1 for none."""
        return next((batch.base for batch in self.batches if batch.written_ms >= time_ms), -1)

    def read(self, offset: int, end: int, max_bytes: int) -> bytes:
        """Whole batches from that offset on, at least one if there is any before `end`."""
        found = b""
        for batch in self.batches:
            if batch.base + batch.count <= offset or batch.base + batch.count > end:
                continue
            if found and len(found) + len(batch.content) > max_bytes:
                break
            found += batch.content
        return found

    def epoch_end(self, epoch: int, current: int) -> tuple[int, int]:
        """The largest epoch up to this one, and its end (Kafka's LeaderEpochFileCache)."""
        if epoch >= current:
            return current, self.end
        later = [batch for batch in self.batches if batch.epoch > epoch]
        before = [batch.epoch for batch in self.batches if batch.epoch <= epoch]
        return max(before, default=epoch), later[0].base if later else self.end


def nothing_scripted(_: Fetching) -> ReadReply | None:
    return None


class ReadCluster(FakeCluster):
    """Every broker holds every partition; broker n is in rack `rack-n`.

    `read_script` is asked for each partition of a Fetch as `script` is for Produce,
    `position_script` for each of a ListOffsets or OffsetForLeaderEpoch: it answers an error code,
    or None. `ends` and `starts` are those of one broker's log where it differs, by (broker,
    partition); `high_watermarks` where it is not the end. The leader names the replica in the
    reader's rack if `names_replicas` and it has the offset.
    """

    def __init__(
        self,
        brokers: int = 2,
        partitions: int = 1,
        versions: dict[int, tuple[int, int]] = READ_VERSIONS,
    ) -> None:
        self.read_script: Callable[[Fetching], ReadReply | None] = nothing_scripted
        self.position_script: Callable[[str, int, int], int | None] = lambda *_: None
        self.session_errors: list[int] = []
        self.keeps_sessions = True
        self.names_replicas = True
        self.not_replicas: set[int] = set()
        self.logs: dict[int, Log] = defaultdict(Log)
        self.ends: dict[tuple[int, int], int] = {}
        self.starts: dict[tuple[int, int], int] = {}
        self.high_watermarks: dict[int, int] = {}
        self.fetches: list[FetchSeen] = []
        self.readings: list[Fetching] = []
        self.questions: list[tuple[str, int, int]] = []
        """What was asked of which broker about which partition, besides records."""
        self._sessions: dict[tuple[int, int], _Session] = {}
        self._numbers = itertools.count(100)
        self._news = Condition()
        self._closing = False
        super().__init__(brokers, partitions, versions=versions)

    def __exit__(self, *exception: object) -> None:
        with self._news:
            self._closing = True
            self._news.notify_all()
        super().__exit__(*exception)

    def write(self, partition: int, batches: int = 1, records: int = 1) -> None:
        """Append batches of so many records, each `<partition>:<offset>`, in the leader's epoch."""
        with self._news:
            log, epoch = self.logs[partition], self.leaders[partition].epoch
            for _ in range(batches):
                base = log.end
                values = [Record(value_at(partition, base + i)) for i in range(records)]
                content = bytearray(encode_batch(values))
                struct.pack_into(">q", content, 0, base)
                struct.pack_into(">i", content, PARTITION_LEADER_EPOCH_AT, epoch)
                log.batches.append(_Batch(base, records, epoch, bytes(content)))
            self._news.notify_all()

    def move(self, partition: int, to: int) -> None:
        with self._news:
            super().move(partition, to)
            self._news.notify_all()

    def changed(self) -> None:
        """Readers that wait look again."""
        with self._news:
            self._news.notify_all()

    def truncate(self, partition: int, end: int) -> None:
        """An unclean election's loss: what lies beyond is gone from all replicas."""
        log = self.logs[partition]
        log.batches = [batch for batch in log.batches if batch.base + batch.count <= end]

    def delete_records(self, partition: int, before: int) -> None:
        log = self.logs[partition]
        log.batches = [batch for batch in log.batches if batch.base >= before]
        log.start = before

    # --- answers ---

    def answer(self, broker: int, connection: int, version: int, request: Any) -> Response | None:
        match request:
            case FetchRequest():
                return self._fetch(broker, connection, version, request)
            case ListOffsetsRequest():
                return self._list_offsets(broker, request)
            case OffsetForLeaderEpochRequest():
                return self._epoch_ends(broker, request)
        return super().answer(broker, connection, version, request)

    def _metadata(self, broker: int) -> MetadataResponse:
        answer = super()._metadata(broker)
        brokers = tuple(replace(node, rack=f"rack-{node.node_id}") for node in answer.brokers)
        return replace(answer, brokers=brokers)

    def _fetch(
        self, broker: int, connection: int, version: int, request: FetchRequest
    ) -> FetchResponse:
        told = {p.partition: p for topic in request.topics for p in topic.partitions}
        for topic in (*request.topics, *request.forgotten_topics_data):
            assert (topic.topic_id, topic.topic) == (
                (TOPIC_ID, "") if version >= 13 else (UUID(int=0), TOPIC)
            )
        forgotten = frozenset(p for t in request.forgotten_topics_data for p in t.partitions)
        self.fetches.append(
            FetchSeen(
                broker,
                connection,
                version,
                request.session_id,
                request.session_epoch,
                {index: p.fetch_offset for index, p in told.items()},
                forgotten,
                request,
            )
        )
        if self.session_errors:
            return FetchResponse(error_code=self.session_errors.pop(0))
        number, session = 0, _Session(partitions=told)
        if version >= 7 and request.session_epoch > 0:
            number = request.session_id
            found = self._sessions.get((broker, number))
            if found is None:
                return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            session = found
            if session.epoch != request.session_epoch:
                return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            session.epoch += 1
            assert not forgotten & told.keys()
            assert forgotten <= session.partitions.keys()
            session.partitions = {
                index: p
                for index, p in (session.partitions | told).items()
                if index not in forgotten
            }
        elif version >= 7:
            assert not forgotten
            self._sessions.pop((broker, request.session_id), None)
            if self.keeps_sessions:
                number = next(self._numbers)
                self._sessions[broker, number] = session
        deadline = time.monotonic() + request.max_wait_ms / 1000
        while True:
            replies = {
                index: self._read(
                    Fetching(
                        broker,
                        connection,
                        version,
                        index,
                        p.fetch_offset,
                        p.current_leader_epoch,
                        request.rack_id,
                    ),
                    p.partition_max_bytes,
                )
                for index, p in session.partitions.items()
            }
            is_news = any(r.error or r.records or r.preferred != -1 for r in replies.values())
            with self._news:
                left = deadline - time.monotonic()
                if is_news or self._closing or left <= 0:
                    break
                self._news.wait(left)
        is_full = request.session_epoch <= 0 or version < 7
        return self._fetched(version, number, session, replies, is_full)

    def _fetched(
        self,
        version: int,
        number: int,
        session: _Session,
        replies: dict[int, ReadReply],
        is_full: bool,
    ) -> FetchResponse:
        partitions, endpoints = [], {}
        for index, reply in replies.items():
            is_same = session.shown.get(index) == reply.high_watermark
            if is_same and not (is_full or reply.error or reply.records or reply.preferred != -1):
                continue
            session.shown[index] = reply.high_watermark
            hint = reply.hint or Leader(-1, -1)
            if reply.endpoint:
                endpoints[reply.endpoint[0]] = reply.endpoint[1]
            partitions.append(
                PartitionData(
                    partition_index=index,
                    error_code=reply.error,
                    high_watermark=reply.high_watermark,
                    current_leader=LeaderIdAndEpoch(hint.id, hint.epoch)
                    if version >= 12
                    else LeaderIdAndEpoch(),
                    preferred_read_replica=reply.preferred if version >= 11 else -1,
                    aborted_transactions=tuple(AbortedTransaction(*a) for a in reply.aborted),
                    records=reply.records,
                )
            )
        # In any order, as real brokers do.
        partitions = partitions[1::2] + partitions[::2]
        by_id = version >= 13
        topic = FetchableTopicResponse(
            topic="" if by_id else TOPIC,
            topic_id=TOPIC_ID if by_id else UUID(int=0),
            partitions=tuple(partitions),
        )
        nodes = tuple(NodeEndpoint(id, "127.0.0.1", port) for id, port in endpoints.items())
        return FetchResponse(
            session_id=number if version >= 7 else 0,
            responses=(topic,) if partitions else (),
            node_endpoints=nodes if version >= (13 if self.draft else 16) else (),
        )

    def _read(self, fetching: Fetching, max_bytes: int) -> ReadReply:
        with self._lock:
            self.readings.append(fetching)
        reply = self.read_script(fetching)
        if reply is not None:
            return reply
        with self._lock:
            return self._read_or_refuse(fetching, max_bytes)

    def _read_or_refuse(self, fetching: Fetching, max_bytes: int) -> ReadReply:
        broker, index = fetching.broker, fetching.partition
        log, leader = self.logs[index], self.leaders[index]
        error = self._epoch_error(index, fetching.epoch)
        if broker in self.not_replicas:
            error = NOT_LEADER
        if error in (NOT_LEADER, ErrorCode.FENCED_LEADER_EPOCH) and self.hints:
            return ReadReply(error, leader, (leader.id, self.brokers[leader.id].port))
        if error:
            return ReadReply(error)
        start = self.starts.get((broker, index), log.start)
        end = self.ends.get((broker, index), log.end)
        if not start <= fetching.offset <= end:
            return ReadReply(ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
        preferred = self._in_rack(fetching)
        if broker == leader.id and preferred is not None:
            return ReadReply(preferred=preferred)
        high_watermark = min(end, self.high_watermarks.get(index, end))
        records = log.read(fetching.offset, high_watermark, max_bytes)
        return ReadReply(records=records, high_watermark=high_watermark)

    def _in_rack(self, fetching: Fetching) -> int | None:
        """The follower that the leader names; None for the leader itself."""
        if fetching.version < 11 or not self.names_replicas or not fetching.rack:
            return None
        named, index = int(fetching.rack.removeprefix("rack-")), fetching.partition
        has_offset = fetching.offset <= self.ends.get((named, index), self.logs[index].end)
        return named if named != self.leaders[index].id and has_offset else None

    def _epoch_error(self, index: int, epoch: int) -> int:
        current = self.leaders[index].epoch
        if epoch in (-1, current):
            return 0
        is_old = epoch < current
        return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH

    def _position_error(
        self, question: str, broker: int, index: int, epoch: int, must_lead: bool = True
    ) -> int:
        self.questions.append((question, broker, index))
        scripted = self.position_script(question, broker, index)
        if scripted is not None:
            return scripted
        if must_lead and self.leaders[index].id != broker:
            return NOT_LEADER
        return self._epoch_error(index, epoch)

    def _list_offsets(self, broker: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            answers = []
            for p in topic.partitions:
                index = p.partition_index
                is_start = p.timestamp == EARLIEST_TIMESTAMP
                is_end = p.timestamp == LATEST_TIMESTAMP
                question = "start" if is_start else "end" if is_end else "since"
                is_debugging = request.replica_id == DEBUGGING_REPLICA_ID
                error = self._position_error(
                    question, broker, index, p.current_leader_epoch, must_lead=not is_debugging
                )
                log = self.logs[index]
                start = self.starts.get((broker, index), log.start)
                offset = start if is_start else log.end if is_end else log.since(p.timestamp)
                if is_end and not is_debugging:
                    offset = min(offset, self.high_watermarks.get(index, offset))
                answers.append(
                    ListOffsetsPartitionResponse(
                        partition_index=index, error_code=error, offset=-1 if error else offset
                    )
                )
            topics.append(ListOffsetsTopicResponse(topic.name, tuple(answers)))
        return ListOffsetsResponse(topics=tuple(topics))

    def _epoch_ends(
        self, broker: int, request: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochResponse:
        topics = []
        for topic in request.topics:
            answers = []
            for p in topic.partitions:
                error = self._position_error(
                    "epoch end", broker, p.partition, p.current_leader_epoch
                )
                current = self.leaders[p.partition].epoch
                epoch, end = self.logs[p.partition].epoch_end(p.leader_epoch, current)
                answers.append(
                    EpochEndOffset(error, p.partition)
                    if error
                    else EpochEndOffset(0, p.partition, epoch, end)
                )
            topics.append(OffsetForLeaderTopicResult(topic.topic, tuple(answers)))
        return OffsetForLeaderEpochResponse(topics=tuple(topics))


def value_at(partition: int, offset: int) -> bytes:
    """The value that `write` gives to a record."""
    return b"%d:%d" % (partition, offset)
