"""Who leads, as far as what passed the tap has shown it, and what topics' ids mean."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from kipctl.protocol.metadata_frames import TopicMetadata

UNKNOWN = -1


class PartitionId(NamedTuple):
    """A topic's name and a partition's number."""

    topic: str
    partition: int


class _Known(NamedTuple):
    leader: int
    epoch: int
    leader_before: int = UNKNOWN
    epoch_before: int = UNKNOWN


_NOBODY = _Known(UNKNOWN, UNKNOWN)


def _nobody_looks(partition: PartitionId, before: int, leader: int, epoch: int) -> None:
    """Nobody wants to know."""


@dataclass(slots=True)
class Leaders:
    """Topics by id, and of each partition the newest leader and the one before it."""

    _topics: dict[bytes, str] = field(default_factory=dict)
    _generations: dict[str, dict[bytes, int]] = field(default_factory=dict)
    _generation: dict[str, int] = field(default_factory=dict)
    _known: dict[PartitionId, _Known] = field(default_factory=dict)
    changed: Callable[[PartitionId, int, int, int], None] = _nobody_looks
    """Told of each new leader of a partition: that one's, the leader before, the leader, its
    epoch."""
    leading: Counter[int] = field(default_factory=Counter)
    """How many partitions each broker leads, of those that are known."""

    def topic(self, said: str | bytes) -> str:
        """The name of a topic that is named, or given by its id (as text if that is not known)."""
        if isinstance(said, str):
            return said
        return self._topics.get(said) or str(UUID(bytes=said))

    def apply_metadata(self, topic: TopicMetadata) -> None:
        """Learn from an answer of the cluster's, in which that topic has a name and no error."""
        if any(topic.topic_id):
            self._topics[topic.topic_id] = topic.name
            self._take_id(topic.name, topic.topic_id)
        for partition in topic.partitions:
            self.learn(
                PartitionId(topic.name, partition.partition_index),
                partition.leader_id,
                partition.leader_epoch,
            )

    def _take_id(self, name: str, topic_id: bytes) -> None:
        """With another id it is another topic of that name, and its epochs start again. Brokers
        that hear late show the old one for a while: the last that is shown counts."""
        generations = self._generations.setdefault(name, {})
        generation = generations.setdefault(topic_id, len(generations))
        if generation != self._generation.get(name, 0):
            for partition in [id for id in self._known if id.topic == name]:
                self.leading[self._known.pop(partition).leader] -= 1
        self._generation[name] = generation

    def generation(self, topic: str) -> int:
        """Which of the topics of that name is there, numbered in the order in which their ids came
        up."""
        return self._generation.get(topic, 0)

    def learn(self, partition: PartitionId, leader: int, epoch: int) -> None:
        """A leader of a newer epoch replaces the one that is known; where no epochs are (Metadata
        before version 7), any other leader does."""
        known = self._known.get(partition, _NOBODY)
        is_newer = epoch > known.epoch or (epoch == known.epoch == UNKNOWN != leader)
        if leader >= 0 and is_newer and (leader, epoch) != known[:2]:
            self.leading[leader] += 1
            self.leading[known.leader] -= known.leader >= 0
            self._known[partition] = _Known(leader, epoch, known.leader, known.epoch)
            if known.leader >= 0:
                self.changed(partition, known.leader, leader, epoch)

    def leader(self, partition: PartitionId) -> int:
        """The newest leader's id, -1 if none is known."""
        return self._known.get(partition, _NOBODY).leader

    def epoch(self, partition: PartitionId) -> int:
        """The newest leader epoch, -1 if none is known."""
        return self._known.get(partition, _NOBODY).epoch

    def has_moved(self, partition: PartitionId) -> bool:
        """Whether several leaders of it were seen."""
        return self._known.get(partition, _NOBODY).leader_before != UNKNOWN

    def epoch_of(self, partition: PartitionId, broker: int) -> int:
        """The epoch in which that broker led it last; -1 if it is not known to have."""
        known = self._known.get(partition, _NOBODY)
        if broker == known.leader:
            return known.epoch
        return known.epoch_before if broker == known.leader_before else UNKNOWN
