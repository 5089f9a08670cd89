"""What is drawn while something runs: sparklines, the screens of `kipctl perf` and `tap`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from kipctl.counts import counted
from kipctl.documents.tap import TapClient, TapDocument
from kipctl.load.live import ClientProgress, Interval, RunProgress
from kipctl.report.printable import on_one_line
from kipctl.report.progress_bar import bar, left
from kipctl.report.tap_tables import conditions_in_words
from kipctl.severity import Severity

_LEVELS = "▁▂▃▄▅▆▇█"
_LABEL, _NUMBER, _MOST = 11, 9, 14
_LEAST_WIDTH = 50
_ACTIONS_SHOWN = 4
_APIS_SHOWN = ("Produce", "Fetch", "Metadata")
_LINES_OF_CLIENT, _LINES_BESIDE_CLIENTS = 5, 7


@dataclass(frozen=True, slots=True)
class RunScreen:
    """Draws a run, as wide as the terminal is."""

    run: RunProgress

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        yield from run_lines(self.run, options.max_width)


def run_lines(run: RunProgress, width: int) -> Iterator[Text]:
    """The lines of a run's screen."""
    width = max(width, _LEAST_WIDTH)
    yield _ends(run.title, f"{run.elapsed_s:.0f} s", width)
    yield from _bars(run, width)
    yield Text()
    yield from _sparks(run, width)
    yield Text()
    for name, client in run.clients.items():
        yield _moves(name, client)
        yield labelled("", f"{_refused(client)}; Metadata {sum(client.metadata.values()):,}")
    if run.leaders:
        yield labelled("by broker", _by_broker(run.leaders) + " partitions")
    if run.delivered:
        yield labelled("delivery", _counts(run.delivered), is_bad=bool(run.delivered.get("lost")))
    if run.failed:
        yield labelled("failed", _counts(run.failed), is_bad=True)
    if run.actions:
        yield Text()
    for acted in run.actions[-_ACTIONS_SHOWN:]:
        yield labelled(f"at {acted.at_s:.1f} s", acted.what.rstrip("."), is_bad=acted.failed)


@dataclass(frozen=True, slots=True)
class TapScreen:
    """Draws a tap, from the document that `--output json` prints; `rates` are the requests per
    second of all clients, second by second."""

    document: TapDocument
    rates: Sequence[float]
    rotated: str = ""
    """How many moved leaders were met of those wanted, where the tap itself moves them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = tap_lines(self.document, self.rates, options.max_width, console.height)
        yield next(lines)
        if self.rotated:
            yield labelled("rotating", self.rotated)
        yield from lines


def tap_lines(
    document: TapDocument, rates: Sequence[float], width: int, height: int
) -> Iterator[Text]:
    """The lines of a tap's screen: as many clients as there is room for, the busiest first."""
    width = max(width, _LEAST_WIDTH)
    clients = sorted(document["clients"], key=lambda client: -client["requests"]["per_second"])
    title = f"tap{conditions_in_words(document['conditions'])}: {counted(len(clients), 'client')}"
    yield _ends(title, f"{document['seconds']:.0f} s", width)
    shown = list(rates[-spark_width(width) :]) or [0.0]
    texts = (f"{shown[-1]:,.0f}", f"max {max(shown):,.0f}")
    yield spark_line("requests/s", shown, max(shown), texts, width)
    if leaders := document["leaders"]:
        yield labelled("by broker", _by_broker(leaders) + " partitions")
    lines_of_client = _LINES_OF_CLIENT + any(client["findings"] for client in clients)
    room = max(1, (height - _LINES_BESIDE_CLIENTS) // lines_of_client)
    for client in clients[:room]:
        yield Text()
        yield from _client_lines(client, width)
    if len(clients) > room:
        yield Text(f"And {counted(len(clients) - room, 'client')} with fewer requests.", "dim")


def _client_lines(client: TapClient, width: int) -> Iterator[Text]:
    names = (client["client_id"], client["software_name"], client["software_version"])
    requests, connections = client["requests"], client["connections"]
    yield _ends(
        " ".join(filter(None, names)) or "-",
        f"{connections['open']} connections, {requests['per_second']:,.0f} requests/s",
        width,
    )
    by_api = requests["by_api"]
    yield labelled("requests", ", ".join(f"{api} {by_api.get(api, 0):,}" for api in _APIS_SHOWN))
    waits = client["moves"]["wait_ms"]
    so_far = ClientProgress(
        client["moves"]["met"],
        (round(1000 * waits["p50"]), round(1000 * waits["p99"]), round(1000 * waits["max"])),
        client["refused_by_hint"],
    )
    yield _moves("moves", so_far)
    yield labelled("refusals", _refused(so_far))
    if findings := client["findings"]:
        told = ", ".join(f"{finding['id']} {finding['times']:,}" for finding in findings)
        yield labelled("findings", told, is_bad=findings[0]["severity"] != Severity.NOTE)


def labelled(label: str, text: str, is_bad: bool = False) -> Text:
    """A line that says one thing."""
    style = "bold red" if is_bad else ""
    line = Text.assemble((f"{label:{_LABEL}}  ", "dim"), (on_one_line(text), style))
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
    first = on_one_line(first)[: width - len(last) - 2]
    return Text.assemble((first, "bold"), " " * (width - len(first) - len(last)), last)


def _bars(run: RunProgress, width: int) -> Iterator[Text]:
    if run.share is None:
        return
    left_s = run.elapsed_s * (1 - run.share) / run.share if run.share and run.elapsed_s else None
    label = f"  {100 * run.share:3.0f} %{left(left_s)}"
    yield bar(run.share, width - len(label)) + label


def _sparks(run: RunProgress, width: int) -> Iterator[Text]:
    shown = run.intervals[-spark_width(width) :]
    if not shown:
        yield Text("The first records are on their way.", "dim")
        return
    last = shown[-1]
    rates = [interval.records_per_s for interval in shown]
    asked = f"of {run.rate:,.0f}" if run.rate else f"max {max(rates):,.0f}"
    most = max(*rates, run.rate or 0.0, 1.0)
    now = f"{last.records_per_s:,.0f}"
    yield spark_line("records/s", rates, most, (now, asked), width)
    for name in ("p50_us", "p99_us"):
        times = [getattr(interval, name) for interval in shown]
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


def _moves(label: str, client: ClientProgress) -> Text:
    waits = zip(("p50", "p99", "most"), client.waits_us, strict=True)
    waited = ", ".join(f"{which} {milliseconds(time_us)}" for which, time_us in waits)
    moves = f"{client.moves:,} moved leaders met"
    return labelled(label, f"{moves}, waits {waited}" if client.moves else moves)


def _refused(client: ClientProgress) -> str:
    refused = f"refused {sum(client.refused.values()):,} times"
    return refused + (f", hints: {_counts(client.refused)}" if client.refused else "")


def _by_broker(partitions: Mapping[int, int] | Mapping[str, int]) -> str:
    return ", ".join(f"{broker}: {count:,}" for broker, count in sorted(partitions.items()))


def _counts(counts: Mapping[str, int]) -> str:
    """`followed 62, known 3`, the most first."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    words = ((name.replace("_", " ") if name.islower() else name, n) for name, n in ordered)
    return ", ".join(f"{name} {count:,}" for name, count in words)
