"""A line on work under way, with a bar and the time left where they are known."""

import time
from collections.abc import Callable

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from kipctl.progress import ProgressText
from kipctl.report.printable import on_one_line


def bar(share: float, width: int) -> Text:
    """How much of something is done."""
    full = round(share * width)
    return Text.assemble(("━" * full, "cyan"), ("┄" * (width - full), "dim"))


def left(seconds: float | None) -> str:
    """How long it takes yet, as a person says it."""
    whole = round(seconds or 0)
    if not whole:
        return ""
    if whole < 100:
        return f", {whole} s left"
    minutes = round(whole / 60)
    return f", {minutes} min left" if minutes < 100 else f", {round(minutes / 60)} h left"


class ProgressLine:
    """What is being done; with a bar and the time left after a `ProgressText`."""

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._text = title
        self._progress: ProgressText | None = None
        self._began = self._updated = (clock(), 0.0)
        """When its share of the work was done, and that share: the first one, and the last."""

    def update(self, text: str) -> None:
        """This is done now."""
        self._text = text
        if isinstance(text, ProgressText):
            before, self._progress = self._progress, text
            if before is None or text.share != before.share:
                self._updated = (self._clock(), text.share)
            if before is None or text.share < before.share:
                self._began = self._updated

    def left_s(self) -> float | None:
        """Seconds, at the speed until now; None while that is not known."""
        (began_s, first), (updated_s, share) = self._began, self._updated
        if share <= first or (self._progress and self._progress.shows_time_left):
            return None
        left_s = (updated_s - began_s) * (1 - share) / (share - first)
        return max(0.0, left_s - (self._clock() - updated_s))

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(on_one_line(self._text))
        if self._progress:
            share = self._progress.share
            label = f"  {100 * share:3.0f} %{left(self.left_s())}"
            yield bar(share, max(10, min(60, options.max_width - len(label)))) + label
