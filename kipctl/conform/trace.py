"""What a client did around the moment that a rule is about: requests alone, by their arrival."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from statistics import median
from uuid import UUID

from kipctl.conform.cluster.call import Attempt, Connection, Exchange
from kipctl.conform.cluster.log import Batch, records_in
from kipctl.conform.cluster.state import Place
from kipctl.conform.evidence import lines_of
from kipctl.conform.verdict import Role
from kipctl.protocol.api import ApiKey

API_OF: Mapping[Role, int] = {Role.PRODUCER: ApiKey.PRODUCE, Role.CONSUMER: ApiKey.FETCH}
_AT_ONCE_MS = 10.0
_LONGEST_AT_ONCE_MS = 60.0
_SLOW_MS = 300.0
_AT_ONCE_AT_MOST_MS = 90.0
"""Less than the backoff that a hint is to save (100 ms), on the slowest machine too."""
_SLOW_AT_MOST_MS = 800.0
"""Less than the time for which scripts keep Metadata stale or slow."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A request for the partition that a rule is about. Times are ms since the first refusal."""

    ms: float
    broker: int
    version: int
    tried: Attempt

    @property
    def is_good(self) -> bool:
        return self.tried.error == 0


def is_refused(tried: Attempt) -> bool:
    """The partition was answered with an error."""
    return bool(tried.error)


def most_tries(seen: Iterable[Seen]) -> int:
    """How often the same was sent or asked for, of what was so most often.

    A batch is the same if it begins with the same record: of an idempotent producer that is its id,
    epoch and sequence. A Fetch is, at the same offset.
    """
    return max(Counter(_what(s.tried) for s in seen).values(), default=0)


def first_tries(seen: Iterable[Seen]) -> Sequence[float]:
    """When each of these was sent or asked for first, by the same."""
    first: dict[Hashable, float] = {}
    for s in seen:
        first.setdefault(_what(s.tried), s.ms)
    return [*first.values()]


def _what(tried: Attempt) -> Hashable:
    if tried.api == ApiKey.FETCH:
        return tried.offset
    if tried.sequence >= 0:
        return tried.producer, tried.sequence
    return next(records_in(tried.content), None)


