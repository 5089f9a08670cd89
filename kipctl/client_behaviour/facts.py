"""What was seen of a client, as facts that can be counted: the rules of findings are over these.

The tap notes them as they happen; Spark groups the rows of runs and logs by them. Each has a few
values only, so that a client of millions of requests comes to a few hundred counts.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from kipctl.client_behaviour.doubt import Doubt
from kipctl.client_behaviour.episode import (
    AT_ONCE_US,
    BACKOFF_US,
    Episode,
    HintFault,
    Outcome,
)

FEW_REFUSALS = 4
"""Retries that some clients have by default before they give a batch up."""
LONG_US = 6_000_000
"""Clients that ask for Metadata at intervals (franz-go: 5 s) have done so by then."""
NOT_READY_TIMES = 3
"""A new leader that refuses more often is not just late."""


class Pace(StrEnum):
    """How soon a client went elsewhere after a refusal."""

    AT_ONCE = "at once"
    QUICK = "sooner than any backoff"
    AFTER_BACKOFF = "after a backoff"
    NOT_SEEN = "not seen"

    @classmethod
    def of(cls, reaction_us: int | None) -> "Pace":
        """By the time from the last refusal to the first attempt elsewhere."""
        if reaction_us is None:
            return cls.NOT_SEEN
        if reaction_us < AT_ONCE_US:
            return cls.AT_ONCE
        return cls.QUICK if reaction_us < BACKOFF_US else cls.AFTER_BACKOFF


class End(StrEnum):
    """How an episode ended."""

    SUCCESS = "success"
    GIVEN_UP = "given up"
    """The client stayed, and did not ask for the partition any more."""
    OPEN = "open"
    """It was not seen to end."""


class EpisodeFact(NamedTuple):
    """An episode of one partition (`Episode`), as far as rules look at it."""

    api: int
    outcome: Outcome | None = Outcome.NOT_HINTED
    """None where the brokers are not known."""
    faults: tuple[HintFault, ...] = ()
    """Of hints that were not usable, sorted."""
    pace: Pace = Pace.NOT_SEEN
    end: End = End.SUCCESS
    is_loop: bool = False
    is_fenced: bool = False
    is_undone: bool = False
    is_refreshed: bool | None = None
    strayed: HintFault | None = None
    is_not_ready: bool = False
    """The leader that the hint named refused more than NOT_READY_TIMES."""
    is_long: bool = False
    """It took LONG_US or longer from the first refusal until it went to the leader, or else to the
    end, or to what was seen last: the leader itself may be slow to answer."""
    few_refusals: bool = False
    """There were FEW_REFUSALS or fewer."""
    doubt: Doubt | None = None
    """Why it may not be as it seems; one about what went where comes before one about times."""

    @classmethod
    def of(
        cls, api: int, episode: Episode, end: End, until_us: int, doubts: Iterable[Doubt] = ()
    ) -> "EpisodeFact":
        """Of an episode that lasted until then."""
        lasted_us = until_us - episode.first_us
        return cls(
            api=api,
            outcome=episode.outcome,
            faults=tuple(sorted(episode.faults)),
            pace=Pace.of(episode.reaction_us),
            end=end,
            is_loop=episode.is_loop,
            is_fenced=episode.is_fenced,
            is_undone=episode.is_undone,
            is_refreshed=episode.is_refreshed,
            strayed=episode.strayed,
            is_not_ready=episode.not_ready > NOT_READY_TIMES,
            is_long=(lasted_us if episode.wait_us is None else episode.wait_us) >= LONG_US,
            few_refusals=episode.refusals <= FEW_REFUSALS,
            doubt=next(iter(doubts), None),
        )

    @property
    def is_hinted(self) -> bool:
        """A hint came with a refusal, usable or not."""
        return bool(self.faults) or self.outcome is not Outcome.NOT_HINTED


class Event(StrEnum):
    """What happens at a moment."""

    ALIKE_METADATA = "Metadata answered as before"
    """`OFTEN`, over one connection."""
    ALL_TOPICS = "Metadata of all topics by a producer"
    KNOWN_WITH_NEW = "Metadata of known topics with a new one"
    EPOCH_REFUSED = "Fetches refused for their leader epoch"
    """`OFTEN`, for one partition."""
    REPLICA_FLIP = "sent to a replica again and again"
    REPLICA_KEPT = "read from a replica that refuses"
    REPLICA_IGNORED = "asked the leader that names a replica"
    READ_TWICE = "the same offsets read from another broker"
    SESSION_LOST = "fetch sessions begun anew"
    """By more than half of `SESSION_REQUESTS` of a connection."""
    SEQUENCE_REFUSED = "batches refused for their sequence"
    """`OFTEN`, for one partition."""
    OTHERS_CUT = "connections to other brokers closed at a hint"
    DEAD_LEADER_RETRIED = "tried a broker that is gone"
    REBOOTSTRAP_IGNORED = "went on with brokers that it was to leave"
    RECREATED_IGNORED = "asked for a topic that was made anew as for the old one"
    POSITION_REFUSED = "asked for a position that is refused again and again"


SESSION_REQUESTS = 50


class Often(NamedTuple):
    """So many times in a second, for so many seconds in a row."""

    times: int
    seconds: int = 1


OFTEN = {
    # A client that backs off for 100 ms each time, as many do by default, asks ten times at most.
    Event.ALIKE_METADATA: Often(12),
    # A new leader that is late on a busy machine is asked 30 times, in 3 s (Java 3.6).
    Event.EPOCH_REFUSED: Often(6, seconds=5),
    # What was under way when a log was truncated is refused together, once.
    Event.SEQUENCE_REFUSED: Often(6, seconds=2),
}
"""Of what matters only where it comes again and again: so often is one such event."""

Fact = EpisodeFact | Event
