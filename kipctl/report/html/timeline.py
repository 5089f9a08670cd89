"""The timeline of a run, on one axis: latency, leaders, refusals, Metadata requests."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, NullFormatter

from kipctl.counts import counted, first_few
from kipctl.documents.pages import LeaderBand, Row, Rows, Timeline
from kipctl.report.html.svg import (
    DASHES,
    FG,
    MUTED,
    SERIES,
    Picture,
    picture,
    plain_axes,
    short,
)
from kipctl.report.html.words import in_ms, seconds
from kipctl.report.tables import Column, Table

MOST_ACTIONS = 60
"""Lines of actions that are drawn."""
_LINES = (("p50", 0, 1.6), ("p99", 1, 1.4), ("max", 2, 6.0))
"""The maximum is a pale band, on which the p99 is still seen where both are the same."""
_PALE = 0.35
_SPARSE = 4
"""Of so many buckets one is followed by a gap: marks alone, as lines would be scraps."""
_MOST_BROKERS = len(SERIES)
_MOST_NAMED = 160
_MARKS = ("o", "s", "^")
ROW = 20.0
"""The height of a row, in CSS pixels."""


def timeline_picture(timeline: Timeline, bucket_us: int, actions: Rows, number: int) -> Picture:
    """Latency above (log axis), then who led, what was refused, and Metadata requests by cause.

    `timeline` is one of those of `kipctl.pipeline.pictures`, `actions` the rows of its run.
    """
    leaders = timeline["leaders"]["rows"]
    refused = by_name(timeline["refused"], "api")
    metadata = by_name(timeline["metadata"], "cause")
    panels: list[tuple[str, float]] = []
    if timeline["latency"]:
        panels.append(("latency", 190))
    if leaders:
        panels.append(("leaders", ROW * len(leaders)))
    if refused:
        panels.append(("refused", 1.4 * ROW * len(refused)))
    if metadata:
        panels.append(("metadata", 1.4 * ROW * len(metadata)))
    heights = [height for _, height in panels] or [60.0]
    panels = panels or [("nothing", 60)]
    colours = broker_colours(leaders)

    def draw(figure: Figure, is_narrow: bool) -> None:
        drawn = figure.subplots(
            len(panels), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
        )[:, 0]
        for (panel, _), axes in zip(panels, drawn, strict=True):
            match panel:
                case "latency":
                    _latency(axes, timeline["latency"], bucket_us, is_narrow=is_narrow)
                case "leaders":
                    _leaders(axes, leaders, timeline, colours, is_narrow=is_narrow)
                case "refused":
                    plain_axes(axes, "Refused batches and Fetches")
                    count_rows(axes, refused, bucket_us, is_narrow=is_narrow)
                case "metadata":
                    plain_axes(axes, "Metadata requests by cause")
                    count_rows(axes, metadata, bucket_us, is_narrow=is_narrow)
            for action in actions[:MOST_ACTIONS]:
                at = action["called_ms"] / 1000
                axes.axvline(at, color=FG, linewidth=0.8, linestyle=(0, (4, 3)), zorder=3)
        _number_actions(drawn[0], actions, timeline, is_narrow=is_narrow)
        drawn[-1].set_xlim(timeline["from_us"] / 1e6, max(timeline["until_us"], 1) / 1e6)
        drawn[-1].set_xlabel("seconds since the run's start")

    total = sum(heights) + 34 * len(panels) + 40
    return picture(
        f"timeline{number}",
        f"Timeline of run {timeline['run']}",
        timeline_words(timeline, bucket_us, actions),
        draw,
        (total, total),
    )


def timeline_words(timeline: Timeline, bucket_us: int, actions: Rows) -> str:
    """What the picture shows, in sentences."""
    said = []
    if latency := timeline["latency"]:
        worst = max(latency, key=lambda row: float(row["time_ms"]["p99"]))
        said.append(
            f"Latency in buckets of {seconds(bucket_us)}: the p99 is highest at "
            f"{seconds(worst['window'] * bucket_us)}, {in_ms(worst['time_ms']['p99'])}."
        )
    else:
        said.append("No record was acknowledged after the warm-up.")
    if actions:
        named = (
            f"{a['number']} {a['action']} at {seconds(1000 * a['called_ms'])}" for a in actions
        )
        said.append(f"Vertical lines are actions: {first_few(named, 12)}.")
        if len(actions) > MOST_ACTIONS:
            said.append(f"{counted(len(actions) - MOST_ACTIONS, 'later action', 'are')} not drawn.")
    leaders = timeline["leaders"]
    if leaders["rows"]:
        said.append(
            f"Bands are the leaders of {counted(leaders['partitions'], 'partition')}, the number "
            "in a band is the broker."
        )
        if any(row["count"] > 1 for row in leaders["rows"]):
            said.append("Partitions that had the same leaders in turn share a row.")
        if out := leaders["partitions_left_out"]:
            said.append(
                f"{counted(leaders['rows_left_out'], 'further row')} of "
                f"{counted(out, 'partition')} are left out."
            )
        if leaders["has_more_changes"]:
            said.append("There were more changes of leaders than are read: later ones are missing.")
    else:
        said.append("Who led is not recorded.")
    refused = sum(row["count"] for row in timeline["refused"])
    metadata = sum(row["count"] for row in timeline["metadata"])
    said.append(
        f"Redirected batches and Fetches: {refused:,}; "
        f"{counted(metadata, 'Metadata request', 'were')} sent."
    )
    return " ".join(said)


def timeline_tables(timeline: Timeline, bucket_us: int) -> tuple[Table, ...]:
    """The same numbers, by bucket, and the leaders by row."""
    buckets: dict[int, list[Any]] = {}
    for row in timeline["latency"]:
        buckets.setdefault(row["window"], [None] * 6)[:4] = [
            row["records"],
            *(row["time_ms"][name] for name, *_ in _LINES),
        ]
    for column, rows in ((4, timeline["refused"]), (5, timeline["metadata"])):
        for row in rows:
            cells = buckets.setdefault(row["bucket"], [None] * 6)
            cells[column] = (cells[column] or 0) + row["count"]
    by_time = Table(
        f"Run {timeline['run']} by time",
        (
            "from",
            "records",
            *(Column(f"{name} ms", 3) for name, *_ in _LINES),
            "refused",
            "Metadata requests",
        ),
        tuple((seconds(at * bucket_us), *buckets[at]) for at in sorted(buckets)),
    )
    leaders = timeline["leaders"]["rows"]
    if not leaders:
        return (by_time,)
    return (
        by_time,
        Table(
            "Who led",
            ("partitions", "how many", "leaders in turn"),
            tuple((_named(row), row["count"], _in_turn(row["leads"])) for row in leaders),
        ),
    )


def broker_colours(rows: Sequence[LeaderBand]) -> dict[int, str]:
    """A colour for each broker; with more brokers than colours, colours come again."""
    led = (broker for row in rows for _, broker in row["leads"])
    brokers = sorted({broker for broker in led if broker is not None and broker >= 0})
    return {broker: SERIES[at % _MOST_BROKERS] for at, broker in enumerate(brokers)}


def log_limits(values: Iterable[float]) -> tuple[float, float]:
    """Whole powers of ten around the values, which are above 0."""
    numbers = list(values)
    low, high = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def plain_log(axis: Any) -> None:
    """Powers of ten as plain numbers."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
    axis.set_minor_formatter(NullFormatter())


