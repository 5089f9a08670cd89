"""What the demo shows: one answer, one table, what it means."""

from collections.abc import Mapping
from typing import Any

from kipctl.counts import counted
from kipctl.next_step import Command, NextStep
from kipctl.report.tables import Column, Paragraph, Table, Tone

Document = Mapping[str, Any]
WAYS = {
    "probe-kip951": "the leader's hint (KIP-951)",
    "probe-refresh": "Metadata at once",
    "probe-baseline": "backoff, then Metadata",
}
HINTED, BASELINE = "probe-kip951", "probe-baseline"
_OWNERS = {
    "the brokers'": ("detect", "not_ready", "acknowledge"),
    "the client's": ("backoff", "metadata", "connect"),
    "in queues behind them": ("queued", "throttled"),
}
"""Whose time each phase of a redirect is."""
_BAR = 24
"""Characters of the longest bar."""


def demo_answer(found: Document) -> tuple[Paragraph, ...]:
    """Whether hints cut the wait for a moved leader, by how much, and what is in doubt."""
    every = [doubt for name in ("fresh", "stale") for doubt in found[name]["doubts"]]
    doubts = {doubt.rpartition(" explain ")[2]: doubt for doubt in every}
    return (
        *(_answer(found[name]) for name in ("fresh", "stale")),
        *(Paragraph(f"In doubt: {doubt}", tone=Tone.WARNING) for doubt in doubts.values()),
    )


def _answer(measured: Document) -> Paragraph:
    one = next(
        one
        for one in measured["comparisons"]
        if (one["without"], one["with"]) == (BASELINE, HINTED)
    )
    stale_ms = measured["stale_metadata_ms"]
    when = f"While Metadata is stale for {stale_ms:g} ms" if stale_ms else "With fresh Metadata"
    if one["different"] is None:
        return Paragraph(f"{when}: {one['verdict']}.", tone=Tone.WARNING)
    waits = f"from {one['without_ms']:.1f} to {one['with_ms']:.1f} ms"
    if not one["different"]:
        return Paragraph(f"{when} hints made no sure difference: {waits}.", tone=Tone.WARNING)
    cut = one["cut_percent"]
    verb = "cut" if cut > 0 else "raised"
    return Paragraph(
        f"{when} hints {verb} what a client waits for a moved leader {waits}"
        f" ({abs(cut):.3g} % {'less' if cut > 0 else 'more'}).",
        tone=Tone.GOOD if cut > 0 else Tone.BAD,
    )


def demo_table(found: Document) -> Table:
    """The wait for a moved leader by way and staleness, with a bar for each."""
    measured = [found["fresh"], found["stale"]]
    longest = max((arm["move_wait_ms"] or 0 for one in measured for arm in one["arms"]), default=0)
    return Table(
        "A client's wait for a moved leader",
        ("Metadata", "Way to the new leader", Column("ms", 1), "", "Moves met", "Failed"),
        tuple(
            (
                f"stale {one['stale_metadata_ms']:g} ms" if one["stale_metadata_ms"] else "fresh",
                WAYS[arm["arm"]],
                arm["move_wait_ms"],
                _bar(arm["move_wait_ms"], longest),
                arm["redirects"]["moves"]["met"],
                arm["records"]["failed"],
            )
            for one in measured
            for arm in one["arms"]
        ),
        (
            f"The median of a run, and of {counted(found['fresh']['runs'], 'run')} the geometric"
            " mean;"
            " moves met of all.",
        ),
    )


def _bar(ms: float | None, longest: float) -> str:
    if not ms or not longest:
        return ""
    eighths = max(1, round(8 * _BAR * ms / longest))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def demo_closing(found: Document, record: str | None) -> tuple[str, ...]:
    """Where the rest of the time went, what follows for the reader, and how to see more."""
    fresh = found["fresh"]
    arms = {arm["arm"]: arm for arm in fresh["arms"]}
    rotations = sum(arm["rotations"] for name in ("fresh", "stale") for arm in found[name]["arms"])
    if record:
        first = Command("runs show", f"{record}-{HINTED}.1")
        kept = NextStep("See more: ", first, "; all of them: ", Command("runs list"), ".")
    else:
        kept = "Keep the runs, for runs show and compare: " + Command("demo --record demo")
    return (
        f"All leaders of {counted(found['partitions'], 'partition')} moved {rotations} times under"
        f" {fresh['throughput']:,} records/s, acks={fresh['acks']}, on brokers of Kafka"
        f" {found['kafka_version']}.",
        *_whose_time(arms[HINTED]["redirects"]["phases_ms"]),
        "Java's clients use hints from 3.7 on; librdkafka waits for its backoff. Which of yours"
        " do: " + Command("tap --listen 127.0.0.1:19092"),
        kept,
    )


def _whose_time(phases: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
    total = sum(phase["sum"] for phase in phases.values())
    if not total:
        return ()
    shares = ", ".join(
        f"{100 * sum(phases[name]['sum'] for name in names) / total:.0f} % {owner}"
        for owner, names in _OWNERS.items()
    )
    return (f"With hints the time of redirected batches was {shares}.",)
