"""Every change of the broker that a partition is read from, and why, out of rows of `reads`."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kipctl.protocol.error_codes import error_name
from kipctl.trace.columns import COLUMNS, READ, RPC
from kipctl.trace.rows import IntRows

NAMED = "named by the leader"
LOST = "connection lost"
OTHER = "the leader moved, or the lease was over"


class Flip(NamedTuple):
    """A partition's records came from another broker than before; `gap_us` lies between them."""

    partition: int
    from_broker: int
    to_broker: int
    why: str
    time_us: int
    gap_us: int


class Flips:
    """The flips in rows of `reads`, taken some at a time; `lost` are the Fetches that were lost.

    The reason is what was seen between: the last error, a replica that the leader named, a
    connection that was lost; else its leader moved, or the lease was over.

    Kept are the flips, and of each partition the last row with records and what came after it:
    one row of each error and each replica named.
    """

    def __init__(self, lost: IntRows) -> None:
        self._lost = lost
        self._flips: list[Flip] = []
        self._open = np.empty((0, len(COLUMNS["reads"])), dtype=np.int64)

    @property
    def all(self) -> list[Flip]:
        """In the order of time."""
        return sorted(self._flips, key=lambda flip: flip.time_us)

    def add(self, reads: IntRows) -> None:
        """Take further rows, each partition's in the order of time."""
        rows = np.concatenate([self._open, reads])
        rows = rows[np.lexsort((rows[:, READ["partition"]], rows[:, READ["topic"]]))]
        whose, broker = rows[:, [READ["topic"], READ["partition"]]], rows[:, READ["broker"]]
        has_records = np.flatnonzero(rows[:, READ["records"]] > 0)
        before, after = has_records[:-1], has_records[1:]
        is_flip = (whose[before] == whose[after]).all(axis=1) & (broker[before] != broker[after])
        for first, last in zip(before[is_flip].tolist(), after[is_flip].tolist(), strict=True):
            self._flips.append(self._flip(rows[first : last + 1]))
        self._open = _still_open(rows, has_records)

    def _flip(self, rows: IntRows) -> Flip:
        """From the last row with records of one broker to the first of another."""
        a, between, b = rows[0], rows[1:-1], rows[-1]
        errors = between[between[:, READ["error"]] != 0]
        named = between[between[:, READ["preferred_read_replica"]] == b[READ["broker"]]]
        from_us, to_us = int(a[READ["time_us"]]), int(b[READ["time_us"]])
        if len(errors):
            why = error_name(int(errors[-1][READ["error"]]))
        elif len(named):
            why = NAMED
        elif self._was_lost(int(a[READ["broker"]]), from_us, to_us):
            why = LOST
        else:
            why = OTHER
        return Flip(
            int(a[READ["partition"]]),
            int(a[READ["broker"]]),
            int(b[READ["broker"]]),
            why,
            to_us,
            to_us - from_us,
        )

    def _was_lost(self, broker: int, from_us: int, to_us: int) -> bool:
        """A Fetch to the broker that was sent before `to_us` never came back."""
        sent = self._lost[self._lost[:, RPC["broker"]] == broker, RPC["sent_us"]]
        return bool(((sent >= from_us) & (sent <= to_us)).any())


def _still_open(rows: IntRows, has_records: IntRows) -> IntRows:
    """Of each partition its last row with records, and of those after it the last of a kind."""
    whose = rows[:, [READ["topic"], READ["partition"]]]
    ends = np.flatnonzero((whose[1:] != whose[:-1]).any(axis=1)) + 1
    kept = []
    for begin, end in pairwise((0, *ends.tolist(), len(rows))):
        last = np.searchsorted(has_records, end) - 1
        if last < 0 or has_records[last] < begin:
            continue
        since = rows[has_records[last] : end][::-1]
        kinds = since[:, [READ["records"], READ["error"], READ["preferred_read_replica"]]]
        _, latest = np.unique(kinds, axis=0, return_index=True)
        kept.append(since[np.sort(latest)][::-1])
    return np.concatenate([rows[:0], *kept])
