"""The page of brokers' request logs: what a fleet of clients asked for, in time and by client."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from matplotlib.figure import Figure

from kipctl.counts import counted, first_few
from kipctl.documents.analysis import FleetRow, LoggedCluster, RequestLogAnalysis
from kipctl.documents.pages import CountInTime, LogTimeline
from kipctl.next_step import Command
from kipctl.report.html.parts import (
    Page,
    Section,
    Top,
    details,
    framed,
    html_figure,
    html_table,
    svg_file,
)
from kipctl.report.html.spread import Bars, bars_picture, rack_bars
from kipctl.report.html.svg import SERIES, Picture, picture, plain_axes, short
from kipctl.report.html.timeline import ROW, by_name, count_rows
from kipctl.report.html.words import seconds
from kipctl.report.log_traffic_tables import is_own
from kipctl.report.request_log_tables import request_log_tables
from kipctl.report.tables import Table

_PANELS: Mapping[Literal["apis", "software", "errors", "metadata"], str] = {
    "apis": "Requests by API",
    "software": "Requests of clients by software",
    "errors": "Errors in answers, by partition",
    "metadata": "Metadata requests by cause",
}
_MOST_ROWS = 12
"""Of a panel: those with the most requests."""
_MOST_NAMED = 4
_BESIDE = ("fleet", "metadata", "reads")
"""Tables that stand beside a picture."""


def request_log_page(
    paths: Sequence[str],
    document: RequestLogAnalysis,
    over_time: Sequence[LogTimeline],
    version: str = "",
) -> Page:
    """The page of a document of `analyze request-log --output json`, and of what
    `kipctl.pipeline.request_log.over_time` counted of the same log."""
    pictures: dict[str, Picture] = {}

    def keep(drawn: Picture) -> Picture:
        pictures[drawn.name] = drawn
        return drawn

    several = len(document["clusters"]) > 1
    in_time = {timeline["cluster_id"]: timeline for timeline in over_time}
    sections = [
        section
        for number, cluster in enumerate(document["clusters"], 1)
        for section in _of_cluster(
            {**document, "clusters": [cluster]},
            in_time.get(cluster["cluster_id"]),
            f", cluster {_name(cluster)}" if several else "",
            number,
            keep,
        )
    ]
    rest = [table for table in request_log_tables(document) if table.name not in _BESIDE]
    inside = "".join(details(table.title, html_table(table)) for table in rest)
    sections.append(Section("tables", "All other tables", inside))
    source = (
        f"Every number is one of <code>{Command('analyze request-log')}</code> of the same logs; "
        f"what each means: <code>{Command('explain request-log')}</code>."
    )
    html = framed(
        Top(
            f"{Command('analyze request-log')}: {first_few(paths, _MOST_NAMED)}",
            " ".join(
                (f"{_name(cluster)}: " if several else "") + _answer(cluster)
                for cluster in document["clusters"]
            ),
        ),
        list(_doubts(document)),
        sections,
        version,
        source,
    )
    return Page(html, {name: svg_file(drawn) for name, drawn in pictures.items()})


def _of_cluster(
    document: RequestLogAnalysis,
    timeline: LogTimeline | None,
    suffix: str,
    number: int,
    keep: Callable[[Picture], Picture],
) -> Iterator[Section]:
    """The pictures of the only cluster of a document; `suffix` says which, if there are others."""
    [cluster] = document["clusters"]
    tables = {table.name: table for table in request_log_tables(document)}

    def section(name: str, title: str, drawn: Picture, *beside: Table | None) -> Section:
        shown = (table for table in beside if table)
        return Section(f"{name}{number}", f"{title}{suffix}", html_figure(keep(drawn), *shown))

    if timeline:
        drawn = _time_picture(timeline, number)
        yield section("time", "What was asked, in time", drawn, *_time_tables(timeline))
    if cluster["fleet"]:
        drawn = _clients_picture(cluster["fleet"], number)
        yield section("clients", "Who uses leader hints", drawn, tables.get("fleet"))
    if causes := cluster["metadata"]["by_cause"]:
        bars = [(name.replace("_", " "), count, SERIES[0]) for name, count in causes.items()]
        said = "Metadata requests of clients by cause, inferred from their order"
        drawn = bars_picture(
            f"causes{number}", "Why Metadata was asked for", said, bars, "requests"
        )
        yield section("metadata", "Why Metadata was asked for", drawn, tables.get("metadata"))
    if reads := cluster["reads"]:
        read = [(row["client_rack"], row["broker_rack"] or "?", "", row["bytes"]) for row in reads]
        drawn = rack_bars(f"reads{number}", read)
        yield section("racks", "Which rack was read from", drawn, tables.get("reads"))


def _name(cluster: LoggedCluster) -> str:
    return short(cluster["cluster_id"] or "not known", 10)


def _answer(cluster: LoggedCluster) -> str:
    """Who asked how much, whether leaders were named, and who uses that."""
    fleet = [row for row in cluster["fleet"] if not is_own(row)]
    clients = sum(row["client_count"] for row in fleet)
    asked = sum(row["requests"] for row in fleet)
    said = f"{counted(asked, 'request')} of {counted(clients, 'client')}"
    if lasted := cluster["period"]["seconds"]:
        said += f" in {seconds(round(lasted * 1e6))}"
    by_use = Counter[str]()
    for row in fleet:
        by_use[row["hint_behaviour"]] += row["client_count"]
    named = [f"{use} ({counted(clients, 'client')})" for use, clients in by_use.most_common()]
    said += f". Leader hints: {first_few(named, len(named), '; ')}."
    hinted = sum(row["not_leader"]["hinted"] for row in fleet)
    if refused := sum(row["not_leader"]["total"] for row in fleet):
        answers = counted(refused, "answer")
        return f"{said} {answers} that the leader is another one, {hinted:,} of them naming it."
    return f"{said} No client met a moved leader."


def _doubts(document: RequestLogAnalysis) -> Iterator[str]:
    if broken := document["lines"]["broken"]:
        yield f"{counted(broken, 'line', 'are')} broken, and not counted."
    for cluster in document["clusters"]:
        if cluster["requests_of_unknown_brokers"]:
            yield "Of some requests the broker is not known: name it with --broker-at."
        if any(row["differ_at_least_ms"] > 0 for row in cluster["clocks"]):
            yield "Clocks of brokers differ: waits between brokers are off by that."


def _time_picture(timeline: LogTimeline, number: int) -> Picture:
    """Panels one under the other, with one time axis."""
    bucket_us = timeline["bucket_us"]
    panels = {key: _most(timeline[key]) for key in _PANELS if timeline[key]}
    heights = [1.4 * ROW * len(rows) for rows in panels.values()]
    since = datetime.fromtimestamp(timeline["from_us"] / 1e6, UTC)
    last = max(row["bucket"] for row in timeline["apis"]) + 1

    def draw(figure: Figure, is_narrow: bool) -> None:
        drawn = figure.subplots(
            len(panels), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
        )[:, 0]
        for (key, rows), axes in zip(panels.items(), drawn, strict=True):
            plain_axes(axes, _PANELS[key])
            count_rows(axes, rows, bucket_us, is_narrow=is_narrow)
        drawn[-1].set_xlim(0, last * bucket_us / 1e6)
        drawn[-1].set_xlabel(f"seconds since {since:%Y-%m-%d %H:%M:%S} UTC")

    told = [f"In buckets of {seconds(bucket_us)} since {since:%Y-%m-%d %H:%M:%S} UTC."]
    for key, rows in panels.items():
        sums = (f"{name} {sum(n for _, n in counts):,}" for name, counts in rows.items())
        told.append(f"{_PANELS[key]}: {first_few(sums, _MOST_ROWS)}.")
        if left_out := len(by_name(timeline[key], "name")) - len(rows):
            told.append(f"{counted(left_out, 'row', 'are')} left out.")
    total = sum(heights) + 34 * len(panels) + 40
    return picture(f"time{number}", "Requests in time", " ".join(told), draw, (total, total))


def _most(rows: Sequence[CountInTime]) -> dict[str, list[tuple[int, int]]]:
    """The rows of most requests, the most first."""
    counts_by_name = by_name(rows, "name").items()
    return dict(sorted(counts_by_name, key=lambda item: -sum(n for _, n in item[1]))[:_MOST_ROWS])


def _time_tables(timeline: LogTimeline) -> Iterator[Table]:
    """The same numbers."""
    for key, title in _PANELS.items():
        rows = tuple(
            (seconds(row["bucket"] * timeline["bucket_us"]), row["name"], row["count"])
            for row in timeline[key]
        )
        if rows:
            yield Table(f"{title}, by time", ("from", "what", "how many"), rows)


def _clients_picture(fleet: Sequence[FleetRow], number: int) -> Picture:
    """Clients by software, and what that makes of leader hints."""
    uses = sorted({row["hint_behaviour"] for row in fleet})
    bars: Bars = [
        (
            f"{short(row['software'], 18)} {row['version']}: {row['hint_behaviour']}",
            row["client_count"],
            SERIES[uses.index(row["hint_behaviour"]) % len(SERIES)],
        )
        for row in sorted(fleet, key=lambda row: -row["client_count"])
    ]
    said = "Clients by software, with what it makes of leader hints"
    return bars_picture(f"clients{number}", "Clients by software", said, bars, "clients")
