"""What a client does for one partition after it was refused: rules, an attempt at a time.

An episode begins with the answer NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH to a client's
Produce or Fetch for a partition, and ends with the next answer for it without an error. Batches
need not be known again: clients that encode anew are followed as well. All times are microseconds
of one clock.

Requests that were under way to the broker that refused, or left before the client had read the
refusal, are no reaction to it. Nobody but the client knows which these are; so what it sends on the
connection of the refusal proves nothing, unless it does so after a backoff (it was sent back, as if
there were no hint), or again and again (a loop). The first attempt elsewhere is the reaction.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

AT_ONCE_US = 10_000
"""A reaction within this time waited for nothing.

Java 4.3.1 sends again 0.6 to 3.7 ms after the error (medians); without hints, but with fresh
Metadata, it takes 18 ms, and clients that wait out `retry.backoff.ms` take 100.
"""
BACKOFF_US = 50_000
"""No client backs off for less; what was under way is refused sooner, even by busy brokers. An
attempt so long after the last refusal was sent because of it."""
PAUSE_US = 20_000
"""Refusals that follow each other sooner are in a row."""
REFRESH_US = 2_000_000
"""A client that asks for Metadata because of a refusal has done so by then; or half as long before,
for another partition."""
LOOP_REFUSALS = 10
LOOP_US = 100_000
"""So many refusals in a row, without a pause and for so long, are a loop without a backoff: what is
under way together is less (max.in.flight.requests.per.connection is 5), and over sooner."""


class HintFault(StrEnum):
    """Why a hint is of no use to the client that it was sent to."""

    NO_ENDPOINT = "no endpoint"
    """It names a leader and not where that is, and the client was not shown that broker either."""
    OTHER_ENDPOINT = "another node's endpoint"
    """Or one that is not what Metadata on the same listener gives for the leader."""
    REFUSER = "the refuser itself"
    """It names the broker that refuses."""
    OLDER = "older"
    """Than what the client was shown before."""
    SAME_EPOCH = "same epoch"
    """Another leader at the epoch that the client was shown before."""


class Hint(NamedTuple):
    """A leader that an error names; what is wrong with it, if anything is."""

    leader: int
    epoch: int
    fault: HintFault | None = None


class Outcome(StrEnum):
    """What became of the usable hint of an episode, by the client's reaction."""

    FOLLOWED = "followed"
    """It went to the leader that the hint names, and Metadata had not named that one."""
    BY_METADATA = "by Metadata"
    """It went there after Metadata had named it, too: which of both it followed is not seen."""
    SENT_BACK = "sent back"
    """After a backoff it asked the broker that had refused again."""
    ELSEWHERE = "elsewhere"
    """It went to a third broker."""
    UNSEEN = "unseen"
    """It had not sent anything for the partition yet when this was asked."""
    NOT_HINTED = "not hinted"
    """No usable hint was there before its reaction."""


WENT_TO_HINTED = (Outcome.FOLLOWED, Outcome.BY_METADATA)
"""It went to the leader that the hint names."""


