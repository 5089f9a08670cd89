"""Tables of `kipctl request-log`: at which brokers the log is on."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kipctl.counts import broker_list
from kipctl.report.leader_tables import listing
from kipctl.report.tables import Paragraph, Report, paragraphs

if TYPE_CHECKING:
    from kipctl.cluster.request_log import LoggerLevel


def levels_report(
    action: str, levels: "Sequence[LoggerLevel]", on_s: float | None = None
) -> Report:
    """A row per broker; `on_s` says that the log was on for so many seconds, and is over."""
    from kipctl.cluster.request_log import LOGGER, is_on

    columns = {"broker": "Broker", "on": "On", "level": "Level"}
    if changed := action != "status":
        columns["level_before"] = "Level before"
    table, brokers = listing(
        f"Request log ({LOGGER})",
        columns | {"error": "Error"},
        (
            (
                level.broker,
                None if level.level is None else is_on(level.level),
                level.level,
                *((level.before,) if changed else ()),
                level.error.what if level.error else None,
            )
            for level in levels
        ),
    )
    document: dict[str, object] = {"logger": LOGGER, "brokers": brokers}
    opening = _where(levels)
    if on_s is not None:
        document["seconds"] = on_s
        opening += paragraphs(f"It was on for {on_s:.1f} s.")
    table = replace(table, name="brokers")
    return Report(f"request-log {action}", document, (table,), opening=opening)


def switched_back(levels: "Sequence[LoggerLevel]") -> str:
    """Where it is off again, and where it stays on as it was before."""
    from kipctl.cluster.request_log import is_on

    off = [level.broker for level in levels if not is_on(level.level)]
    left_on = [level.broker for level in levels if is_on(level.level)]
    said = [f"The request log is off again at {broker_list(off)}."] if off else []
    if left_on:
        said.append(f"It stays on at {broker_list(left_on)}, as it was before.")
    return " ".join(said)


def _where(levels: "Sequence[LoggerLevel]") -> tuple[Paragraph, ...]:
    """At which brokers it is on, at which off, and of which that is not known."""
    from kipctl.cluster.request_log import is_on

    states: dict[str, list[int]] = {}
    for level in levels:
        state = "not known" if level.level is None else "on" if is_on(level.level) else "off"
        states.setdefault(state, []).append(level.broker)
    said = ", ".join(f"{state} at {broker_list(brokers)}" for state, brokers in states.items())
    return paragraphs(f"The request log is {said}.")