@dataclass(frozen=True)
class Trace:
    """All that a client did, from its start until it was ended.

    `began_us` is when the rule's script began; `scale` is how many times slower this machine is
    than a quiet one, by which limits are widened. Times are counted from the first answer after it
    that `starts` is true of: a refusal, if nothing else is said.
    """

    role: Role
    place: Place
    exchanges: Sequence[Exchange]
    connections: Sequence[Connection]
    began_us: int | None
    scale: float = 1.0
    starts: Callable[[Attempt], bool] = is_refused
    log: Sequence[Batch] = ()
    """What the partition's log has in the end."""
    names: Mapping[UUID, str] = field(default_factory=dict)
    """Of all topics that there ever were."""

    @cached_property
    def start_us(self) -> int | None:
        """When the first such answer was sent; None where none was."""
        answers = (
            e.answered_us
            for e in self.asked
            if self.began_us is not None
            and e.answered_us >= self.began_us
            and self.starts(e.tried[self.place])
        )
        return min(answers, default=None)

    def of(self, index: int) -> "Trace":
        """The same of another partition of the topic."""
        return replace(self, place=(self.place[0], index))

    def also(self, index: int) -> Sequence[Seen]:
        """Requests for another partition of the topic, from this one's first refusal on."""
        return self._since_start(self.of(index))

    @cached_property
    def asked(self) -> Sequence[Exchange]:
        """All its requests for the partition."""
        api = API_OF[self.role]
        return [e for e in self.exchanges if e.api == api and self.place in e.tried]

    @cached_property
    def after(self) -> Sequence[Seen]:
        """Requests for the partition that arrived after the first refusal had been sent."""
        return self._since_start(self)

    @cached_property
    def refused(self) -> Sequence[Seen]:
        """Requests for the partition that were refused since the script began."""
        began = self.began_us or 0
        return [
            self._seen(e, self.place)
            for e in self.asked
            if e.answered_us >= began and e.tried[self.place].error
        ]

    def refused_ms(self, broker: int) -> Sequence[float]:
        """When it asked a broker that refused then or hung up, since the script began."""
        api, began = API_OF[self.role], self.began_us or 0
        there = (e for e in self.exchanges if e.api == api and e.broker == broker and e.us >= began)
        return [
            self._ms(e.us)
            for e in there
            if not e.is_answered or (self.place in e.tried and e.tried[self.place].error)
        ]

    def _ms(self, us: int) -> float:
        return (us - (self.start_us or 0)) / 1000

    def _seen(self, e: Exchange, place: Place) -> Seen:
        return Seen(self._ms(e.us), e.broker, e.version, e.tried[place])

    def _since_start(self, trace: "Trace") -> Sequence[Seen]:
        start = self.start_us
        asked = (e for e in trace.asked if start is not None and e.us >= start)
        return [self._seen(e, trace.place) for e in asked]

    @property
    def version(self) -> int | None:
        """In which it asks; None where it did not."""
        return max((e.version for e in self.asked), default=None)

    def ms_of_script(self, ms: float) -> float:
        """A time of the rule's script, since it began, as one since the first refusal."""
        return ms - ((self.start_us or 0) - (self.began_us or 0)) / 1000

    def sent_where_refused(self, from_ms: float, until_ms: float) -> Sequence[float]:
        """When it sent anything then on the connections on which it was refused from the start on.

        A throttle is of a connection (KIP-219), and a broker may coordinate the client's group too.
        """
        start = self.start_us or 0
        refused = {
            e.connection
            for e in self.asked
            if e.answered_us >= start and self.starts(e.tried[self.place])
        }
        sent = (self._ms(e.us) for e in self.exchanges if e.connection in refused)
        return [ms for ms in sent if from_ms <= ms < until_ms]

    def closed_ms(self, broker: int) -> Sequence[float | None]:
        """Of each connection to a broker that was open then: when the client closed it, or None."""
        start = self.start_us or 0
        return [
            (c.closed_us - start) / 1000 if c.by_client else None
            for c in self.connections
            if c.broker == broker and c.opened_us < start and not 0 <= c.closed_us < start
        ]

    @property
    def at_once_ms(self) -> float:
        """What is at once: three gaps between its requests before, at least 10 ms, at most 60."""
        times = [e.us for e in self.asked if e.us < (self.began_us or 0)]
        gaps = [(later - us) / 1000 for us, later in pairwise(times)]
        gap = median(gaps) if gaps else 0.0
        here = min(_LONGEST_AT_ONCE_MS, max(_AT_ONCE_MS, 3 * gap)) * self.scale
        return min(_AT_ONCE_AT_MOST_MS, here)

    @property
    def slow_ms(self) -> float:
        return min(_SLOW_AT_MOST_MS, _SLOW_MS * self.scale)

    def first_at(self, broker: int) -> float | None:
        """When it asked there first, in ms since the first refusal."""
        return next((seen.ms for seen in self.after if seen.broker == broker), None)

    @property
    def offsets(self) -> Sequence[int]:
        """From which on it read, in the order of its requests; the first is the answered one."""
        start = self.start_us
        return [
            e.tried[self.place].offset
            for e in self.asked
            if start is not None and (e.us >= start or e.answered_us == start)
        ]

    def count(self, until_ms: float, broker: int | None = None) -> int:
        """Its requests for the partition until then, at that broker or at any."""
        return sum(s.ms < until_ms and broker in (None, s.broker) for s in self.after)

    @cached_property
    def metadata_ms(self) -> Sequence[float]:
        """When it asked for Metadata, from the first refusal on."""
        start = self.start_us or 0
        asked = (e.us for e in self.exchanges if e.api == ApiKey.METADATA)
        return [(us - start) / 1000 for us in asked if us >= start]

    def evidence(self, decided_ms: float | None = None) -> tuple[str, ...]:
        """Its first requests from the refusal on, and those around the one that decided, or the
        last ones; a line each."""
        start = self.start_us or self.began_us
        if start is None:
            return ()
        return lines_of(self.exchanges, self.connections, start, decided_ms)
