"""When a client sends a Metadata request, why, and for which topics (KIP-526): the rules, pure."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from kipctl.probe.leadership import Backoff, LeaderDiscovery
from kipctl.trace.codes import MetadataCause

NEVER_US = 1 << 62


@dataclass(slots=True)
class MetadataPolicy:
    """One request at a time; after an error no more often than the backoff allows.

    Java's `Metadata.timeToNextUpdate`: a refresh that is asked for waits for the backoff after the
    last answer, which grows with each answer in a row that shows nothing new, and with each request
    that fails (`Metadata.timeToAllowUpdate`, KIP-580). Under `refresh` it does not wait, unless the
    last answer showed nothing new. For a new topic it does not wait either, and what was asked for
    besides goes with it (`Metadata.requestUpdateForNewTopics`), unless a request has just failed.
    Without being asked, all is renewed `max_age_us` (`metadata.max.age.ms`) after the last answer
    that was of all. Times are in microseconds.
    """

    discovery: LeaderDiscovery
    backoff: Backoff
    max_age_us: int
    answered_us: int = 0
    refreshed_us: int = 0
    """When the last answer came that was of all topics."""
    wanted: MetadataCause | None = None
    in_flight: MetadataCause | None = None
    last_was_news: bool = True
    unanswered_since_us: int = NEVER_US
    """When the first request went out after the last good answer; NEVER_US if none has."""
    _in_vain: int = 0
    """Answers in a row that showed nothing new, or requests that failed."""
    _wait_us: int = 0
    """The backoff after the last answer."""

    def want(self, cause: MetadataCause) -> None:
        """Ask for a refresh. A leader change that is already asked for keeps its cause."""
        if self.wanted is None:
            self.wanted = cause

    def due_us(self, new_topics: MetadataCause | None = None) -> int:
        """When the next request may be sent; NEVER_US while one is in flight.

        `new_topics` is the cause for which topics are new now (`WorkingSet.new_topics`).
        """
        if self.in_flight is not None:
            return NEVER_US
        if new_topics is not None and self.wanted is not MetadataCause.ERROR_RETRY:
            return self.answered_us
        if self.wanted is None:
            return self.refreshed_us + self.max_age_us
        if self.discovery is LeaderDiscovery.REFRESH and self.last_was_news:
            return self.answered_us
        return self.answered_us + self._wait_us

    def sent(self, now_us: int, new_topics: MetadataCause | None = None) -> MetadataCause:
        """A request goes out; returns its cause.

        New topics are it only when nothing else asks for all topics, their age included (Java's
        `Metadata.newMetadataRequestAndVersion`).
        """
        if self.wanted is not None:
            self.in_flight = self.wanted
        elif new_topics is not None and now_us < self.refreshed_us + self.max_age_us:
            self.in_flight = new_topics
        else:
            self.in_flight = MetadataCause.MAX_AGE
        self.wanted = None
        self.unanswered_since_us = min(now_us, self.unanswered_since_us)
        return self.in_flight

    def answered(self, now_us: int, news: bool, of_all: bool = True) -> None:
        """An answer came; `news` says whether it changed any leader, `of_all` if it renews all."""
        self.unanswered_since_us = NEVER_US
        if of_all:
            self.refreshed_us = now_us
        self._ended(now_us, news, not news and self.in_flight is not MetadataCause.MAX_AGE)

    def failed(self, now_us: int) -> None:
        """No usable answer came: another request is wanted, after the backoff."""
        self._ended(now_us, news=False, in_vain=True)
        self.want(MetadataCause.ERROR_RETRY)

    def _ended(self, now_us: int, news: bool, in_vain: bool) -> None:
        self._in_vain = self._in_vain + 1 if in_vain else 0
        self._wait_us = self.backoff.wait_us(max(0, self._in_vain - 1), random.random())
        self.in_flight = None
        self.answered_us = now_us
        self.last_was_news = news


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
class WorkingSet:
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

    def asked_for(self, cause: MetadataCause) -> tuple[str, ...]:
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
