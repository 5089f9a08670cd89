"""What the tap reads in ListOffsets and OffsetForLeaderEpoch: who is asked where to read."""

from collections.abc import Iterator
from typing import Any

from kipctl.client_behaviour.facts import Event
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.list_offsets import ListOffsetsResponse
from kipctl.tap.leaders import UNKNOWN, PartitionId
from kipctl.tap.rewrite import read_answer
from kipctl.tap.route import EPOCH_ERRORS, Api, Flight


class PositionsApi(Api):
    """Only leaders answer: who asks another broker, though it was shown the leader, is refused."""

    def request(self, flight: Flight, frame: bytes) -> None:
        """Its answer says all."""

    def answer(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        """See `Api`."""
        client, route = flight.client, self._route
        for partition, error in _errors(read_answer(flight.api_key, flight.version, frame)):
            what = flight.api_key, partition
            if error in EPOCH_ERRORS:
                self._note(flight, Event.EPOCH_REFUSED, *partition, now_us)
            if error != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                client.positions.over(what)
            elif client.leader_shown(partition).broker not in (route.broker, UNKNOWN):
                self._note_position(flight, what, partition, now_us)
        return frame


def _errors(body: Any) -> Iterator[tuple[PartitionId, int]]:
    is_list = isinstance(body, ListOffsetsResponse)
    for topic in body.topics:
        name = topic.name if is_list else topic.topic
        for partition in topic.partitions:
            number = partition.partition_index if is_list else partition.partition
            yield PartitionId(name, number), partition.error_code
