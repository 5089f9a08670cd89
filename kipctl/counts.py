"""Counts, bytes and seconds as sentences have them."""

from collections.abc import Iterable

_SINGULAR = {"are": "is", "have": "has", "were": "was", "do": "does"}
_VOWELS = "aeiou"
_GB = 10**9
"""Bytes, as providers charge them."""
_MONTH_S = 30 * 24 * 3600
_UNITS = (("TB", 10**12), ("GB", _GB), ("MB", 10**6), ("kB", 10**3), ("B", 1))


def counted(count: int, noun: str, verb: str = "", *, total: int | None = None) -> str:
    """A count with its noun, and the verb that it is the subject of, as the count has them.

    `noun` is the singular, "" for none, and `verb` the plural: `1 partition is`, `2 partitions
    are`. `total` says of how many: `1 of 3 partitions is`, `0 of 1 partitions are`.
    """
    words = [f"{count:,}"] + ([] if total is None else [f"of {total:,}"])
    if noun:
        words.append(noun if count == 1 and total in (None, 1) else plural(noun))
    if verb:
        words.append(agreeing(count, verb))
    return " ".join(words)


def first_few(things: Iterable[object], most: int = 3, between: str = ", ") -> str:
    """So many of them, and how many more there are: `a, b, c and 2 more`."""
    every = [str(thing) for thing in things]
    more = len(every) - most
    return between.join(every[:most]) + (f" and {more:,} more" if more > 0 else "")


def broker_list(ids: Iterable[int], verb: str = "") -> str:
    """Brokers by their ids, and a verb as of `counted`: `broker 1 has`, `brokers 1, 2 have`."""
    listed = sorted(ids)
    words = ["broker" if len(listed) == 1 else "brokers", ", ".join(map(str, listed))]
    return " ".join([*words, agreeing(len(listed), verb)] if verb else words)


def cost_per_month(bytes_per_s: float | None, price_per_gb: float | None) -> float | None:
    """What bytes across racks cost in 30 days, in the currency of the price of 10^9 bytes."""
    if bytes_per_s is None or price_per_gb is None:
        return None
    return bytes_per_s * _MONTH_S / _GB * price_per_gb


def agreeing(count: int, verb: str) -> str:
    """The verb, given as its plural, as so many have it."""
    return _SINGULAR.get(verb, f"{verb}s") if count == 1 else verb


def plural(noun: str) -> str:
    """The plural of an English noun, or of the last word of a few."""
    if noun.endswith("y") and noun[-2:-1] not in _VOWELS:
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def format_bytes(size: float) -> str:
    """So many bytes, as `1.2 GB`."""
    unit, factor = unit_of(size)
    return f"{size / factor:.{0 if factor == 1 else 1}f} {unit}"


def unit_of(size: float) -> tuple[str, int]:
    """The largest unit of which there is one, and its bytes."""
    return next((unit, factor) for unit, factor in _UNITS if factor == 1 or size >= factor)


def format_duration(seconds: float) -> str:
    """As a person says it: `45 s`, `1 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
