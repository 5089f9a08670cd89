"""How busy this machine is."""

from pathlib import Path
from typing import NamedTuple

_STAT = Path("/proc/stat")
MAX_BUSY = 0.9
"""Of a machine's CPU time: with more, what runs on it waits for a core."""


class CpuTimes(NamedTuple):
    """Of all cores since the machine started, in clock ticks."""

    busy: int
    total: int


def cpu_times() -> CpuTimes | None:
    """None where the system does not report (proc(5): user, nice, system, idle, iowait, ...)."""
    try:
        ticks = [int(word) for word in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    return CpuTimes(sum(ticks) - sum(ticks[3:5]), sum(ticks))


def busy_share(since: CpuTimes | None, until: CpuTimes | None) -> float | None:
    """Of the CPU time between two moments, what was used, 0 to 1; None if it is not known."""
    if since is None or until is None or until.total <= since.total:
        return None
    return (until.busy - since.busy) / (until.total - since.total)
