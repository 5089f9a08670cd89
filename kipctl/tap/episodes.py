"""What a client does for each partition after a refusal (`kipctl.client_behaviour.episode`).

An episode is open from a refusal of a partition's Produce or Fetch until an answer without error.
Batches need not be known again. Times are monotonic microseconds.
"""

from collections import Counter, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from kipctl.client_behaviour.behaviour import Seen
from kipctl.client_behaviour.doubt import Doubt
from kipctl.client_behaviour.episode import (
    BACKOFF_US,
    PAUSE_US,
    REFRESH_US,
    WENT_TO_HINTED,
    Episode,
    Hint,
    HintFault,
    Outcome,
)
from kipctl.client_behaviour.facts import End, EpisodeFact, Fact
from kipctl.tap.leaders import UNKNOWN, Leaders, PartitionId
from kipctl.tap.moves_met import Move, MovesMet
from kipctl.tap.sightings import Sightings
from kipctl.tap.watch import Watch

_REMEMBERED = 250
"""Reactions: a summary of them is made once a second, for every client."""
_ABANDONED_US = 120_000_000
"""`delivery.timeout.ms` of Java's producer: a client that did nothing for so long has given up."""
_ONE_BY_ONE = 50
"""Where no batch is known again, so many attempts, each sent within a pause after the refusal of
the one before, are a loop: of batches that each back off by themselves some overlap."""
_LOOKED_AT_US = 10_000_000
"""So long after an episode it is looked at who else sends for the partition."""
_NOT_NAMED = 1 << 62
_A_MOVE_US = 1_000_000
"""Leaders of one partition that move sooner one after the other are not counted as two, where only
their epochs tell that there were two."""


class About(NamedTuple):
    """What an episode is about. `producer` is the id of an idempotent producer, which tells apart
    processes that share a client id; else -1."""

    api: int
    partition: PartitionId
    producer: int = -1


class Way(NamedTuple):
    """Where something was sent: the broker's id, and the number of the connection."""

    broker: int
    connection: int


@dataclass(slots=True)
class _Open:
    episode: Episode
    from_broker: int
    from_epoch: int
    """The newest that the client was shown."""
    generation: int
    named_us: dict[int, int]
    """When Metadata named a leader to the client first; 0: before the refusal."""
    named_last: int = UNKNOWN
    """By Metadata without epochs (before version 7)."""
    last_sent_us: int = 0
    reached: int = UNKNOWN
    """The broker to which it went as that led."""
    one_by_one: int = 0
    again: Episode | None = None
    """Of refusals by that broker: it is not ready yet, or its leadership has moved on."""
    reported: set[str] = field(default_factory=set)
    """Findings of which it was said to be a sign."""
    refused_over: dict[int, int] = field(default_factory=dict)
    """By broker, the connection over which it refused; UNKNOWN for several."""
    refused_before: dict[int, int] = field(default_factory=dict)
    """The same of the episode before, if that was over just then."""

    def is_back(self, way: Way) -> bool:
        """Whether it was refused over that connection already."""
        over = self.refused_over.get(way.broker), self.refused_before.get(way.broker)
        return way.connection in over

    @property
    def seen_us(self) -> int:
        """When the client was last seen to do something about it, or was refused."""
        return max(self.last_sent_us, self.episode.last_us)


class _Over(NamedTuple):
    """An episode that is over, until it is known whether the client asks for Metadata."""

    about: About
    state: _Open
    end: End
    until_us: int
    doubts: tuple[Doubt, ...]


