"""What is measured, each declared once: the key that it has in every document, and its meaning."""

from collections.abc import Mapping

MEASURES: Mapping[str, str] = {
    # Records
    "sent": "records that the client was to send, or had settled",
    "acknowledged": "records that brokers acknowledged",
    "failed": "records that were given up; of a run, why it did not come to its end",
    "delivered": "acknowledged records that the consumer read",
    "missing": "acknowledged records that were not read",
    "twice": "records that were read again: the consumer went back",
    "extra": "records read that are of no acknowledged batch",
    "unsettled": "records still under way when the load was told to end",
    "late": "lost records (`--lost-after`) that came after all",
    "warmup_records": "the first records, which are in no time and no rate",
    "records_per_second": "records after the warm-up, by the time from the first to the last",
    "mb_per_second": "bytes of record batches in MiB, by the time",
    # Times
    "latency_ms": "from the intended send time of a record to its acknowledgement, or its reading",
    "service_ms": "from the first send of a record's batch to the acknowledgement",
    "acknowledged_ms": "from the intended send time to the acknowledgement",
    "produce_ms": "from the intended send time to the acknowledgement",
    "end_to_end_ms": "from the intended send time to the answer that brought the record",
    "records_took_ms": "from the first send of a batch to its acknowledgement, as a tap sees it",
    "took_ms": "from a request to its answer",
    "request_ms": "from a request to its answer",
    "gap_ms": "between the last records from one broker and the first from the next",
    "loop_lag_ms": "how much later than it should have the client went on, by the clock",
    "throttle_ms": "what quotas made the client wait, in all (KIP-219)",
    # Moved leaders
    "moves": "moved leaders that the client met: a partition and its new leader epoch",
    "met": "how many moved leaders refused a batch, or a Fetch",
    "not_ready": "of those, refused by the new leader, which did not know yet",
    "wait_ms": (
        "what the client itself took from the first refusal by a moved leader to the send that"
        " succeeded: backoff, and waiting for Metadata"
    ),
    "move_wait_ms": "the median `wait_ms` of a run; of several, the geometric mean",
    "move_wait_ms_by_run": "the median `wait_ms` of each run",
    "by_wait": "moved leaders by their wait",
    "client_share_ms": "backoff and metadata of what was redirected: what a client could save",
    "client_wait_ms": "backoff, and waiting for Metadata, of batches that were sent again",
    "detection_ms": "from a batch's sends to their failures",
    "phases_ms": "the time of what was redirected, by phase; they add up",
    "queued": "in the client, behind other batches",
    "detect": "until the old leader said that it leads no more",
    "backoff": "`retry.backoff.ms`, and the client's own time",
    "metadata": "waiting for a Metadata answer, or what was asked for it",
    "connect": "opening a connection to the new leader",
    "throttled": "until the new leader's quota let the client send",
    "acknowledge": "the new leader, until it acknowledged, or answered",
    "redirects": "what met a leader that leads no more",
    "leader_errors": "answers that a broker does not lead, by partition",
    "appended_then_failed": "refusals with a base offset: the batch had been written",
    "same_epoch_retries": "sent again to no newer leader epoch",
    "hints": "leader hints (KIP-951), by what became of them",
    "refused_by_hint": "refusals by what became of their leader hint",
    "removable_percent": "of the time of redirected batches, what a hint could take away",
    # Metadata
    "metadata_rpcs": "Metadata requests (KIP-526)",
    "on_critical_path": "requests that a batch waited for",
    "by_cause": "Metadata requests by cause",
    "answered_the_same": "Metadata requests whose answer was that of just before",
    "queued_behind": "Metadata requests behind others on their connection",
    # Reading
    "share": "of all bytes read",
    "local": "within the client's rack",
    "cross_rack_bytes": "read from another rack",
    "flips": "changes of the broker that a partition was read from",
    "out_of_range": "offsets that a broker did not have (KIP-392)",
    "preferred_replica_named": "answers that named a replica to read from",
    # What it is worth
    "doubts": "what spoils the result, each in a sentence",
    "different": "whether the sides differ by more than runs vary; null if it cannot be told",
    "p_value": "two-sided, of this comparison alone",
    "p_adjusted": "the same after Holm's method, over all that was asked at once",
    "ratio_interval": "bounds the second over the first in 95 of 100 such comparisons",
    "cut_percent": "by how much the second is below the first",
    "runs_a_side": "runs on the side that has fewer",
    "cpu_seconds": "of the client's process",
    "busy": "the share of this machine's CPU time that was used",
}
"""By key. The key's end is its unit; what it is the same of, it is called the same."""
