"""What brokers have shown of each topic: bytes that come again are not read again."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kipctl.protocol.metadata_frames import MetadataFrame
from kipctl.tap.clients import Leader, Shown
from kipctl.tap.leaders import Leaders


class ShownTopic(NamedTuple):
    """A topic as an answer shows it. `generation` is that of `Leaders`."""

    raw: bytes
    error_code: int
    shown: Shown
    generation: int


@dataclass(slots=True)
class ShownMetadata:
    """Of all brokers, to any client."""

    leaders: Leaders
    _topics: dict[tuple[int, str], ShownTopic] = field(default_factory=dict)
    """The last of each, by version of the answer and name."""
    _shared: dict[str, Shown] = field(default_factory=dict)
    """One for all clients and versions that show the same."""

    def read(self, answer: MetadataFrame) -> Iterator[tuple[str, ShownTopic]]:
        """The topics of an answer, by name ("" for null), of which `leaders` learns.

        Raises MalformedFrame.
        """
        for _ in range(answer.topics):
            name = answer.named_next()
            known = self._topics.get((answer.version, name))
            is_same = known and known.generation == self.leaders.generation(name)
            if not (known and is_same and answer.steps_past(known.raw)):
                known = self._read(answer, name)
                if name and not known.error_code:
                    self._topics[answer.version, name] = known
            yield name, known

    def _read(self, answer: MetadataFrame, name: str) -> ShownTopic:
        at = answer.offset
        topic = answer.topic()
        if name and not topic.error_code:
            self.leaders.apply_metadata(topic)
        leaders = {
            partition.partition_index: Leader(partition.leader_id, partition.leader_epoch)
            for partition in topic.partitions
        }
        shown = Shown(topic.topic_id, leaders)
        if not topic.error_code:
            before = self._shared.get(name)
            shown = self._shared[name] = before if before and before == shown else shown
        raw = answer.buffer[at : answer.offset]
        return ShownTopic(raw, topic.error_code, shown, self.leaders.generation(name))
