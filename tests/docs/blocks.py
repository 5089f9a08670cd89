"""The console blocks of a page: which commands they hold, and whether what was printed is shown.

A block is fenced as `console`. A line that begins with `$ ` is a command, and what follows it is
what the page says that it prints. `...` on a line of its own stands for any number of lines, inside
a line for a part that is left out. Empty lines say nothing.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

MEASURING = {"analyze", "demo", "experiment", "perf", "report", "roll", "runs", "tap"}
"""Commands whose numbers differ from run to run: all of them are compared by shape.

So are those of what `kill` ends. Of other commands the whole numbers count: brokers, partitions,
leaders.
"""

# What differs from run to run, and what stands for it.
_SHAPES = (
    (r"(?<![\w/.:])(/|\.\.\./)([\w.@-]+/)*", ".../"),
    (r"\d{8}T\d{6}\.\d+Z", "<entry>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?( ?UTC|Z)?", "<time>"),
    (r"\d\d:\d\d:\d\d([.,]\d+)?", "<time>"),
    (r"127\.0\.0\.1:\d+", "<address>"),
    (r"(less than a minute|\d+ (second|minute)s?|\d+ min) ago|just now", "<age>"),
    (r"\b\w[\w-]*@[\w.-]+", "<user>"),
    (r"(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])(?=[\w-]*\d)[\w-]{22}(?![\w-])", "<cluster id>"),
    (r"[▁▂▃▄▅▆▇█▏▎▍▌▋▊▉]+", "<bar>"),
    # A client's use of hints is told by how long it took, also on a machine that was busy.
    (r"(?<=  )(follows|waits|unknown)(?=  )", "<behaviour>"),
)
_MEASURED = r"(?<![\w.,-])-?\d[\d,]*(\.\d+)*"
_DECIMAL_OR_WITH_UNIT = (
    r"(?<![\w.,-])-?(\d[\d,]*\.\d+|\d[\d,]*(?= ?(ns|us|ms|s|min|h|%|([kMG]i?)?B(/s)?)(?![\w-])))"
)


@dataclass(frozen=True, slots=True)
class Command:
    """What is typed, at which line of the page, and the lines that are said to follow."""

    line: int
    typed: str
    shown: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        return shlex.split(self.typed, comments=True)

    @property
    def is_measuring(self) -> bool:
        program, *words = self.words
        measured = words and words[0] in MEASURING and "--dry-run" not in words
        return program == "kill" or bool(measured)


class PageError(Exception):
    """The page shows what is not printed."""


def fences(page: str) -> list[tuple[int, str, list[str]]]:
    """Each fenced block: its first line's number, its kind ("" if none is named), its lines."""
    blocks: list[tuple[int, str, list[str]]] = []
    is_open = False
    for number, line in enumerate(page.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_open = not is_open
            if is_open:
                indent, kind = line.split("```")
                blocks.append((number + 1, kind, []))
        elif is_open:
            blocks[-1][2].append(line.removeprefix(indent))
    return blocks


def commands(page: str) -> list[Command]:
    """The commands of all console blocks. Raises PageError for output without a command."""
    parsed: list[Command] = []
    for first, kind, lines in fences(page):
        if kind != "console":
            continue
        is_first, is_open = True, False
        for number, line in enumerate(lines, first):
            if is_open:
                parsed[-1] = Command(parsed[-1].line, f"{parsed[-1].typed[:-1]}{line.strip()}", ())
            elif line.startswith("$ "):
                parsed.append(Command(number, line[2:], ()))
            elif is_first:
                raise PageError(f"line {number}: a console block begins with a command")
            else:
                last = parsed[-1]
                parsed[-1] = Command(last.line, last.typed, (*last.shown, line))
            is_first, is_open = False, parsed[-1].typed.endswith("\\")
    return parsed


def cells(line: str, measured: bool) -> tuple[str, ...]:
    """The cells of a line (they are two spaces apart), with shapes in place of what differs."""
    for pattern, shape in _SHAPES:
        line = re.sub(pattern, shape, line)
    line = re.sub(_MEASURED if measured else _DECIMAL_OR_WITH_UNIT, "<number>", line)
    return tuple(re.split(r"\s{2,}", line.strip()))


def is_shown(printed: str, said: str, measured: bool) -> bool:
    """Whether a line of the page is the one that was printed."""
    there, here = cells(printed, measured), cells(said, measured)
    return len(there) == len(here) and all(
        re.fullmatch(".*".join(map(re.escape, re.split(r"\.\.\.(?!/)", part))), line)
        for line, part in zip(there, here, strict=True)
    )


def shown(
    printed: Sequence[str], said: Sequence[str], measured: bool = False
) -> list[tuple[str, str]]:
    """Each line that was printed, and that of the page. Raises PageError where they differ."""
    printed = [line for line in printed if line.strip()]
    parts: list[list[str]] = [[]]
    for line in said:
        if line.strip() == "...":
            parts.append([])
        elif line.strip():
            parts[-1].append(line)
    pairs: list[tuple[str, str]] = []
    at = 0
    for number, part in enumerate(parts):
        latest = len(printed) - len(part)
        starts = range(at, latest + 1)
        if number == 0:
            starts = range(min(1, latest + 1))
        elif number == len(parts) - 1:
            starts = range(max(at, latest), latest + 1)
        for start in starts:
            beside = list(zip(printed[start:], part, strict=False))
            if all(is_shown(there, here, measured) for there, here in beside):
                break
        else:
            raise PageError(_why(printed[at:], part, measured))
        pairs += beside
        at = start + len(part)
    if at < len(printed):
        raise PageError(f"printed, and not on the page: {printed[at]}")
    return pairs


def remeasured(page: str, command: Command, pairs: Sequence[tuple[str, str]]) -> str:
    """The page with what was printed in place of what a measuring command is said to print.

    Lines that leave something out, or name a path, stay as they are.
    """
    if not command.is_measuring:
        return page
    lines = page.splitlines(keepends=True)
    at = command.line
    for printed, said in pairs:
        while lines[at].strip() != said.strip():
            at += 1
        if "..." not in said and not re.search(_SHAPES[0][0], printed):
            indent = lines[at].partition(said)[0]
            lines[at] = f"{indent}{printed.rstrip()}\n"
        at += 1
    return "".join(lines)


def _why(printed: Sequence[str], part: Sequence[str], measured: bool) -> str:
    for line in part:
        if not any(is_shown(there, line, measured) for there in printed):
            return f"on the page, and not printed: {line}"
    return f"printed at another place: {part[0]}"
