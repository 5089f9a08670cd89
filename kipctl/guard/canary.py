"""Clients' latencies: a producer of kipctl's own, on a topic whose leaders move along."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kipctl.errors import RefusedError
from kipctl.guard.conditions import Condition, Kind, format_value
from kipctl.load.own_topic import own_topic
from kipctl.load.plan import OWN_TOPIC
from kipctl.load.start import OnThisMachine, Probe
from kipctl.measure.client_totals import WholeBatches
from kipctl.measure.distribution import Counting
from kipctl.measure.moves import MOVE_COLUMNS, moves
from kipctl.probe.produce.run import ProduceSpec
from kipctl.trace.clock import now_us
from kipctl.trace.columns import BATCH
from kipctl.trace.rows import IntRows
from kipctl.transport.request import Cluster

RATE = 200
"""Records a second: enough for a p99 of some seconds, and next to nothing for brokers."""
_DAYS = 30
_RECORD_SIZE = 100
_PARTITIONS_A_BROKER = 2
_WARM_UP_US = 3_000_000
_FIRST_US = 1_000_000
"""After it, so that there is something to begin with."""
WINDOW_US = 10_000_000
"""Latencies are those of the records that were settled so long ago or less."""
UNDISTURBED_US = 8_000_000
"""So long it is measured what latencies are undisturbed: enough for the sixteenth largest to be the
p99."""
MOVES_WINDOW_US = 60_000_000
"""The same for leaders that moved, of which there are few."""
_NEVER = 1 << 50
"""The latency, in microseconds, of a record that was given up."""

_WAIT = MOVE_COLUMNS.index("wait_us")
_Move = tuple[int, ...]
"""The columns before the wait: they name it."""


@dataclass(slots=True)
class RecentLatencies:
    """The latest latencies and waits. Times are microseconds on the clock of now_us()."""

    window_us: int = WINDOW_US
    """Of latencies."""
    _latencies: deque[tuple[int, IntRows, IntRows]] = field(default_factory=deque)
    _batches: WholeBatches = field(default_factory=WholeBatches)
    _waits: dict[_Move, tuple[int, int]] = field(default_factory=dict)
    """When a move was met last, and its longest wait: of a batch that met it, as everywhere."""
    _new: dict[_Move, int] = field(default_factory=dict)
    """The longest waits of moves that were not told yet."""
    _told: set[_Move] = field(default_factory=set)

    def add(self, batches: IntRows, redirects: IntRows, seen_us: int) -> None:
        """Rows of the probe that were written since the last call."""
        if len(batches):
            took = batches[:, BATCH["acked_us"]] - batches[:, BATCH["intended_us"]]
            given_up = batches[:, BATCH["error"]] != 0
            records = batches[:, BATCH["records"]]
            self._latencies.append((seen_us, np.where(given_up, _NEVER, took), records))
        for row in moves(self._batches.add(redirects)).tolist():
            move = tuple(row[:_WAIT])
            _, longest_us = self._waits.get(move, (0, 0))
            self._waits[move] = seen_us, max(longest_us, row[_WAIT])
            if move not in self._told:
                self._new[move] = max(self._new.get(move, 0), row[_WAIT])
        while self._latencies and self._latencies[0][0] < seen_us - self.window_us:
            self._latencies.popleft()
        oldest_us = seen_us - MOVES_WINDOW_US
        self._waits = {move: met for move, met in self._waits.items() if met[0] >= oldest_us}
        self._told &= self._waits.keys()

    def new_waits(self) -> tuple[float, ...]:
        """Seconds that were waited for leaders that moved, each that was not told yet."""
        new = tuple(wait_us / 1e6 for wait_us in self._new.values())
        self._told |= self._new.keys()
        self._new = {}
        return new

    def values(self, conditions: Iterable[Condition]) -> dict[str, float | None]:
        """Seconds by the condition's text. A latency is None where nothing was settled lately, a
        wait for moved leaders 0 where none has moved."""
        latencies, waits = Counting(), Counting()
        for _, took, records in self._latencies:
            latencies.add(took, records)
        waits.add(np.array([wait_us for _, wait_us in self._waits.values()], dtype=np.int64))
        values: dict[str, float | None] = {}
        for condition in conditions:
            spread = (waits if condition.kind is Kind.MOVED_WAIT else latencies).distribution
            recent = spread.quantile(condition.percentile / 100) / 1e6
            nothing_settled = condition.kind is Kind.LATENCY and not spread.total
            values[condition.text] = None if nothing_settled else recent
        return values


@dataclass(slots=True)
class Canary:
    """A probe that produces meanwhile, and its latencies."""

    probe: Probe[Any]
    conditions: tuple[Condition, ...]
    recent: RecentLatencies = field(default_factory=RecentLatencies)
    undisturbed: Mapping[str, float] = field(default_factory=dict)
    """Seconds that latencies were at the beginning, by the text of the condition that asks."""

    def collect_rows(self) -> None:
        """Add what it has written since the last time."""
        new = self.probe.new_rows
        self.recent.add(new("batches"), new("redirects"), now_us())

    def __call__(self) -> dict[str, float | None]:
        """What the conditions are worth; of a probe that broke off none is known."""
        if self.probe.is_done_by(0):
            return dict.fromkeys((condition.text for condition in self.conditions), None)
        self.collect_rows()
        return self.recent.values(self.conditions)

    def new_waits(self) -> tuple[float, ...]:
        """Seconds that it waited for leaders that moved, each since the last call."""
        self.collect_rows()
        self.collect_rows()  # nothing has come since: the last batch is whole
        return self.recent.new_waits()


@contextmanager
def canary(
    cluster: Cluster,
    conditions: Iterable[Condition],
    message: Callable[[str], None],
    at_least: int = 0,
    window_us: int = WINDOW_US,
    to_compare: Sequence[Condition] = (),
) -> Iterator[Canary]:
    """Produce, acks=all, to a topic that is made for it and removed after the block.

    It has two partitions a broker, or `at_least` so many. For the conditions `to_compare` it is
    measured first what is undisturbed.

    Yields what tells the conditions' values, and the waits. Raises KipctlError when it cannot
    begin.
    """
    spec = ProduceSpec(
        cluster.access,
        OWN_TOPIC,
        num_records=RATE * 86_400 * _DAYS,
        throughput=RATE,
        record_size=_RECORD_SIZE,
    )
    partitions = max(at_least, _PARTITIONS_A_BROKER * len(cluster.nodes))
    with own_topic(cluster, partitions, 0, message), OnThisMachine()(spec) as probe:
        probing = Canary(probe, tuple(conditions))
        probe.is_done_by(probe.schedule.start_us + _WARM_UP_US)
        probing.collect_rows()
        probing.recent = RecentLatencies()  # latencies while the brokers warmed up do not count
        probe.is_done_by(now_us() + (UNDISTURBED_US if to_compare else _FIRST_US))
        until = now_us() + WINDOW_US  # without an answer in a window, it is not known
        while None in probing().values() and now_us() < until:
            if probe.is_done_by(now_us() + _FIRST_US // 10):
                break
        probing.undisturbed = _require_known(probing.recent.values(to_compare))
        for condition in to_compare:
            message(_said(condition, probing.undisturbed[condition.text]))
        probing.recent.window_us = window_us
        yield probing


def _require_known(values: Mapping[str, float | None]) -> dict[str, float]:
    """Raises RefusedError for one that is not known."""
    known = {text: seconds for text, seconds in values.items() if seconds is not None}
    if len(known) < len(values):
        raise RefusedError(
            "What latencies are undisturbed is not known: no record of kipctl's own producer was"
            " acknowledged.",
            "Give the guard a limit of its own: --guard 'p99 > 50ms'.",
        )
    return known


def _said(condition: Condition, undisturbed: float) -> str:
    limit = format_value(condition, condition.limit_above(undisturbed))
    return (
        f"Undisturbed, p{condition.percentile:g} is {format_value(condition, undisturbed)}: the"
        f" guard is crossed above {limit}."
    )
