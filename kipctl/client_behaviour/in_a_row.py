"""What a client is refused again and again: rules. All times are microseconds of one clock."""

from collections.abc import Hashable
from dataclasses import dataclass, field

AGAIN = 3
"""So often a client may do it again: what was under way, and a retry."""
_MOST = 10_000


@dataclass(slots=True)
class InARow:
    """Of one client: refusals of the same thing, each sent after the answer before it."""

    _refused: dict[Hashable, tuple[int, int]] = field(default_factory=dict)
    """When it was answered last, and how often again."""

    def __bool__(self) -> bool:
        return bool(self._refused)

    def refused(self, what: Hashable, sent_us: int, at_us: int) -> bool:
        """Whether it was once more than AGAIN; counts from there on."""
        answered_us, again = self._refused.get(what, (at_us, -1))
        if again >= 0 and sent_us < answered_us:
            return False  # it was under way
        if len(self._refused) > _MOST:
            self._refused.clear()
        is_often = again + 1 > AGAIN
        self._refused[what] = at_us, 0 if is_often else again + 1
        return is_often

    def over(self, what: Hashable) -> None:
        """It was not refused, or something else was done."""
        self._refused.pop(what, None)
