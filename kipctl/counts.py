"""Counts, bytes and seconds as sentences have them."""

_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("B", 1))


def counted(count: int, one: str, many: str = "") -> str:
    """A count with its noun, which ends in an s where there are several."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


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
