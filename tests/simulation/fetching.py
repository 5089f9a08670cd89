"""What brokers answer to a consumer: logs, replicas, fetch sessions.

A broker shows the branch of the epoch that it knows, so one that has not heard that it is deposed
goes on with its own. Followers, and the high watermark, are the log as it was some time ago. As
with Produce a test scripts what a real cluster shows only by chance.
"""

import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from fake_kafka import NO_ID, TOPIC, VERSIONS, Broker, SimulatedCluster
from logs import Branch, Log, read
from wire import Answer, Call, Versions, said
from world import EPOCH_US

from kipctl.probe.leadership import Leader
from kipctl.protocol.error_codes import LEADER_ERRORS, ErrorCode
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
    ListOffsetsPartition,
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

READ_VERSIONS: Versions = VERSIONS | {1: (4, 18), 2: (1, 11), 23: (2, 4)}
_BY_ID, _FROM_FOLLOWERS, _HINTED = 13, 11, 12
"""Versions of Fetch from which on there is this."""
_FINAL_EPOCH = -1
_QUESTIONS = {EARLIEST_TIMESTAMP: "start", LATEST_TIMESTAMP: "end"}

Place = tuple[str, UUID, int]
"""A partition as a Fetch names it: by its topic's name or by its id."""


class ReadReply(NamedTuple):
    """What a partition is answered, in place of what the cluster would answer."""

    error: int = 0
    hint: Leader | None = None
    endpoint: tuple[int, int] | None = None
    """(node id, port) among the response's endpoints."""
    preferred: int = -1
    records: bytes = b""
    high_watermark: int = 0
    start: int = -1
    aborted: tuple[tuple[int, int], ...] = ()

    @property
    def is_news(self) -> bool:
        return bool(self.error or self.records or self.preferred >= 0)


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


ReadScript = Callable[[Fetching], ReadReply | Generator[None, None, ReadReply | None] | None]
PositionScript = Callable[[str, int, int], int | Generator[None, None, int | None] | None]


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


class Replica(NamedTuple):
    """What a broker has of a log."""

    log: Log
    branch: Branch
    start: int
    end: int
    high_watermark: int


@dataclass
class _Session:
    """What a broker reads for a client (KIP-227), with the last high watermark that it has told."""

    broker: int
    number: int = 0
    """0 for none that is kept."""
    epoch: int = 1
    partitions: dict[Place, FetchPartition] = field(default_factory=dict)
    told: dict[Place, int] = field(default_factory=dict)


