"""How times are spread over runs: the waits of moved leaders, and latencies; and counted bars."""

from collections.abc import Sequence
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kipctl.counts import counted
from kipctl.documents.pages import Row, Rows, RunPictures
from kipctl.report.html.answer import client
from kipctl.report.html.svg import DASHES, SERIES, Picture, picture, plain_axes, short
from kipctl.report.html.timeline import log_limits, plain_log
from kipctl.report.html.words import milliseconds
from kipctl.trace.codes import PHASES

MOST_LINES = 30
"""Runs whose distributions are drawn."""
MOST_ARMS = 12
_MOST_EDGES = 120
MOST_BARS = 24


def waits_picture(document: RunPictures) -> Picture | None:
    """The share of moved leaders that made a client wait up to so long, by arm; None without."""
    rows = document["waits"]
    if not rows:
        return None
    met = sum(count for row in rows for _, count in row["bins"])
    says = (
        f"The cumulative share of {counted(met, 'moved leader')} by how long each made the client "
        f"wait, on a logarithmic axis; {_line_words(rows)}"
    )
    return _curves("waits", "Waits per moved leader", says, rows, slower=False)


def latency_picture(document: RunPictures) -> Picture | None:
    """The share of records that took longer, on two logarithmic axes; None without records."""
    rows = document["latencies"]
    if not rows:
        return None
    records = sum(count for row in rows for _, count in row["bins"])
    says = (
        f"The share of {counted(records, 'record')} that took longer than so many milliseconds, "
        f"on logarithmic axes; {_line_words(rows)}"
    )
    return _curves("latency", "Latency of records", says, rows, slower=True)


def metadata_picture(document: RunPictures) -> Picture | None:
    """Metadata requests by cause and arm, the mean of an arm's runs; None without any."""
    of_arm: dict[str, set[str]] = {}
    for run in document["runs"]:
        of_arm.setdefault(run["arm"], set()).add(run["run"])
    sums: dict[tuple[str, str], int] = {}
    rows: Rows = document["analysis"]["metadata"]
    for row in rows:
        of_arm.setdefault(row["arm"], set()).add(row["run"])  # a tap's arms are its clients
        key = (row["cause"] or "not known", row["arm"])
        sums[key] = sums.get(key, 0) + row["requests"]
    if not sums:
        return None
    has_arms = len({arm for _, arm in sums}) > 1
    arms = list(of_arm)
    bars = [
        (
            cause.replace("_", " ") + (f", {short(arm, 14)}" if has_arms else ""),
            sums[cause, arm] / len(of_arm[arm]),
            SERIES[arms.index(arm) % len(SERIES)],
        )
        for cause, arm in sorted(sums)
    ]
    says = "Metadata requests a run by what made the client send them"
    return bars_picture("metadata", "Metadata requests by cause", says, bars, "requests a run")


def racks_picture(document: RunPictures) -> Picture | None:
    """Bytes read by rack of the client and of the broker; None where no rack is known."""
    sums: dict[tuple[str, str, str], int] = {}
    rows: Rows = document["analysis"]["reads"]
    for row in rows:
        key = (row["client_rack"] or "?", row["broker_rack"] or "?", row["role"])
        sums[key] = sums.get(key, 0) + row["bytes"]
    if all("?" in key for key in sums):
        return None
    return rack_bars("racks", [(*key, size) for key, size in sorted(sums.items())])


def rack_bars(name: str, read: Sequence[tuple[str, str, str, int]]) -> Picture:
    """Bytes read by rack of the client, rack of the broker, and what else is said of these."""
    bars = [
        (
            f"{short(client, 12)} from {short(broker, 12)}{', ' if role else ''}{role}",
            size / 1e6,
            SERIES[0] if client == broker else SERIES[1],
        )
        for client, broker, role, size in read
    ]
    says = "Megabytes that clients of a rack read from brokers of a rack"
    return bars_picture(name, "Bytes read, by rack", says, bars, "MB")


