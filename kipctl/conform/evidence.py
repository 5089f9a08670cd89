"""What a verdict was drawn from, as lines: requests, and connections as they come and go."""

from collections.abc import Iterable, Iterator

from kipctl.conform.cluster.call import Attempt, Connection, Exchange
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import error_name

_FIRST = 6
_BEFORE, _AFTER = 6, 4
_NAMES = {key.value: key.name.replace("_", " ").title().replace(" ", "") for key in ApiKey}
_MANY = 4


def lines_of(
    exchanges: Iterable[Exchange],
    connections: Iterable[Connection],
    start_us: int,
    decided_ms: float | None,
) -> tuple[str, ...]:
    """The first six from the start on, and those around the one that decided, which has a mark; or
    the last ones, where none did. What is left out is counted."""
    events = sorted(_events(exchanges, connections, start_us))
    decided_us = None if decided_ms is None else start_us + round(decided_ms * 1000)
    at = next((k for k, event in enumerate(events) if event[0] == decided_us), None)
    around = len(events) if at is None else at
    lines: list[str] = []
    left = 0
    for k, (us, line) in enumerate(events):
        if k >= _FIRST and not around - _BEFORE <= k < around + _AFTER:
            left += 1
            continue
        if left:
            lines.append(f"  {left:,} more")
            left = 0
        lines.append(f"{'>' if k == at else ' '} {(us - start_us) / 1000:8.1f} ms  {line}")
    return (*lines, f"  {left:,} more") if left else tuple(lines)


def _events(
    exchanges: Iterable[Exchange], connections: Iterable[Connection], start_us: int
) -> Iterator[tuple[int, str]]:
    for e in exchanges:
        if e.us >= start_us or e.answered_us >= start_us:
            yield e.us, f"{_where(e.broker, e.connection)}{_said(e)}"
    for c in connections:
        if c.opened_us >= start_us:
            yield c.opened_us, f"{_where(c.broker, c.number)}opened"
        if c.closed_us >= start_us:
            by = "the client" if c.by_client else "the broker"
            yield c.closed_us, f"{_where(c.broker, c.number)}closed by {by}"


def _where(broker: int, connection: int) -> str:
    return f"broker {broker} #{connection}  "


def _said(e: Exchange) -> str:
    parts = [f"{_NAMES.get(e.api, f'API {e.api}')} v{e.version}"]
    if e.api == ApiKey.METADATA and e.request is not None:
        parts.append(f"of {_topics(e)}")
    elif e.api == ApiKey.FETCH and e.request is not None and e.request.rack_id:
        parts.append(f"rack {e.request.rack_id}")
    if not e.is_answered:
        parts.append("no answer")
    parts += (f"{topic}-{index} {_tried(tried)}" for (topic, index), tried in e.tried.items())
    return "  ".join(parts)


def _topics(e: Exchange) -> str:
    if e.request.topics is None:
        return "all topics"
    names = [topic.name or str(topic.topic_id) for topic in e.request.topics]
    more = f" and {len(names) - _MANY:,} more" if len(names) > _MANY else ""
    return (", ".join(names[:_MANY]) or "no topics") + more


def _tried(tried: Attempt) -> str:
    parts = []
    if tried.api == ApiKey.PRODUCE:
        if tried.sequence >= 0:
            parts.append(f"sequence {tried.sequence:,} of producer {tried.producer[0]}")
    elif tried.api == ApiKey.FETCH:
        parts.append(f"at {tried.offset:,}")
    if tried.epoch >= 0:
        parts.append(f"epoch {tried.epoch}")
    if tried.error is not None:
        parts.append(error_name(tried.error) if tried.error else "ok")
    if tried.api == ApiKey.PRODUCE and tried.error == 0:
        parts.append(f"at {tried.offset:,}")
    if tried.hint:
        parts.append(f"hint ({tried.hint.id}, {tried.hint.epoch})")
    if tried.preferred >= 0:
        parts.append(f"read at {tried.preferred}")
    return " ".join(parts)
