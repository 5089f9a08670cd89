"""What the demo shows: one answer, one table, what it means."""

from collections.abc import Mapping

from kipctl.counts import counted
from kipctl.documents.experiments import DemoDocument, RedirectMeasured
from kipctl.documents.runs import PhaseTimes
from kipctl.next_step import Command, NextStep
from kipctl.report.perf_tables import phases_of
from kipctl.report.tables import Column, Paragraph, Table, Tone

WAYS = {
    "probe-kip951": "the hint (KIP-951)",
    "probe-refresh": "Metadata at once",
    "probe-baseline": "backoff, then Metadata",
}
HINTED, BASELINE = "probe-kip951", "probe-baseline"
_OWNERS = {
    "brokers": ("detect", "not_ready", "acknowledge"),
    "client": ("backoff", "metadata", "connect"),
    "queues": ("queued", "throttled"),
}
"""Whose time each phase of a redirect is."""
_BAR = 14
"""Characters of the longest bar: with it the table is 80 wide, as a terminal is at least."""


def demo_answer(document: DemoDocument) -> tuple[Paragraph, ...]:
    """Whether hints cut the wait for a moved leader, by how much, and what is in doubt."""
    every = (*document["fresh"]["doubts"], *document["stale"]["doubts"])
    doubts = {doubt.rpartition(" explain ")[2]: doubt for doubt in every}
    return (
        _answer(document["fresh"]),
        _answer(document["stale"]),
        *(Paragraph(f"In doubt: {doubt}", tone=Tone.WARNING) for doubt in doubts.values()),
    )


def _answer(measured: RedirectMeasured) -> Paragraph:
    comparison = next(
        comparison
        for comparison in measured["comparisons"]
        if (comparison["without"], comparison["with"]) == (BASELINE, HINTED)
    )
    if stale_ms := measured["stale_metadata_ms"]:
        hints, wait = f"With Metadata {stale_ms:g} ms stale they", "it"
    else:
        hints, wait = "Hints", "the wait for a moved leader"
    if comparison["different"] is None:
        return Paragraph(f"{hints} cut {wait}? It {comparison['verdict']}.", tone=Tone.WARNING)
    waits = f"from {comparison['without_ms']:.1f} to {comparison['with_ms']:.1f} ms"
    if not comparison["different"]:
        return Paragraph(f"{hints} made no sure difference: {waits}.", tone=Tone.WARNING)
    cut = comparison["cut_percent"] or 0.0
    verb = "cut" if cut > 0 else "raised"
    return Paragraph(
        f"{hints} {verb} {wait} {waits} ({abs(cut):.3g} % {'less' if cut > 0 else 'more'}).",
        tone=Tone.GOOD if cut > 0 else Tone.BAD,
    )


def demo_table(document: DemoDocument) -> Table:
    """The wait for a moved leader by way and staleness, with a bar for each."""
    measured = [document["fresh"], document["stale"]]
    arms = [(result["stale_metadata_ms"], arm) for result in measured for arm in result["arms"]]
    longest = max((arm["move_wait_ms"] or 0 for _, arm in arms), default=0)
    return Table(
        "A client's wait for a moved leader",
        ("Metadata", "Way to the new leader", Column("ms", 1), "", "Moves met", "Failed"),
        tuple(
            (
                f"stale {stale_ms:g} ms" if stale_ms else "fresh",
                WAYS[arm["arm"]],
                arm["move_wait_ms"],
                _bar(arm["move_wait_ms"], longest),
                arm["redirects"]["moves"]["met"],
                arm["records"]["failed"],
            )
            for stale_ms, arm in arms
        ),
        (
            f"The median of a run, and of {counted(document['fresh']['run_count'], 'run')} the"
            " geometric mean; moves met of all.",
        ),
        "arms",
    )


def _bar(ms: float | None, longest: float) -> str:
    if not ms or not longest:
        return ""
    eighths = max(1, round(8 * _BAR * ms / longest))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def demo_closing(document: DemoDocument, record: str | None) -> tuple[str, ...]:
    """Where the rest of the time went, what follows for the reader, and how to see more."""
    fresh = document["fresh"]
    arms = {arm["arm"]: arm for arm in fresh["arms"]}
    rotations = sum(arm["rotations"] for arm in (*fresh["arms"], *document["stale"]["arms"]))
    if record:
        first = Command("runs show", f"{record}-{HINTED}.1")
        kept = NextStep("See more: ", first, "; all of them: ", Command("runs list"), ".")
    else:
        kept = "Keep the runs, for runs show and compare: " + Command("demo --record demo")
    return (
        f"{counted(document['partitions'], 'leader')} moved {rotations} times under"
        f" {fresh['throughput']:,} records/s, acks={fresh['acks']}, on Kafka"
        f" {document['kafka_version']}.",
        *_whose_time(phases_of(arms[HINTED]["redirects"])),
        "Java's clients use hints from 3.7 on; librdkafka waits for its backoff.",
        "Which of yours do: " + Command("tap --listen 127.0.0.1:19092 --rotate TOPIC"),
        kept,
    )


def _whose_time(phases: Mapping[str, PhaseTimes]) -> tuple[str, ...]:
    total = sum(phase["sum"] for phase in phases.values())
    if not total:
        return ()
    shares = ", ".join(
        f"{owner} {100 * sum(phases[name]['sum'] for name in names) / total:.0f} %"
        for owner, names in _OWNERS.items()
    )
    return (f"Time of redirected batches, with hints: {shares}.",)