def _line_words(rows: Rows) -> str:
    labels = dict.fromkeys(client(row, rows) for row in rows)
    arms = f", and a style of line for each of {', '.join(labels)}" if len(labels) > 1 else ""
    said = f"a thin line for each run{arms}."
    if len(rows) > MOST_LINES:
        said += f" {len(rows) - MOST_LINES:,} further lines are not drawn."
    if len(labels) > MOST_ARMS:
        said += f" Of {len(labels)} arms {MOST_ARMS} are named beside it."
    return said


def _curves(name: str, title: str, says: str, rows: Rows, *, slower: bool) -> Picture:
    labels = list(dict.fromkeys(client(row, rows) for row in rows))

    def draw(figure: Figure, is_narrow: bool) -> None:
        axes = figure.subplots()
        plain_axes(axes)
        edges_ms: list[float] = []
        lowest = 1.0
        named = set()
        for row in rows[:MOST_LINES]:
            x, upto = _summed(row["bins"])
            if slower:
                y = [1 - count / upto[-1] for count in upto[:-1]]
                lowest = min([lowest, *y])
                y = [1.0, *y, y[-1] if y else 1.0]
                x = [x[0], *x]
            else:
                y = [0.0, *(100 * count / upto[-1] for count in upto)]
                x = [x[0], *x]
            edges_ms += x
            label = client(row, rows)
            at = labels.index(label)
            axes.step(
                x,
                y,
                where="post",
                color=SERIES[at % len(SERIES)],
                linestyle=DASHES[at % len(DASHES)],
                linewidth=1.3,
                label=short(label) if label not in named and at < MOST_ARMS else None,
            )
            named.add(label)
        axes.set_xscale("log")
        axes.set_xlim(*log_limits(edges_ms))
        plain_log(axes.xaxis)
        axes.set_xlabel("milliseconds")
        if slower:
            axes.set_yscale("log")
            axes.set_ylim(log_limits([lowest, 1.0])[0], 1.3)
            plain_log(axes.yaxis)
            axes.set_ylabel("share of records that took longer")
        else:
            axes.set_ylim(0, 102)
            axes.set_ylabel("% of moved leaders")
        figure.legend(loc="outside upper left", ncols=2 if is_narrow else 4, handlelength=3)

    return picture(name, title, says, draw, (330, 280))


