"""Numbers in sentences and labels."""

from collections.abc import Iterable
from decimal import Decimal
from itertools import islice


def milliseconds(us: float | None) -> str:
    """Microseconds as milliseconds, to the microsecond below 100 ms."""
    if us is None:
        return "-"
    return f"{us / 1000:,.3f} ms" if us < 100_000 else f"{us / 1000:,.1f} ms"


def seconds(us: int) -> str:
    """Microseconds as seconds, to the millisecond, without zeros at the end."""
    shown = Decimal(round(us / 1000)).scaleb(-3).normalize()
    return f"{shown:f} s"


def first_few(texts: Iterable[str], most: int, between: str = ", ") -> str:
    """So many of them, and how many more there are."""
    them = iter(texts)
    shown = list(islice(them, most))
    more = sum(1 for _ in them)
    return between.join(shown) + (f" and {more:,} more" if more else "")
