r"""The one way out to a terminal: streams that make text printable as it is written.

No escape sequence passes such a stream, not even rich's: whoever draws on one otherwise than by
`console_on` sees nonsense at once. That console makes text printable before it styles it. To let
the sequences pass that rich makes would be less code, but a broker can send the very same ones, and
`\x1b[8m` hides a question. No login in a URL passes either.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from kipctl.report.printable import printable
from kipctl.urls import without_logins


class _MayClose:
    """A terminal whose window may be closed meanwhile: no message cuts a clean-up off."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _PrintableStream:
    def __init__(self, stream: TextIO) -> None:
        self.below = stream

    def write(self, text: str) -> int:
        self.below.write(_shown(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)


class _PrintableConsole(Console):
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else _shown(text), style, control)

    def on_broken_pipe(self) -> None:
        raise  # rich ends the process; who draws knows better


def _shown(text: str) -> str:
    return printable(without_logins(text))


def printable_stream(stream: TextIO, may_close: bool = False) -> TextIO:
    """The stream, made printable if it is not. One that `may_close` swallows what it cannot write.

    Others raise OSError as the stream does.
    """
    if isinstance(stream, _PrintableStream):
        return stream
    below = cast(TextIO, _MayClose(stream)) if may_close else stream
    return cast(TextIO, _PrintableStream(below))


def columns_of(stream: TextIO) -> int | None:
    """How wide the terminal is; None where the stream is none."""
    return console_on(stream).width if stream.isatty() else None


def console_on(stream: TextIO, **options: Any) -> Console:
    """Draws on a stream. Raises BrokenPipeError when the reader has gone; `options` are rich's."""
    below = stream.below if isinstance(stream, _PrintableStream) else stream
    return _PrintableConsole(file=below, **options)
