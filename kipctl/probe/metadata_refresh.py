"""When a client refreshes its Metadata, and why (`MetadataCause`): the rules, pure."""

import random
from dataclasses import dataclass

from kipctl.probe.backoff import Backoff
from kipctl.probe.leadership import LeaderDiscovery
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
    requested: MetadataCause | None = None
    in_flight: MetadataCause | None = None
    last_had_news: bool = True
    unanswered_since_us: int = NEVER_US
    """When the first request went out after the last answer with brokers; NEVER_US if none has."""
    _fruitless: int = 0
    """Answers in a row that showed nothing new, or requests that failed."""
    _wait_us: int = 0
    """The backoff after the last answer."""

    def request(self, cause: MetadataCause) -> None:
        """Ask for a refresh. A leader change that is already asked for keeps its cause."""
        if self.requested is None:
            self.requested = cause

    def due_us(self, new_topics: MetadataCause | None = None) -> int:
        """When the next request may be sent; NEVER_US while one is in flight.

        `new_topics` is the cause for which topics are new now (`TopicsInUse.new_topics`).
        """
        if self.in_flight is not None:
            return NEVER_US
        if new_topics is not None and self.requested is not MetadataCause.ERROR_RETRY:
            return self.answered_us
        if self.requested is None:
            return self.refreshed_us + self.max_age_us
        if self.discovery is LeaderDiscovery.REFRESH and self.last_had_news:
            return self.answered_us
        return self.answered_us + self._wait_us

    def sent(self, now_us: int, new_topics: MetadataCause | None = None) -> MetadataCause:
        """A request goes out; returns its cause.

        New topics are it only when nothing else asks for all topics, their age included (Java's
        `Metadata.newMetadataRequestAndVersion`).
        """
        if self.requested is not None:
            self.in_flight = self.requested
        elif new_topics is not None and now_us < self.refreshed_us + self.max_age_us:
            self.in_flight = new_topics
        else:
            self.in_flight = MetadataCause.MAX_AGE
        self.requested = None
        self.unanswered_since_us = min(now_us, self.unanswered_since_us)
        return self.in_flight

    def answered(self, now_us: int, news: bool, of_all: bool = True) -> None:
        """An answer came; `news` says whether it changed any leader, `of_all` if it renews all.

        Then it serves whatever was asked for before it, also while it was under way (Java's
        `Metadata.update`): who is refused because it came too early asks again.
        """
        self.unanswered_since_us = NEVER_US
        if of_all:
            self.refreshed_us = now_us
            self.requested = None
        self._completed(now_us, news, not news and self.in_flight is not MetadataCause.MAX_AGE)

    def failed(self, now_us: int, has_brokers: bool = False) -> None:
        """No usable answer came: another request is wanted, after the backoff.

        An answer that tells of brokers, and is of no use for a topic's error alone, has come from
        a cluster that is reached: it is none that is missed (Java's `metadataAttemptStartMs`).
        """
        if has_brokers:
            self.unanswered_since_us = NEVER_US
        self._completed(now_us, news=False, in_vain=True)
        self.request(MetadataCause.ERROR_RETRY)

    def _completed(self, now_us: int, news: bool, in_vain: bool) -> None:
        self._fruitless = self._fruitless + 1 if in_vain else 0
        self._wait_us = self.backoff.wait_us(max(0, self._fruitless - 1), random.random())
        self.in_flight = None
        self.answered_us = now_us
        self.last_had_news = news