def power_of_ten(value: float) -> str:
    """Without an exponent: 1,000 or 0.001."""
    return f"{value:,.0f}" if value >= 1 else f"{value:.9f}".rstrip("0")


def _is_one(broker: int | None) -> bool:
    return broker is not None and broker >= 0


def _named(row: LeaderBand) -> str:
    """Topics with the numbers of their partitions."""
    by_topic: dict[str, list[str]] = {}
    for name in row["names"]:
        topic, _, partition = name.rpartition("-")
        by_topic.setdefault(topic, []).append(partition)
    more = row["count"] - len(row["names"])
    shown = "; ".join(f"{topic} {', '.join(numbers)}" for topic, numbers in by_topic.items())
    return shown + (f" and {more:,} more" if more else "")


def _in_turn(leads: Sequence[tuple[int, int | None]]) -> str:
    (_, first), *others = leads
    leaders = [f"{first if _is_one(first) else 'none'} at first"]
    leaders += [f"{b if _is_one(b) else 'none'} from {seconds(at)}" for at, b in others]
    return first_few(leaders, 40)


def by_name(rows: Rows, key: str) -> dict[str, list[tuple[int, int]]]:
    """By what they name: buckets with their counts."""
    counts: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        counts.setdefault(str(row[key] or "not known"), []).append((row["bucket"], row["count"]))
    return counts


def _of_row(row: Row, name: str) -> float:
    """A time in milliseconds, above 0, as a log axis needs it."""
    ms: float = row["time_ms"][name]
    return max(0.001, ms)


def _latency(axes: Axes, rows: Rows, bucket_us: int, *, is_narrow: bool) -> None:
    plain_axes(axes)
    axes.set_title("Latency, ms", fontweight="bold", pad=18)
    axes.set_yscale("log")
    numbers = [row["window"] for row in rows]
    gaps = sum(later > number + 1 for number, later in pairwise(numbers))
    is_sparse = gaps * _SPARSE > len(rows)
    marked = range(len(rows)) if is_sparse else _alone(numbers)
    for name, style, width in _LINES:
        is_band = name == "max"
        at: list[float] = []
        shown: list[float] = []
        last = None
        for row in rows:
            if last is not None and row["window"] > last + 1:
                at.append(math.nan)
                shown.append(math.nan)
            last = row["window"]
            at.append((last + 0.5) * bucket_us / 1e6)
            shown.append(_of_row(row, name))
        axes.plot(
            at,
            shown,
            label=None if is_sparse else name,
            color=SERIES[style],
            linestyle="none" if is_sparse else "solid" if is_band else DASHES[style],
            linewidth=width,
            alpha=_PALE if is_band else None,
            zorder=1.5 if is_band else 2,
            solid_capstyle="butt",
        )
        axes.plot(
            [(numbers[position] + 0.5) * bucket_us / 1e6 for position in marked],
            [_of_row(rows[position], name) for position in marked],
            color=SERIES[style],
            linestyle="none",
            marker=_MARKS[style],
            markersize=width if is_band else 3,
            alpha=_PALE if is_band else None,
            label=name if is_sparse else None,
        )
    values = [_of_row(row, name) for row in rows for name, *_ in _LINES]
    axes.set_ylim(*log_limits(values))
    plain_log(axes.yaxis)
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=3,
        borderaxespad=1.4,
        borderpad=0,
        handlelength=1.8 if is_narrow else 2.4,
        columnspacing=0.8 if is_narrow else 1.2,
        handletextpad=0.4,
    )


