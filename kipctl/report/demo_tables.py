"""The table of the demo: one row for each way of finding the new leader."""

from collections.abc import Mapping, Sequence
from typing import Any

from kipctl.report.tables import Column, Table

_BROKER_PHASES = ("detect", "not_ready", "acknowledge")


def arms_table(arms: Sequence[Mapping[str, Any]], notes: tuple[str, ...]) -> Table:
    """`arms` are the documents of all arms of one acks."""
    rows = []
    for arm in arms:
        redirects, latency = arm["redirects"], arm["latency_ms"]
        phases = redirects["phases_ms"]
        total = sum(phase["sum"] for phase in phases.values()) or 1
        brokers = sum(phases[name]["sum"] for name in _BROKER_PHASES)
        by_run = arm["p999_ms_by_run"]
        rows.append(
            (
                arm["leader_discovery"],
                latency["p50"],
                latency["p99"],
                latency["p999"],
                f"{min(by_run):.0f} - {max(by_run):.0f}",
                redirects["batches"],
                redirects["client_share_ms"]["p50"],
                phases["backoff"]["p50"],
                phases["metadata"]["p50"],
                phases["acknowledge"]["p50"],
                100 * brokers / total,
                redirects["hints"]["followed"],
                redirects["same_epoch_retries"],
                arm["metadata_rpcs"]["total"],
                arm["metadata_rpcs"]["on_critical_path"],
            )
        )
    return Table(
        f"acks={arms[0]['acks']}: rotations under load, by leader discovery",
        (
            "discovery",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "p99.9 by run",
            "batches redirected",
            Column("client wait p50 ms", 2),
            Column("backoff p50 ms", 2),
            Column("metadata p50 ms", 2),
            Column("acknowledge p50 ms", 2),
            Column("brokers' share %", 0),
            "hints followed",
            "same epoch again",
            "Metadata requests",
            "waited for",
        ),
        tuple(rows),
        notes,
    )
