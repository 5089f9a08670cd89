"""A command as a terminal shows it, drawn as SVG for the README: real output, made again by hand.

    python benchmarks/picture.py docs/demo.svg kipctl demo

The command runs on a terminal of 80 columns of its own, and what it writes to stdout is drawn by
Rich, in a font of the reader's: the file names no other file. stderr stays where it was.
"""

import argparse
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

COLUMNS = 80

THEME = TerminalTheme(
    (13, 17, 23),
    (201, 209, 217),
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
)
WITHOUT_FONTS = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code", "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono"
)


def on_a_terminal(command: list[str]) -> str:
    """What the command writes to a terminal, with its colours. Its status has to be 0."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    with subprocess.Popen(command, stdout=its, env=environment) as process:
        os.close(its)
        written = b""
        with suppress(OSError):  # that is how Linux says that the other end is closed
            while block := os.read(ours, 65536):
                written += block
    os.close(ours)
    if process.returncode:
        sys.exit(f"{shlex.join(command)} ended with status {process.returncode}.")
    return written.decode().replace("\r\n", "\n")


def drawn(command: list[str], written: str) -> str:
    """A picture of the terminal after the command."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(Text.assemble(("$ ", "bold green"), shlex.join(command)))
        console.print(Text.from_ansi(written))
        return console.export_svg(title="kipctl", theme=THEME, code_format=WITHOUT_FONTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    svg = drawn(given.command, on_a_terminal(given.command))
    given.picture.write_text(svg)
    print(f"{given.picture}: {len(svg.encode()):,} bytes.")


if __name__ == "__main__":
    main()