class ReadCluster(SimulatedCluster):
    """A cluster whose logs are read. Broker n is in rack `rack-n`, and holds every partition.

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
        versions: Versions = READ_VERSIONS,
        **given: Any,
    ) -> None:
        self.read_script: ReadScript = lambda _: None
        self.position_script: PositionScript = lambda *_: None
        self.keeps_session: Callable[[], bool] = lambda: True
        self.session_errors: list[int] = []
        self.names_replicas = self.all_hold_all = True
        """The latter: who does not lead, follows."""
        self.not_replicas: set[int] = set()
        self.ends: dict[tuple[int, int], int] = {}
        self.starts: dict[tuple[int, int], int] = {}
        self.high_watermarks: dict[int, int] = {}
        self.behind_us: dict[int, int] = {}
        """By how much brokers have fallen behind, more than followers are."""
        self.begins_later: dict[int, int] = {}
        """By how many batches the logs of a broker that follows begin later than their leaders'."""
        self.is_quiet = True
        """Nothing changes but what scripts change: until they do a Fetch that waits does so."""
        self.fetches: list[FetchSeen] = []
        self.readings: list[Fetching] = []
        self.questions: list[tuple[str, int, int]] = []
        """What was asked of which broker about which partition, besides records."""
        self.answered_us: dict[tuple[str, int], dict[int, int]] = {}
        """Where readers were told to begin, and when the last question was sent that was answered
        so, by topic and partition."""
        self.resets_to = EARLIEST_TIMESTAMP
        """What readers that ask for this are told counts for `answered_us`."""
        self._changes = 0
        self.sessions: dict[int, _Session] = {}
        """Those that brokers keep, by number."""
        self.closed: list[int] = []
        """Sessions that readers have closed."""
        self._numbers = itertools.count(100)
        super().__init__(brokers, partitions, versions=versions, **given)
        self.racks = {id: f"rack-{id}" for id in self.brokers}

    # --- the logs ---

    def log_of(self, partition: int) -> Log:
        """That of the first topic."""
        return self.logs[self.truth.topics[TOPIC].id, partition]

    def write(self, partition: int, batches: int = 1, records: int = 1) -> None:
        """Append batches of so many records, in the leader's epoch."""
        for _ in range(batches):
            self.log_of(partition).write(records, self.world.now_us)
        self._changes += 1

    def commit(self, **changes: Any) -> None:
        super().commit(**changes)
        self._changes += 1

    def grow_log(self, partition: int, records: int) -> None:
        """As its leader does, if it is up and knows that it leads."""
        truth, leader = self.truth.topics.get(TOPIC), self.truth.leader(TOPIC, partition)
        broker = self.brokers.get(leader.id) if leader else None
        if broker and broker.is_up and broker.view.topics.get(TOPIC) == truth:
            self.write(partition, records=records)

    def retain(self, partition: int, left: int) -> None:
        """Retention takes all but the last batches."""
        if self.truth.leader(TOPIC, partition) is None:
            return
        log = self.log_of(partition)
        safe = log.now.end_then(self.world.now_us - 2 * self.replica_lag_us)
        batches = [batch for batch in log.batches if batch.end <= safe]
        if len(batches) > left:
            start = batches[-left].base if left else safe
            log.delete(start)
            self.world.tell(lambda: f"partition {partition} begins at {start} now")

    def forget_sessions(self, broker: int) -> None:
        for number in [n for n, session in self.sessions.items() if session.broker == broker]:
            del self.sessions[number]

    def _replica(self, broker: Broker, log: Log, leader: Leader) -> Replica:
        """What the broker has, by what it has heard."""
        branch, lag_us = log.branches[leader.epoch], self.replica_lag_us
        leads = leader.id == broker.id
        now_us = min(self.world.now_us, branch.ended_us)
        is_settled = leads and now_us - branch.began_us >= lag_us
        behind_us = lag_us + (0 if leads else self.behind_us.get(broker.id, 0))
        end = branch.end if leads else branch.end_then(now_us - behind_us)
        high = branch.end_then(now_us - behind_us - (0 if is_settled else lag_us))
        start = branch.start
        gone = 0 if leads else self.begins_later.get(broker.id, 0)
        if gone and branch.batches:  # what is not committed it keeps
            start = min(branch.batches[min(gone, len(branch.batches) - 1)].base, high)
        index = log.place[1]
        end = self.ends.get((broker.id, index), end)
        start = self.starts.get((broker.id, index), max(branch.start, start))
        return Replica(
            log, branch, start, end, min(high, end, self.high_watermarks.get(index, end))
        )

    # --- requests ---

    def answer_reader(self, broker: Broker, call: Call) -> Answer:
        match call.request:
            case FetchRequest():
                return (yield from self._fetch(broker, call))
            case ListOffsetsRequest():
                return (yield from self._list_offsets(broker, call))
            case OffsetForLeaderEpochRequest():
                return (yield from self._epoch_ends(broker, call.request))
        raise AssertionError(call.request)

    def _find(
        self, broker: Broker, name: str, index: int, epoch: int, must_lead: bool
    ) -> tuple[int, Log | None, Leader]:
        """An error, the log, and who leads it, by what the broker has heard."""
        state, leader = broker.view.topics.get(name), broker.view.leader(name, index)
        if state is None or leader is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, Leader(-1, -1)
        log, error, leads = self.logs[state.id, index], 0, leader.id == broker.id
        if not leads and (not self.all_hold_all or broker.id in self.not_replicas):
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif -1 < epoch < leader.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif epoch > leader.epoch:
            error = ErrorCode.UNKNOWN_LEADER_EPOCH
        elif not leads and must_lead:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return error or broker.refusal(), log, leader

    # --- records ---

    def _fetch(self, broker: Broker, call: Call) -> Answer:
        request, version = call.request, call.version
        asked = {
            (topic.topic, topic.topic_id, p.partition): p
            for topic in request.topics
            for p in topic.partitions
        }
        gone = {
            (topic.topic, topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        }
        for name, id, _ in asked.keys() | gone:
            assert (name == "", id == NO_ID) == (version >= _BY_ID, version < _BY_ID)
        if version >= 7 and request.session_epoch == _FINAL_EPOCH:
            assert not asked.keys() | gone
            self.closed.append(request.session_id)
            self.sessions.pop(request.session_id, None)
            return FetchResponse()
        self.fetches.append(
            FetchSeen(
                broker.id,
                call.connection,
                version,
                request.session_id,
                request.session_epoch,
                {index: p.fetch_offset for (_, _, index), p in asked.items()},
                frozenset(index for _, _, index in gone),
                request,
            )
        )
        if self.session_errors:
            return FetchResponse(error_code=self.session_errors.pop(0))
        is_full = version < 7 or request.session_epoch <= 0
        session = self._session(broker, request, version, asked, gone)
        if session is None:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        until_us = self.world.now_us + request.max_wait_ms * 1000
        while True:
            changes, read = self._changes, {}
            for place, p in session.partitions.items():
                read[place] = yield from self._read(broker, call, place, p)
            size = sum(len(reply.records) for reply in read.values())
            is_news = any(r.error or r.preferred >= 0 for r in read.values())
            if is_news or size >= request.min_bytes or self.world.now_us >= until_us:
                break
            yield
            while self.is_quiet and changes == self._changes and self.world.now_us < until_us:
                yield
        if broker.throttle_us and self.world.chance.random() < 0.5:  # nothing is handed out
            return FetchResponse(session_id=0 if is_full else session.number)
        return self._fetched(version, session, read, is_full)

    def _session(
        self,
        broker: Broker,
        request: FetchRequest,
        version: int,
        asked: dict[Place, FetchPartition],
        gone: set[Place],
    ) -> _Session | None:
        """The session as it is now, a new one if need be; None for one that is not known."""
        if version < 7 or request.session_epoch <= 0:
            assert not gone
            self.sessions.pop(request.session_id, None)
            session = _Session(broker.id, partitions=asked)
            if version >= 7 and request.session_epoch == 0 and self.keeps_session():
                session.number = next(self._numbers)
                self.sessions[session.number] = session
            return session
        session = self.sessions.get(request.session_id)
        if session is not None:
            assert session.broker == broker.id
            assert session.epoch == request.session_epoch, (
                f"epoch {request.session_epoch} of a session that is at {session.epoch}"
            )
            session.epoch += 1
            assert gone <= session.partitions.keys(), "a session forgets what it does not know"
            assert not gone & asked.keys()
            session.partitions = {
                place: p for place, p in (session.partitions | asked).items() if place not in gone
            }
        return session

    def _read(
        self, broker: Broker, call: Call, place: Place, p: FetchPartition
    ) -> Generator[None, None, ReadReply]:
        version, rack = call.version, call.request.rack_id
        asked = p.fetch_offset, p.current_leader_epoch, rack
        fetching = Fetching(broker.id, call.connection, version, p.partition, *asked)
        self.readings.append(fetching)
        scripted = yield from said(self.read_script(fetching))
        return scripted or self._read_or_refuse(broker, place, p, version, rack)

    def _read_or_refuse(
        self, broker: Broker, place: Place, p: FetchPartition, version: int, rack: str
    ) -> ReadReply:
        name, id, index = place
        if id != NO_ID:
            name = self.names[id]
            state = broker.view.topics.get(name)
            if state is None or state.id != id:
                return ReadReply(ErrorCode.UNKNOWN_TOPIC_ID)
        may_follow, offset = version >= _FROM_FOLLOWERS, p.fetch_offset
        error, log, leader = self._find(broker, name, index, p.current_leader_epoch, not may_follow)
        if error or log is None:
            hint = leader if self.hints and error in LEADER_ERRORS else None
            return ReadReply(error, hint, broker.endpoint_of(hint), high_watermark=-1)
        replica = self._replica(broker, log, leader)
        if not replica.start <= offset <= replica.end:
            log.has_refused = True
            return ReadReply(ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
        nearer = self._nearer(broker, log, leader, offset, rack) if may_follow else -1
        high, records = replica.high_watermark, b""
        if nearer < 0:
            committed = (batch for batch in replica.branch.batches if batch.end <= high)
            records = read(committed, offset, p.partition_max_bytes)
        return ReadReply(0, None, None, nearer, records, high, replica.start)

    def _nearer(self, broker: Broker, log: Log, leader: Leader, offset: int, rack: str) -> int:
        """The follower in the reader's rack that the leader names, or -1 (KIP-392)."""
        names = self.names_replicas and self.all_hold_all and leader.id == broker.id
        if not names or rack in ("", self.racks[broker.id]):
            return -1
        near = []
        for id in broker.view.nodes:
            if self.racks[id] != rack:
                continue
            replica = self._replica(self.brokers[id], log, leader)
            # Where a follower's log begins the leader heard with its last fetch.
            has_it = replica.start <= offset or (
                id in self.begins_later and self.world.chance.random() < 0.3
            )
            if replica.end >= offset and has_it:
                near.append(id)
        return self.world.chance.choice(near) if near else -1

    def _fetched(
        self, version: int, session: _Session, read: Mapping[Place, ReadReply], is_full: bool
    ) -> FetchResponse:
        """Partitions with news, in any order; all, if the session is new."""
        topics: dict[tuple[str, UUID], list[PartitionData]] = {}
        endpoints = {}
        for place, reply in self.world.chance.sample(list(read.items()), len(read)):
            is_same = session.told.get(place) == reply.high_watermark
            session.told[place] = -1 if reply.error else reply.high_watermark
            if is_same and not is_full and not reply.is_news:
                continue
            data = PartitionData(
                place[2],
                reply.error,
                reply.high_watermark,
                log_start_offset=reply.start,
                preferred_read_replica=reply.preferred if version >= _FROM_FOLLOWERS else -1,
                aborted_transactions=tuple(AbortedTransaction(*a) for a in reply.aborted),
                records=reply.records,
            )
            if reply.hint and version >= _HINTED:
                data = replace(
                    data, current_leader=LeaderIdAndEpoch(reply.hint.id, reply.hint.epoch)
                )
            if reply.endpoint and version >= (_BY_ID if self.draft else 16):
                endpoints[reply.endpoint[0]] = reply.endpoint[1]
            topics.setdefault(place[:2], []).append(data)
        return FetchResponse(
            session_id=session.number,
            responses=tuple(
                FetchableTopicResponse(name, id, tuple(partitions))
                for (name, id), partitions in topics.items()
            ),
            node_endpoints=tuple(
                NodeEndpoint(id, self.own_host, port) for id, port in endpoints.items()
            ),
        )

    # --- positions ---

    def _asked(
        self, question: str, broker: Broker, name: str, p: Any, index: int, must_lead: bool
    ) -> Generator[None, None, tuple[int, Replica | None, Leader]]:
        """An error, what the broker has of the log, and who leads it."""
        self.questions.append((question, broker.id, index))
        scripted = yield from said(self.position_script(question, broker.id, index))
        error, log, leader = self._find(broker, name, index, p.current_leader_epoch, must_lead)
        error = error if scripted is None else scripted
        return error, log and self._replica(broker, log, leader), leader

    def _list_offsets(self, broker: Broker, call: Call) -> Answer:
        is_debugging = call.request.replica_id == DEBUGGING_REPLICA_ID
        topics = []
        for topic in call.request.topics:
            answers = []
            for p in topic.partitions:
                index = p.partition_index
                question = _QUESTIONS.get(p.timestamp, "since")
                error, replica, _ = yield from self._asked(
                    question, broker, topic.name, p, index, not is_debugging
                )
                offset = -1
                if not error and replica is not None:
                    offset = _offset(p, replica, is_debugging)
                    if question == "end" and not is_debugging and offset < replica.branch.begins_at:
                        error, offset = ErrorCode.LEADER_NOT_AVAILABLE, -1  # (KIP-207)
                        if call.version >= 5:
                            error = ErrorCode.OFFSET_NOT_AVAILABLE
                    elif p.timestamp in (self.resets_to, max(p.timestamp, 0)) and not is_debugging:
                        told = self.answered_us.setdefault((topic.name, index), {})
                        told[offset] = max(call.sent_us, told.get(offset, 0))
                answers.append(ListOffsetsPartitionResponse(index, error, offset=offset))
            topics.append(ListOffsetsTopicResponse(topic.name, tuple(answers)))
        return ListOffsetsResponse(topics=tuple(topics))

    def _epoch_ends(self, broker: Broker, request: OffsetForLeaderEpochRequest) -> Answer:
        topics = []
        for topic in request.topics:
            answers = []
            for p in topic.partitions:
                error, replica, leader = yield from self._asked(
                    "epoch end", broker, topic.topic, p, p.partition, True
                )
                ends: Sequence[int] = ()
                if not error and replica is not None:
                    ends = replica.branch.epoch_end(p.leader_epoch, leader.epoch)
                    replica.log.has_refused |= p.leader_epoch > leader.epoch
                answers.append(EpochEndOffset(error, p.partition, *ends))
            topics.append(OffsetForLeaderTopicResult(topic.topic, tuple(answers)))
        return OffsetForLeaderEpochResponse(topics=tuple(topics))


def _offset(p: ListOffsetsPartition, replica: Replica, is_debugging: bool) -> int:
    """The offset that a ListOffsets asks for; -1 for none."""
    if p.timestamp == EARLIEST_TIMESTAMP:
        return replica.start
    if p.timestamp == LATEST_TIMESTAMP:
        return replica.end if is_debugging else replica.high_watermark
    since_us = p.timestamp * 1000 - EPOCH_US
    high = replica.high_watermark
    written = (b.base for b in replica.branch.batches if b.at_us >= since_us and b.end <= high)
    return next(written, -1)
