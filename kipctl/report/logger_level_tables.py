"""Tables of `kipctl request-log`: at which brokers the log is on."""

from collections.abc import Sequence
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
                one.broker,
                None if one.level is None else is_on(one.level),
                one.level,
                *((one.before,) if changed else ()),
                one.error.what if one.error else None,
            )
            for one in levels
        ),
    )
    document: dict[str, object] = {"logger": LOGGER, "brokers": brokers}
    opening = _where(levels)
    if on_s is not None:
        document["seconds"] = on_s
        opening += paragraphs(f"It was on for {on_s:.1f} s.")
    return Report(f"request-log {action}", document, (table,), opening=opening)


def _where(levels: "Sequence[LoggerLevel]") -> tuple[Paragraph, ...]:
    """At which brokers it is on, at which off, and of which that is not known."""
    from kipctl.cluster.request_log import is_on

    states: dict[str, list[int]] = {}
    for one in levels:
        state = "not known" if one.level is None else "on" if is_on(one.level) else "off"
        states.setdefault(state, []).append(one.broker)
    said = ", ".join(f"{state} at {broker_list(brokers)}" for state, brokers in states.items())
    return paragraphs(f"The request log is {said}.")
