"""Durations as people write them: `500ms`, `5s`, `1.5m`, `1m30s`, `2h`, `7d`; one grammar."""

import math
import re
from typing import Self

from kipctl.errors import UsageError

_UNITS_S = {"us": 0.000001, "ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d)", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
LONGEST_S = 36_525 * 86400
"""A century: microseconds since the epoch fit into 64 bits many times over."""


class Duration(float):
    """Seconds, 0 or more, that print as they would be written: `10m`, `2.5s`, `500ms`."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str, unit: str = "s") -> Self:
        """What the text says; a bare number is in `unit`, "" takes none. Raises UsageError."""
        words = text.strip()
        if _NUMBER.fullmatch(words):
            words += unit
        parts = _PART.findall(words)
        if not parts or "".join(number + symbol for number, symbol in parts) != words:
            raise UsageError(
                f"{text!r} is not a duration.", "Write it as 500ms, 5s, 10m, 1h or 1m30s."
            )
        seconds = math.fsum(float(number) * _UNITS_S[symbol] for number, symbol in parts)
        if seconds > LONGEST_S:
            raise UsageError(f"{text!r} is too long: a duration is a century at most.")
        return cls(seconds)

    @property
    def ms(self) -> int:
        """Milliseconds, rounded."""
        return round(self * 1000)

    @property
    def us(self) -> int:
        """Microseconds, rounded."""
        return round(self * 1_000_000)

    def __str__(self) -> str:
        if 0 < self < 1:
            return f"{_plain(self * 1000)}ms"
        whole = (unit for unit in ("d", "h", "m") if self and self % _UNITS_S[unit] == 0)
        unit = next(whole, "s")
        return f"{_plain(self / _UNITS_S[unit])}{unit}"


def _plain(number: float) -> str:
    """Without an exponent, and without zeros that say nothing."""
    return f"{number:.6f}".rstrip("0").rstrip(".")
