"""The table of the demo: what each way of finding the new leader cost, side by side."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kipctl.report.move_tables import wait_title
from kipctl.report.tables import Cell, Column, Table

Document = Mapping[str, Any]


def arms_table(arms: Sequence[Document], notes: tuple[str, ...]) -> Table:
    """`arms` are the documents of all arms of one acks."""
    rows: tuple[tuple[str, Callable[[Document], Cell]], ...] = (
        ("moved leaders met", lambda arm: arm["redirects"]["moves"]["met"]),
        ("wait for a moved leader, p50 ms", lambda arm: _moved(arm)["p50"]),
        ("  of each run, ms", _waits_by_run),
        ("  p99 ms", lambda arm: _moved(arm)["p99"]),
        *(
            (f"  {wait_title(name)}, moves", partial(_by_wait, name=name))
            for name in arms[0]["redirects"]["moves"]["by_wait"]
        ),
        ("latency p50 ms", lambda arm: arm["latency_ms"]["p50"]),
        ("latency p99 ms", lambda arm: arm["latency_ms"]["p99"]),
        ("latency p99.9 ms", lambda arm: arm["latency_ms"]["p999"]),
        ("p99.9 of each run, ms", _by_run),
        ("batches redirected", lambda arm: arm["redirects"]["batches"]),
        ("  the client's wait, p50 ms", _client_wait),
        ("  of it backoff, p50 ms", lambda arm: _phase(arm, "backoff")["p50"]),
        ("  of it Metadata, p50 ms", lambda arm: _phase(arm, "metadata")["p50"]),
        ("retry to acknowledgement, p50 ms", lambda arm: _phase(arm, "acknowledge")["p50"]),
        *(
            (f"redirected time {owner}, %", partial(_share, owner=owner))
            for owner in arms[0]["redirected_time_percent"]
        ),
        ("hints followed", lambda arm: arm["redirects"]["hints"]["followed"]),
        ("retries to the same leader epoch", lambda arm: arm["redirects"]["same_epoch_retries"]),
        ("Metadata requests", lambda arm: arm["metadata_rpcs"]["total"]),
        ("  of them waited for", lambda arm: arm["metadata_rpcs"]["on_critical_path"]),
        ("records failed", lambda arm: arm["records_failed"]),
    )
    return Table(
        f"acks={arms[0]['acks']}: rotations under load, by leader discovery",
        ("", *(Column(arm["leader_discovery"], digits=2, right=True) for arm in arms)),
        tuple((title, *map(cell, arms)) for title, cell in rows),
        notes,
    )


def _moved(arm: Document) -> Mapping[str, float]:
    return arm["redirects"]["moves"]["wait_ms"]  # type: ignore[no-any-return]


def _by_wait(arm: Document, name: str) -> Cell:
    return arm["redirects"]["moves"]["by_wait"][name]  # type: ignore[no-any-return]


def _waits_by_run(arm: Document) -> Cell:
    return ", ".join("-" if ms is None else f"{ms:,.1f}" for ms in arm["move_wait_ms_by_run"])


def _phase(arm: Document, phase: str) -> Mapping[str, float]:
    return arm["redirects"]["phases_ms"][phase]  # type: ignore[no-any-return]


def _client_wait(arm: Document) -> Cell:
    return arm["redirects"]["client_share_ms"]["p50"]  # type: ignore[no-any-return]


def _share(arm: Document, owner: str) -> Cell:
    return f"{arm['redirected_time_percent'][owner]:.0f}"


def _by_run(arm: Document) -> Cell:
    return ", ".join(f"{p999:,.0f}" for p999 in arm["p999_ms_by_run"])
