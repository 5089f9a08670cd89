"""`kipctl explain`: the pages of the documentation, as they are installed."""

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from kipctl.cli.environment import Environment
from kipctl.cli.options import OutputOption
from kipctl.errors import UsageError, did_you_mean
from kipctl.next_step import Command
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report, Table, paragraphs
from kipctl.report.terminal import console_on

_CHECKOUT = Path(__file__).parents[2] / "docs"
_INDEX = "README"
_FIRST = re.compile(r"^\*\*[^*]+\*\* (?P<sentence>.+?\.)(?= |$)", re.MULTILINE)
_LINK = re.compile(r"\[(?P<text>[^]]*)\]\((?:[\w./-]*/)?(?P<page>[\w-]+)\.md(?:#[^)]*)?\)")
_PICTURE = re.compile(r"!\[([^]]*)\]\([^)]*\)")


def findings() -> Mapping[str, str]:
    """The Markdown of the page of each finding and doubt by its id, sorted."""
    return _pages("findings")


def other_pages() -> Mapping[str, str]:
    """The Markdown of the pages of tasks, and of those of reference, by name."""
    return {**_pages("tasks"), **_pages(".")}


def _pages(folder: str) -> dict[str, str]:
    """They come with the wheel; in a checkout they are in docs/."""
    installed = files("kipctl") / "docs"
    found = ((installed if installed.is_dir() else _CHECKOUT) / folder).iterdir()
    texts = {
        page.name.removesuffix(".md"): page.read_text(encoding="utf-8")
        for page in found
        if page.name.endswith(".md")
    }
    return {id: texts[id] for id in sorted(texts) if id != _INDEX}


def explain(
    environment: Environment,
    id: Annotated[
        str | None,
        typer.Argument(
            metavar="[FINDING]",
            help="The id of a finding or doubt, or another page. Default: list them all.",
            show_default=False,
        ),
    ] = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Explain a finding of `inspect brokers`, a doubt of a run, or show another page.

    How kipctl knows, what follows, what to do, and when it is gone; or a page of the documentation,
    by its name. It asks no cluster.
    """
    found, others = findings(), other_pages()
    known = {**found, **others}
    if id is None:
        titles = {one: _title(one, text) for one, text in known.items()}
        rows, pages = (tuple((one, titles[one]) for one in some) for some in (found, others))
        listed = {
            "findings": [{"id": one, "title": title} for one, title in rows],
            "pages": [{"id": one, "title": title} for one, title in pages],
        }
        answer = paragraphs(
            f"{len(rows)} findings and doubts, {len(pages)} other pages. More of one: "
            + Command("explain ID")
        )
        tables = (
            Table("Findings and doubts", ("id", "what is so"), rows, most=0),
            Table("Tasks and reference", ("id", "page"), pages, most=0),
        )
        environment.report(Report("explain", listed, tables, opening=answer), output)
        return
    if id not in known:
        raise UsageError(
            f"There is no finding, doubt or page {id!r}.{did_you_mean(id, known)}",
            "List them: " + Command("explain"),
        )
    text = known[id]
    page = {"id": id, "title": _title(id, text), "text": text}
    if output in (OutputFormat.JSON, OutputFormat.CSV):
        table = Table("", tuple(page), (tuple(page.values()),))
        environment.report(Report("explain", page, (table,)), output)
        return
    is_drawn = output in (OutputFormat.AUTO, OutputFormat.TABLE, OutputFormat.WIDE)
    is_drawn &= environment.stdout.isatty()
    if is_drawn:
        _draw(text, environment)
    else:
        environment.stdout.write(text)
        environment.stdout.flush()


def _title(id: str, text: str) -> str:
    """The heading of a page; of a finding or doubt, whose heading is its id, what is so."""
    heading = text.partition("\n")[0].removeprefix("# ")
    found = _FIRST.search(text) if heading == id else None
    return found["sentence"] if found else heading


def _draw(text: str, environment: Environment) -> None:
    """The page on the terminal that stdout is."""
    from rich.markdown import Markdown

    text = _PICTURE.sub(r"(Picture: \1)", _LINK.sub(_command, text))
    console_on(environment.stdout).print(Markdown(text, hyperlinks=False))


def _command(link: re.Match[str]) -> str:
    """A link to a page as the command that shows it."""
    page = () if link["page"] == _INDEX else (link["page"],)
    return f"{link['text']} (`{Command('explain', *page)}`)"
