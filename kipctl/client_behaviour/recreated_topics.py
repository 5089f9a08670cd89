"""What a client does about a topic that was deleted and made anew (KIP-516): rules. All times are
microseconds of one clock."""

from dataclasses import dataclass, field

from kipctl.client_behaviour.in_a_row import InARow

RECREATED_US = 10_000_000
"""So long after it was shown the new topic a client may go on as with the old one; and brokers may
be late by as much."""


@dataclass(slots=True)
class RecreatedTopics:
    """Of one client, by name."""

    _gone: dict[str, bytes] = field(default_factory=dict)
    """Ids of topics that Metadata shows no more."""
    _shown_us: dict[str, int] = field(default_factory=dict)
    """When Metadata showed it another id than the last time."""
    _refused: InARow = field(default_factory=InARow)

    def __bool__(self) -> bool:
        return bool(self._shown_us)

    def shown(self, topic: str, old_id: bytes, new_id: bytes, at_us: int) -> None:
        """Metadata shows another id than it did last; zeros of a topic that is not there."""
        if not any(new_id):
            self._gone[topic] = old_id
            return
        before = old_id if any(old_id) else self._gone.pop(topic, new_id)
        if before != new_id:
            self._shown_us[topic] = at_us
            self._refused.over(topic)

    def refused(self, topic: str, sent_us: int, at_us: int) -> bool:
        """It was refused what it asked of the old topic: whether it is time that it knows."""
        shown_us = self._shown_us.get(topic)
        if shown_us is None or sent_us < shown_us + RECREATED_US:
            return False
        return self._refused.refused(topic, sent_us, at_us)

    def accepted(self, topic: str) -> None:
        """It was not refused: it knows the new one."""
        self._shown_us.pop(topic, None)
        self._refused.over(topic)
