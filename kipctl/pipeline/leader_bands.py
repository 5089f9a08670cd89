"""Who led which partitions when, as few rows: partitions with the same leaders one after another
are one row where there are too many for a row each. Pure."""

from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import NamedTuple

from kipctl.documents.pages import LeaderBand, LeaderBands

MOST_BANDS = 16
"""Rows that are drawn of a run."""
_MOST_NAMED = 6


class Change(NamedTuple):
    """A partition's new leader, when the first broker showed it (microseconds)."""

    time_us: int
    topic: str
    partition: int
    from_broker: int | None
    to_broker: int


class _LeaderHistory(NamedTuple):
    """A partition's leaders one after another, and when each but the first was seen."""

    leaders: tuple[int | None, ...]
    times: tuple[int, ...]


def bands(
    before: Mapping[tuple[str, int], int], changes: Sequence[Change], span: tuple[int, int]
) -> LeaderBands:
    """Rows for a picture of who led, from the leaders `before` and the changes, in order of time.

    Result: `partitions`, how many there are; `rows`, each with `names` (of up to _MOST_NAMED
    partitions) and `count` of its partitions, and `leads`: from when on (microseconds, not before
    the span; of several partitions the median) which broker led, None if it is not known;
    `rows_left_out` and `partitions_left_out`. Up to MOST_BANDS partitions have a row each; of more,
    those with the same leaders in the same order have one, the rows of most partitions first.
    """
    histories: dict[tuple[str, int], _LeaderHistory] = {
        partition: _LeaderHistory((leader,), ()) for partition, leader in before.items()
    }
    for change in changes:
        if change.time_us >= span[1]:
            continue
        key = (change.topic, change.partition)
        history = histories.setdefault(key, _LeaderHistory((change.from_broker,), ()))
        if history.leaders[-1] != change.to_broker:
            histories[key] = _LeaderHistory(
                (*history.leaders, change.to_broker), (*history.times, change.time_us)
            )
    groups: dict[object, list[tuple[str, int]]] = {}
    for key in sorted(histories):
        group_key = key if len(histories) <= MOST_BANDS else histories[key].leaders
        groups.setdefault(group_key, []).append(key)
    in_order = list(groups.values())
    if len(histories) > MOST_BANDS:
        in_order.sort(key=len, reverse=True)
    shown, others = in_order[:MOST_BANDS], in_order[MOST_BANDS:]
    return {
        "partitions": len(histories),
        "rows": [_row(group, [histories[key] for key in group], span) for group in shown],
        "rows_left_out": len(others),
        "partitions_left_out": sum(map(len, others)),
    }


def _row(
    group: Sequence[tuple[str, int]], histories: Sequence[_LeaderHistory], span: tuple[int, int]
) -> LeaderBand:
    times = [span[0], *(median_low(at) for at in zip(*(c.times for c in histories), strict=True))]
    return {
        "names": [f"{topic}-{partition}" for topic, partition in group[:_MOST_NAMED]],
        "count": len(group),
        "leads": [
            (max(span[0], at), leader)
            for at, leader in zip(times, histories[0].leaders, strict=True)
        ],
    }
