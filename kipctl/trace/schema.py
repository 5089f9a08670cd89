"""The datasets of a run: their columns, types and units.

Every time is in microseconds since the run's start, on the machine's monotonic clock; the wall
clock of the start is in `run.json`. A batch is named by (topic, partition, first_seq); `redirects`
rows join `batches` on it. Record k of a batch has sequence number `first_seq + k * seq_stride` and
its intended send time follows from the run's rate (see `kipctl.probe.schedule`).
"""

import pyarrow as pa

from kipctl.trace.codes import PHASES

SCHEMA_VERSION = 1


_COMMON = [("source", pa.string()), ("client", pa.string())]
_I64, _I32 = pa.int64(), pa.int32()

BATCHES = pa.schema(
    [
        *_COMMON,
        ("topic", pa.string()),
        ("partition", _I32),
        ("first_seq", _I64),  # sequence number in the run of the first record
        ("seq_stride", _I64),  # distance of the sequence numbers of neighbouring records
        ("records", _I32),
        ("bytes", _I64),  # of the records' values
        ("intended_us", _I64),  # when the first record should have been sent
        ("sent_us", _I64),  # first written to a socket; null if never
        ("acked_us", _I64),  # acknowledged, or given up
        ("attempts", _I32),
        ("error", _I32),  # 0, or the Kafka error code (-1: none of the broker's) it failed with
        ("broker", _I32),  # the broker of the last attempt
        ("leader_epoch", _I32),  # the leader epoch the client believed in at the last attempt
        ("base_offset", _I64),
    ]
)

RPCS = pa.schema(
    [
        *_COMMON,
        ("software_name", pa.string()),
        ("software_version", pa.string()),
        ("connection", _I32),
        ("broker", _I32),
        ("api_key", _I32),
        ("api_version", _I32),
        ("request_bytes", _I64),
        ("response_bytes", _I64),
        ("sent_us", _I64),
        ("received_us", _I64),  # null if no answer came
        ("queued_behind", _I32),  # requests in flight on the connection when it was sent
        ("queued_behind_us", _I64),  # until the last of those was answered
        ("cause", pa.string()),  # of a Metadata request: the name of a MetadataCause
        ("topics", _I32),
        ("critical", pa.bool_()),  # a batch waited for this answer
        ("error", _I32),
    ]
)

REDIRECTS = pa.schema(
    [
        *_COMMON,
        ("api", pa.string()),  # produce or fetch
        ("topic", pa.string()),
        ("partition", _I32),
        ("first_seq", _I64),
        ("records", _I32),
        ("attempt", _I32),  # 1 is the first
        ("error", _I32),
        ("error_us", _I64),
        ("from_broker", _I32),
        ("from_epoch", _I32),  # the epoch that the client believed in
        ("base_offset", _I64),  # >= 0: the batch was appended before the error
        ("hint_leader", _I32),
        ("hint_epoch", _I32),
        ("hint_endpoint", pa.string()),
        ("decision", pa.string()),
        ("to_broker", _I32),  # where the batch was sent next; null if it was not
        ("to_epoch", _I32),  # null too if the topic was made anew: its epochs start again
        *((f"{phase}_us", _I64) for phase in PHASES),
        ("metadata_queued_us", _I64),  # part of metadata_us: the RPC stood behind other requests
        ("topic_generation", _I32),  # 0, or another for each id that the topic was shown to have
    ]
)

MOVES = pa.schema(
    [
        *_COMMON,
        ("api", pa.string()),  # produce or fetch
        ("topic", pa.string()),
        ("partition", _I32),
        ("topic_generation", _I32),  # as of redirects
        ("epoch", _I32),  # the new leader's; below 0 where Metadata has no epochs
        ("error_us", _I64),  # of the first refusal
        ("wait_us", _I64),  # from it to the request that went to the leader; null for none such
        ("not_ready", _I32),  # refusals by the new leader
    ]
)
"""Moved leaders as a tap saw them met. Of several rows of one the longest wait counts."""

EVENTS = pa.schema(
    [
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("partition", _I32),
        ("from_broker", _I32),
        ("to_broker", _I32),
        ("epoch", _I32),
        ("seen_by", _I32),  # the broker whose Metadata showed it
        ("time_us", _I64),
    ]
)

READS = pa.schema(
    [
        *_COMMON,
        ("software_name", pa.string()),
        ("software_version", pa.string()),
        ("topic", pa.string()),
        ("partition", _I32),
        ("broker", _I32),  # that answered the fetch
        ("broker_rack", pa.string()),
        ("client_rack", pa.string()),
        ("is_leader", pa.bool_()),  # the broker led the partition; null if it is not known
        ("preferred_read_replica", _I32),  # null if the answer names none
        ("records", _I64),  # null if it is not known
        ("bytes", _I64),
        ("error", _I32),
        ("fetch_offset", _I64),
        ("next_offset", _I64),  # where to read on; null if it is not known
        ("high_watermark", _I64),  # as the broker knows it; null if it did not say
        ("range_case", pa.string()),  # the name of a RangeCase, if the offset was out of range
        ("range_handling", pa.string()),  # and of a RangeHandling: what was done about it
        ("time_us", _I64),  # of the answer
    ]
)

DATASETS = {
    "batches": BATCHES,
    "rpcs": RPCS,
    "redirects": REDIRECTS,
    "reads": READS,
    "moves": MOVES,
    "events": EVENTS,
}
NEEDED = {
    "batches": (
        *("topic", "partition", "first_seq", "seq_stride", "records", "bytes"),
        *("intended_us", "sent_us", "acked_us", "error"),
    ),
    "rpcs": ("broker", "api_key", "request_bytes", "response_bytes", "sent_us", "received_us"),
    "redirects": ("topic", "partition", "first_seq", "attempt", "error", "error_us"),
    "reads": ("topic", "partition", "broker", "records", "bytes", "error", "time_us"),
    "moves": ("topic", "partition", "epoch", "error_us", "wait_us"),
    "events": ("kind", "time_us"),
}
"""Columns without which rows of a dataset say nothing; all versions of kipctl have written them."""
