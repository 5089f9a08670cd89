"""What the nodes of a lab wrote into their logs: the last lines, new lines, the last error."""

import io
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

_LEVEL = re.compile(r"^\[[^\]]*\] (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ")
_THROWABLE = re.compile(r"^(?:Caused by: )?((?:[\w$]+\.)+[\w$]*(?:Exception|Error)\b.*)")


def last_error(text: str) -> str | None:
    """The last error in a log, on one line: its message and the cause of the exception below it.

    A line that is no log entry (a JVM's last words) counts when nothing was logged as an error.
    """
    message: str | None = None
    cause = ""
    in_error = False
    stray: str | None = None
    for line in text.splitlines():
        if level := _LEVEL.match(line):
            in_error = level[1] in ("ERROR", "FATAL")
            if in_error:
                message, cause = line[level.end() :].strip(), ""
        elif thrown := _THROWABLE.match(line):
            if in_error:
                cause = thrown[1].strip()
            else:
                stray = thrown[1].strip()
        elif line.startswith(("Error", "Invalid", "Unrecognized", "#")) and line.strip("# "):
            stray = stray or line.strip("# ")
    if message is None:
        return stray
    # The logger's own name, in parentheses at the end, says nothing to a user.
    message = re.sub(r" \([\w.$]+\)$", "", message)
    return f"{message}: {cause}" if cause else message


def tail(path: Path, lines: int) -> list[str]:
    """The last lines of a file, without line ends; none when there is no such file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as log:
            return [line.rstrip("\n") for line in deque(log, maxlen=lines)]
    except FileNotFoundError:
        return []


def follow(
    paths: Iterable[Path], lines: int, interval_s: float = 0.1
) -> Iterator[tuple[Path, str]]:
    """Yield (path, line): the last lines of each file, then what is appended, without end.

    A file that is rolled is followed on; one that is not there yet, from its beginning.
    """
    ends = {}
    for path in paths:
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        ends[path] = len(whole)
        for line in whole.splitlines()[-lines:] if lines else ():
            yield path, line.decode("utf-8", "replace")
    while True:
        for path, end in ends.items():
            size = path.stat().st_size if path.exists() else 0
            if size < end:  # rolled: a new file has its place
                end = 0
            with path.open("rb") if size > end else io.BytesIO() as log:
                log.seek(end)
                appended = log.read()
            whole = appended[: appended.rfind(b"\n") + 1]
            ends[path] = end + len(whole)
            for line in whole.splitlines():
                yield path, line.decode("utf-8", "replace")
        time.sleep(interval_s)
