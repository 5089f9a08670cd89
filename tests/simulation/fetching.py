"""What brokers answer to a consumer: logs, replicas, fetch sessions.

A broker shows the branch of the epoch that it knows, so one that has not heard that it is deposed
goes on with its own. Followers, and the high watermark, are the log as it was some time ago. As
with Produce a test scripts what a real cluster shows only by chance.
"""

from collections.abc import Callable, Generator
from typing import Any

from fake_kafka import TOPIC, VERSIONS, Script, SimulatedCluster, Versions
from record_batches import Record, encode_batch

from kipctl.conform.cluster import Attempt, Broker, Exchange, Place, Refusal, Replica, said
from kipctl.conform.cluster.apis import Answering
from kipctl.conform.cluster.control import Waiting
from kipctl.conform.cluster.log import Branch, Log
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.fetch import FetchResponse
from kipctl.protocol.list_offsets import (
    DEBUGGING_REPLICA_ID,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsResponse,
)
from kipctl.protocol.message import Response
from kipctl.protocol.offset_for_leader_epoch import OffsetForLeaderEpochResponse

READ_VERSIONS: Versions = VERSIONS | {1: (4, 18), 2: (1, 11), 23: (2, 4)}
_FROM_FOLLOWERS = 11
"""The version of Fetch from which on followers are read."""
_FINAL_EPOCH = -1
_QUESTIONS = {EARLIEST_TIMESTAMP: "start", LATEST_TIMESTAMP: "end"}

PositionScript = Callable[[str, int, int], int | Generator[None, None, int | None] | None]


