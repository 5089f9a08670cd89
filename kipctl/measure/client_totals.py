"""What one client met on its way: leaders that had moved, and its Metadata requests.

Rows are counted as they are written: the same figures, by the same code, are on the screen of a
run, in its metrics, and in its summary.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from kipctl.documents.runs import MetadataRpcs, Moves, Phases, PhaseTimes, Redirects
from kipctl.measure.distribution import Distribution, distribution, distribution_of
from kipctl.measure.moves import MOVE_COLUMNS, moves, waits_document
from kipctl.measure.time_histogram import TimeHistogram
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import LEADER_ERRORS
from kipctl.trace.codes import PHASES, Decision, MetadataCause
from kipctl.trace.columns import COLUMNS, REDIRECT, RPC
from kipctl.trace.rows import IntRows

MOVE_ENDS_AFTER_US = 10_000_000
"""So long after the last batch that met it a move is over."""
_ENDED_KEPT_US = 600_000_000
"""Longer than any batch lives: one that meets a move later than MOVE_ENDS_AFTER_US makes no
other."""
_WAIT, _NOT_READY = MOVE_COLUMNS.index("wait_us"), MOVE_COLUMNS.index("not_ready")
_KEY = _WAIT
"""The columns before the wait name the move."""
_NO_REDIRECTS = np.empty((0, len(COLUMNS["redirects"])), dtype=np.int64)


class ClientTotals:
    """Takes rows of `redirects` and `rpcs` of one client.

    Batches, or Fetches, count that met NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH at least once;
    the phases are those of their whole latency. The rows of one are written together, the first
    attempt first: nothing else tells two Fetches from one offset. Times are kept to three digits,
    which bounds what is kept of a run of days, or are `exact`.
    """

    def __init__(self, *, exact: bool = False) -> None:
        self.refused: Counter[str] = Counter()
        """Answers that a broker does not lead, by what became of the hint (`Decision`)."""
        self.redirected = 0
        """Batches, or Fetches, that were refused so at least once."""
        self.appended_then_failed = self.same_epoch_retries = 0
        self.phases = {phase: TimeHistogram(exact) for phase in PHASES}
        self.client_share = TimeHistogram(exact)
        self.waits = TimeHistogram(exact)
        """Of moved leaders that are over."""
        self.metadata: Counter[str] = Counter()
        """Metadata requests by their cause."""
        self.metadata_bytes = self.metadata_waited_for = 0
        self.queued_behind = TimeHistogram(exact)
        self._batches, self._moves = WholeBatches(), LiveMoves()

    def add(self, redirects: IntRows, rpcs: IntRows, now_us: int) -> None:
        """Rows that were written since the last call."""
        self.add_rpcs(rpcs)
        self.add_redirects(redirects, now_us)

    def add_redirects(self, redirects: IntRows, now_us: int = 0) -> None:
        """The same, of that dataset; without the time no move is over before all are."""
        rows = self._batches.add(redirects)
        is_refused = np.isin(rows[:, REDIRECT["error"]], sorted(LEADER_ERRORS))
        refused = rows[is_refused]
        self.refused.update(
            Decision(code).name.lower() for code in refused[:, REDIRECT["decision"]].tolist()
        )
        self.appended_then_failed += int((refused[:, REDIRECT["base_offset"]] >= 0).sum())
        self.same_epoch_retries += int(refused[:, REDIRECT["same_epoch_retry"]].sum())
        _, of_batch = np.unique(np.cumsum(rows[:, REDIRECT["attempt"]] == 1), return_inverse=True)
        redirected = np.bincount(of_batch, weights=is_refused) > 0
        self.redirected += int(redirected.sum())

        def spent_us(*phases: str) -> IntRows:
            us = rows[:, [REDIRECT[f"{phase}_us"] for phase in phases]].sum(axis=1)
            return np.bincount(of_batch, weights=us)[redirected].astype(np.int64)

        for phase, times in self.phases.items():
            times.add(spent_us(phase))
        self.client_share.add(spent_us("backoff", "metadata"))
        self.waits.add(self._moves.add(rows, now_us))

    def add_rpcs(self, rpcs: IntRows) -> None:
        """The same, of that dataset: bytes are of requests and responses."""
        calls = rpcs[rpcs[:, RPC["api_key"]] == ApiKey.METADATA]
        self.metadata.update(
            MetadataCause(cause).name.lower() for cause in calls[:, RPC["cause"]].tolist()
        )
        self.metadata_bytes += int(calls[:, [RPC["request_bytes"], RPC["response_bytes"]]].sum())
        self.metadata_waited_for += int(calls[:, RPC["critical"]].sum())
        behind = calls[:, RPC["queued_behind"]] > 0
        self.queued_behind.add(calls[behind, RPC["queued_behind_us"]])

    def finish(self, now_us: int = 0) -> "ClientTotals":
        """No more is written."""
        self.add_redirects(_NO_REDIRECTS, now_us)
        self.waits.add(self._moves.finish())
        return self

    @property
    def waits_so_far(self) -> Distribution:
        """Of all moved leaders, those too that may be met again."""
        over, still = self.waits.distribution, distribution_of(self._moves.waits)
        return distribution([(over.values, over.counts), (still.values, still.counts)])

    @property
    def moves(self) -> Moves:
        """The `moves` object of JSON, of those that are over."""
        return waits_document(self.waits.distribution, self._moves.not_ready)

    @property
    def redirects(self) -> Redirects:
        """The `redirects` object of JSON."""
        hints = {
            decision.name.lower(): self.refused[decision.name.lower()]
            for decision in Decision
            if decision is not Decision.NOT_APPLICABLE
        }
        errors = self.refused.total()
        return {
            "batches": self.redirected,
            "errors": errors,
            "appended_then_failed": self.appended_then_failed,
            "hints": {"present": errors - hints["absent"] - hints["draft"], **hints},
            "moves": self.moves,
            "same_epoch_retries": self.same_epoch_retries,
            "client_share_ms": _spent_ms(self.client_share),
            "phases_ms": Phases(**{name: _spent_ms(times) for name, times in self.phases.items()}),  # type: ignore[typeddict-item]
        }

    @property
    def metadata_rpcs(self) -> MetadataRpcs:
        """The `metadata_rpcs` object of JSON.

        `queued_behind` are those that were sent while the connection had others to answer first, as
        Kafka does in order, and for how long: the head-of-line blocking of KIP-951 ("Motivation").
        """
        behind = self.queued_behind.distribution
        return {
            "total": self.metadata.total(),
            "on_critical_path": self.metadata_waited_for,
            "bytes": self.metadata_bytes,
            "queued_behind": {
                "requests": behind.total,
                "wait_ms": {"p50": behind.quantile(0.5) / 1000, "max": behind.quantile(1) / 1000},
            },
            "by_cause": dict(sorted(self.metadata.items())),
        }


def _spent_ms(times: TimeHistogram) -> PhaseTimes:
    spread = times.distribution
    return {
        "p50": spread.quantile(0.5) / 1000,
        "p99": spread.quantile(0.99) / 1000,
        "sum": times.sum_us / 1000,
    }


def met_in(redirects: IntRows, rpcs: IntRows | None = None) -> ClientTotals:
    """What a client met in all of these rows, exact."""
    met = ClientTotals(exact=True)
    met.add_redirects(redirects)
    if rpcs is not None:
        met.add_rpcs(rpcs)
    return met.finish()


class LiveMoves:
    """Takes rows of `redirects` as they are written; gives the waits of moves that are over: each
    is one, however many batches met it.

    What is kept are the moves of the last minutes. Times are microseconds.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[int, ...], tuple[int, int, int]] = {}
        """By what names it: the longest wait, refusals by a leader that was not ready, and when it
        was met last."""
        self._ended_us: dict[tuple[int, ...], int] = {}
        self.not_ready = 0
        """Moves that are over, whose new leader refused at first."""

    def add(self, redirects: IntRows, now_us: int) -> IntRows:
        """Rows of whole batches (`WholeBatches`); returns the waits of moves that are over."""
        for row in moves(redirects).tolist():
            name = tuple(row[:_KEY])
            if name not in self._ended_us:
                longest_us, not_ready, _ = self._open.get(name, (0, 0, 0))
                waited_us = max(longest_us, row[_WAIT])
                self._open[name] = waited_us, not_ready + row[_NOT_READY], now_us
        return self._end(
            name
            for name, (*_, last_us) in self._open.items()
            if last_us <= now_us - MOVE_ENDS_AFTER_US
        )

    @property
    def waits(self) -> IntRows:
        """The waits of those that are not over, as long as they are by now."""
        return np.array([wait_us for wait_us, *_ in self._open.values()], dtype=np.int64)

    def finish(self) -> IntRows:
        """The waits of those that are left: no more is written."""
        return self._end(self._open)

    def _end(self, names: Iterable[tuple[int, ...]]) -> IntRows:
        ended = {name: self._open.pop(name) for name in list(names)}
        self.not_ready += sum(not_ready > 0 for _, not_ready, _ in ended.values())
        self._ended_us |= {name: last_us for name, (*_, last_us) in ended.items()}
        newest_us = max(self._ended_us.values(), default=0)
        self._ended_us = {
            name: last_us
            for name, last_us in self._ended_us.items()
            if last_us > newest_us - _ENDED_KEPT_US
        }
        return np.array([wait_us for wait_us, *_ in ended.values()], dtype=np.int64)


class WholeBatches:
    """Rows of `redirects`, given on when all of their batch have come: they are written together,
    but may be read in two halves."""

    def __init__(self) -> None:
        self._held = _NO_REDIRECTS

    def add(self, rows: IntRows) -> IntRows:
        """Rows of batches that are whole. The last one is, when nothing has come since."""
        attempts = np.concatenate([self._held, rows])
        starts = np.flatnonzero(attempts[:, REDIRECT["attempt"]] == 1)
        whole = int(starts[-1]) if len(rows) and len(starts) else len(attempts) * (not len(rows))
        self._held = attempts[whole:].copy()
        return attempts[:whole]
