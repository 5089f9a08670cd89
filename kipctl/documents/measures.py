"""What is measured, each declared once: the key that it has in every document, its meaning, and how
it is shown. A key's end is its unit, and what it is the same of, it is called the same."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

STATISTIC = re.compile(r"mean|sum|max|p\d+")
"""What stands within a time: `wait_ms.p50`. Percentiles are nearest-rank; `p999` is 99.9 %."""
_UNITS = {"ms": "ms", "seconds": "s", "percent": "%", "per_second": "a second"}
_UNIT = re.compile(rf"_?({'|'.join(_UNITS)})\Z")


@dataclass(frozen=True, slots=True)
class Measure:
    """What a key means; how it is headed in tables (by its own words, if that is empty), and with
    how many decimals it is shown."""

    meaning: str
    title: str = ""
    digits: int = 1


def heading(path: str, title: str | None = None) -> str:
    """How a number is headed that stands at this path of a document, with its unit: "wait p99.9 ms"
    of `moves.wait_ms.p999`. `title` is said for the measure, where it is given."""
    *_, last = parts = path.split(".")
    statistic = last if len(parts) > 1 and STATISTIC.fullmatch(last) else ""
    key = parts[-2] if statistic else last
    measure, unit = measure_of(key), _UNIT.search(key)
    said = measure.title or _UNIT.sub("", key).replace("_", " ") if title is None else title
    shown = re.sub(r"(p\d\d)(\d+)", r"\1.\2", statistic)
    return " ".join(filter(None, (said, shown, _UNITS[unit[1]] if unit else "")))


def measure_of(key: str) -> Measure:
    """The measure of this key; one that is not declared means what its name says."""
    return MEASURES.get(key, Measure(""))


MEASURES: Mapping[str, Measure] = {
    # Records
    "sent": Measure("records that the client was to send, or had settled"),
    "acknowledged": Measure("records that brokers acknowledged"),
    "failed": Measure("records that were given up; of a run, why it did not come to its end"),
    "delivered": Measure("acknowledged records that the consumer read"),
    "missing": Measure("acknowledged records that were not read"),
    "twice": Measure("records that were read again: the consumer went back"),
    "extra": Measure("records read that are of no acknowledged batch"),
    "unsettled": Measure("records still under way when the load was told to end"),
    "late": Measure("lost records (`--lost-after`) that came after all"),
    "warmup_records": Measure("the first records, which are in no time and no rate"),
    "records_per_second": Measure(
        "records after the warm-up, by the time from the first to the last"
    ),
    "mb_per_second": Measure("bytes of record batches in MiB, by the time"),
    # Times
    "latency_ms": Measure(
        "from the intended send time of a record to its acknowledgement, or its reading"
    ),
    "service_ms": Measure("from the first send of a record's batch to the acknowledgement"),
    "acknowledged_ms": Measure("from the intended send time to the acknowledgement"),
    "records_took_ms": Measure(
        "from the creation of the first record of a batch to the answer, as a tap sees it; of each"
        " record where it is recorded, else of each batch, to 3 %",
        "records",
    ),
    "time_ms": Measure("of records, by what `time` says", "", 3),
    "pause_ms": Measure("the longest time without records", digits=0),
    "elsewhere_after_ms": Measure("until another rack brought records", digits=0),
    "back_after_ms": Measure("from when the brokers ran again until they were read from", digits=0),
    "waited_ms": Measure(
        "of records that waited for Metadata before they could be sent", "wait", 2
    ),
    "took_ms": Measure("from a request to its answer", digits=3),
    "request_ms": Measure("from a request to its answer", "Metadata"),
    "gap_ms": Measure(
        "between the last records from one broker and the first from the next", digits=3
    ),
    "loop_lag_ms": Measure("how much later than it should have the client went on, by the clock"),
    "throttle_ms": Measure("what quotas made the client wait, in all (KIP-219)"),
    # Moved leaders
    "moves": Measure(
        "moved leaders that the client met: a partition and its new leader epoch", "moved leaders"
    ),
    "met": Measure("how many moved leaders refused a batch, or a Fetch"),
    "not_ready": Measure("of those, refused by the new leader, which did not know yet"),
    "wait_ms": Measure(
        "what the client itself took from the first refusal by a moved leader to the send that"
        " succeeded: backoff, and waiting for Metadata",
        "wait",
        digits=3,
    ),
    "move_wait_ms": Measure("the median `wait_ms` of a run; of several, the geometric mean"),
    "move_wait_ms_by_run": Measure("the median `wait_ms` of each run"),
    "by_wait": Measure("moved leaders by their wait"),
    "client_share_ms": Measure(
        "backoff and metadata of what was redirected: what a client could save",
        "client's wait",
        digits=3,
    ),
    "client_wait_ms": Measure("backoff, and waiting for Metadata, of batches that were sent again"),
    "detection_ms": Measure("from a batch's sends to their failures"),
    "phases_ms": Measure("the time of what was redirected, by phase; they add up"),
    "queued": Measure("in the client, behind other batches"),
    "detect": Measure("until the old leader said that it leads no more"),
    "backoff": Measure("`retry.backoff.ms`, and the client's own time"),
    "metadata": Measure("waiting for a Metadata answer, or what was asked for it"),
    "connect": Measure("opening a connection to the new leader"),
    "throttled": Measure("until the new leader's quota let the client send"),
    "acknowledge": Measure("the new leader, until it acknowledged, or answered"),
    "redirects": Measure("what met a leader that leads no more"),
    "leader_errors": Measure("answers that a broker does not lead, by partition"),
    "appended_then_failed": Measure("refusals with a base offset: the batch had been written"),
    "same_epoch_retries": Measure("sent again to no newer leader epoch"),
    "hints": Measure("leader hints (KIP-951), by what became of them"),
    "refused_by_hint": Measure("refusals by what became of their leader hint"),
    "removable_percent": Measure("of the time of redirected batches, what a hint could take away"),
    # Metadata
    "metadata_rpcs": Measure("Metadata requests (KIP-526)"),
    "on_critical_path": Measure("requests that a batch waited for"),
    "by_cause": Measure("Metadata requests by cause"),
    "answered_the_same": Measure("Metadata requests whose answer was that of just before"),
    "controller_ms": Measure("from the call of an action to its answer", "done after", 0),
    "convergence_ms": Measure(
        "from the answer until every broker's Metadata showed it", "known to all after", 0
    ),
    "recovery_ms": Measure(
        "from the call until what met an error because of it had succeeded", "recovered after", 0
    ),
    "queued_behind": Measure("Metadata requests behind others on their connection"),
    # Reading
    "share": Measure("of all bytes read"),
    "local": Measure("within the client's rack"),
    "cross_rack_bytes": Measure("read from another rack"),
    "flips": Measure("changes of the broker that a partition was read from"),
    "out_of_range": Measure("offsets that a broker did not have (KIP-392)"),
    "preferred_replica_named": Measure("answers that named a replica to read from"),
    # What it is worth
    "doubts": Measure("what spoils the result, each in a sentence"),
    "different": Measure(
        "whether the sides differ by more than runs vary; null if it cannot be told"
    ),
    "p_value": Measure("two-sided, of this comparison alone"),
    "p_adjusted": Measure("the same after Holm's method, over all that was asked at once"),
    "ratio_interval": Measure("bounds the second over the first in 95 of 100 such comparisons"),
    "cut_percent": Measure("by how much the second is below the first"),
    "runs_a_side": Measure("runs on the side that has fewer"),
    "cpu_seconds": Measure("of the client's process"),
    "busy_percent": Measure("of this machine's CPU time, what was used"),
}
