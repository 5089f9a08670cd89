"""A report of recorded runs as one HTML page: no network, no script."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from kipctl.counts import counted, first_few
from kipctl.documents.analysis import NamedComparison
from kipctl.documents.pages import RunPictures
from kipctl.next_step import Command
from kipctl.report.analysis_tables import analysis_tables
from kipctl.report.html.answer import (
    answer,
    at_a_glance,
    doubts,
    facts,
    told_by_taps,
    when,
)
from kipctl.report.html.parts import (
    Page,
    Section,
    Top,
    details,
    framed,
    html_figure,
    html_table,
    paragraph,
    svg_file,
    text,
)
from kipctl.report.html.spread import (
    batch_words,
    latency_picture,
    metadata_picture,
    racks_picture,
    steps,
    waits_picture,
    waterfall_picture,
)
from kipctl.report.html.svg import Picture
from kipctl.report.html.timeline import timeline_picture, timeline_tables
from kipctl.report.run_tables import compare_tables
from kipctl.report.tables import Column, Report, Table

Keep = Callable[[Picture], Picture]
_MOST_RUNS = 60
_MOST_STEPS = 20
_SLOWEST_SHOWN = 5


def page(
    document: RunPictures,
    comparisons: Sequence[NamedComparison] = (),
    version: str = "",
    result: Report | None = None,
) -> Page:
    """The page of a document of `kipctl.pipeline.pictures.report_document`.

    `comparisons` are documents of `runs compare`, each with a `title`, whose verdicts are shown.
    With the `result` of an experiment, or of a comparison, the page begins.
    """
    pictures: dict[str, Picture] = {}

    def keep(picture: Picture) -> Picture:
        pictures[picture.name] = picture
        return picture

    names = [run["run"] for run in document["runs"]]
    title = f"kipctl {result.command if result else 'report'}: {first_few(names, 3)}"
    first = result.opening[0].first if result else answer(document)
    glance = html_table(at_a_glance(document), kind="glance")
    if told := told_by_taps(document):
        glance += details("What the tap said of each client", *map(paragraph, told))
    verdicts = list(_verdicts(comparisons))
    sections = [
        *(_result(result) if result is not None else ()),
        # Of two sides, whether they differ is the question.
        *(verdicts if len(comparisons) == 1 else ()),
        *_timelines(document, keep),
        *_spreads(document, keep),
        *_slowest(document, keep),
        *(verdicts if len(comparisons) > 1 else ()),
        *_tables(document, pictures.keys()),
        *_runs(document),
    ]
    source = (
        f"Every number is one of <code>{Command('analyze runs')}</code> of the same runs; what "
        f"each picture shows: <code>{Command('explain report')}</code>."
    )
    top = Top(title, first, facts(document), glance)
    html = framed(top, doubts(document), sections, version, source)
    return Page(html, {name: svg_file(picture) for name, picture in pictures.items()})


def _result(result: Report) -> Iterator[Section]:
    _, *told = (text for opening in result.opening for text in (opening.first, *opening.others))
    inside = "".join((*map(paragraph, told), *map(html_table, result.tables)))
    yield Section("result", "What was found", inside)


def _verdicts(comparisons: Sequence[NamedComparison]) -> Iterator[Section]:
    if comparisons:
        inside = "".join(
            f"<h3>{text(' and '.join(comparison['names']))}</h3>"
            + "".join(map(html_table, compare_tables(comparison, comparison["names"])))
            for comparison in comparisons
        )
        yield Section("verdicts", "Do they differ?", inside)


def _timelines(document: RunPictures, keep: Keep) -> Iterator[Section]:
    shown = []
    bucket_us = document["bucket_us"]
    for number, timeline in enumerate(document["timelines"], 1):
        of_run = timeline["run"]
        actions = [action for action in document["analysis"]["actions"] if action["run"] == of_run]
        drawn = keep(timeline_picture(timeline, bucket_us, actions, number))
        figure = html_figure(drawn, *timeline_tables(timeline, bucket_us))
        name = f"Run {of_run}, arm {timeline['arm']}"
        shown.append(f"<h3>{text(name)}</h3>{figure}" if number == 1 else details(name, figure))
    left_out = len(document["runs"]) - len(shown)
    if left_out > 0:
        shown.append(
            f'<p class="note">The timeline of {counted(left_out, "further run")} is not drawn: '
            f"name it alone, as {Command('report RUN')}.</p>"
        )
    if shown:
        yield Section("timeline", "What happened, in time", "".join(shown))


def _spreads(document: RunPictures, keep: Keep) -> Iterator[Section]:
    analysis = document["analysis"]
    if drawn := waits_picture(document):
        yield Section(
            "waits",
            "What a client waited for each moved leader",
            html_figure(
                keep(drawn), _by_arm(document, "moves"), *analysis_tables(analysis, ["moves"])
            ),
        )
    if drawn := latency_picture(document):
        tables = analysis_tables(analysis, ["latency"])
        yield Section("latency", "How long records took", html_figure(keep(drawn), *tables))
    if drawn := metadata_picture(document):
        tables = analysis_tables(analysis, ["metadata"])
        yield Section("metadata", "Why Metadata was asked for", html_figure(keep(drawn), *tables))
    if drawn := racks_picture(document):
        tables = analysis_tables(analysis, ["reads"])
        yield Section("racks", "Which rack was read from", html_figure(keep(drawn), *tables))


def _by_arm(document: RunPictures, name: Literal["moves"]) -> Table:
    """A table of `arms`, as `analyze --by arm` shows it."""
    rows = document["arms"][name]
    keys = ["arm", "api"]
    about = document["analysis"]["tables"][name] | {
        "keys": keys,
        "rows": len(rows),
        "shown": len(rows),
    }
    [table] = analysis_tables({"tables": {name: about}, name: rows, "window_ms": 0})
    return replace(table, title=f"{table.title}, by arm")


def _slowest(document: RunPictures, keep: Keep) -> Iterator[Section]:
    slowest = document["slowest"]
    if not slowest:
        return
    episodes = sum(row["episodes"] for row in document["arms"]["redirects"])
    total = f" of {episodes:,}" if episodes > len(slowest) else ""
    shown = [
        f"<p>The {len(slowest)}{total} redirected batches and Fetches that took longest, each with "
        "its phases. Open one.</p>"
    ]
    batches = []
    for number, batch in enumerate(slowest, 1):
        table = Table(
            "Phases",
            ("phase and attempt", Column("from ms", 3), Column("ms", 3)),
            tuple((phase, at / 1000, took / 1000) for phase, at, took in steps(batch)),
        )
        attempts = Table(
            "Failed attempts",
            ("attempt", "at s", "broker", "error", "hinted leader", "hint", "sent on to"),
            tuple(
                (
                    attempt["attempt"],
                    attempt["error_us"] / 1e6,
                    _id(attempt["from_broker"]),
                    str(attempt["error"]),
                    _id(attempt["hint_leader"]),
                    (attempt["decision"] or "-").replace("_", " "),
                    _id(attempt["to_broker"]),
                )
                for attempt in batch["failed_attempts"]
            ),
        )
        drawn = keep(waterfall_picture(batch, number))
        figure = html_figure(drawn, table, attempts, caption="", most=_MOST_STEPS)
        batches.append(details(f"{number}. {batch_words(batch)}", figure))
    shown += batches[:_SLOWEST_SHOWN]
    if rest := batches[_SLOWEST_SHOWN:]:
        shown.append(details(f"{len(rest)} more", *rest))
    yield Section("slowest", "The slowest redirected batches", "".join(shown))


def _id(broker: int | None) -> str:
    return "-" if broker is None or broker < 0 else str(broker)


_BESIDE = {"waits": "moves", "latency": "latency", "metadata": "metadata", "racks": "reads"}
"""Tables that stand beside a picture, by the picture's name."""


def _tables(document: RunPictures, pictures: Collection[str]) -> Iterator[Section]:
    shown = {table for name, table in _BESIDE.items() if name in pictures}
    tables = [table for table in analysis_tables(document["analysis"]) if table.name not in shown]
    if tables:
        inside = "".join(details(table.title, html_table(table)) for table in tables)
        yield Section("tables", "All other tables", inside)


def _runs(document: RunPictures) -> Iterator[Section]:
    runs = document["runs"]
    table = Table(
        "Runs",
        ("run", "arm", "started", "command", "actions"),
        tuple(
            (
                run["run"],
                run["arm"],
                when(run["started"]) if run["started"] else None,
                run["command"],
                run["actions"],
            )
            for run in runs
        ),
    )
    settings = [
        details(
            f"What {run['run']} was made with",
            html_table(Table(run["run"], ("setting", "value"), tuple(run["settings"].items()))),
        )
        for run in runs[:_MOST_RUNS]
    ]
    if len(runs) > _MOST_RUNS:
        settings.append(
            f'<p class="note">{len(runs) - _MOST_RUNS:,} more: {Command("runs show")}.</p>'
        )
    yield Section("runs", "The runs", html_table(table) + "".join(settings))
