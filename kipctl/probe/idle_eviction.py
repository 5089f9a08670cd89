"""The topics that a client knows until they are idle (KIP-526), new ones among them: pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from kipctl.trace.codes import MetadataCause


class TopicPolicy(StrEnum):
    """Which topics a client asks for when it comes to one that it does not know."""

    KIP526 = "kip526"
    """The new ones only (KIP-526; Java since 2.5)."""
    LEGACY = "legacy"
    """All that it knows, and the new ones, as clients did before."""
    PRELOAD = "preload"
    """As KIP-526, but it is given its topics beforehand and first asks for all of them at once: the
    alternative that the KIP rejected, as a producer would have to know its topics."""


@dataclass(slots=True)
class TopicsInUse:
    """The topics that a client uses, until they are idle (Java's `ProducerMetadata`).

    A topic idle for `idle_us` (`metadata.max.idle.ms`) is dropped by the next answer, whatever
    that is an answer to; but not before it has been in one itself. Before KIP-526 the time was
    fixed at 5 minutes; here it is the same for both policies, so that they differ in one thing.
    Times are in microseconds.
    """

    policy: TopicPolicy
    idle_us: int
    _used_us: dict[str, int] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _new: dict[str, MetadataCause] = field(default_factory=dict)
    _dropped: set[str] = field(default_factory=set)

    def use(self, topic: str, now_us: int) -> bool:
        """A record is for this topic; returns whether its Metadata is there."""
        if topic not in self._used_us:
            back = topic in self._dropped
            self._new[topic] = MetadataCause.IDLE_EVICTION if back else MetadataCause.NEW_TOPIC
        self._used_us[topic] = now_us
        return topic in self._known

    @property
    def topics(self) -> tuple[str, ...]:
        """All that are in use, new ones too."""
        return tuple(self._used_us)

    @property
    def new_topics(self) -> MetadataCause | None:
        """Why there are topics that no answer has shown yet; None when there are none.

        Those that were dropped are the cause only when there are no others.
        """
        return min(self._new.values(), default=None)

    def topics_to_request(self, cause: MetadataCause) -> tuple[str, ...]:
        """The topics that a request of this cause asks for."""
        if self.is_for_all(cause):
            return self.topics
        return tuple(self._new)

    def is_for_all(self, cause: MetadataCause) -> bool:
        """Whether a request of this cause asks for all topics in use."""
        about_new = cause in (MetadataCause.NEW_TOPIC, MetadataCause.IDLE_EVICTION)
        return self.policy is TopicPolicy.LEGACY or not about_new

    def answered(self, shown: Iterable[str], refused: Iterable[str], now_us: int) -> list[str]:
        """An answer came, with these topics and with errors for those; returns the dropped ones.

        A topic that was refused is new no longer: asking again is for an error's sake, and then
        for all topics.
        """
        dropped = [
            topic
            for topic, used_us in self._used_us.items()
            if topic not in self._new and used_us + self.idle_us <= now_us
        ]
        for topic in dropped:
            del self._used_us[topic]
        self._known.update(topic for topic in shown if topic in self._used_us)
        self._known.difference_update(dropped)
        self._dropped.update(dropped)
        for topic in (*shown, *refused):
            self._new.pop(topic, None)
        return dropped
