"""What brokers' request logs say of a client, with nothing but a JSON parser.

It shares nothing with `kipctl analyze request-log` or with the tap: it is what they are held
against.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH = 6, 74
REFUSALS = (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH)
"""How a broker says that it does not lead. A Fetch that tells an older epoch gets the second."""
_MARK = "Completed request:"


@dataclass(frozen=True, slots=True)
class Rotation:
    """Leaders were moved from `at_s` on (seconds since 1970); `epochs`, by partition, is theirs."""

    at_s: float
    epochs: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Refusals:
    """`refused` are answers for a partition, `hinted` those that name a leader.

    `moves` are (partition, epoch): the leaders' moves after which the client was refused.
    """

    refused: int
    hinted: int
    moves: frozenset[tuple[int, int]]


def refusals(lines: Iterable[str], client_id: str, rotations: Sequence[Rotation]) -> Refusals:
    """Of the lines of all brokers, in any order.

    A refusal belongs to the last rotation that had begun when it was sent: a leader that is not
    ready names the epoch before its own, and older versions of Produce and Fetch name none.
    """
    refused = hinted = 0
    moves = set()
    for at_s, request in _requests(lines, client_id):
        begun = [rotation for rotation in rotations if rotation.at_s <= at_s]
        for number, answer in _partitions(request):
            if answer["errorCode"] not in REFUSALS:
                continue
            refused += 1
            hinted += answer.get("currentLeader", {}).get("leaderId", -1) >= 0
            if begun:
                moves.add((number, begun[-1].epochs[number]))
    return Refusals(refused, hinted, frozenset(moves))


def _requests(lines: Iterable[str], client_id: str) -> Iterator[tuple[float, dict[str, Any]]]:
    """The client's requests, and when they were answered: to a millisecond, in local time."""
    for line in lines:
        head, mark, text = line.partition(_MARK)
        if not mark:
            continue
        request: dict[str, Any] = json.loads(text[: text.rindex("}") + 1])
        if request["requestHeader"]["clientId"] == client_id:
            stamp = head[head.index("[") + 1 : head.index("]")]
            yield datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").timestamp(), request


def _partitions(request: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each partition of an answer to Produce or Fetch, by its number."""
    for topic in request["response"].get("responses", ()):
        for partition in topic.get("partitionResponses", ()):
            yield partition["index"], partition
        for partition in topic.get("partitions", ()):
            yield partition["partitionIndex"], partition
