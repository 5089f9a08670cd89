"""What `kipctl throttle` prints of what it sets."""

from typing import TYPE_CHECKING

from kipctl.report.tables import Report, Table, paragraphs

if TYPE_CHECKING:
    from kipctl.changes.throttle import Throttle


def throttle_report(throttle: "Throttle", first: str, *, is_removal: bool = False) -> Report:
    """What it sets, each with what was there before; of a removal what it gives back."""
    rows = tuple(
        (str(one.setting), *_from_to(one.before or "none", one.during or "none", is_removal))
        for one in throttle.changes
    )
    settings = [
        {**one.setting._asdict(), "before": one.before, "during": one.during}
        for one in throttle.changes
    ]
    table = Table(
        "Settings", ("Setting", "Now", "Then") if is_removal else ("Setting", "Before", "Set"), rows
    )
    return Report("throttle", {"settings": settings}, (table,), opening=paragraphs(first))


def _from_to(before: str, during: str, is_removal: bool) -> tuple[str, str]:
    return (during, before) if is_removal else (before, during)
