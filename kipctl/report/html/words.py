"""Numbers in sentences and labels."""

from decimal import Decimal


def in_ms(ms: float | None) -> str:
    """Milliseconds, to the microsecond below 100."""
    if ms is None:
        return "-"
    return f"{ms:,.3f} ms" if ms < 100 else f"{ms:,.1f} ms"


def milliseconds(us: float) -> str:
    """Microseconds as `in_ms` has them."""
    return in_ms(us / 1000)


def seconds(us: float) -> str:
    """Microseconds as seconds, to the millisecond, without zeros at the end."""
    shown = Decimal(round(us / 1000)).scaleb(-3).normalize()
    return f"{shown:f} s"