class ReadCluster(SimulatedCluster):
    """A cluster whose logs are read. Broker n is in rack `rack-n`, and holds every partition.

    `read_script` is asked for each partition of a Fetch as `script` is for Produce,
    `position_script` for each of a ListOffsets or OffsetForLeaderEpoch: it answers an error code,
    or None. `ends` and `starts` are those of one broker's log where it differs, by (broker,
    partition); `high_watermarks` where it is not the end. The leader names the replica in the
    reader's rack if `names_followers` and it has the offset.
    """

    def __init__(
        self,
        brokers: int = 2,
        partitions: int = 1,
        versions: Versions = READ_VERSIONS,
        **given: Any,
    ) -> None:
        self.read_script: Script = lambda _: None
        self.position_script: PositionScript = lambda *_: None
        self.session_errors: list[int] = []
        self.all_hold_all = True
        """Who does not lead, follows."""
        self.not_replicas: set[int] = set()
        self.ends: dict[tuple[int, int], int] = {}
        self.starts: dict[tuple[int, int], int] = {}
        self.high_watermarks: dict[int, int] = {}
        self.behind_us: dict[int, int] = {}
        """By how much brokers have fallen behind, more than followers are."""
        self.begins_later: dict[int, int] = {}
        """By how many batches the logs of a broker that follows begin later than their leaders'."""
        self.refused: set[Log] = set()
        """Those of which a broker has called an offset out of range, or an epoch too late."""
        self.answered_us: dict[Place, dict[int, int]] = {}
        """Where readers were told to begin, and when the last question was sent that was answered
        so."""
        self.resets_to = EARLIEST_TIMESTAMP
        """What readers that ask for this are told counts for `answered_us`."""
        racks = given.pop("racks", [f"rack-{id}" for id in range(1, brokers + 1)])
        super().__init__(brokers, partitions, versions=versions, racks=racks, **given)
        self.sessions.keeps = lambda: True
        self.stamp = lambda: self._changes

    # --- the logs ---

    def log_of(self, partition: int) -> Log:
        """That of the first topic."""
        return self.log((TOPIC, partition))

    def write(self, partition: int, batches: int = 1, records: int = 1) -> None:
        """Append batches of so many records, in the leader's epoch, which say where they are:
        `value_at`, then epoch and topic.
        """
        id, log = self.topics[TOPIC], self.log_of(partition)
        for _ in range(batches):
            told = [
                Record(value_at(partition, log.end + k) + b"%d:%x" % (log.epoch, id.int))
                for k in range(records)
            ]
            log.append(encode_batch(told), self.world.now_us)
        self._changes += 1

    def grow_log(self, partition: int, records: int) -> None:
        """As its leader does, if it is up and knows that it leads."""
        place = TOPIC, partition
        leader = self.leaders.get(place)
        broker = self.brokers.get(leader.id) if leader else None
        if broker and broker.is_up and broker.leads(place) and not self.is_deposed(broker, place):
            self.write(partition, records=records)

    def retain(self, partition: int, left: int) -> None:
        """Retention takes all but the last batches."""
        if (TOPIC, partition) not in self.leaders:
            return
        log = self.log_of(partition)
        safe = log.now.end_then(self.world.now_us - 2 * self.replica_lag_us)
        batches = [batch for batch in log.batches if batch.end <= safe]
        if len(batches) > left:
            start = batches[-left].base if left else safe
            log.delete(start)
            self.world.tell(lambda: f"partition {partition} begins at {start} now")

    # --- replicas ---

    def holds(self, broker: int, place: Place) -> bool:
        leads = self.brokers[broker].leads(place)
        return leads or (self.all_hold_all and broker not in self.not_replicas)

    def follows(self, broker: int, place: Place) -> bool:
        return self.holds(broker, place)

    def replica(self, broker: Broker, place: Place) -> Replica:
        branch = self._log_at(broker, place).branch(broker.leaders[place].epoch)
        return self._of_branch(branch, broker.id, place[1], broker.leads(place))

    def _of_branch(self, branch: Branch, broker: int, index: int, leads: bool) -> Replica:
        lag_us = self.replica_lag_us
        now_us = min(self.world.now_us, branch.ended_us)
        is_settled = leads and now_us - branch.began_us >= lag_us
        behind_us = lag_us + (0 if leads else self.behind_us.get(broker, 0))
        end = branch.end if leads else branch.end_then(now_us - behind_us)
        high = branch.end_then(now_us - behind_us - (0 if is_settled else lag_us))
        start = branch.start
        gone = 0 if leads else self.begins_later.get(broker, 0)
        if gone and branch.batches:  # what is not committed it keeps
            start = min(branch.batches[min(gone, len(branch.batches) - 1)].base, high)
        end = self.ends.get((broker, index), end)
        start = self.starts.get((broker, index), max(branch.start, start))
        return Replica(branch, start, end, min(high, end, self.high_watermarks.get(index, end)))

    def nearer(self, place: Place, leader: int, rack: str, offset: int) -> int:
        broker = self.brokers[leader]
        branch = self._log_at(broker, place).branch(broker.leaders[place].epoch)
        if not (self.names_followers and self.all_hold_all) or rack in ("", self.rack(leader)):
            return -1
        near = []
        for id in broker.nodes:
            if self.rack(id) != rack:
                continue
            replica = self._of_branch(branch, id, place[1], leads=False)
            # Where a follower's log begins the leader heard with its last fetch.
            has_it = replica.start <= offset or (
                id in self.begins_later and self.world.chance.random() < 0.3
            )
            if replica.end >= offset and has_it:
                near.append(id)
        return self.world.chance.choice(near) if near else -1

    def rack(self, broker: int) -> str | None:
        return self._racks[(broker - 1) % len(self._racks)]

    # --- requests ---

    @property
    def fetches(self) -> list[Exchange]:
        """But for those that close a session."""
        calls = self.calls(ApiKey.FETCH)
        return [call for call in calls if not _is_closing(call)]

    @property
    def readings(self) -> list[Attempt]:
        return self.attempts(ApiKey.FETCH)

    @property
    def questions(self) -> list[tuple[str, int, int]]:
        """What was asked of which broker about which partition, besides records."""
        return [
            (_question(attempt), call.broker, attempt.partition)
            for call in self.exchanges
            if call.api in (ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH)
            for attempt in call.tried.values()
        ]

    def scripted(self, attempt: Attempt) -> Waiting:
        match attempt.api:
            case ApiKey.FETCH:
                told = yield from said(self.read_script(attempt))
                return told or self.ails(attempt, must_lead=attempt.version < _FROM_FOLLOWERS)
            case ApiKey.LIST_OFFSETS | ApiKey.OFFSET_FOR_LEADER_EPOCH:
                at = _question(attempt), attempt.broker, attempt.partition
                error = yield from said(self.position_script(*at))
                return self.ails(attempt) if error is None else Refusal(error)
        return (yield from super().scripted(attempt))

    def _answer(self, call: Exchange) -> Answering:
        if call.api == ApiKey.FETCH:
            self._check_session(call)
            if self.session_errors and not _is_closing(call):
                return FetchResponse(error_code=self.session_errors.pop(0))
        return (yield from super()._answer(call))

    def _check_session(self, call: Exchange) -> None:
        """A client says nothing of a session that cannot be."""
        request, version = call.request, call.version
        topics, left = request.topics, request.forgotten_topics_data
        asked = {(t.topic, t.topic_id, p.partition) for t in topics for p in t.partitions}
        gone = {(t.topic, t.topic_id, index) for t in left for index in t.partitions}
        session = self.sessions.kept.get(request.session_id)
        if version < 7 or request.session_epoch <= 0:
            assert not gone
            assert not (asked and _is_closing(call))
        elif session is not None:
            assert (session.broker, session.epoch) == (call.broker, request.session_epoch)
            assert gone <= session.partitions.keys() - asked, (
                "it forgets what is not known, or read"
            )

    def _as_said(self, call: Exchange, answer: Response | None) -> Response | None:
        broker = self.brokers[call.broker]
        match answer:
            case FetchResponse():
                return self._fetched(call, answer)
            case ListOffsetsResponse(topics=topics) if (
                call.request.replica_id != DEBUGGING_REPLICA_ID
            ):
                for topic in topics:
                    for p in topic.partitions:
                        self._told(call, call.tried[topic.name, p.partition_index], p.offset)
            case OffsetForLeaderEpochResponse():
                for place, attempt in call.tried.items():
                    if not attempt.error and attempt.offset > broker.leaders[place].epoch:
                        self.refused.add(self._log_at(broker, place))
        return super()._as_said(call, answer)

    def _fetched(self, call: Exchange, answer: FetchResponse) -> FetchResponse:
        broker, request = self.brokers[call.broker], call.request
        for place, attempt in call.tried.items():
            if attempt.error == ErrorCode.OFFSET_OUT_OF_RANGE and place in broker.leaders:
                self.refused.add(self._log_at(broker, place))
        if broker.throttle_us and not answer.error_code and self.world.chance.random() < 0.5:
            # Nothing is handed out.
            number = answer.session_id if request.session_epoch > 0 else 0
            return FetchResponse(session_id=number)
        return answer

    def _told(self, call: Exchange, attempt: Attempt, offset: int) -> None:
        if not attempt.error and attempt.offset in (self.resets_to, max(attempt.offset, 0)):
            told = self.answered_us.setdefault(attempt.place, {})
            sent_us = self.sent_us[call.connection, call.correlation_id]
            told[offset] = max(sent_us, told.get(offset, 0))

    def _log_at(self, broker: Broker, place: Place) -> Log:
        return self.logs[broker.topics[place[0]], place[1]]


def _is_closing(call: Exchange) -> bool:
    return call.version >= 7 and call.request.session_epoch == _FINAL_EPOCH


def _question(attempt: Attempt) -> str:
    if attempt.api == ApiKey.OFFSET_FOR_LEADER_EPOCH:
        return "epoch end"
    return _QUESTIONS.get(attempt.offset, "since")


def told(call: Exchange) -> dict[int, int]:
    """The offset of each partition in a Fetch."""
    return {p.partition: p.fetch_offset for t in call.request.topics for p in t.partitions}


def forgotten(call: Exchange) -> set[int]:
    """The partitions that a Fetch says are not read any more."""
    return {index for t in call.request.forgotten_topics_data for index in t.partitions}


def value_at(partition: int, offset: int) -> bytes:
    """How the value begins that `ReadCluster.write` gives to a record."""
    return b"%d:%d:" % (partition, offset)
