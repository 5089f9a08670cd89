"""When a client sends a Metadata request, and why: the rules, pure."""

from dataclasses import dataclass, field

from kipctl.probe.leadership import LeaderDiscovery
from kipctl.trace.codes import MetadataCause

NEVER_US = 1 << 62


@dataclass(slots=True)
class MetadataPolicy:
    """One request at a time; after an error no more often than the backoff allows.

    Java's `Metadata.timeToNextUpdate`: a refresh that is asked for waits until `backoff_us` after
    the last answer. Under `refresh` it does not wait, unless the last answer showed nothing new.
    Without being asked, the answer is renewed after `max_age_us` (`metadata.max.age.ms`).
    Times are in microseconds.
    """

    discovery: LeaderDiscovery
    backoff_us: int
    max_age_us: int
    answered_us: int = 0
    wanted: MetadataCause | None = None
    in_flight: MetadataCause | None = None
    last_was_news: bool = field(default=True)

    def want(self, cause: MetadataCause) -> None:
        """Ask for a refresh. A leader change that is already asked for keeps its cause."""
        if self.wanted is None:
            self.wanted = cause

    def due_us(self) -> int:
        """When the next request may be sent; NEVER_US while one is in flight."""
        if self.in_flight is not None:
            return NEVER_US
        if self.wanted is None:
            return self.answered_us + self.max_age_us
        if self.discovery is LeaderDiscovery.REFRESH and self.last_was_news:
            return self.answered_us
        return self.answered_us + self.backoff_us

    def sent(self) -> MetadataCause:
        """A request goes out; returns its cause."""
        self.in_flight = self.wanted if self.wanted is not None else MetadataCause.MAX_AGE
        self.wanted = None
        return self.in_flight

    def answered(self, now_us: int, news: bool) -> None:
        """An answer came; `news` says whether it changed any leader."""
        self.in_flight = None
        self.answered_us = now_us
        self.last_was_news = news

    def failed(self, now_us: int) -> None:
        """No usable answer came: another request is wanted, after the backoff."""
        self.answered(now_us, news=False)
        self.want(MetadataCause.ERROR_RETRY)
