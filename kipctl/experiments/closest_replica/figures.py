"""From which racks a consumer read, and how it fared when its own broker stopped: pure."""

from collections.abc import Mapping, Sequence

import numpy as np

from kipctl.documents.common import Longest
from kipctl.documents.experiments import RackOutage, RackTraffic
from kipctl.measure.distribution import distribution_of
from kipctl.protocol.error_codes import error_name
from kipctl.trace.columns import READ
from kipctl.trace.rows import IntRows

UNKNOWN_RACK = "unknown"
Racks = Mapping[int, str | None]
"""By broker."""


def within(reads: IntRows, begin_us: int, end_us: int) -> IntRows:
    """The answers that came in [begin, end)."""
    at = reads[:, READ["time_us"]]
    return reads[(at >= begin_us) & (at < end_us)]


def traffic(reads: IntRows, racks: Racks, rack: str) -> RackTraffic:
    """The bytes that answers brought, by the rack of the broker that gave them.

    `cross_rack_bytes` are those that came from another rack than the consumer's.
    """
    by_rack: dict[str, int] = {}
    for broker in np.unique(reads[:, READ["broker"]]).tolist():
        mine = reads[reads[:, READ["broker"]] == broker]
        origin = racks.get(broker) or UNKNOWN_RACK
        by_rack[origin] = by_rack.get(origin, 0) + int(mine[:, READ["bytes"]].clip(min=0).sum())
    total = sum(by_rack.values())
    own = by_rack.get(rack, 0)
    return {
        "bytes": total,
        "bytes_by_rack": dict(sorted(by_rack.items())),
        "own_rack_percent": 100 * own / total if total else None,
        "cross_rack_bytes": total - own,
    }


def rack_outage(
    reads: IntRows, racks: Racks, rack: str, called_us: int, started_us: int, until_us: int
) -> RackOutage:
    """What became of reading when the brokers of the rack were ended, and ran again.

    Partitions count whose last records before came from there. `pause_ms` is the longest time
    without records of each, of those that began before the brokers ran again; `elsewhere_after_ms`
    from the call until other racks first brought records; `back_after_ms` from when the brokers
    ran until the rack brought records again, of those partitions that it did bring.
    """
    with_records = reads[reads[:, READ["records"]] > 0]
    brokers = [broker for broker in racks if racks[broker] == rack]
    own = np.isin(with_records[:, READ["broker"]], brokers)
    at = with_records[:, READ["time_us"]]
    of_partition = with_records[:, READ["partition"]]
    pauses, elsewhere, back = list[int](), list[int](), list[int]()
    for partition in np.unique(of_partition).tolist():
        mine = of_partition == partition
        before = np.flatnonzero(mine & (at < called_us))
        if not len(before) or not own[before[at[before].argmax()]]:
            continue
        pauses.append(_longest_pause(at[mine], called_us, started_us))
        if len(other := at[mine & ~own & (at >= called_us)]):
            elsewhere.append(int(other.min()) - called_us)
        if len(again := at[mine & own & (at >= started_us)]):
            back.append(int(again.min()) - started_us)
    wrong = within(reads, called_us, until_us)[:, READ["error"]]
    return {
        "partitions": len(pauses),
        "pause_ms": _spread_ms(pauses),
        "elsewhere_after_ms": _spread_ms(elsewhere),
        "partitions_back": len(back),
        "back_after_ms": _spread_ms(back),
        "errors": {
            error_name(code): int((wrong == code).sum())
            for code in np.unique(wrong[wrong != 0]).tolist()
        },
    }


def _longest_pause(at: IntRows, called_us: int, started_us: int) -> int:
    """The longest time between neighbours, of those that end after the call and begin before the
    start of the brokers."""
    times = np.sort(at)
    begins, ends = times[:-1], times[1:]
    mine = (ends >= called_us) & (begins < started_us)
    return int((ends - begins)[mine].max(initial=0))


def _spread_ms(times_us: Sequence[int]) -> Longest | None:
    """p50 and max in milliseconds; None for none."""
    if not times_us:
        return None
    values = np.array(times_us, dtype=np.int64)
    shown = distribution_of(values).as_ms()
    return {"p50": shown["p50"], "max": shown["max"]}