@dataclass(slots=True)
class _Carried:
    """Which connection carries a partition after an episode, and which did before it."""

    way: Way
    until_us: int
    taken_by: int
    """The broker that took it."""
    refused_over: dict[int, int]
    """As of `_Open`."""
    left: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Episodes:
    """Of one client: those that are open, and what the others came to."""

    leaders: Leaders
    watch: Watch
    sightings: Sightings
    open: dict[About, _Open] = field(default_factory=dict)
    look_until_us: int = 0
    """Its requests are read until then, also where nothing is recorded: while one is open, and
    some time after it."""
    moves: MovesMet = field(default_factory=MovesMet)
    """Leaders that had moved, and that it met: it was refused by another broker, or found them."""
    given_up: int = 0
    """Episodes without an end: the client went away, or did nothing more for the partition."""
    shared: int = 0
    """Signs that several processes may call themselves so."""
    disconnected_us: int = 0
    """When the client was last without any connection: another process may go by its name since."""
    _outcomes: Counter[Outcome] = field(default_factory=Counter)
    _loops: int = 0
    _faults: Counter[HintFault] = field(default_factory=Counter)
    _disturbed: Counter[Doubt] = field(default_factory=Counter)
    _reactions: deque[int] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _without_epochs: dict[PartitionId, tuple[int, int]] = field(default_factory=dict)
    """Where leaders of no known epoch were found last, and how often elsewhere than before."""
    carried: dict[About, _Carried] = field(default_factory=dict)
    over: deque[_Over] = field(default_factory=deque)
    _producers: dict[PartitionId, int] = field(default_factory=dict)
    """The idempotent producer that sent to a partition last."""
    _looked_us: int = -REFRESH_US
    """When the client asked for Metadata last, or was answered."""
    _awaited: set[Hashable] = field(default_factory=set)
    """Requests for Metadata that are under way."""

    def refused(
        self,
        about: About,
        way: Way,
        sent_us: int,
        now_us: int,
        hint: Hint | None,
        known: tuple[int, int],
        has_paused: bool | None = False,
        *,
        is_fenced: bool = False,
        is_metadata_older: bool = False,
    ) -> None:
        """A refusal of what was sent then; `known` are the leader and epoch that the client was
        shown before, `has_paused` is that of `Episode.refused`; None if it is not seen.
        `is_metadata_older`: the last Metadata shows the partition in an epoch before that."""
        self.look_until_us = now_us + _ABANDONED_US
        partition = about.partition
        generation = self.leaders.generation(partition.topic)
        if about in self.open and self.open[about].last_sent_us < sent_us:
            self.sent(about, way, sent_us)  # a fetch session asks for what no request names
        state = self.open.get(about)
        epoch, before = self.leaders.epoch(partition), state.from_epoch if state else UNKNOWN
        if epoch > before and self.leaders.leader(partition) not in (UNKNOWN, way.broker):
            first_us = state.episode.first_us if state else now_us
            self.moves.met(Move(about.api, partition, generation, epoch), first_us)
        if state is None:
            episode = Episode.begin(*way, now_us, hint)
            episode.is_fenced = is_fenced
            if self._awaited or self._looked_us >= now_us - REFRESH_US // 2:
                episode.is_refreshed = True
            carried = self.carried.get(about)
            if is_metadata_older and carried:
                # Another process of its name may be at the older leader still.
                was_there = carried.until_us - _LOOKED_AT_US < sent_us - PAUSE_US
                was_there &= carried.refused_over.get(way.broker) == way.connection
                episode.is_undone = was_there and carried.taken_by == known[0] != way.broker
            self.open[about] = _Open(
                episode,
                way.broker,
                known[1] if known[1] >= 0 else self.leaders.epoch_of(partition, way.broker),
                generation,
                {known[0]: 0} if known[0] not in (UNKNOWN, way.broker) else {},
                sent_us,
                refused_over={way.broker: way.connection},
                refused_before=carried.refused_over if carried else {},
            )
            return
        if state.refused_over.setdefault(*way) != way.connection:
            state.refused_over[way.broker] = UNKNOWN
        if has_paused is None:
            follows = sent_us >= state.episode.last_us > now_us - PAUSE_US
            state.one_by_one = state.one_by_one + 1 if follows else 0
            state.episode.is_loop |= state.one_by_one >= _ONE_BY_ONE
            has_paused = True
        # What was under way before the first refusal is answered late by a busy broker.
        has_paused = has_paused or sent_us < state.episode.first_us
        state.episode.refused(*way, now_us, hint, has_paused)
        state.episode.is_fenced |= is_fenced
        if state.reached == way.broker:
            if state.again is None:
                state.again = Episode.begin(*way, now_us, hint)
            else:
                state.again.refused(*way, now_us, hint, has_paused)

    def sent(self, about: About, way: Way, now_us: int) -> None:
        """An attempt goes out."""
        if about.producer >= 0:
            self._producers[about.partition] = about.producer
        state = self.open.get(about)
        if state is None:
            self._watch_connections(about, way, now_us)
            return
        if now_us < state.episode.first_us:
            return
        leads = way.broker in (self.leaders.leader(about.partition), state.named_last)
        if leads and state.again is not None and way.broker != state.reached:
            self._leader_reached(about, state, state.reached, now_us)
            state = self.open[about] = _Open(
                state.again,
                state.reached,
                self.leaders.epoch_of(about.partition, state.reached),
                state.generation,
                state.named_us,
                refused_over=state.refused_over,
                refused_before=state.refused_before,
            )
        state.last_sent_us = now_us
        self.look_until_us = now_us + _ABANDONED_US
        is_named = state.named_us.get(way.broker, _NOT_NAMED) <= now_us
        was_behind = bool(self.watch.late_us) and bool(self.watch.doubts(BACKOFF_US))
        what = {"is_named": is_named, "leads": leads, "is_back": state.is_back(way)}
        for episode in (state.episode, state.again):
            if episode is not None:
                episode.sent(*way, now_us, **what, was_behind=was_behind)
        if state.reached == UNKNOWN and state.episode.wait_us is not None:
            state.reached = way.broker

    def accepted(self, about: About, way: Way, sent_us: int, now_us: int) -> None:
        """What was sent then was answered without an error."""
        state = self.open.get(about)
        if state is None:
            return
        if sent_us < state.episode.first_us:
            # Under way before it was refused: a client may know more than it was seen to be shown.
            return
        if state.last_sent_us < sent_us:
            self.sent(about, way, sent_us)
            state = self.open[about]
        state.episode.answered(sent_us)
        self._leader_reached(about, state, way.broker, now_us)
        until_us = now_us + _LOOKED_AT_US
        self.carried[about] = _Carried(way, until_us, way.broker, state.refused_over)
        self._end(about, now_us)

    def _end(self, about: About, now_us: int) -> None:
        del self.open[about]
        if not self.open:
            self.look_until_us = now_us + _LOOKED_AT_US
            self._producers.clear()

    def metadata(self, about: About, leader: int, epoch: int, at_us: int) -> None:
        """Metadata names that leader to the client, at that time."""
        state = self.open[about]
        state.named_us.setdefault(leader, at_us)
        if epoch < 0 and leader != state.from_broker:
            state.named_last = leader
        state.episode.metadata_answered()

    def asked_metadata(self, request: Hashable, now_us: int) -> None:
        """The client asks for Metadata."""
        self._looked_us = now_us
        self._awaited.add(request)
        for state in (*self.open.values(), *(over.state for over in self.over)):
            state.episode.is_refreshed = True

    def metadata_over(self, request: Hashable, now_us: int) -> None:
        """That request for Metadata was answered, or is lost."""
        self._looked_us = now_us
        self._awaited.discard(request)

    def tick(self, now_us: int, is_gone: bool) -> None:
        """Close what the client has given up; all of it once it is gone."""
        for about, state in list(self.open.items()):
            if is_gone or state.seen_us < now_us - _ABANDONED_US:
                stayed = not is_gone and self._has_stayed(about, state)
                self._closed(about, state, End.GIVEN_UP if stayed else End.OPEN, state.seen_us)
                self.given_up += 1
                self._end(about, now_us)
        for about in [
            about for about, carried in self.carried.items() if carried.until_us < now_us
        ]:
            del self.carried[about]
        self.settle(now_us - REFRESH_US)
        for about, state in self.open.items():
            fact = self._open_fact(about, state, now_us)
            state.reported |= self._report(fact, about, state, now_us)

    def _has_stayed(self, about: About, state: _Open) -> bool:
        """The process that was refused is there, and goes by the same producer id."""
        last = self._producers.get(about.partition, about.producer)
        is_same = about.producer in (last, UNKNOWN)
        return is_same and self.disconnected_us < state.seen_us

    def settle(self, until_us: int) -> None:
        """Note what was over by then: what the client was to do by now, it did not do."""
        while self.over and self.over[0].until_us <= until_us:
            over = self.over.popleft()
            episode = over.state.episode
            episode.is_refreshed = bool(episode.is_refreshed)
            self._note(over)

    def _note(self, over: _Over) -> None:
        about, state, end, until_us, doubts = over
        fact = EpisodeFact.of(about.api, state.episode, end, until_us, doubts)
        self.sightings.facts[fact] += 1
        self._report(fact, about, state, until_us)

    def _report(self, fact: Fact, about: About, state: _Open, now_us: int) -> set[str]:
        broker = state.episode.broker
        return self.sightings.report(fact, now_us, about.partition, broker, state.reported)

    def _open_fact(self, about: About, state: _Open, now_us: int) -> EpisodeFact:
        fact = EpisodeFact.of(about.api, state.episode, End.OPEN, state.seen_us)
        if fact.is_refreshed is None and now_us - state.episode.first_us >= REFRESH_US:
            return fact._replace(is_refreshed=False)
        return fact

    def still(self, now_us: int) -> Counter[Fact]:
        """Facts of what is not over, or was so just now."""
        facts: Counter[Fact] = Counter()
        for about, state in self.open.items():
            facts[self._open_fact(about, state, now_us)] += 1
        for about, state, end, until_us, doubts in self.over:
            facts[EpisodeFact.of(about.api, state.episode, end, until_us, doubts)] += 1
        return facts

    def seen(self, **counts: int) -> Seen:
        """What is to be judged; `counts` are fields of `Seen`."""
        open_ones = [state.episode for state in self.open.values()]
        outcomes = self._outcomes + Counter(episode.outcome for episode in open_ones)
        faults = self._faults + Counter(fault for episode in open_ones for fault in episode.faults)
        reactions = sorted([*self._reactions, *_reactions(open_ones)])
        over = self._outcomes.total()
        doubts = [doubt for doubt, times in self._disturbed.items() if 2 * times > over]
        # Clients that are sent no hints may well send over any connection of a pool.
        if self.shared > 1 and counts["hints"]:
            doubts.insert(0, Doubt.NAMESAKES)
        return Seen(
            **counts,
            outcomes=outcomes,
            loops=self._loops + sum(episode.is_loop for episode in open_ones),
            faults=faults,
            reaction_p50_us=reactions[(len(reactions) - 1) // 2] if reactions else None,
            waits=self.moves.waits,
            doubts=tuple(doubts),
        )

    def _leader_reached(self, about: About, state: _Open, broker: int, now_us: int) -> None:
        """It got to the leader that it was looking for."""
        self._closed(about, state, End.SUCCESS, now_us)
        partition = about.partition
        is_same = self.leaders.generation(partition.topic) == state.generation
        epoch = self.leaders.epoch_of(partition, broker) if is_same else UNKNOWN
        if broker == state.from_broker and 0 <= epoch <= state.from_epoch and state.reached >= 0:
            # It reads from a follower now, as it was told, or after the leader fenced it off.
            broker, epoch = state.reached, self.leaders.epoch_of(partition, state.reached)
        which = about.api, partition, state.generation
        last, moves = self._without_epochs.get(partition, (UNKNOWN, 0))
        if broker == state.from_broker and epoch <= state.from_epoch:
            if epoch >= 0 or not self.leaders.has_moved(partition):
                return
        elif epoch < self.leaders.epoch_of(partition, state.from_broker):
            epoch = UNKNOWN  # of the time before: it leads again
        if epoch < 0:  # Metadata before version 7 has none
            moves += broker != last
            self._without_epochs[partition] = broker, moves
            epoch = UNKNOWN - moves
        else:
            self._without_epochs[partition] = UNKNOWN, moves
            # Leaders that were there and gone while it was refused.
            refused_us = state.episode.last_us - state.episode.first_us
            first = state.from_epoch + 1 or epoch
            for between in range(first, min(epoch, first + refused_us // _A_MOVE_US)):
                self.moves.met(Move(*which, between), state.episode.first_us)
        wait_us = None if state.episode.is_loop else state.episode.wait_us
        not_ready = state.again.refusals if state.again and broker == state.reached else 0
        self.moves.met(Move(*which, epoch), state.episode.first_us, wait_us, not_ready)

    def _closed(self, about: About, state: _Open, end: End, now_us: int) -> None:
        episode = state.episode
        self._outcomes[episode.outcome] += 1
        self._loops += episode.is_loop
        self._faults.update(episode.faults)
        self._reactions.extend(_reactions([episode]))
        doubts = self.watch.doubts(episode.reaction_us or 0)
        self._disturbed.update(doubts)
        self.over.append(_Over(about, state, end, now_us, tuple(doubts)))

    def _watch_connections(self, about: About, way: Way, now_us: int) -> None:
        """A client has a connection to each broker, or makes another one: back and forth between
        two to the same broker are two processes."""
        carried = self.carried.get(about)
        if carried is None or now_us >= carried.until_us or way == carried.way:
            return
        if way.broker != carried.way.broker:
            carried.left.clear()
        else:
            self.shared += way.connection in carried.left
            carried.left.add(carried.way.connection)
        carried.way = way


def _reactions(episodes: list[Episode]) -> list[int]:
    """Of those that went where the hint said."""
    return [
        episode.reaction_us
        for episode in episodes
        if episode.outcome in WENT_TO_HINTED and episode.reaction_us is not None
    ]
