"""Figures of a run's redirects and Metadata requests, computed from its rows, of any client."""

from typing import Any

import numpy as np

from kipctl.measure.distribution import distribution_of
from kipctl.measure.moves import moves, moves_document
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import LEADER_ERRORS
from kipctl.trace.codes import PHASES, Decision, MetadataCause
from kipctl.trace.columns import REDIRECT, RPC
from kipctl.trace.rows import IntRows


def redirects(rows: IntRows) -> dict[str, Any]:
    """The `redirects` object of `perf produce --output json`, from rows of that dataset.

    Batches (or Fetches) count that met NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH at least once;
    the phases are those of their whole latency. The rows of one are written together, the first
    attempt first: nothing else tells two Fetches from one offset.
    """
    is_leader_error = np.isin(rows[:, REDIRECT["error"]], list(LEADER_ERRORS))
    errors = rows[is_leader_error]
    batch_of_row = np.cumsum(rows[:, REDIRECT["attempt"]] == 1) - 1
    batches = int(batch_of_row[-1]) + 1 if len(rows) else 0
    redirected = np.zeros(batches, dtype=bool)
    redirected[batch_of_row[is_leader_error]] = True
    decisions = {
        decision.name.lower(): int((errors[:, REDIRECT["decision"]] == decision).sum())
        for decision in Decision
        if decision is not Decision.NOT_APPLICABLE
    }
    present = len(errors) - decisions["absent"] - decisions["draft"]

    def spent_ms(*phases: str) -> dict[str, float]:
        """What redirected batches spent in these phases."""
        spent = rows[:, [REDIRECT[f"{phase}_us"] for phase in phases]].sum(axis=1)
        of_batches = np.bincount(batch_of_row, weights=spent, minlength=batches)[redirected]
        spread = distribution_of(of_batches.astype(np.int64))
        return {
            "p50": spread.quantile(0.5) / 1000,
            "p99": spread.quantile(0.99) / 1000,
            "sum": int(of_batches.sum()) / 1000,
        }

    return {
        "batches": int(redirected.sum()),
        "errors": len(errors),
        "appended_then_failed": int((errors[:, REDIRECT["base_offset"]] >= 0).sum()),
        "hints": {"present": present, **decisions},
        "moves": moves_document([moves(rows)]),
        "same_epoch_retries": int(errors[:, REDIRECT["same_epoch_retry"]].sum()),
        "client_share_ms": spent_ms("backoff", "metadata"),
        "phases_ms": {phase: spent_ms(phase) for phase in PHASES},
    }


def metadata_calls(rpcs: IntRows) -> IntRows:
    """The Metadata requests among rows of `rpcs`."""
    found: IntRows = rpcs[rpcs[:, RPC["api_key"]] == ApiKey.METADATA]
    return found


def metadata_rpcs(rows: IntRows) -> dict[str, Any]:
    """The `metadata_rpcs` object, from rows of `rpcs`: bytes are of requests and responses.

    `queued_behind` are those that were sent while the connection had others to answer first, as
    Kafka does in order, and for how long: the head-of-line blocking of KIP-951 ("Motivation").
    """
    calls = metadata_calls(rows)
    behind = distribution_of(calls[calls[:, RPC["queued_behind"]] > 0, RPC["queued_behind_us"]])
    causes = [MetadataCause(int(c)).name.lower() for c in calls[:, RPC["cause"]]]
    return {
        "total": len(calls),
        "on_critical_path": int(calls[:, RPC["critical"]].sum()),
        "bytes": int(calls[:, [RPC["request_bytes"], RPC["response_bytes"]]].sum()),
        "queued_behind": {
            "requests": behind.total,
            "ms": {"p50": behind.quantile(0.5) / 1000, "max": behind.quantile(1) / 1000},
        },
        "by_cause": {cause: causes.count(cause) for cause in sorted(set(causes))},
    }
