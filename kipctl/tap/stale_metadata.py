"""Metadata as a broker shows it that has not heard yet: leaders and epochs of before."""

from collections import deque
from dataclasses import replace
from typing import NamedTuple

from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.metadata import MetadataResponse

PartitionName = tuple[str | bytes, int]
"""A topic's name (its id's bytes where no name is said) and the partition's number."""


class _LeaderSince(NamedTuple):
    since_us: int
    leader: int
    epoch: int


class StaleLeaders:
    """For `stale_us` after a change the leader of before is shown.

    A change is dated when the tap first sees a sign of it: a refusal, a hint, or an answer that
    shows the newer epoch. Times are monotonic microseconds.
    """

    def __init__(self, stale_us: int) -> None:
        self._stale_us = stale_us
        self._history: dict[PartitionName, deque[_LeaderSince]] = {}
        self._refused_us: dict[PartitionName, int] = {}

    def refused(self, partition: PartitionName, broker: int, now_us: int) -> None:
        """A broker said that it leads no more: whoever leads now has done so since.

        That counts for the newest leader known; one of before is refused for a change that is
        dated already, by clients that were shown it.
        """
        history = self._history.get(partition)
        if history and history[-1].leader == broker:
            self._refused_us.setdefault(partition, now_us)

    def leader_to_show(
        self, partition: PartitionName, leader: int, epoch: int, now_us: int
    ) -> tuple[int, int]:
        """The leader and epoch to show where a broker shows these."""
        history = self._history.get(partition)
        if history is None:
            self._history[partition] = deque([_LeaderSince(0, leader, epoch)])
            return leader, epoch
        if epoch > history[-1].epoch:
            since_us = self._refused_us.pop(partition, now_us)
            history.append(_LeaderSince(since_us, leader, epoch))
        elif epoch == history[-1].epoch and leader != history[-1].leader:
            history[-1] = history[-1]._replace(leader=leader)
        while len(history) > 1 and history[1].since_us + self._stale_us <= now_us:
            history.popleft()
        oldest = history[0]
        # A broker may really be behind: then what it says is older than what it would be shown as.
        return (oldest.leader, oldest.epoch) if oldest.epoch <= epoch else (leader, epoch)

    def with_stale_leaders(self, answer: MetadataResponse, now_us: int) -> MetadataResponse:
        """The answer with the leaders to show."""
        topics = []
        for topic in answer.topics:
            name = topic.name if topic.name is not None else topic.topic_id.bytes
            partitions = []
            for partition in topic.partitions:
                leader, epoch = self.leader_to_show(
                    (name, partition.partition_index),
                    partition.leader_id,
                    partition.leader_epoch,
                    now_us,
                )
                if (leader, epoch) != (partition.leader_id, partition.leader_epoch):
                    error = 0 if leader >= 0 else int(ErrorCode.LEADER_NOT_AVAILABLE)
                    partition = replace(
                        partition, leader_id=leader, leader_epoch=epoch, error_code=error
                    )
                partitions.append(partition)
            topics.append(replace(topic, partitions=tuple(partitions)))
        return replace(answer, topics=tuple(topics))
