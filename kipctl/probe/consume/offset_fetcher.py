"""Where partitions are read on: what their leaders are asked about offsets and epochs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kipctl.probe.consume.broker_link import ConsumerLink
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.fetch_session import FetchPosition
from kipctl.probe.consume.positions import (
    NO_OFFSET,
    RETRIABLE_ERRORS,
    Check,
    Partition,
    Question,
    State,
    judge_out_of_range,
    next_question,
    validate_position,
)
from kipctl.probe.consume.requests import leader_epoch_request, list_offsets_request
from kipctl.probe.leadership import NO_EPOCH
from kipctl.probe.metadata_refresh import NEVER_US
from kipctl.probe.metadata_updater import NO_ROW, MetadataUpdater
from kipctl.probe.network import Network
from kipctl.protocol.api import ApiKey, decode_response
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.list_offsets import (
    CONSUMER_REPLICA_ID,
    DEBUGGING_REPLICA_ID,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsRequest,
)
from kipctl.protocol.message import Request
from kipctl.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kipctl.trace.codes import MetadataCause, RangeCase, RangeHandling
from kipctl.trace.columns import ReadRow
from kipctl.transport.loop_connection import ConnectionLostError, InFlight


@dataclass(frozen=True, slots=True)
class PositionCall:
    """One question under way, and the partitions that it is about, with what was believed."""

    question: Question
    wanted: dict[Partition, FetchPosition]
    row: int = NO_ROW
    """Of FOLLOWER_START: the number of the row of `reads` that it is about."""


class _Refusal(NamedTuple):
    """A follower has refused a position that the leader has."""

    partition: Partition
    wanted: FetchPosition
    broker: int
    row: int


class OffsetFetcher:
    """Carries out the rules of `positions` for partitions that cannot be read on as they are."""

    def __init__(
        self,
        config: ConsumerConfig,
        metadata: MetadataUpdater[Partition, ConsumerLink],
        network: Network[ConsumerLink],
        on_settled: Callable[[Partition, int], None],
        row_of: Callable[[Partition, int], ReadRow],
        amend: Callable[[int, RangeCase], None],
    ) -> None:
        """`on_settled` is told of each partition that is READY or FAILED, and when.

        `row_of` makes a row of the trace for a position that no Fetch was refused for. `amend` is
        told what case a row that was written turns out to be.
        """
        self._config = config
        self._metadata = metadata
        self._network = network
        self._on_settled = on_settled
        self._row_of = row_of
        self._amend = amend
        self._refusals: list[_Refusal] = []
        self._open: dict[Partition, None] = {}
        self.wake_us = NEVER_US
        """When the next backoff of a question is over."""

    def can_validate(self, partition: Partition) -> bool:
        """Whether there is an epoch to ask for; a position that was just reset has none.

        Nor may one be asked of a leader that is known without its epoch: it may be an old one, and
        could not tell (Java's `SubscriptionState.validatePosition`).
        """
        return NO_EPOCH not in (partition.epoch, self._metadata.epoch(partition))

    def add(self, partition: Partition) -> None:
        """Its position has to be settled."""
        self._open[partition] = None

    def send_requests(self, now_us: int) -> None:
        """Ask leaders what is to be asked, each question in one request to each; and followers
        that have refused what their leaders have."""
        if self._refusals:
            refusals, self._refusals = self._refusals, []
            for refusal in refusals:
                self._ask_follower(refusal, now_us)
        self.wake_us = NEVER_US
        calls: dict[tuple[ConsumerLink, Question], dict[Partition, FetchPosition]] = {}
        for partition in self._open:
            question = next_question(partition)
            if partition.asked or question is None:
                continue
            if partition.next_request_us > now_us:
                self.wake_us = min(self.wake_us, partition.next_request_us)
                continue
            link = self._metadata.link(partition)
            if link is None:
                self._metadata.request_update(MetadataCause.LEADER_CHANGE)
            elif self._network.ensure_connected(link) and link.may_send:
                calls.setdefault((link, question), {})[partition] = self._current(partition)
        for (link, question), wanted in calls.items():
            if not link.may_send:  # the question before has broken the connection
                continue
            self._send(link, PositionCall(question, wanted), now_us)

    def refused_by_follower(self, partition: Partition, broker: int, row: int) -> None:
        """A follower has refused a position that the leader has; so says that row of the trace.

        It ends before the position, or it begins after it: that only the follower can tell.
        """
        self._refusals.append(_Refusal(partition, self._current(partition), broker, row))

    def _ask_follower(self, refusal: _Refusal, now_us: int) -> None:
        """If it can be asked just now: what comes of it is for the record alone."""
        node = self._metadata.nodes.get(refusal.broker)
        link = self._network.link(node) if node else None
        leads_now = link is self._metadata.link(refusal.partition)  # then it has said so already
        if link is not None and link.may_send and not leads_now:
            wanted = {refusal.partition: refusal.wanted}
            call = PositionCall(Question.FOLLOWER_START, wanted, refusal.row)
            request = self._list_offsets(call)
            try:
                link.send_message(request, link.list_offsets_version, now_us, call)
            except ConnectionLostError:
                self._network.disconnect(link)

    def _current(self, partition: Partition) -> FetchPosition:
        return FetchPosition(partition.offset, self._metadata.epoch(partition))

    def _send(self, link: ConsumerLink, call: PositionCall, now_us: int) -> None:
        request: Request[Any]
        if call.question is Question.EPOCH_END:
            request, version = leader_epoch_request(call.wanted), link.leader_epoch_version
        else:
            request, version = self._list_offsets(call), link.list_offsets_version
        for partition in call.wanted:
            partition.asked = call
        try:
            link.send_message(request, version, now_us, call)
        except ConnectionLostError:
            self._network.disconnect(link)  # it comes back to `lost`, as what was sent before it

    def _list_offsets(self, call: PositionCall) -> ListOffsetsRequest:
        config = self._config
        latest = config.auto_offset_reset == "latest"
        timestamp, replica_id = {
            Question.RESET: (
                LATEST_TIMESTAMP if latest else EARLIEST_TIMESTAMP,
                CONSUMER_REPLICA_ID,
            ),
            Question.SINCE: (next(iter(call.wanted)).since_ms, CONSUMER_REPLICA_ID),
            Question.START: (EARLIEST_TIMESTAMP, CONSUMER_REPLICA_ID),
            Question.END: (LATEST_TIMESTAMP, DEBUGGING_REPLICA_ID),
            Question.FOLLOWER_START: (EARLIEST_TIMESTAMP, DEBUGGING_REPLICA_ID),
        }[call.question]
        return list_offsets_request(config, call.wanted, timestamp, replica_id)

    def handle_disconnect(self, call: PositionCall, now_us: int) -> None:
        """The connection was lost before the answer."""
        for partition in call.wanted:
            if partition.asked is call:
                self._retry_later(partition, now_us)

    def handle_response(
        self, link: ConsumerLink, flight: InFlight, frame: memoryview, now_us: int
    ) -> None:
        """Take an answer. Raises MalformedFrame."""
        call: PositionCall = flight.subject
        throttle_ms, answers = _answers(flight, frame)
        self._network.throttle(link, flight, throttle_ms, now_us)
        for partition, want in call.wanted.items():
            place = partition.topic.name, partition.index
            error, offset = answers.get(place, (ErrorCode.UNKNOWN_SERVER_ERROR, NO_OFFSET))
            if call.question is Question.FOLLOWER_START:
                if not error and want.offset < offset:
                    self._amend(call.row, RangeCase.FOLLOWER_BEGINS_LATER)
                continue
            if partition.asked is not call:  # it has a newer leader, which is asked instead
                continue
            if error in RETRIABLE_ERRORS:
                self._metadata.request_update(MetadataCause.LEADER_CHANGE)
                self._retry_later(partition, now_us)
                continue
            partition.asked = None
            if error and partition in self._open:
                partition.state, partition.error = State.FAILED, error
                self._settle(partition, now_us)
                continue
            is_led = self._metadata.has_leader(partition)  # the one who answers may be gone by now
            if partition in self._open and is_led and want == self._current(partition):
                self._apply(partition, call.question, offset, now_us)

    def _retry_later(self, partition: Partition, now_us: int) -> None:
        partition.asked = None
        partition.next_request_us = now_us + self._config.retry_backoff_ms * 1000

    def _apply(self, partition: Partition, question: Question, offset: int, now_us: int) -> None:
        """Take an answer about the position as it is believed to be."""
        reset, check = self._config.auto_offset_reset, partition.check
        if partition.state is State.RESET and question is Question.RESET and partition.since_ms:
            partition.offset = offset
        elif partition.state is State.RESET:
            if offset != NO_OFFSET:
                partition.offset = offset
            partition.epoch, partition.since_ms = NO_EPOCH, 0
            partition.state = State.READY
            if check:
                check.row = check.row._replace(next_offset=offset)
        elif partition.state is State.VALIDATE:
            self._validate(partition, offset, now_us)
        else:
            assert check
            check.answers[question] = offset
            if next_question(partition) is None:
                self._judge(partition, check, reset)
        if partition.state in (State.READY, State.FAILED):
            self._settle(partition, now_us)

    def _settle(self, partition: Partition, now_us: int) -> None:
        del self._open[partition]
        self._on_settled(partition, now_us)

    def _validate(self, partition: Partition, epoch_end: int, now_us: int) -> None:
        """The new leader has said where the epoch read last ends; a truncation is written down."""
        row = self._row_of(partition, now_us)
        partition.state, partition.offset = validate_position(
            partition.offset, epoch_end, self._config.auto_offset_reset
        )
        if partition.state is State.READY and partition.offset == row.fetch_offset:
            return
        handling = {
            State.READY: RangeHandling.TRUNCATE,
            State.RESET: RangeHandling.RESET,
            State.FAILED: RangeHandling.FAIL,
        }[partition.state]
        row = row._replace(
            range_case=RangeCase.TOO_LARGE, range_handling=handling, next_offset=partition.offset
        )
        partition.check = Check(row, by_leader=True)

    def _judge(self, partition: Partition, check: Check, reset: str) -> None:
        """The leader has said all: settle what the refused position is, and what comes next."""
        answers = check.answers
        verdict = judge_out_of_range(
            partition.offset,
            answers[Question.START],
            answers[Question.END],
            answers.get(Question.EPOCH_END, NO_OFFSET),
            reset,
            check.by_leader,
        )
        check.row = check.row._replace(
            range_case=verdict.case, range_handling=verdict.handling, next_offset=verdict.offset
        )
        if verdict.handling is RangeHandling.RESET:
            partition.state = State.RESET
        elif verdict.handling is RangeHandling.FAIL:
            partition.state = State.FAILED
        else:
            partition.state, partition.offset = State.READY, verdict.offset


def _answers(
    flight: InFlight, frame: memoryview
) -> tuple[int, dict[tuple[str, int], tuple[int, int]]]:
    """For how long the client is throttled, and error and offset by topic and partition."""
    if flight.api_key == ApiKey.OFFSET_FOR_LEADER_EPOCH:
        _, ends = decode_response(OffsetForLeaderEpochRequest, flight.api_version, frame)
        return ends.throttle_time_ms, {
            (result.topic, end.partition): (end.error_code, end.end_offset)
            for result in ends.topics
            for end in result.partitions
        }
    _, offsets = decode_response(ListOffsetsRequest, flight.api_version, frame)
    return offsets.throttle_time_ms, {
        (topic.name, at.partition_index): (at.error_code, at.offset)
        for topic in offsets.topics
        for at in topic.partitions
    }
