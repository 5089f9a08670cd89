"""A count with its noun, as sentences have it."""


def counted(count: int, one: str, many: str = "") -> str:
    """A count with its noun, which ends in an s where there are several."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
