"""Moved leaders as they are met, while a client works: each is one, however many batches met it."""

from collections.abc import Iterable

import numpy as np

from kipctl.measure.moves import MOVE_COLUMNS, moves
from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import IntRows

MOVE_ENDS_AFTER_US = 10_000_000
"""So long after the last batch that met it a move is over."""
_ENDED_KEPT_US = 600_000_000
"""Longer than any batch lives: one that meets a move later than OVER_US makes no other."""
_ATTEMPT = COLUMNS["redirects"].index("attempt")
_WAIT = MOVE_COLUMNS.index("wait_us")
_KEY = _WAIT
"""The columns before the wait name the move."""


class LiveMoves:
    """Takes rows of `redirects` as they are written; gives the waits of moves that are over.

    What is kept are the moves of the last minutes. Times are microseconds.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[int, ...], tuple[int, int]] = {}
        """By what names it: the longest wait, and when it was met last."""
        self._ended_us: dict[tuple[int, ...], int] = {}

    def add(self, redirects: IntRows, now_us: int) -> IntRows:
        """Rows of whole batches (`WholeBatches`); returns the waits of moves that are over."""
        for row in moves(redirects).tolist():
            name, wait_us = tuple(row[:_KEY]), row[_WAIT]
            if name not in self._ended_us:
                longest_us, _ = self._open.get(name, (0, 0))
                self._open[name] = max(longest_us, wait_us), now_us
        return self._end(
            name
            for name, (_, last_us) in self._open.items()
            if last_us <= now_us - MOVE_ENDS_AFTER_US
        )

    @property
    def waits(self) -> IntRows:
        """The waits of those that are not over, as long as they are by now."""
        return np.array([wait_us for wait_us, _ in self._open.values()], dtype=np.int64)

    def finish(self) -> IntRows:
        """The waits of those that are left: no more is written."""
        return self._end(self._open)

    def _end(self, names: Iterable[tuple[int, ...]]) -> IntRows:
        ended = {name: self._open.pop(name) for name in list(names)}
        self._ended_us |= {name: last_us for name, (_, last_us) in ended.items()}
        newest_us = max(self._ended_us.values(), default=0)
        self._ended_us = {
            name: last_us
            for name, last_us in self._ended_us.items()
            if last_us > newest_us - _ENDED_KEPT_US
        }
        return np.array([wait_us for wait_us, _ in ended.values()], dtype=np.int64)


class WholeBatches:
    """Rows of `redirects`, given on when all of their batch have come: they are written together,
    but may be read in two halves."""

    def __init__(self) -> None:
        self._held = np.empty((0, len(COLUMNS["redirects"])), dtype=np.int64)

    def add(self, rows: IntRows) -> IntRows:
        """Rows of batches that are whole. The last one is, when nothing has come since."""
        found = np.concatenate([self._held, rows])
        starts = np.flatnonzero(found[:, _ATTEMPT] == 1)
        whole = int(starts[-1]) if len(rows) and len(starts) else len(found) * (not len(rows))
        self._held = found[whole:].copy()
        return found[:whole]
