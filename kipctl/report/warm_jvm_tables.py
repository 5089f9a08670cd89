"""The table of `kipctl spark`: the JVM that is kept warm."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from kipctl.next_step import Command
from kipctl.report.tables import Column, Report, Table, paragraphs

if TYPE_CHECKING:
    from kipctl.pipeline.warm import WarmStatus


def warm_jvm_report(
    command: str, status: "WarmStatus | None", *, is_starting: bool = False
) -> Report:
    if status is None:
        title = "No JVM is kept warm. Start one: " + Command("spark start") + "."
        if is_starting:
            title = "A JVM is being started. Wait for it: " + Command("spark start") + "."
        document = {"running": False, "starting": is_starting}
        return Report(command, document, opening=paragraphs(title))
    document = {"running": True, "starting": False, **asdict(status)}
    for name, key in (("idle_timeout_s", "idle_timeout_seconds"), ("since", "started_at")):
        document[key] = document.pop(name)
    ends = (
        "is in use" if status.is_busy else f"ends after {status.idle_timeout_s:.0f} s without use"
    )
    columns = tuple(
        Column(name) for name in ("pid", "JVM", "Spark", "heap", "MB", "age s", "idle s", "uses")
    )
    now = time.time()
    row = (
        status.pid,
        status.jvm_pid,
        status.spark,
        status.driver_memory,
        round(status.memory_bytes / 1e6),
        round(now - status.since),
        0 if status.is_busy else round(now - status.last_used),
        status.analyses,
    )
    opening = paragraphs(f"A JVM is kept warm; it {ends}.")
    return Report(command, document, (Table("", columns, (row,), name="jvm"),), opening=opening)
