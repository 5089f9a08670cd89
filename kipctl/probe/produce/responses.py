"""What an answer to a Produce says of each batch that was in the request."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from kipctl.probe.produce.batches import Batch
from kipctl.protocol.api import decode_response
from kipctl.protocol.error_codes import LEADER_ERRORS, ErrorCode
from kipctl.protocol.leader_hints import NO_HINT, LeaderHint, hint_in_produce
from kipctl.protocol.message import decode, encode
from kipctl.protocol.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kipctl.protocol.produce_frames import read_success
from kipctl.transport.loop_connection import InFlight

NO_OFFSET = -1


class BatchResult(NamedTuple):
    """What became of a batch: 0 and its base offset, or an error and the leader that it names."""

    batch: Batch
    error: int
    base_offset: int
    hint: LeaderHint = NO_HINT


def warm_up_codec(version: int) -> None:
    """Read an answer with a hint once: codecs are compiled at their first use (0.5 ms)."""
    refused = PartitionProduceResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    answer = ProduceResponse(responses=(TopicProduceResponse(partition_responses=(refused,)),))
    for _ in range(20):
        decode(ProduceResponse, encode(answer, version), version)


def read_successes(flight: InFlight, frame: memoryview) -> list[tuple[Batch, int]] | None:
    """The batches of a request to one topic with their base offsets; None unless all were taken.

    Those that were given up meanwhile are left out.
    """
    successes = dict(read_success(flight.api_version, frame) or ())
    by_index: dict[int, Batch] = {batch.partition.index: batch for batch in flight.subject}
    if successes.keys() != by_index.keys():
        return None
    return [
        (batch, base_offset)
        for index, base_offset in successes.items()
        if not (batch := by_index[index]).is_settled
    ]


def read_response(
    flight: InFlight, frame: memoryview, position_of: Mapping[str | UUID, int]
) -> tuple[list[BatchResult], int]:
    """What became of each batch of the request, in the order of the answer; and for how long the
    broker throttles the client (milliseconds).

    `position_of` are the topics' positions by name and by id. A batch of which the answer says
    nothing comes last, as lost; one that was given up meanwhile is left out, unless its answer may
    name a leader. Raises MalformedFrame.
    """
    _, response = decode_response(ProduceRequest, flight.api_version, frame)
    unanswered: dict[tuple[int, int], Batch] = {
        (batch.partition.topic_position, batch.partition.index): batch for batch in flight.subject
    }
    answers = []
    for topic in response.responses:
        position = position_of.get(topic.name or topic.topic_id, -1)
        for result in topic.partition_responses:
            batch = unanswered.pop((position, result.index), None)
            error = result.error_code
            if error == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:  # it was written before
                error = 0
            if batch is None or (batch.is_settled and error not in LEADER_ERRORS):
                continue
            hint = hint_in_produce(result, response, flight.api_version)
            answers.append(BatchResult(batch, error, result.base_offset, hint))
    lost = ErrorCode.NETWORK_EXCEPTION
    forgotten = [batch for batch in unanswered.values() if not batch.is_settled]
    answers += [BatchResult(batch, lost, NO_OFFSET) for batch in forgotten]
    return answers, response.throttle_time_ms
