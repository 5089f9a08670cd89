"""What a client does about brokers that it cannot reach, and when it is to begin anew (KIP-899,
KIP-1102): rules. All times are microseconds of one clock."""

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, field

from kipctl.client_behaviour.facts import LONG_US, Event
from kipctl.client_behaviour.in_a_row import AGAIN

REBOOTSTRAP_US = 5_000_000
"""A client that is told to begin anew has closed its connections by then."""
BLIND_US = 15_000_000
"""Who looks at intervals (kafka-go every 6 s) has by then, also if one of the connections that
failed was to ask a broker that is gone for Metadata: a tap does not see what they were for."""
AWAY_US = 330_000_000
"""`metadata.recovery.rebootstrap.trigger.ms`, 5 minutes, and a client's backoff."""


@dataclass(slots=True)
class _Tries:
    first_us: int
    over_us: int = LONG_US
    count: int = 0

    def once_more(self, at_us: int) -> bool:
        """Whether it was more than AGAIN after the first, over that time; begins anew then."""
        self.count += 1
        if self.count <= 1 + AGAIN or at_us - self.first_us < self.over_us:
            return False
        self.first_us, self.count = at_us, 1
        return True


@dataclass(slots=True)
class _Broker:
    """That could not be reached, and has not answered since."""

    since_us: int
    blind: _Tries | None = None
    """Since the client asked for Metadata last."""
    waiting: set[Hashable] = field(default_factory=set)
    """Partitions that were under way to it, and were not sent to another one since."""
    told: dict[Hashable, _Tries] = field(default_factory=dict)
    """Of these, since Metadata has named another leader."""


@dataclass(slots=True)
class UnreachableBrokers:
    """Of one client."""

    rebootstrap_us: int = 0
    """When it was told to begin anew; 0 if it was not, or has."""
    _brokers: dict[int, _Broker] = field(default_factory=dict)
    _known: frozenset[int] = frozenset()
    """That the last Metadata named."""
    _bootstrapped_us: int = 0
    """When it asked a bootstrap server last, or was said not to."""

    def __bool__(self) -> bool:
        return bool(self._brokers)

    def failed(
        self, broker: int, at_us: int, under_way: Collection[Hashable] = ()
    ) -> Iterator[Event]:
        """A connection to it could not be made, or was lost with these partitions under way."""
        state = self._brokers.setdefault(broker, _Broker(at_us))
        state.waiting.update(under_way)
        state.blind = state.blind or _Tries(at_us, BLIND_US)
        are_often = [tries.once_more(at_us) for tries in (state.blind, *state.told.values())]
        if any(are_often):
            yield Event.DEAD_LEADER_RETRIED
        if self._are_all_away(at_us):
            self._bootstrapped_us = at_us
            yield Event.REBOOTSTRAP_IGNORED

    def _are_all_away(self, at_us: int) -> bool:
        if not self._known or not self._known <= self._brokers.keys():
            return False
        last_us = max(self._brokers[broker].since_us for broker in self._known)
        return at_us - max(last_us, self._bootstrapped_us) >= AWAY_US

    def answered(self, broker: int) -> None:
        """It is there."""
        self._brokers.pop(broker, None)

    def asked_metadata(self) -> None:
        """It looks where to go."""
        for state in self._brokers.values():
            state.blind = None

    def shown(self, brokers: frozenset[int]) -> None:
        """Metadata named these, and no error."""
        self._known = brokers

    def named(self, partition: Hashable, leader: int, at_us: int) -> None:
        """Metadata names that leader of the partition."""
        for broker, state in self._brokers.items():
            if leader in (broker, -1):
                state.told.pop(partition, None)
            elif partition in state.waiting:
                state.told.setdefault(partition, _Tries(at_us))

    def sent(self, partition: Hashable, broker: int) -> None:
        """It asks that broker for the partition."""
        for other, state in self._brokers.items():
            if other != broker:
                state.waiting.discard(partition)
                state.told.pop(partition, None)

    def bootstrapped(self, connected_us: int) -> None:
        """It asks, or tries to, a bootstrap server over a connection that was made then."""
        self._bootstrapped_us = max(self._bootstrapped_us, connected_us)
        if connected_us > self.rebootstrap_us:
            self.rebootstrap_us = 0

    def told_to_rebootstrap(self, at_us: int) -> None:
        """Metadata was answered REBOOTSTRAP_REQUIRED."""
        self.rebootstrap_us = self.rebootstrap_us or at_us

    def goes_on(self, connected_us: int, at_us: int) -> bool:
        """It asks over a connection that was made then: whether that should have been closed. Told
        once."""
        is_over = connected_us <= self.rebootstrap_us <= at_us - REBOOTSTRAP_US
        if is_over:
            self.rebootstrap_us = 0
        return is_over
