"""What the tap saw of a client that findings are made of: facts, and where each was seen first."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kipctl.client_behaviour.doubt import Doubt
from kipctl.client_behaviour.facts import OFTEN, Event, Fact
from kipctl.client_behaviour.findings.catalogue import matching, seen
from kipctl.client_behaviour.software import Software
from kipctl.tap.leaders import UNKNOWN, PartitionId

_NOWHERE = PartitionId("", UNKNOWN)
_MOST_SIGNS = 1000
_SECOND_US = 1_000_000
_MOST_COUNTED = 10_000


class Sign(NamedTuple):
    """Something that is a sign of that finding, seen at that monotonic microsecond.

    `topic` is "" and `partition` -1 where it is about none, `broker` -1 where it is not known.
    """

    at_us: int
    client_id: str
    finding: str
    topic: str
    partition: int
    broker: int


@dataclass(frozen=True, slots=True)
class FindingSeen:
    """A finding, how often it was seen of how many times that it could have been, and first
    where."""

    id: str
    times: int
    of: int
    first: Sign


@dataclass(slots=True)
class Signs:
    """Of all clients: the last that were seen, until somebody takes them."""

    last: deque[Sign] = field(default_factory=lambda: deque(maxlen=_MOST_SIGNS))
    total: int = 0

    def add(self, sign: Sign) -> None:
        self.last.append(sign)
        self.total += 1


class _Second(NamedTuple):
    began_us: int
    times: int
    before: int
    """Seconds in a row before this one, in each of which it came so many times."""


@dataclass(slots=True)
class Sightings:
    """Of one client, which calls itself so."""

    signs: Signs
    client_id: str = ""
    facts: Counter[Fact] = field(default_factory=Counter)
    _first: dict[str, Sign] = field(default_factory=dict)
    _seconds: dict[tuple[Event, PartitionId, int], _Second] = field(default_factory=dict)

    def note(
        self, fact: Fact, at_us: int, partition: PartitionId = _NOWHERE, broker: int = UNKNOWN
    ) -> None:
        """It was seen."""
        self.facts[fact] += 1
        self.report(fact, at_us, partition, broker)

    def report(
        self,
        fact: Fact,
        at_us: int,
        partition: PartitionId,
        broker: int,
        reported: Iterable[str] = (),
    ) -> set[str]:
        """Say of what it is a sign, but for those findings that were `reported`. Returns all that
        it is a sign of."""
        ids = {finding.id for finding in matching(fact)}
        for id in ids.difference(reported):
            sign = Sign(at_us, self.client_id, id, *partition, broker)
            self._first.setdefault(id, sign)
            self.signs.add(sign)
        return ids

    def once_more(
        self,
        event: Event,
        at_us: int,
        partition: PartitionId = _NOWHERE,
        broker: int = UNKNOWN,
        connection: int = UNKNOWN,
    ) -> None:
        """Something happened, for that partition or over that connection, that matters where it
        does so again and again (`OFTEN`)."""
        often, key = OFTEN[event], (event, partition, connection)
        began_us, times, before = self._seconds.get(key, _Second(at_us, 0, 0))
        if at_us - began_us >= _SECOND_US:
            is_in_a_row = times >= often.times and at_us - began_us < 2 * _SECOND_US
            began_us, times, before = at_us, 0, before + 1 if is_in_a_row else 0
        if len(self._seconds) > _MOST_COUNTED:
            self._seconds.clear()
        self._seconds[key] = _Second(began_us, times + 1, before)
        if (times + 1) % often.times == 0 and before + 1 >= often.seconds:
            self.note(event, at_us, partition, broker)

    def findings(
        self, still: Counter[Fact], software: Software, doubts: Iterable[Doubt]
    ) -> tuple[FindingSeen, ...]:
        """What the facts come to, with those of what is not over; the worst first."""
        return tuple(
            FindingSeen(entry.finding.id, *entry.times, self._first[entry.finding.id])
            for entry in seen(self.facts + still, software, tuple(doubts))
            if entry.finding.id in self._first
        )
