"""What brokers of the simulated cluster answer to a consumer: logs, replicas, fetch sessions.

There is one log of a partition, and in it a branch for each leader epoch: what its leader had. An
election ends the branch and begins another, without what the new leader has not got. A broker shows
the branch of the epoch that it knows, so one that has not heard that it is deposed goes on with its
own. Followers, and the high watermark, are the log as it was some time ago.
"""

import itertools
import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from cluster import Broker, Cluster, Reply, Snapshot
from record_batches import Record, encode_batch
from world import World

from kipctl.probe.leadership import Leader
from kipctl.protocol.error_codes import LEADER_ERRORS, ErrorCode
from kipctl.protocol.fetch import (
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
from kipctl.protocol.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kipctl.protocol.produce import LeaderIdAndEpoch, NodeEndpoint
from kipctl.protocol.records import PARTITION_LEADER_EPOCH_AT

_NEVER_US = 1 << 62
_NO_ID = UUID(int=0)
_BY_ID, _FROM_FOLLOWERS, _HINTED = 13, 11, 12
"""Versions of Fetch from which on there is this."""


class Batch(NamedTuple):
    """Offsets from `base` to before `end`; the record before them is of the epoch `before`."""

    base: int
    end: int
    epoch: int
    before: int
    at_us: int
    content: bytes


@dataclass
class Branch:
    """The log as one epoch's leader had it."""

    start: int
    batches: list[Batch]
    began_us: int
    begins_at: int
    ended_us: int = _NEVER_US

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else self.start

    def end_then(self, us: int) -> int:
        """Where it ended at that time."""
        count = bisect_right(self.batches, us, key=lambda batch: batch.at_us)
        return self.batches[count - 1].end if count else self.start

    def epoch_end(self, asked: int, own: int) -> tuple[int, int]:
        """The largest epoch up to that, and its end (Kafka's LeaderEpochFileCache)."""
        if asked >= own:
            return (own, self.end) if asked == own else (-1, -1)
        epochs = [batch.epoch for batch in self.batches if batch.epoch <= asked]
        later = (batch.base for batch in self.batches if batch.epoch > asked)
        return max(epochs, default=asked), next(later, self.end)


class Replica(NamedTuple):
    """What a broker has of a log."""

    branch: Branch
    start: int
    end: int
    high_watermark: int


class Log:
    """One partition of one topic."""

    def __init__(self, place: tuple[UUID, int], epoch: int) -> None:
        self.place = place
        self.epoch = epoch
        self.branches = {epoch: Branch(0, [], 0, 0)}
        self.written: dict[tuple[int, int], Batch] = {}
        """All that ever was in it, by base offset and epoch."""
        self.refused: set[int] = set()
        """Offsets that a broker has called out of range."""

    @property
    def now(self) -> Branch:
        return self.branches[self.epoch]

    def append(self, count: int, at_us: int) -> None:
        branch, base = self.now, self.now.end
        before = branch.batches[-1].epoch if branch.batches else -1
        id, partition = self.place
        records = [
            Record(b"%x:%d:%d:%d" % (id.int, partition, base + k, self.epoch)) for k in range(count)
        ]
        content = bytearray(encode_batch(records))
        struct.pack_into(">q", content, 0, base)
        struct.pack_into(">i", content, PARTITION_LEADER_EPOCH_AT, self.epoch)
        batch = Batch(base, base + count, self.epoch, before, at_us, bytes(content))
        branch.batches.append(batch)
        self.written[base, self.epoch] = batch

    def delete(self, before: int) -> None:
        """Retention."""
        branch = self.now
        branch.batches = [batch for batch in branch.batches if batch.base >= before]
        branch.start = before

    def elect(self, epoch: int, end: int, now_us: int) -> None:
        """Another leads, who has what is before that offset."""
        before = self.now
        before.ended_us = now_us
        kept = [batch for batch in before.batches if batch.end <= end]
        self.epoch = epoch
        self.branches[epoch] = Branch(before.start, kept, now_us, 0)
        self.now.begins_at = self.now.end


@dataclass
class _Session:
    """What a broker reads for a client (KIP-227), with the last high watermark that it has told."""

    epoch: int = 1
    partitions: dict[tuple[str, UUID, int], FetchPartition] = field(default_factory=dict)
    told: dict[tuple[str, UUID, int], int] = field(default_factory=dict)


class Fetching:
    """The logs of a cluster, and its brokers' answers about them."""

    def __init__(
        self,
        cluster: Cluster,
        replica_lag_us: int,
        all_hold_all: bool,
        names_replicas: bool,
        resets_to: str,
    ) -> None:
        """Followers are `replica_lag_us` behind. `all_hold_all`: who does not lead, follows.
        Leaders name replicas in the reader's rack, or do not. `resets_to`: `auto.offset.reset`.
        """
        self.logs: dict[tuple[UUID, int], Log] = {}
        self.said: dict[tuple[str, int], dict[int, int]] = {}
        """Where readers were told to begin, and when the last question was sent that was answered
        so, by topic and partition."""
        self.behind_us: dict[int, int] = {}
        """By how much brokers have fallen behind, more than followers are."""
        self.begins_later: dict[int, int] = {}
        """By how many batches the logs of a broker that follows begin later than their leaders'."""
        self.loses = 0
        """How many batches the next leader has not got, of those that all should have."""
        self._cluster = cluster
        self._world: World = cluster.world
        self._lag_us = replica_lag_us
        self._all_hold_all = all_hold_all
        self._names_replicas = names_replicas
        self._resets_to = LATEST_TIMESTAMP if resets_to == "latest" else EARLIEST_TIMESTAMP
        self._sessions: dict[int, dict[int, _Session]] = {id: {} for id in cluster.brokers}
        self._numbers = itertools.count(100)
        cluster.readable = self
        cluster.look_again_us = 5_000
        cluster.racks = {id: f"rack-{id % 2}" for id in cluster.brokers}
        self.elect(cluster.truth)

    # --- the logs ---

    def elect(self, truth: Snapshot) -> None:
        """See `Readable`. What is committed is not lost, unless the election is unclean."""
        now_us, chance = self._world.now_us, self._world.chance
        for topic in truth.topics.values():
            for partition, leader in enumerate(topic.leaders):
                place = topic.id, partition
                log = self.logs.get(place)
                if log is None:
                    self.logs[place] = Log(place, leader.epoch)
                elif leader.epoch > log.epoch:
                    branch = log.now
                    end = branch.end_then(now_us - chance.choice((0, self._lag_us)))
                    kept = [batch for batch in branch.batches if batch.end <= end]
                    if self.loses and kept:
                        end = kept[max(0, len(kept) - self.loses)].base
                        self._world.tell(f"partition {partition} loses all from {end} on")
                    log.elect(leader.epoch, end, now_us)

    def append(self, topic: str, partition: int, count: int) -> None:
        """As its leader does, if it is up and knows that it leads."""
        truth = self._cluster.truth.topics.get(topic)
        if truth is None or partition >= len(truth.leaders):
            return
        leader = truth.leaders[partition]
        broker = self._cluster.brokers.get(leader.id)
        if broker and broker.is_up and broker.view.topics.get(topic) == truth:
            self.logs[truth.id, partition].append(count, self._world.now_us)

    def delete(self, topic: str, partition: int, left: int) -> None:
        """Retention takes all but the last batches."""
        truth = self._cluster.truth.topics.get(topic)
        if truth is None or partition >= len(truth.leaders):
            return
        log = self.logs[truth.id, partition]
        safe = log.now.end_then(self._world.now_us - 2 * self._lag_us)
        batches = [batch for batch in log.now.batches if batch.end <= safe]
        if len(batches) > left:
            log.delete(batches[-left].base if left else safe)
            self._world.tell(f"partition {partition} begins at {log.now.start} now")

    def forget_sessions(self, broker: int) -> None:
        self._sessions[broker].clear()

    def _replica(self, broker: Broker, log: Log, leader: Leader) -> Replica:
        """What the broker has, by what it has heard."""
        branch = log.branches[leader.epoch]
        leads = leader.id == broker.id
        now_us = min(self._world.now_us, branch.ended_us)
        is_settled = leads and now_us - branch.began_us >= self._lag_us
        lag_us = self._lag_us + (0 if leads else self.behind_us.get(broker.id, 0))
        end = branch.end if leads else branch.end_then(now_us - lag_us)
        high = branch.end_then(now_us - lag_us - (0 if is_settled else self._lag_us))
        high, start = min(high, end), branch.start
        gone = 0 if leads else self.begins_later.get(broker.id, 0)
        if gone and branch.batches:  # what is not committed it keeps
            start = min(branch.batches[min(gone, len(branch.batches) - 1)].base, high)
        return Replica(branch, max(branch.start, start), end, high)

    # --- requests ---

    def reply(self, broker: Broker, request: Any, version: int, sent_us: int) -> Reply:
        """See `Readable`."""
        match request:
            case FetchRequest():
                return self._fetch(broker, request, version)
            case ListOffsetsRequest():
                return lambda: self._list_offsets(broker, request, version, sent_us)
            case OffsetForLeaderEpochRequest():
                return lambda: self._epoch_ends(broker, request)
        raise AssertionError(request)

    def _find(
        self, broker: Broker, name: str, index: int, epoch: int, must_lead: bool
    ) -> tuple[int, Log | None, Leader]:
        """An error, the log, and who leads it, by what the broker has heard."""
        state, leader = broker.view.topics.get(name), broker.view.leader(name, index)
        if state is None or leader is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, Leader(-1, -1)
        log, error, leads = self.logs[state.id, index], 0, leader.id == broker.id
        if not leads and not self._all_hold_all:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif -1 < epoch < leader.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif epoch > leader.epoch:
            error = ErrorCode.UNKNOWN_LEADER_EPOCH
        elif not leads and must_lead:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return error or broker.refusal(), log, leader

    def _fetch(self, broker: Broker, request: FetchRequest, version: int) -> Reply:
        error, number, session, is_full = self._session(broker, request, version)
        until_us = self._world.now_us + request.max_wait_ms * 1000

        def answer() -> FetchResponse | None:
            if error:
                return FetchResponse(error_code=error)
            read = {
                place: self._read(broker, place, p, version, request.rack_id)
                for place, p in session.partitions.items()
            }
            size = sum(len(data.records or b"") for data, _ in read.values())
            is_news = any(
                data.error_code or data.preferred_read_replica >= 0 for data, _ in read.values()
            )
            if not is_news and size < request.min_bytes and self._world.now_us < until_us:
                return None
            if broker.throttle_us and self._world.chance.random() < 0.5:  # nothing is handed out
                return FetchResponse(session_id=0 if is_full else number)
            return self._fetched(broker, version, number, session, read, is_full)

        return answer

    def _session(
        self, broker: Broker, request: FetchRequest, version: int
    ) -> tuple[int, int, _Session, bool]:
        """An error, the session's number (0 for none), the session, whether it is new."""
        asked = {
            (topic.topic, topic.topic_id, p.partition): p
            for topic in request.topics
            for p in topic.partitions
        }
        for _, id, _ in asked:
            assert (id == _NO_ID) == (version < _BY_ID)
        gone = {
            (topic.topic, topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        }
        sessions = self._sessions[broker.id]
        if version < 7 or request.session_epoch <= 0:
            assert not gone
            sessions.pop(request.session_id, None)
            session, number = _Session(partitions=asked), 0
            if version >= 7 and request.session_epoch == 0 and self._world.chance.random() < 0.9:
                number = next(self._numbers)
                sessions[number] = session
            return 0, number, session, True
        number = request.session_id
        if number not in sessions:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, _Session(), False
        session = sessions[number]
        assert session.epoch == request.session_epoch, (
            f"epoch {request.session_epoch} of a session that is at {session.epoch}"
        )
        session.epoch += 1
        assert gone <= session.partitions.keys(), "a session forgets what it does not know"
        assert not gone & asked.keys()
        session.partitions = {
            place: p for place, p in (session.partitions | asked).items() if place not in gone
        }
        return 0, number, session, False

    def _read(
        self,
        broker: Broker,
        place: tuple[str, UUID, int],
        p: FetchPartition,
        version: int,
        rack: str,
    ) -> tuple[PartitionData, Leader]:
        """What is read of a partition, and the leader that a refusal hints at."""
        name, id, index = place
        if id != _NO_ID:
            name = self._cluster.names[id]
            state = broker.view.topics.get(name)
            if state is None or state.id != id:
                return PartitionData(index, ErrorCode.UNKNOWN_TOPIC_ID), Leader(-1, -1)
        may_follow = version >= _FROM_FOLLOWERS
        error, log, leader = self._find(broker, name, index, p.current_leader_epoch, not may_follow)
        if error or log is None:
            return PartitionData(index, error, -1), leader
        replica = self._replica(broker, log, leader)
        if not replica.start <= p.fetch_offset <= replica.end:
            log.refused.add(p.fetch_offset)
            return PartitionData(index, ErrorCode.OFFSET_OUT_OF_RANGE, -1), leader
        nearer = self._nearer(broker, log, leader, p.fetch_offset, rack) if may_follow else -1
        records = b""
        if nearer < 0:
            records = _content(
                (b for b in replica.branch.batches if b.end <= replica.high_watermark),
                p.fetch_offset,
                p.partition_max_bytes,
            )
        data = PartitionData(
            index,
            high_watermark=replica.high_watermark,
            log_start_offset=replica.start,
            preferred_read_replica=nearer,
            records=records,
        )
        return data, leader

    def _nearer(self, broker: Broker, log: Log, leader: Leader, offset: int, rack: str) -> int:
        """The follower in the reader's rack that the leader names, or -1 (KIP-392)."""
        racks, brokers = self._cluster.racks, self._cluster.brokers
        names = self._names_replicas and self._all_hold_all and leader.id == broker.id
        if not names or rack in ("", racks[broker.id]):
            return -1
        near = []
        for id in broker.view.nodes:
            replica = self._replica(brokers[id], log, leader)
            # Where a follower's log begins the leader heard with its last fetch.
            has_it = replica.start <= offset or (
                id in self.begins_later and self._world.chance.random() < 0.3
            )
            if racks[id] == rack and replica.end >= offset and has_it:
                near.append(id)
        return self._world.chance.choice(near) if near else -1

    def _fetched(
        self,
        broker: Broker,
        version: int,
        number: int,
        session: _Session,
        read: Mapping[tuple[str, UUID, int], tuple[PartitionData, Leader]],
        is_full: bool,
    ) -> FetchResponse:
        """Partitions with news, in any order; all, if the session is new."""
        topics: dict[tuple[str, UUID], list[PartitionData]] = {}
        endpoints = {}
        hinted = self._cluster.hints and version >= _HINTED
        for place, (data, leader) in self._world.chance.sample(list(read.items()), len(read)):
            is_news = data.error_code or data.records or data.preferred_read_replica >= 0
            is_same = session.told.get(place) == data.high_watermark
            session.told[place] = -1 if data.error_code else data.high_watermark
            if not (is_full or is_news or not is_same):
                continue
            if hinted and data.error_code in LEADER_ERRORS:
                data = replace(data, current_leader=LeaderIdAndEpoch(leader.id, leader.epoch))
                says_where = self._cluster.endpoints and version >= _BY_ID
                if leader.id in broker.view.nodes and says_where:
                    endpoints[leader.id] = broker.view.nodes[leader.id]
            topics.setdefault(place[:2], []).append(data)
        return FetchResponse(
            session_id=number,
            responses=tuple(
                FetchableTopicResponse(name, id, tuple(partitions))
                for (name, id), partitions in topics.items()
            ),
            node_endpoints=tuple(NodeEndpoint(id, f"b{id}", p) for id, p in endpoints.items()),
        )

    def _list_offsets(
        self, broker: Broker, request: ListOffsetsRequest, version: int, sent_us: int
    ) -> ListOffsetsResponse:
        is_debugging = request.replica_id == DEBUGGING_REPLICA_ID
        topics = []
        for topic in request.topics:
            answers = []
            for p in topic.partitions:
                index, epoch = p.partition_index, p.current_leader_epoch
                error, log, leader = self._find(broker, topic.name, index, epoch, not is_debugging)
                if error or log is None:
                    answers.append(ListOffsetsPartitionResponse(index, error))
                    continue
                replica = self._replica(broker, log, leader)
                offset = replica.start
                if p.timestamp == LATEST_TIMESTAMP:
                    offset = replica.end if is_debugging else replica.high_watermark
                    if not is_debugging and offset < replica.branch.begins_at:  # (KIP-207)
                        error = (
                            ErrorCode.OFFSET_NOT_AVAILABLE
                            if version >= 5
                            else ErrorCode.LEADER_NOT_AVAILABLE
                        )
                        answers.append(ListOffsetsPartitionResponse(index, error))
                        continue
                if p.timestamp >= 0:  # nobody asks for another time than that of the start
                    high, batches = replica.high_watermark, replica.branch.batches
                    since = (b.base for b in batches if b.at_us and b.end <= high)
                    offset = next(since, -1)
                if p.timestamp in (self._resets_to, max(p.timestamp, 0)) and not is_debugging:
                    said = self.said.setdefault((topic.name, index), {})
                    said[offset] = max(sent_us, said.get(offset, 0))
                answers.append(ListOffsetsPartitionResponse(index, 0, offset=offset))
            topics.append(ListOffsetsTopicResponse(topic.name, tuple(answers)))
        return ListOffsetsResponse(topics=tuple(topics))

    def _epoch_ends(
        self, broker: Broker, request: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochResponse:
        topics = []
        for topic in request.topics:
            answers = []
            for p in topic.partitions:
                error, log, leader = self._find(
                    broker, topic.topic, p.partition, p.current_leader_epoch, True
                )
                if error or log is None:
                    answers.append(EpochEndOffset(error, p.partition))
                    continue
                branch = self._replica(broker, log, leader).branch
                ends = branch.epoch_end(p.leader_epoch, leader.epoch)
                answers.append(EpochEndOffset(0, p.partition, *ends))
            topics.append(OffsetForLeaderTopicResult(topic.topic, tuple(answers)))
        return OffsetForLeaderEpochResponse(topics=tuple(topics))


def _content(batches: Iterable[Batch], offset: int, most: int) -> bytes:
    """Batches from that offset on, the last perhaps cut off, the first one whole (KIP-74)."""
    wanted = [batch.content for batch in batches if batch.end > offset]
    return b"".join(wanted)[: max(most, len(wanted[0]))] if wanted else b""
