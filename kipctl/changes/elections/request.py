"""One request for leader elections, preferred or unclean, and what came of each partition."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from kipctl.cluster.snapshot import PartitionId, by_topic
from kipctl.errors import TimedOutError, UnreachableError
from kipctl.next_step import Command
from kipctl.protocol.api import ApiKey
from kipctl.protocol.elect_leaders import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from kipctl.protocol.error_codes import ErrorCode, error_name
from kipctl.transport.acl_errors import refusal
from kipctl.transport.request import Cluster

SEE_LEADERS = "Look: " + Command("inspect leaders")
FIRST_PAUSE_S = 0.05
LAST_PAUSE_S = 2.0
_SERVERS_SHARE = 0.75
"""Of the time that an answer is waited for: the controller is to give up before the client does."""


class Outcome(StrEnum):
    """What came of an election; it is not needed where the right replica leads already.

    It is not known where the cluster's own time was over before it was done; and a partition is
    gone when somebody has deleted it since it was chosen.
    """

    ELECTED = "elected"
    NOT_NEEDED = "not needed"
    FAILED = "failed"
    UNKNOWN = "not known"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """What came of one partition's election; `code` and `message` are Kafka's."""

    id: PartitionId
    code: int
    message: str = ""

    @property
    def outcome(self) -> Outcome:
        match self.code:
            case ErrorCode.NONE:
                return Outcome.ELECTED
            case ErrorCode.ELECTION_NOT_NEEDED:
                return Outcome.NOT_NEEDED
            case ErrorCode.REQUEST_TIMED_OUT:
                return Outcome.UNKNOWN
            case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return Outcome.GONE
            case _:
                return Outcome.FAILED

    def __str__(self) -> str:
        return f"{self.id}: {error_name(self.code)}" + (
            f" ({self.message})" if self.message else ""
        )


def elect(
    cluster: Cluster,
    election: ElectionType,
    partitions: Iterable[PartitionId],
    deadline: float = 0.0,
) -> tuple[ElectionResult, ...]:
    """Hold the election and return each partition's outcome, sorted.

    Brokers, and their Metadata, hear of the new leaders after that. While there is no controller it
    is asked for again, until the `deadline` (of time.monotonic). Raises RefusedError when the
    cluster refuses the election as a whole, UnreachableError when nobody could be asked, and
    TimedOutError when there was no controller in time, or when it is not known what was done.
    """
    response = _answer(
        cluster,
        ElectLeadersRequest(
            election_type=election,
            topic_partitions=tuple(
                TopicPartitions(topic=topic, partitions=numbers)
                for topic, numbers in by_topic(partitions).items()
            ),
            timeout_ms=int(cluster.timeout_s * _SERVERS_SHARE * 1000),
        ),
        deadline,
    )
    if response.error_code == ErrorCode.REQUEST_TIMED_OUT:
        raise _outcome_unknown(
            "the controller did not answer the broker in time (REQUEST_TIMED_OUT)."
        )
    if response.error_code:
        raise refusal(
            "The cluster refused the election",
            response.error_code,
            ApiKey.ELECT_LEADERS,
            cluster.access,
        )
    return tuple(
        ElectionResult(
            PartitionId(topic.topic, result.partition_id),
            result.error_code,
            result.error_message or "",
        )
        for topic in sorted(response.replica_election_results, key=lambda topic: topic.topic)
        for result in sorted(topic.partition_result, key=lambda result: result.partition_id)
    )


def _answer(
    cluster: Cluster, request: ElectLeadersRequest, deadline: float
) -> ElectLeadersResponse:
    """The controller's answer, of whoever is it by the deadline."""
    pause_s = FIRST_PAUSE_S
    while True:
        cluster.controller()  # what nobody could be asked for was not done: that is raised as it is
        try:
            response = cluster.ask_controller(request)
        except (UnreachableError, TimedOutError) as lost:
            raise _outcome_unknown(lost.what) from None
        if not _is_not_controller(response):
            return response
        if time.monotonic() + pause_s > deadline:
            raise TimedOutError(
                "No controller took the election in time (NOT_CONTROLLER); nobody was elected.",
                "Try again when the cluster has a controller: " + Command("inspect brokers"),
            )
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LAST_PAUSE_S)
        cluster.metadata(())


def _is_not_controller(response: ElectLeadersResponse) -> bool:
    """Whether it was not the controller that answered: as a whole, or of each partition."""
    codes = {
        result.error_code
        for topic in response.replica_election_results
        for result in topic.partition_result
    }
    return response.error_code == ErrorCode.NOT_CONTROLLER or codes == {ErrorCode.NOT_CONTROLLER}


def _outcome_unknown(why: str) -> TimedOutError:
    return TimedOutError(f"Whether leaders were elected is not known: {why}", SEE_LEADERS)