def _summed(bins: Sequence[tuple[float, int]]) -> tuple[list[float], list[int]]:
    """Edges in milliseconds, and how many took up to that; of many edges each so manieth."""
    summed = [
        (upto_us / 1000, count)
        for (upto_us, _), count in zip(bins, accumulate(n for _, n in bins), strict=True)
    ]
    step = -(-len(summed) // _MOST_EDGES)
    kept = summed[::step] if (len(summed) - 1) % step == 0 else [*summed[::step], summed[-1]]
    return [at for at, _ in kept], [count for _, count in kept]


Bars = Sequence[tuple[str, float, str]]
"""A label, how much, its colour."""


def _bar_words(bars: Bars, unit: str) -> str:
    shown = "; ".join(f"{label} {_number(value)}{unit and ' '}{unit}" for label, value, _ in bars)
    if len(shown) > 600:
        shown = f"{shown[:600].rpartition('; ')[0]}; more in the table"
    left_out = len(bars) - MOST_BARS
    return shown + (f". {left_out:,} bars are left out." if left_out > 0 else ".")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def bars_picture(name: str, title: str, says: str, bars: Bars, unit: str) -> Picture:
    """A bar for each, with its number; `says` is what they are, and is told with the numbers."""
    shown = bars[:MOST_BARS]

    def draw(figure: Figure, is_narrow: bool) -> None:
        axes: Axes = figure.subplots()
        plain_axes(axes)
        axes.barh(
            range(len(shown)),
            [value for _, value, _ in shown],
            height=0.7,
            color=[colour for *_, colour in shown],
            alpha=0.75,
        )
        most = max(value for _, value, _ in shown) or 1
        for at, (_, value, _) in enumerate(shown):
            axes.text(value + most * 0.015, at, _number(value), va="center")
        axes.set_yticks(range(len(shown)), [short(label, 32) for label, *_ in shown])
        axes.set_xlim(0, most * (1.3 if is_narrow else 1.12))
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlabel(unit)
        axes.grid(visible=False, axis="y")
        axes.locator_params(axis="x", nbins=4 if is_narrow else 8)

    height = 26 * len(shown) + 50
    told = f"{says}: {_bar_words(bars, 'MB' if unit == 'MB' else '')}"
    return picture(name, title, told, draw, (height, height))


def steps(batch: Row) -> list[tuple[str, int, int]]:
    """What the time of a redirected batch was spent on, one after the other: a phase, when it began
    after the intended send time, and how long it took (microseconds).

    The phases are those of each failed attempt; together they are the batch's latency. Before the
    first attempt a batch is queued; before others, and before its success, it is queued after it
    waited for all else. Where it is not known when the batch was to be sent, all that belongs to
    the first attempt was before that.
    """
    waited = ("backoff", "metadata", "connect", "throttled")
    spans = []
    at = 0
    for number, attempt in enumerate(batch["failed_attempts"], 1):
        took_us = {phase: attempt[f"{phase}_us"] for phase in PHASES}
        before_us = took_us["queued"] if number == 1 else 0
        if number == 1 and (intended_us := batch.get("intended_us")) is not None:
            sent_us = attempt["error_us"] - took_us["detect"] - took_us["not_ready"]
            before_us = min(before_us, max(0, sent_us - intended_us))
        spent = [("queued", before_us)]
        spent += ((phase, took_us[phase]) for phase in ("detect", "not_ready", *waited))
        spent += [
            ("queued again", took_us["queued"] - before_us),
            ("acknowledge", took_us["acknowledge"]),
        ]
        for phase, us in spent:
            if us:
                spans.append((f"{phase.replace('_', ' ')} {number}", at, us))
                at += us
    return spans


MOST_STEPS = 16


def waterfall_picture(batch: Row, number: int) -> Picture:
    """The phases of a redirected batch or Fetch, one under the other."""
    spans = steps(batch)
    shown = spans[:MOST_STEPS]
    says = (
        f"{batch_words(batch)} Its time: "
        + ", ".join(f"{phase} {milliseconds(took)}" for phase, _, took in shown)
        + (f", and {len(spans) - len(shown):,} more steps." if len(spans) > len(shown) else ".")
    )

    def draw(figure: Figure, is_narrow: bool) -> None:
        axes = figure.subplots()
        plain_axes(axes)
        begins = [at / 1000 for _, at, _ in shown]
        axes.barh(
            range(len(shown)),
            [took / 1000 for *_, took in shown],
            left=begins,
            height=0.7,
            color=SERIES[0],
            alpha=0.75,
        )
        axes.set_yticks(range(len(shown)), [phase for phase, *_ in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlim(0, max(1, batch["latency_us"]) / 1000)
        axes.set_xlabel("ms since it was due (number: attempt)")
        axes.grid(visible=False, axis="y")
        axes.locator_params(axis="x", nbins=5)

    height = 19 * len(shown) + 46
    title = "Where the time of a redirected batch went"
    return picture(f"waterfall{number}", title, says, draw, (height, height), small=True)


def batch_words(batch: Row) -> str:
    """Which batch or Fetch it is, and what became of it."""
    what = "A Fetch" if batch["api"] == "fetch" else "A batch"
    return (
        f"{what} of {batch['topic']}-{batch['partition']} ({batch['run']}) took "
        f"{milliseconds(batch['latency_us'])}: {counted(batch['errors'], 'leader error')}, "
        f"brokers {batch['brokers']}, {milliseconds(batch['client_share_us'])} of it the client's "
        "own wait."
    )