def _alone(numbers: Sequence[int]) -> list[int]:
    """The positions of buckets without a neighbour: no line leads to them."""
    there = set(numbers)
    return [at for at, number in enumerate(numbers) if not there & {number - 1, number + 1}]


def _leaders(
    axes: Axes,
    rows: Sequence[LeaderBand],
    timeline: Timeline,
    colours: Mapping[int, str],
    *,
    is_narrow: bool,
) -> None:
    plain_axes(axes, "Leaders (the number is the broker)")
    begin, end = timeline["from_us"], timeline["until_us"]
    least = (end - begin) * (0.06 if is_narrow else 0.025)
    labels = []
    bands: dict[int | None, list[Path]] = {}
    named: list[tuple[float, int, str]] = []
    for at, row in enumerate(rows):
        name = row["names"][0] if row["count"] == 1 else f"{counted(row['count'], 'partition')}"
        labels.append(short(name, 14 if is_narrow else 24))
        leads = list(row["leads"])
        ends = [since for since, _ in leads[1:]] + [end]
        for (since, broker), until in zip(leads, ends, strict=True):
            if until <= since:
                continue
            known = broker if broker in colours else None
            left, right = since / 1e6, until / 1e6
            corners = [(left, at - 0.42), (right, at - 0.42), (right, at + 0.42), (left, at + 0.42)]
            bands.setdefault(known, []).append(Path([*corners, corners[0]], closed=True))
            if until - since >= least:
                named.append(((left + right) / 2, at, "none" if known is None else str(known)))
    for broker, paths in bands.items():
        axes.add_patch(
            PathPatch(
                Path.make_compound_path(*paths),
                facecolor="none" if broker is None else colours[broker],
                edgecolor=MUTED,
                linewidth=0.4,
                alpha=0.4,
                hatch="////" if broker is None else None,
            )
        )
    for middle, at, broker_name in named[:_MOST_NAMED]:
        axes.text(middle, at, broker_name, ha="center", va="center", clip_on=True)
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False)


def count_rows(
    axes: Axes,
    counts: Mapping[str, Sequence[tuple[int, int]]],
    bucket_us: int,
    *,
    is_narrow: bool,
) -> None:
    """A row for each name; a bar for each bucket, or three of them where it is narrow, as high as
    the logarithm of its count."""
    group_size = 3 if is_narrow else 1
    rows = {name: _merged(buckets, group_size) for name, buckets in counts.items()}
    most = max((count for bars in rows.values() for _, count in bars), default=1)
    labels = []
    for at, (name, bars) in enumerate(rows.items()):
        x: list[float] = []
        y: list[float] = []
        for number, count in bars:
            when = (number + 0.5) * group_size * bucket_us / 1e6
            x += [when, when, math.nan]
            y += [at + 0.4, at + 0.4 - 0.8 * math.log1p(count) / math.log1p(most), math.nan]
        axes.plot(x, y, color=SERIES[at % len(SERIES)], linewidth=2.4, solid_capstyle="butt")
        labels.append(
            f"{short(name.replace('_', ' '), 16 if is_narrow else 26)} {sum(n for _, n in bars):,}"
        )
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.5, -0.55)
    axes.grid(visible=False, axis="y")


def _merged(counts: Sequence[tuple[int, int]], group_size: int) -> list[tuple[int, int]]:
    """So many neighbouring buckets as one."""
    merged: dict[int, int] = {}
    for number, count in counts:
        merged[number // group_size] = merged.get(number // group_size, 0) + count
    return sorted(merged.items())


def _number_actions(axes: Axes, actions: Rows, timeline: Timeline, *, is_narrow: bool) -> None:
    """Their numbers above the first panel, but where they would overlap."""
    lasts = timeline["until_us"] - timeline["from_us"]
    apart = lasts * (0.06 if is_narrow else 0.022)
    last = -math.inf
    for action in actions[:MOST_ACTIONS]:
        if 1000 * action["called_ms"] - last >= apart:
            last = 1000 * action["called_ms"]
            axes.annotate(
                str(action["number"]),
                (last / 1e6, 1),
                xycoords=("data", "axes fraction"),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                va="bottom",
                annotation_clip=False,
            )
