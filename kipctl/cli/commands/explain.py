"""`kipctl explain`: the pages of the documentation, as they are installed."""

import re
from collections.abc import Mapping
from typing import Annotated

from kipctl.cli.environment import Environment
from kipctl.cli.options import OutputOption, argument
from kipctl.errors import UsageError, did_you_mean
from kipctl.next_step import Command, joined
from kipctl.report.formats import OutputFormat
from kipctl.report.pages import INDEX, findings, other_pages, title_of
from kipctl.report.tables import Report, Table, paragraphs
from kipctl.report.terminal import console_on

_LINK = re.compile(r"\[(?P<text>[^]]*)\]\((?:[\w./-]*/)?(?P<page>[\w-]+)\.md(?:#[^)]*)?\)")
_PICTURE = re.compile(r"!\[([^]]*)\]\([^)]*\)")


def explain(
    environment: Environment,
    id: Annotated[
        str | None,
        argument(
            "[PAGE]", "The id of a finding or doubt, or another page. Default: list them all."
        ),
    ] = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Explain a finding of `inspect brokers`, a doubt of a run, or show another page.

    How kipctl knows, what follows, what to do, and when it is gone; or a page of the documentation,
    by its name. It asks no cluster.
    """
    finding_pages, others = findings(), other_pages()
    known = {**finding_pages, **others}
    if id is None:
        titles = {page: title_of(page, text) for page, text in known.items()}
        rows = tuple((page, titles[page]) for page in finding_pages)
        pages = tuple((page, titles[page]) for page in others)
        listed = {
            "findings": [{"id": page, "title": title} for page, title in rows],
            "pages": [{"id": page, "title": title} for page, title in pages],
        }
        answer = paragraphs(
            f"{len(rows)} findings and doubts, {len(pages)} other pages. One of them: "
            + Command("explain", next(iter(finding_pages)))
        )
        tables = (
            Table("Findings and doubts", ("id", "what is so"), rows, most=0, name="findings"),
            Table("Tasks and reference", ("id", "page"), pages, most=0, name="pages"),
        )
        environment.report(Report("explain", listed, tables, opening=answer), output)
        return
    if id not in known:
        mentioning = joined(", ", (Command("explain", page) for page in _pages_with(id, known)))
        near = "" if mentioning else did_you_mean(id, known)
        steps = ["List them: " + Command("explain")]
        if mentioning:
            steps.insert(0, "Pages that have the word: " + mentioning)
        what = f"There is no finding, doubt or page {id!r}.{near}"
        raise UsageError(what, joined("\n", steps))
    text = known[id]
    page = {"id": id, "title": title_of(id, text), "text": text}
    if output in (OutputFormat.JSON, OutputFormat.CSV):
        table = Table("", tuple(page), (tuple(page.values()),), name="page")
        environment.report(Report("explain", page, (table,)), output)
        return
    is_drawn = output in (OutputFormat.AUTO, OutputFormat.TABLE, OutputFormat.WIDE)
    is_drawn &= environment.stdout.isatty()
    if is_drawn:
        _draw(text, environment)
    else:
        environment.stdout.write(text)
        environment.stdout.flush()


def _pages_with(word: str, known: Mapping[str, str]) -> list[str]:
    """The three pages that have a word most: in their ids, else in their texts."""
    word = word.lower()
    mentions = {id: (word in id, text.lower().count(word)) for id, text in known.items()}
    return sorted(
        filter(lambda id: any(mentions[id]), known), key=lambda id: mentions[id], reverse=True
    )[:3]


def _draw(text: str, environment: Environment) -> None:
    """The page on the terminal that stdout is."""
    from rich.markdown import Markdown

    text = _PICTURE.sub(r"(Picture: \1)", _LINK.sub(_command, text))
    console_on(environment.stdout).print(Markdown(text, hyperlinks=False))


def _command(link: re.Match[str]) -> str:
    """A link to a page as the command that shows it."""
    page = () if link["page"] == INDEX else (link["page"],)
    return f"{link['text']} (`{Command('explain', *page)}`)"
