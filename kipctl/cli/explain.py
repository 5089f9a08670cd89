"""`kipctl explain`: the pages about findings and doubts, as they are installed."""

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from kipctl.cli.environment import Environment
from kipctl.cli.options import OutputOption
from kipctl.errors import UsageError, did_you_mean
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report, Table, paragraphs

_CHECKOUT = Path(__file__).parents[2] / "docs" / "findings"
_INDEX = "README"
_FIRST = re.compile(r"^\*\*[^*]+\*\* (?P<sentence>.+?\.)(?= |$)", re.MULTILINE)


def pages() -> Mapping[str, str]:
    """The Markdown of each page by its id, sorted. They come with the wheel; in a checkout they are
    in docs/findings."""
    installed = files("kipctl") / "findings"
    found = (installed if installed.is_dir() else _CHECKOUT).iterdir()
    texts = {
        page.name.removesuffix(".md"): page.read_text(encoding="utf-8")
        for page in found
        if page.name.endswith(".md")
    }
    return {id: texts[id] for id in sorted(texts) if id != _INDEX}


def explain(
    context: typer.Context,
    id: Annotated[
        str | None,
        typer.Argument(
            metavar="[FINDING]",
            help="The id of a finding or doubt. Default: list them all.",
            show_default=False,
        ),
    ] = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Explain a finding of `inspect brokers`, or a doubt of a run, by its id.

    How kipctl knows, what follows, what to do, and when it is gone. It asks no cluster.
    """
    environment = context.ensure_object(Environment)
    known = pages()
    if id is None:
        rows = tuple((one, _title(text)) for one, text in known.items())
        listed = {"findings": [{"id": one, "title": title} for one, title in rows]}
        answer = paragraphs(f"{len(rows)} findings and doubts. More of one: kipctl explain ID")
        table = Table("", ("id", "what is so"), rows, most=0)
        environment.report(Report("explain", listed, (table,), opening=answer), output)
        return
    if id not in known:
        raise UsageError(
            f"There is no finding and no doubt {id!r}.{did_you_mean(id, known)}",
            "List them: kipctl explain",
        )
    text = known[id]
    page = {"id": id, "title": _title(text), "text": text}
    if output in (OutputFormat.JSON, OutputFormat.CSV):
        table = Table("", tuple(page), (tuple(page.values()),))
        environment.report(Report("explain", page, (table,)), output)
        return
    is_drawn = output in (OutputFormat.AUTO, OutputFormat.TABLE, OutputFormat.WIDE)
    is_drawn &= environment.stdout.isatty()
    environment.stdout.write(_drawn(text, environment) if is_drawn else text)
    environment.stdout.flush()


def _title(text: str) -> str:
    """The first sentence of a page: what is so."""
    found = _FIRST.search(text)
    assert found, text
    return found["sentence"]


def _drawn(text: str, environment: Environment) -> str:
    """The page for the terminal that stdout is."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=environment.stdout)
    with console.capture() as drawing:
        console.print(Markdown(text.replace("](../", "](docs/"), hyperlinks=False))
    return drawing.get()
