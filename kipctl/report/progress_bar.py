"""A line on work under way, with a bar and the time left where they are known."""

import time
from collections.abc import Callable

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from kipctl.progress import HowFar
from kipctl.report.printable import printable


def bar(share: float, width: int) -> Text:
    """How much of something is done."""
    full = round(share * width)
    return Text.assemble(("━" * full, "cyan"), ("┄" * (width - full), "dim"))


def left(seconds: float | None) -> str:
    """How long it takes yet, as a person says it."""
    if seconds is None:
        return ""
    whole = round(seconds)
    if whole < 100:
        return f", {whole} s left"
    minutes = round(whole / 60)
    return f", {minutes} min left" if minutes < 100 else f", {round(minutes / 60)} h left"


class ProgressLine:
    """What is being done; with a bar and the time left where that is told (`HowFar`)."""

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._text, self._how_far = title, HowFar(title, 0, 0)
        self._began = self._told = (clock(), 0.0)
        """When, and the share of the work that was done then."""

    def tell(self, text: str) -> None:
        """This is done now."""
        self._text = text
        if isinstance(text, HowFar):
            self._how_far, self._told = text, (self._clock(), text.share)
            if not text.share:
                self._began = self._told

    def left_s(self) -> float | None:
        """As told, or at the speed until now; None where nothing is known of that."""
        (began_s, first), (told_s, share) = self._began, self._told
        left_s = self._how_far.left_s
        if left_s is None and share > first:
            left_s = (told_s - began_s) * (1 - share) / (share - first)
        return None if left_s is None else max(0.0, left_s - (self._clock() - told_s))

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(printable(self._text))
        if self._how_far.share or self._how_far.left_s is not None:
            said = f"  {100 * self._how_far.share:3.0f} %{left(self.left_s())}"
            yield bar(self._how_far.share, max(10, min(60, options.max_width - len(said)))) + said