@dataclass(slots=True)
class Episode:
    """Made at the first refusal; then it is told of each attempt, refusal and Metadata answer."""

    broker: int
    """That refused last."""
    connection: Hashable
    """Of the last refusal."""
    first_us: int
    """When the first refusal was answered."""
    last_us: int
    refusals: int = 1
    hint: Hint | None = None
    """The newest that is usable."""
    faults: tuple[HintFault, ...] = ()
    """Of hints that are not usable, each once."""
    outcome: Outcome = Outcome.NOT_HINTED
    reaction_us: int | None = None
    """From the last refusal before it to the first attempt elsewhere."""
    wait_us: int | None = None
    """From the first refusal to the first attempt that went to a broker that led the partition
    then."""
    is_loop: bool = False
    is_fenced: bool = False
    """A refusal was FENCED_LEADER_EPOCH."""
    is_undone: bool = False
    """It began at a leader of before, after the client had been at the newer one that a hint named,
    and Metadata then had shown the older one."""
    is_refreshed: bool | None = None
    """Whether the client asked for Metadata around then (`REFRESH_US`); None if it is not known."""
    strayed: HintFault | None = None
    """It went where a hint says that was no news (OLDER, SAME_EPOCH), and neither Metadata nor a
    usable hint did."""
    not_ready: int = 0
    """Refusals by the broker that the hint named, each after a pause."""
    _strays: dict[int, HintFault] = field(default_factory=dict)
    _usable: set[int] = field(default_factory=set)
    """Leaders that hints named as news. A client that has just read one may have a newer one, and
    the first again, before it: a broker that was paused answers all at once."""
    _in_a_row: int = 1
    _row_began_us: int = 0
    _is_decided: bool = False

    @classmethod
    def begin(cls, broker: int, connection: Hashable, now_us: int, hint: Hint | None) -> "Episode":
        """The first refusal was answered."""
        episode = cls(broker, connection, now_us, now_us, _row_began_us=now_us)
        episode._take(hint)
        return episode

    def refused(
        self,
        broker: int,
        connection: Hashable,
        now_us: int,
        hint: Hint | None,
        has_paused: bool = False,
    ) -> None:
        """Another refusal was answered. `has_paused`: of a batch that was sent for the first time,
        or after a backoff of its own, as where it is seen which batch is which."""
        self.refusals += 1
        pause_us = now_us - self.last_us
        if self._is_hinted(broker) and pause_us >= PAUSE_US:
            self.not_ready += 1
        if has_paused:
            pass
        elif self._in_a_row and pause_us < PAUSE_US:
            self._in_a_row += 1
            is_long = now_us - self._row_began_us >= LOOP_US
            self.is_loop = self.is_loop or (self._in_a_row >= LOOP_REFUSALS and is_long)
        else:
            self._in_a_row, self._row_began_us = 1, now_us
        self.broker, self.connection, self.last_us = broker, connection, now_us
        if not self._is_decided:
            self._take(hint)
        elif (pause_us >= BACKOFF_US or self.is_loop) and self._is_disowned_by(broker, hint):
            self.outcome = Outcome.NOT_HINTED
            self._add_fault(HintFault.REFUSER)

    def metadata_answered(self) -> None:
        """The client was shown Metadata: what follows is no loop without looking."""
        self._in_a_row = 0

    def sent(
        self,
        broker: int,
        connection: Hashable,
        now_us: int,
        *,
        is_named: bool,
        leads: bool,
        is_back: bool = False,
        was_behind: bool = False,
    ) -> None:
        """An attempt went out. `is_named`: Metadata named that broker to the client since the
        first refusal; `leads`: it led the partition by then, as far as is known; `is_back`: over
        that connection it was refused before, and may have waited in the client since, for what it
        had under way there; `was_behind`: it may have been under way for long, as a broker had
        answered another request of its connection first, or whoever looks on was late."""
        is_elsewhere = broker != self.broker and connection != self.connection
        if is_elsewhere and self.reaction_us is None:
            self.reaction_us = now_us - self.last_us
            # A client that stalls sends on before it reads the refusal: it was not sent back if it
            # then goes where the hint says, sooner than any client backs off.
            if self.outcome is Outcome.SENT_BACK and self._follows(broker, is_named):
                self.outcome = Outcome.FOLLOWED
        if leads and broker != self.broker and self.wait_us is None:
            self.wait_us = now_us - self.first_us
        if self._is_decided:
            return
        if is_elsewhere:
            self._is_decided = True
            if not (is_named or is_back or broker in self._usable):
                self.strayed = self._strays.get(broker)
            if self.hint is not None:
                if not self._is_hinted(broker):
                    self.outcome = Outcome.ELSEWHERE
                else:
                    self.outcome = Outcome.BY_METADATA if is_named else Outcome.FOLLOWED
        elif now_us - self.last_us >= BACKOFF_US and self.hint is not None and not was_behind:
            self._is_decided = True
            self.outcome = Outcome.SENT_BACK

    def _is_hinted(self, broker: int) -> bool:
        return self.hint is not None and broker == self.hint.leader

    def _follows(self, broker: int, is_named: bool) -> bool:
        is_quick = self.reaction_us is not None and self.reaction_us < BACKOFF_US
        return is_quick and self._is_hinted(broker) and not is_named

    def _is_disowned_by(self, broker: int, hint: Hint | None) -> bool:
        """Asked again after a backoff, or in a loop, the leader that the hint named refuses and
        names itself: what the hint said was of no use, wherever the client went."""
        return self._is_hinted(broker) and hint is not None and hint.fault is HintFault.REFUSER

    def _add_fault(self, fault: HintFault) -> None:
        self.faults = tuple(dict.fromkeys((*self.faults, fault)))

    def answered(self, sent_us: int) -> None:
        """What was sent then was answered without an error, so that it went to a leader."""
        if self.wait_us is None:
            self.wait_us = sent_us - self.first_us

    def _take(self, hint: Hint | None) -> None:
        if hint is None:
            return
        if hint.fault is not None:
            self._add_fault(hint.fault)
            if hint.fault in (HintFault.OLDER, HintFault.SAME_EPOCH):
                self._strays[hint.leader] = hint.fault
        elif self.hint is None or hint.epoch > self.hint.epoch:
            self._usable.add(hint.leader)
            self.hint = hint
            self.outcome = Outcome.UNSEEN
