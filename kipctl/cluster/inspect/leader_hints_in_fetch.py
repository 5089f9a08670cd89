"""Whether brokers send KIP-951 hints in answers to a Fetch, found out by reading nothing.

A broker without a replica answers NOT_LEADER_OR_FOLLOWER; one with a replica, the leader too,
answers FENCED_LEADER_EPOCH to a client that says an older leader epoch than its own. Both name the
leader from version 16 on. Where every broker has a replica of every partition, and none has ever
moved (epoch 0), there is no such question.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kipctl.cluster.inspect.leader_hint_verdicts import Hint, Verdict, compare_with_metadata
from kipctl.cluster.snapshot import (
    NO_LEADER,
    Partition,
    PartitionId,
    from_metadata,
    metadata_request,
)
from kipctl.errors import KipctlError
from kipctl.protocol.error_codes import LEADER_ERRORS, error_name
from kipctl.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from kipctl.transport.request import BrokerConnection

FIRST_VERSION = 16
NO_QUESTION = "no partition that it would refuse to be read"


@dataclass(frozen=True, slots=True)
class FetchCheck:
    """What a broker answered to a Fetch; `error` is its error's name."""

    verdict: Verdict
    asked: PartitionId | None = None
    error: str | None = None
    hint: Hint | None = None
    detail: str = ""


def check_fetch(
    connection: BrokerConnection,
    broker: int,
    partitions: Iterable[Partition],
    versions: tuple[int, int],
) -> FetchCheck:
    """Ask a broker for a partition that it must refuse: see the module."""
    if versions[1] < FIRST_VERSION:
        return FetchCheck(Verdict.TOO_OLD)
    question = _question(broker, list(partitions))
    if question is None:
        return FetchCheck(Verdict.NOT_ASKED, detail=NO_QUESTION)
    asked, epoch = question
    try:
        known = connection.request(metadata_request([asked.topic]))
        request = FetchRequest(
            topics=(
                FetchTopic(
                    topic=asked.topic,
                    topic_id=known.topics[0].topic_id,
                    partitions=(
                        FetchPartition(partition=asked.partition, current_leader_epoch=epoch),
                    ),
                ),
            ),
        )
        answer = connection.request(request)
        if not answer.responses:
            return FetchCheck(Verdict.UNEXPECTED, asked, error_name(answer.error_code))
        partition = answer.responses[0].partitions[0]
        error = error_name(partition.error_code)
        if partition.error_code not in LEADER_ERRORS:
            return FetchCheck(Verdict.UNEXPECTED, asked, error)
        verdict, hint, detail = compare_with_metadata(
            partition.current_leader, answer.node_endpoints, from_metadata(known), asked
        )
        return FetchCheck(verdict, asked, error, hint, detail)
    except KipctlError as failed:
        return FetchCheck(Verdict.UNREACHABLE, asked, detail=failed.what)


def _question(broker: int, partitions: list[Partition]) -> tuple[PartitionId, int] | None:
    """A partition that the broker refuses to be read, and the leader epoch to say (-1: none)."""
    led = [partition for partition in partitions if partition.leader != NO_LEADER]
    for partition in led:  # a follower, or the leader, of one that has moved
        if broker in partition.replicas and partition.leader_epoch > 0:
            return partition.id, partition.leader_epoch - 1
    return next(((one.id, -1) for one in led if broker not in one.replicas), None)
