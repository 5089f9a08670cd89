"""What is shown of a run while it lasts: read from its rows once a second, and kept as numbers."""

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial

from kipctl.background import every
from kipctl.load.actions import Performed, describe
from kipctl.load.start import Probe
from kipctl.measure.client_totals import ClientTotals
from kipctl.measure.distribution import Distribution
from kipctl.measure.live_totals import (
    CONSUMER,
    DATASETS,
    PRODUCER,
    ConsumerTotals,
    EndToEndTotals,
    ProducerTotals,
    SoFar,
)
from kipctl.measure.lost_and_late import DelayedRows
from kipctl.probe.run import AnyOutcome
from kipctl.probe.schedule import Schedule
from kipctl.trace.clock import now_us
from kipctl.trace.rows import read_all

_LOOK_S = 1.0
_MOMENTS = {PRODUCER: ("batches", "acked_us"), CONSUMER: ("reads", "time_us")}
"""When it is that a row of a client's records counts."""
_WRITTEN_US = 200_000
"""So long after something happened its row is there to be read: clients write every 50 ms."""
_KEPT = 500
"""Intervals: more than a terminal has columns."""


@dataclass(frozen=True, slots=True)
class Interval:
    """What was settled until `until_s` after the start; times in microseconds, None of nothing."""

    until_s: float
    records_per_s: float
    p50_us: int | None = None
    p99_us: int | None = None


@dataclass(frozen=True, slots=True)
class ClientProgress:
    """What a client met: moved leaders and their waits (microseconds), refusals, Metadata."""

    moves: int = 0
    waits_us: tuple[int, int, int] = (0, 0, 0)
    """p50, p99, and the longest."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Answers of leaders that had moved, by what became of the hint."""
    metadata: Mapping[str, int] = field(default_factory=dict)
    """Metadata requests by cause."""

    @classmethod
    def of(cls, met: ClientTotals) -> "ClientProgress":
        """As it was counted."""
        return cls(*counted_waits(met.waits_so_far), dict(met.refused), dict(met.metadata))


def counted_waits(waits: Distribution) -> tuple[int, tuple[int, int, int]]:
    """How many there are; and p50, p99 and the longest."""
    return waits.total, (waits.quantile(0.5), waits.quantile(0.99), waits.quantile(1))


@dataclass(frozen=True, slots=True)
class ActionProgress:
    """An action that began so many seconds after the start, and what came of it so far."""

    at_s: float
    what: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class RunProgress:
    """A run at a moment. `share` of it is done, if its end is known; `rate` records per second are
    asked for, if any."""

    title: str
    elapsed_s: float
    share: float | None = None
    rate: float | None = None
    timed: str = "latency"
    """What the times of the intervals are."""
    intervals: tuple[Interval, ...] = ()
    clients: Mapping[str, ClientProgress] = field(default_factory=dict)
    leaders: Mapping[int, int] = field(default_factory=dict)
    """Partitions by the broker that answered for them last."""
    actions: tuple[ActionProgress, ...] = ()
    failed: Mapping[str, int] = field(default_factory=dict)
    """Records that were given up, by error."""
    delivered: Mapping[str, int] = field(default_factory=dict)
    """Of acknowledged records, how many are waiting, lost, late."""


@dataclass(slots=True)
class Screen:
    """Has a run drawn as it goes. `num_records` is None for one without an end."""

    title: str
    timed: str
    schedule: Schedule
    num_records: int | None
    performed: list[Performed]
    draw: Callable[[RunProgress], None]
    _intervals: deque[Interval] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _until_us: int = 0

    def show(self, counted: SoFar, until_us: int) -> None:
        """Draw what is counted; `newest` of it is all that happened since the last call."""
        start_us = self.schedule.start_us
        began_us = max(self._until_us, start_us)
        if until_us > began_us:
            records, times = counted.newest
            p50, p99 = (times.quantile(q) if times.total else None for q in (0.5, 0.99))
            rate = records / ((until_us - began_us) / 1e6)
            self._intervals.append(Interval((until_us - start_us) / 1e6, rate, p50, p99))
            self._until_us = until_us
        elapsed_s = max(0, now_us() - start_us) / 1e6
        matching = counted.matching if isinstance(counted, EndToEndTotals) else None
        with suppress(OSError):  # the terminal may be closed
            self.draw(
                RunProgress(
                    self.title,
                    elapsed_s,
                    self._share(elapsed_s, counted.settled),
                    self.schedule.rate if self.schedule.throttled else None,
                    self.timed,
                    tuple(self._intervals),
                    {name: ClientProgress.of(met) for name, met in counted.clients.items()},
                    counted.leading,
                    tuple(
                        self._acted(number, performed)
                        for number, performed in enumerate(tuple(self.performed), 1)
                    ),
                    dict(counted.failed),
                    {"waiting": matching.waiting, "lost": matching.lost, "late": matching.late}
                    if matching
                    else {},
                )
            )

    def _share(self, elapsed_s: float, settled: int) -> float | None:
        if self.num_records is None:
            return None
        done = settled / self.num_records
        if self.schedule.throttled:
            done = elapsed_s * 1e9 / (self.num_records * self.schedule.interval_ns)
        return min(1.0, done)

    def _acted(self, number: int, done: Performed) -> ActionProgress:
        at_s = (done.called_us - self.schedule.start_us) / 1e6
        return ActionProgress(at_s, describe(number, done), bool(done.error))

    def follow(
        self, probe: Probe[AnyOutcome], counted: ProducerTotals | ConsumerTotals
    ) -> AbstractContextManager[None]:
        """Count a client's rows and have them drawn, once a second, while inside."""
        (client,) = counted.clients
        timed, moment = _MOMENTS[client]
        held = DelayedRows(timed, moment)

        def look() -> None:
            until_us = now_us() - _WRITTEN_US
            rows = {
                (client, dataset): read_all(partial(probe.new_rows, dataset))
                for dataset in DATASETS[client]
            }
            rows[client, timed] = held.due(rows[client, timed], until_us)
            counted.add(rows, until_us)
            self.show(counted, until_us)

        return every(_LOOK_S, look)
