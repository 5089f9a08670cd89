"""Progress of long work: messages that say which share of it is done, for a bar."""

from collections.abc import Callable
from typing import Self


class ProgressText(str):
    """A message like any other; `share` of the work is done, from 0 to 1."""

    share: float
    shows_time_left: bool
    """The text itself says how long it still takes."""

    def __new__(cls, text: str, done: float, total: float, shows_time_left: bool = False) -> Self:
        """`done` and `total` are in the same unit, whatever that is."""
        line = super().__new__(cls, text)
        line.share = min(1.0, done / total) if total else 0.0
        line.shows_time_left = shows_time_left
        return line


def part_of(message: Callable[[str], None], begins: float, ends: float) -> Callable[[str], None]:
    """Passes messages on; the progress of a part, which goes from one share of the whole to
    another, becomes that of the whole."""

    def report(text: str) -> None:
        if isinstance(text, ProgressText):
            text = ProgressText(text, begins + text.share * (ends - begins), 1)
        message(text)

    return report
