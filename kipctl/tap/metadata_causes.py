"""Why a client sent a Metadata request, as far as the wire shows it (KIP-526)."""

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kipctl.trace.codes import MetadataCause

AGE_US = 240_000_000
"""Who renews what is so old does it by age: `metadata.max.age.ms` and its like are 5 minutes, and
clients take some of it off at random. Less may be set: then it shows by being regular."""
LEAST_PERIOD_US = 1_500_000
"""What comes more often is no renewal by age: backoffs grow to a second, and some more at random
(`retry.backoff.max.ms`)."""
MOST_TOPICS = 50_000
"""That a client has asked for, or was shown, and that are remembered; of what it asks for together
likewise. One before these is taken for back from idle, for old, or for new."""
_LONGEST_NAME = 249
"""Of a topic: brokers have none with a longer one."""
_LIKE = 0.1
"""Periods that differ by less, as a share, are one."""


def drop_oldest(known: dict[Any, Any]) -> None:
    """Where there are too many, a tenth goes at once: the first are slow to find one by one."""
    if len(known) > MOST_TOPICS:
        for key in list(islice(known, len(known) - MOST_TOPICS * 9 // 10)):
            del known[key]


@dataclass(slots=True)
class _Asked:
    """When a topic was asked for, last and before that, and among how many the last time."""

    last_us: int
    before_us: int
    among: float


@dataclass(slots=True)
class MetadataRequests:
    """Of one client. Times are monotonic microseconds.

    A client does not say why it asks. The first of these holds that fits: it is the `start`; it
    asks for a *new topic*, which no answer has shown it; since its last request a broker told it of
    a *leader change*, or there was an *error* (a connection was lost, or the last answer had one);
    topics are *back from idle*; what it asks for is old, or was renewed after just as long before:
    its *age*. What is left is *unexplained*.

    A topic is back from idle if it is asked for without others that were shown, and the client has
    renewed those since without it (together, or each of them twice), or has asked for it only
    together with others so far (Java drops what is idle when it renews all). Topics that a client
    renews one by one are old, and not idle.
    """

    have_begun: bool = False
    _topics: dict[str, _Asked] = field(default_factory=dict)
    _all_us: int = 0
    """When all topics were asked for last."""
    _together_us: int = 0
    """When several were, or all."""
    _periods: dict[int, int] = field(default_factory=dict)
    """How old the same topics (by hash) were, the last time that nothing else made it ask for
    them."""

    def cause(
        self,
        asked: Collection[str] | None,
        shown: Collection[str],
        leader_error: bool,
        trouble: bool,
        now_us: int,
    ) -> MetadataCause:
        """The cause of a request for those topics (None: for all of them), which is noted.

        `shown` are the topics that answers have shown this client.
        """
        wanted = None if asked is None else frozenset(asked)
        if not self.have_begun:
            cause = MetadataCause.START
        elif wanted is not None and any(topic not in shown for topic in wanted):
            cause = MetadataCause.NEW_TOPIC
        elif leader_error:
            cause = MetadataCause.LEADER_CHANGE
        elif trouble:
            cause = MetadataCause.ERROR_RETRY
        else:
            cause = self._by_itself(wanted, len(shown), now_us)
        self._note(wanted, now_us)
        return cause

    def is_new(self, topic: str) -> bool:
        """It has not asked for that topic yet."""
        return topic not in self._topics and not self._all_us

    def _by_itself(self, wanted: frozenset[str] | None, shown: int, now_us: int) -> MetadataCause:
        asked_us = max(self._asked_us(topic) for topic in wanted) if wanted else self._all_us
        age_us = now_us - asked_us
        if wanted and len(wanted) < shown and self._are_back(wanted, asked_us, age_us):
            return MetadataCause.IDLE_EVICTION
        before_us = self._periods.pop(hash(wanted), 0)
        self._periods[hash(wanted)] = age_us
        drop_oldest(self._periods)
        is_regular = age_us >= LEAST_PERIOD_US and abs(age_us - before_us) <= _LIKE * age_us
        if age_us >= AGE_US or is_regular:
            return MetadataCause.MAX_AGE
        return MetadataCause.UNEXPLAINED

    def _are_back(self, wanted: frozenset[str], asked_us: int, age_us: int) -> bool:
        twice = (asked.before_us for topic, asked in self._topics.items() if topic not in wanted)
        if self._together_us > asked_us or max(twice, default=0) > asked_us:
            return True
        among = [self._topics[topic].among for topic in wanted if topic in self._topics]
        return age_us < AGE_US and all(number > len(wanted) for number in among)

    def _asked_us(self, topic: str) -> int:
        known = self._topics.get(topic)
        return max(known.last_us, self._all_us) if known else self._all_us

    def _note(self, wanted: frozenset[str] | None, now_us: int) -> None:
        self.have_begun = True
        if wanted is None:
            self._all_us = now_us
            for request in self._topics.values():
                request.among = float("inf")
        for topic in wanted or ():
            before_us = self._asked_us(topic) if topic in self._topics else 0
            self._topics.pop(topic, None)
            if len(topic) <= _LONGEST_NAME:
                self._topics[topic] = _Asked(now_us, before_us, len(wanted or ()))
        drop_oldest(self._topics)
        if wanted is None or len(wanted) > 1:
            self._together_us = now_us
