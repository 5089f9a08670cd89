"""A finding: its signature over facts, what it costs, and in which software it is known."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kipctl.client_behaviour.doubt import TIMED, Doubt
from kipctl.client_behaviour.facts import EpisodeFact, Event, Fact
from kipctl.client_behaviour.software import Software, Version, name_and_numbers
from kipctl.severity import Severity

_ON_GITHUB = re.compile(r"(?P<repository>[\w-]+/[\w.-]+)(?P<mark>[#@])(?P<which>\w+)")


class Affected(NamedTuple):
    """Versions `since` (included) to `until` (excluded; None: the newest that was looked at) of a
    software do it. `source` is where that is public, an address."""

    software: str
    """How it names itself, or what is built on it (librdkafka)."""
    since: Version
    until: Version | None
    source: str

    @property
    def address(self) -> str:
        """The address of `source`."""
        if match := _ON_GITHUB.fullmatch(self.source):
            kind = "issues" if match["mark"] == "#" else "commit"
            return f"https://github.com/{match['repository']}/{kind}/{match['which']}"
        return f"https://issues.apache.org/jira/browse/{self.source}"

    def holds(self, numbers: Version) -> bool:
        """Whether a version is one of these; one without numbers, as of a development build, where
        all are."""
        if not numbers:
            return self.since == (0,) and self.until is None
        return self.since <= numbers and (self.until is None or numbers < self.until)

    @property
    def mended_in(self) -> str:
        """The first version that does not; "" if there is none."""
        return ".".join(map(str, self.until or ()))


class Times(NamedTuple):
    """How often something was seen, of how many times that it could have been."""

    seen: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`id` never changes: `kipctl explain` shows the page of that name in docs/findings.

    `does` and `costs` are what it is, and what it leads to, in words: `does` follows the client's
    name. It is found if `is_it` holds of at least `least` facts, and of more than `share` of those
    of which `of` holds.
    """

    id: str
    severity: Severity
    does: str
    costs: str
    change: str
    is_it: Callable[[Fact], bool]
    of: Callable[[Fact], bool] | None = None
    least: int = 1
    share: float = 0.0
    is_timed: bool = False
    """It is told by times: not of episodes in which these are doubtful."""
    is_clients: bool = True
    """It is the client's own doing, and nothing that brokers do, or what is between."""
    known: tuple[Affected, ...] = ()

    def matches(self, fact: Fact) -> bool:
        """Whether a fact is one of these."""
        return self._is_to_be_trusted(fact) and self.is_it(fact)

    def _is_to_be_trusted(self, fact: Fact) -> bool:
        if isinstance(fact, Event) or fact.doubt is None or not self.is_clients:
            return True
        return fact.doubt in TIMED and not self.is_timed

    def times_seen(self, facts: Mapping[Fact, int]) -> Times | None:
        """How often it was seen; None if that is too seldom."""
        times = sum(count for fact, count in facts.items() if self.matches(fact))
        possible = sum(
            count
            for fact, count in facts.items()
            if self._is_to_be_trusted(fact) and (self.of or self.is_it)(fact)
        )
        if not times or times < self.least or times <= self.share * possible:
            return None
        return Times(times, possible)

    def affected(self, software: Software) -> Affected | None:
        """Where it is known of that software's version; None if it is not."""
        name, numbers = name_and_numbers(software)
        return next(
            (known for known in self.known if known.software == name and known.holds(numbers)),
            None,
        )


def episodes(rule: Callable[[EpisodeFact], bool]) -> Callable[[Fact], bool]:
    """A rule of episodes as one of facts."""
    return lambda fact: isinstance(fact, EpisodeFact) and rule(fact)


def events(event: Event) -> Callable[[Fact], bool]:
    """That the fact is this event."""
    return lambda fact: fact is event


NAMESAKES_TELL_NOTHING = frozenset({Doubt.NAMESAKES, Doubt.NO_LOG})
"""Doubts about all that a client did."""
