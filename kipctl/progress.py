"""How far long work is: a line of text that knows its share too, for whoever draws a bar."""

from collections.abc import Callable
from typing import Self


class HowFar(str):
    """A line on progress, told like any other. `share` of the work is done, from 0 to 1; it takes
    `left_s` seconds more, if that is known (else who shows it goes by the time that it took)."""

    share: float
    left_s: float | None

    def __new__(cls, text: str, done: float, of: float, left_s: float | None = None) -> Self:
        """`done` and `of` are in the same unit, whatever that is."""
        line = super().__new__(cls, text)
        line.share = min(1.0, done / of) if of else 0.0
        line.left_s = left_s
        return line


def part_of(tell: Callable[[str], None], begins: float, ends: float) -> Callable[[str], None]:
    """Tells how far a part is as how far the whole is: it goes from one share of that to another"""

    def told(text: str) -> None:
        if isinstance(text, HowFar):
            text = HowFar(text, begins + text.share * (ends - begins), 1)
        tell(text)

    return told
