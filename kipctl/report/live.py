"""What is drawn while something runs: sparklines, the screens of `kipctl perf` and `tap`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from kipctl.report.printable import printable
from kipctl.report.progress_bar import bar, left
from kipctl.runs.live import ClientSoFar, Interval, RunSoFar

_LEVELS = "▁▂▃▄▅▆▇█"
_LABEL, _NUMBER, _MOST = 11, 9, 14
_LEAST_WIDTH = 50
_ACTIONS_SHOWN = 4


@dataclass(frozen=True, slots=True)
class RunScreen:
    """Draws a run, as wide as the terminal is."""

    run: RunSoFar

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        yield from run_lines(self.run, options.max_width)


def run_lines(run: RunSoFar, width: int) -> Iterator[Text]:
    """The lines of a run's screen."""
    width = max(width, _LEAST_WIDTH)
    yield _ends(run.title, f"{run.elapsed_s:.0f} s", width)
    yield from _bars(run, width)
    yield Text()
    yield from _sparks(run, width)
    yield Text()
    for name, client in run.clients.items():
        yield from _met(name, client)
    if run.leaders:
        brokers = ", ".join(f"{broker}: {count:,}" for broker, count in sorted(run.leaders.items()))
        yield fact("by broker", f"{brokers} partitions")
    if run.delivered:
        yield fact("delivery", _counts(run.delivered), is_bad=bool(run.delivered.get("lost")))
    if run.failed:
        yield fact("failed", _counts(run.failed), is_bad=True)
    if run.actions:
        yield Text()
    for acted in run.actions[-_ACTIONS_SHOWN:]:
        yield fact(f"at {acted.at_s:.1f} s", acted.what.rstrip("."), is_bad=acted.failed)


def fact(label: str, text: str, is_bad: bool = False) -> Text:
    """A line that says one thing."""
    style = "bold red" if is_bad else ""
    line = Text.assemble((f"{label:{_LABEL}}  ", "dim"), (printable(text), style))
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def spark_line(
    label: str, values: Sequence[float | None], most: float, texts: tuple[str, str], width: int
) -> Text:
    """The last values as bars up to `most`, between texts that say the last and the most."""
    shown = values[-spark_width(width) :]
    drawn = "".join(
        " " if value is None else _LEVELS[round(value / most * (len(_LEVELS) - 1)) if most else 0]
        for value in shown
    )
    return Text.assemble(
        (f"{label:{_LABEL}}  ", "dim"),
        (f"{texts[0]:>{_NUMBER}}  ", "bold"),
        (f"{drawn:{spark_width(width)}}  ", "cyan"),
        f"{texts[1]:>{_MOST}}",
    )


def spark_width(width: int) -> int:
    """How many values a line so wide has room for."""
    return width - _LABEL - _NUMBER - _MOST - 6


def milliseconds(time_us: float | None) -> str:
    """With three digits or so; - for none."""
    if time_us is None:
        return "-"
    ms = time_us / 1000
    return f"{ms:,.{2 if ms < 10 else 1 if ms < 100 else 0}f} ms"


def _ends(first: str, last: str, width: int) -> Text:
    first = printable(first)[: width - len(last) - 2]
    return Text.assemble((first, "bold"), " " * (width - len(first) - len(last)), last)


def _bars(run: RunSoFar, width: int) -> Iterator[Text]:
    if run.share is None:
        return
    left_s = run.elapsed_s * (1 - run.share) / run.share if run.share and run.elapsed_s else None
    said = f"  {100 * run.share:3.0f} %{left(left_s)}"
    yield bar(run.share, width - len(said)) + said


def _sparks(run: RunSoFar, width: int) -> Iterator[Text]:
    shown = run.intervals[-spark_width(width) :]
    if not shown:
        yield Text("The first records are on their way.", "dim")
        return
    last = shown[-1]
    rates = [one.records_per_s for one in shown]
    asked = f"of {run.rate:,.0f}" if run.rate else f"max {max(rates):,.0f}"
    most = max(*rates, run.rate or 0.0, 1.0)
    now = f"{last.records_per_s:,.0f}"
    yield spark_line("records/s", rates, most, (now, asked), width)
    for name in ("p50_us", "p99_us"):
        times = [getattr(one, name) for one in shown]
        highest = max((time for time in times if time is not None), default=None)
        texts = (milliseconds(times[-1]), f"max {milliseconds(highest)}")
        label = f"{run.timed} {name[:3]}"
        yield spark_line(label, times, highest or 0, texts, width)
    if run.actions:
        yield Text.assemble(
            (f"{'actions':{_LABEL}}  ", "dim"),
            (f"{len(run.actions):>{_NUMBER}}  ", "bold"),
            ("".join(_marks(shown, [acted.at_s for acted in run.actions])), "yellow"),
        )


def _marks(shown: Sequence[Interval], moments_s: Sequence[float]) -> Iterator[str]:
    """A mark under each interval in which something happened."""
    since_s = 2 * shown[0].until_s - shown[min(1, len(shown) - 1)].until_s
    for interval in shown:
        yield "▲" if any(since_s < at_s <= interval.until_s for at_s in moments_s) else " "
        since_s = interval.until_s


def _met(name: str, client: ClientSoFar) -> Iterator[Text]:
    waits = zip(("p50", "p99", "most"), client.waits_us, strict=True)
    waited = ", ".join(f"{which} {milliseconds(time_us)}" for which, time_us in waits)
    moves = f"{client.moves:,} moved leaders met"
    yield fact(name, f"{moves}, waits {waited}" if client.moves else moves)
    refused = f"refused {sum(client.refused.values()):,} times"
    if client.refused:
        refused += f", hints: {_counts(client.refused)}"
    yield fact("", f"{refused}; {sum(client.metadata.values()):,} Metadata requests")


def _counts(counts: Mapping[str, int]) -> str:
    """`followed 62, known 3`, the most first."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    words = ((name.replace("_", " ") if name.islower() else name, n) for name, n in ordered)
    return ", ".join(f"{name} {count:,}" for name, count in words)
