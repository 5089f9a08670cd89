"""What a client did around the moment that a rule is about: requests alone, by their arrival."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from statistics import median

from kipctl.conform.cluster.call import Attempt, Connection, Exchange
from kipctl.conform.cluster.state import Place
from kipctl.conform.verdict import Role
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import error_name

API_OF: Mapping[Role, int] = {Role.PRODUCER: ApiKey.PRODUCE, Role.CONSUMER: ApiKey.FETCH}
_AT_ONCE_MS = 10.0
_LONGEST_AT_ONCE_MS = 60.0
_SLOW_MS = 300.0
_AT_ONCE_AT_MOST_MS = 90.0
"""Less than the backoff that a hint is to save (100 ms), on the slowest machine too."""
_SLOW_AT_MOST_MS = 800.0
"""Less than the time for which scripts keep Metadata stale or slow."""
_SHOWN = 16
_NAMES = {key.value: key.name.replace("_", " ").title().replace(" ", "") for key in ApiKey}


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

    @cached_property
    def start_us(self) -> int | None:
        """When the first such answer was sent; None where none was."""
        answers = (
            e.answered_us
            for e in self._attempts
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
        place, api, start = (self.place[0], index), API_OF[self.role], self.start_us
        return [
            Seen((e.us - start) / 1000, e.broker, e.version, e.tried[place])
            for e in self.exchanges
            if start is not None and e.us >= start and e.api == api and place in e.tried
        ]

    @cached_property
    def _attempts(self) -> Sequence[Exchange]:
        api = API_OF[self.role]
        return [e for e in self.exchanges if e.api == api and self.place in e.tried]

    @cached_property
    def after(self) -> Sequence[Seen]:
        """Requests for the partition that arrived after the first refusal had been sent."""
        start = self.start_us
        if start is None:
            return ()
        return [
            Seen((e.us - start) / 1000, e.broker, e.version, e.tried[self.place])
            for e in self._attempts
            if e.us >= start
        ]

    @property
    def version(self) -> int | None:
        """In which it asks; None where it did not."""
        return max((e.version for e in self._attempts), default=None)

    def ms_of_script(self, ms: float) -> float:
        """A time of the rule's script, since it began, as one since the first refusal."""
        return ms - ((self.start_us or 0) - (self.began_us or 0)) / 1000

    def sent_where_refused(self, from_ms: float, until_ms: float) -> int:
        """Requests of any kind then, on the connections on which it was refused from the start on.

        A throttle is of a connection (KIP-219), and a broker may coordinate the client's group too.
        """
        start = self.start_us or 0
        refused = {
            e.connection
            for e in self._attempts
            if e.answered_us >= start and self.starts(e.tried[self.place])
        }
        return sum(
            e.connection in refused and from_ms <= (e.us - start) / 1000 < until_ms
            for e in self.exchanges
        )

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
        times = [e.us for e in self._attempts if e.us < (self.began_us or 0)]
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
            for e in self._attempts
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

    def evidence(self) -> tuple[str, ...]:
        """Its first requests from the refusal on, a line each."""
        start = self.start_us or self.began_us
        if start is None:
            return ()
        kept = [e for e in self.exchanges if e.us >= start or e.answered_us >= start]
        lines = tuple(_line(e, start) for e in kept[:_SHOWN])
        left = len(kept) - len(lines)
        return (*lines, f"and {left:,} more") if left else lines


def _line(e: Exchange, start_us: int) -> str:
    name = f"{_NAMES.get(e.api, f'API {e.api}')} v{e.version}"
    told = ", ".join(f"{topic}-{index} {_said(tried)}" for (topic, index), tried in e.tried.items())
    return f"{(e.us - start_us) / 1000:8.1f} ms  broker {e.broker}  {name}  {told}".rstrip()


def _said(tried: Attempt) -> str:
    if tried.error is None:
        return "no answer"
    said = error_name(tried.error) if tried.error else "ok"
    if tried.hint:
        said += f" hint ({tried.hint.id}, {tried.hint.epoch})"
    return said + (f" read at {tried.preferred}" if tried.preferred >= 0 else "")
