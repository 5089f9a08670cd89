"""The pages of the documentation, as they are installed."""

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

_CHECKOUT = Path(__file__).parents[2] / "docs"
INDEX = "README"
_FIRST = re.compile(r"^\*\*[^*]+\*\* (?P<sentence>.+?\.)(?= |$)", re.MULTILINE)


def findings() -> Mapping[str, str]:
    """The Markdown of the page of each finding and doubt by its id, sorted."""
    return _pages("findings")


def other_pages() -> Mapping[str, str]:
    """The Markdown of pages of tasks, of reports upstream, and of reference, by name."""
    return {**_pages("tasks"), **_pages("upstream"), **_pages(".")}


def _pages(folder: str) -> dict[str, str]:
    """They come with the wheel; in a checkout they are in docs/."""
    installed = files("kipctl") / "docs"
    pages = ((installed if installed.is_dir() else _CHECKOUT) / folder).iterdir()
    texts = {
        page.name.removesuffix(".md"): page.read_text(encoding="utf-8")
        for page in pages
        if page.name.endswith(".md")
    }
    return {id: texts[id] for id in sorted(texts) if id != INDEX}


def title_of(id: str, text: str) -> str:
    """The heading of a page; of a finding or doubt, whose heading is its id, what is so."""
    heading = text.partition("\n")[0].removeprefix("# ")
    match = _FIRST.search(text) if heading == id else None
    return match["sentence"] if match else heading
