"""The tables of recorded runs, each declared once: what of, by which keys, with which columns.

The check of `--by`, the JSON document, the tables for reading and those in docs/pipeline.md follow
from the declarations.
"""

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kipctl.pipeline.actions import action_table, with_last_action
from kipctl.pipeline.columns import is_leader_error
from kipctl.pipeline.latency import failures, latency, volumes
from kipctl.pipeline.moves import met_moves, move_table
from kipctl.pipeline.reads import flip_table, out_of_range_table, read_error_table, read_table
from kipctl.pipeline.redirects import episodes, redirect_table
from kipctl.pipeline.rpcs import metadata_table, rpc_table, with_inferred_causes
from kipctl.pipeline.table import Columns, Source, Table

_OF_CLIENT = ("run", "arm", "client")
_OF_PARTITION = (*_OF_CLIENT, "topic", "partition")
_OF_BROKER = (*_OF_PARTITION, "broker")


def _latency(source: Source, keys: list[str]) -> DataFrame:
    own = [key for key in keys if key not in ("window", "time")]
    return latency(source.batches, own, source.window_us if "window" in keys else None)


def redirected(source: Source) -> DataFrame:
    """A row for each redirect episode that began in the period (`redirects.failed_batches`)."""
    return source.within(episodes(source.failed), "first_error_us")


def _redirects(source: Source, keys: list[str]) -> DataFrame:
    return redirect_table(redirected(source), keys)


def moves_met(source: Source) -> DataFrame:
    """A row for each moved leader that a client met in the period (`moves.met_moves`)."""
    # Which epoch was waited for follows from all attempts of a batch, whatever the period is.
    return source.within(met_moves(source.trace), "first_error_us")


def _moves(source: Source, keys: list[str]) -> DataFrame:
    moves = moves_met(source)
    if "action" in keys:
        moves = with_last_action(moves, source.trace.actions, "first_error_us")
    return move_table(moves, keys)


def _actions(source: Source, keys: list[str]) -> DataFrame:
    trace = source.trace
    actions = action_table(trace.actions, trace.batches, source.failed, trace.reads)
    return source.within(actions, "called_us")


def with_causes(source: Source) -> DataFrame:
    """The requests sent in the period, those for Metadata with their causes."""
    # A cause follows from what came earlier: all of the trace, whatever the period is.
    trace = source.trace
    leader_errors = trace.redirects.filter(is_leader_error()).select(
        "run", "client", F.col("error_us").alias("time_us")
    )
    return source.within(with_inferred_causes(trace.rpcs, leader_errors), "sent_us")


def _metadata(source: Source, keys: list[str]) -> DataFrame:
    return metadata_table(with_causes(source), keys)


def _columns(meanings: Mapping[str, str]) -> tuple[Columns, ...]:
    """From names, with spaces between them, to what they mean."""
    return tuple(Columns(tuple(names.split()), meaning) for names, meaning in meanings.items())


_RECORDS = _columns(
    {
        "batches": "acknowledged or given up",
        "acknowledged failed": "records of the whole run",
        "first_ms last_ms": (
            "after the warm-up: the earliest intended send time, the latest acknowledgement; "
            "null if nothing was acknowledged"
        ),
        "bytes": "of the values of records acknowledged after the warm-up",
        "records_per_second": (
            "those records, between `first_ms` and `last_ms`; of several runs, all their "
            "records by all their seconds; null if there are none"
        ),
    }
)
_LATENCY = _columns(
    {
        "time": "`latency` or `service`",
        "records": "how many",
        "time_ms.mean": "their mean",
        "time_ms.p50 time_ms.p75 time_ms.p90 time_ms.p95 time_ms.p99 time_ms.p999 time_ms.p9999"
        " time_ms.max": "percentiles, exact to the microsecond",
    }
)
_FAILURES = _columns(
    {
        "error name": "the code, and its name in Kafka's `Errors`",
        "records": "how many",
    }
)
_REDIRECTS = _columns(
    {
        "episodes": "batches, or Fetches, that met a leader error",
        "errors": "the leader errors they met",
        "records": "in those batches; of Fetches, in the answers that ended them",
        "appended_then_failed": "leader errors with a base offset: the batch had been written",
        "hints_present": "leader errors that named a leader",
        (
            "hints.absent hints.followed hints.known hints.stale hints.unknown_node hints.ignored"
            " hints.draft hints.same_epoch hints.refuser hints.other_endpoint"
        ): (
            "leader errors by what the client did with the hint, as in "
            "[measuring.md](measuring.md#three-ways-to-the-new-leader)"
        ),
        "same_epoch_retries": (
            "leader errors after which the batch was sent again to no newer leader epoch"
        ),
        "client_share_ms.p50 client_share_ms.p99 client_share_ms.sum": (
            "backoff and metadata of an episode together: what a better client could save"
        ),
        "phases_ms.<phase>.p50 phases_ms.<phase>.p99 phases_ms.<phase>.sum": (
            "the same of each phase: `queued`, `detect`, `backoff`, `metadata`, `connect`, "
            "`throttled`, `not_ready`, `acknowledge`"
        ),
        "latency_ms.p50 latency_ms.p99 latency_ms.max": (
            "of an episode; of a batch, from the intended send time of its first record"
        ),
        "loops": "episodes in which the batch went in a circle",
        "longest_loop": "the most leader errors that one of those met; 0 if there are none",
    }
)
_MOVES = _columns(
    {
        "moves": (
            "a partition and its new leader epoch because of which a batch, or a Fetch, of the "
            "client was refused"
        ),
        "not_ready": "of those, where the new leader refused: it did not know yet",
        "wait_ms.p50 wait_ms.p99 wait_ms.max": (
            "what the client itself took from the first refusal to the send that succeeded, "
            "backoff and metadata; of several batches that met a move, the longest. Of a "
            "[tap](tap.md)'s run: until it asked the new leader, as the tap has counted it"
        ),
        "by_wait.below_3_ms by_wait.below_30_ms by_wait.below_90_ms by_wait.below_150_ms"
        " by_wait.below_1000_ms by_wait.longer": (
            "moves by that wait: under 3 ms, from there on under 30 ms, and so on"
        ),
    }
)
_ACTIONS = _columns(
    {
        "run arm": "of the run",
        "number action": "1 is the run's first action; `rotate`, `elect` or `restart:BROKER`",
        "called_ms": "when it was asked for",
        "answered_ms": (
            "when the controller (or the broker's process) had done it; null if it did not "
            "come to that"
        ),
        "converged_ms": "when the Metadata of every broker showed it; null as before",
        "partitions": "that it was about",
        "error": "why it failed; null if it did not",
        "controller_ms": "from the call to the answer; null as before",
        "convergence_ms": "from the answer until every broker showed it; null as before",
        "redirected": (
            "batches and Fetches that met a leader error, and their first error between this "
            "call and the next"
        ),
        "recovery_ms": (
            "from the call until the last batch was acknowledged, or given up, or Fetch "
            "answered without an error, whose first error of any kind came between this call "
            "and the next; 0 if there was none"
        ),
        "<window>_seconds": (
            "how long the window is; this and all below are null for a window of no length"
        ),
        "<window>_records": "acknowledged in it",
        "<window>_read": "records that consumers got in it; null of a run in which nobody read",
        "<window>_records_per_second": "of those",
        "<window>_failed": "records that were given up in it",
        "<window>_latency_ms.p99": (
            "of the records acknowledged in it; the warm-up is left out; null if nothing is left"
        ),
    }
)
_API = _columns({"api_key": "the number of `api` in Kafka's `ApiKeys`"})
_RPCS = _columns(
    {
        "requests": "sent",
        "errors": "answered with an error, or failed without an answer",
        "unanswered": "without an answer: acks=0, or the connection was lost",
        "request_bytes response_bytes": (
            "sums of the whole frames; what a source does not report counts as 0"
        ),
        "took_ms.p50 took_ms.p99": "from sending to the answer; null if none came",
        "critical": "requests whose answer a batch waited for",
    }
)
_METADATA_BYTES = _columns(
    {
        "bytes": "of requests and answers together",
    }
)
_READS = _columns(
    {
        "responses": "fetch responses for a partition",
        "records": "in them; null if no response tells",
        "bytes": "of record batches",
        "local_bytes": "where broker and client are in one rack",
        "cross_rack_bytes": "where they are not",
        "unknown_rack_bytes": "where one of the racks is not known",
        "follower_bytes": "from followers",
        "named_a_replica": "responses that sent the client to a preferred read replica",
        "errors": "responses with an error",
        "local_share": (
            "`local_bytes` of the bytes whose racks are known, 0 to 1; null if there are none"
        ),
    }
)
_FLIPS = _columns(
    {
        "partitions": "that clients read; one that two clients read counts twice",
        "flipped": "of those, where the broker read from changed at least once",
        "flips": "how often it changed, in all of them",
        "most_flips": "how often in one of them at most",
        "preferred_changes": (
            "how often another preferred read replica was named than the time before"
        ),
    }
)
_READ_ERRORS = _columns(
    {
        "error": "the error code of a fetch response for a partition",
        "name": "its name in Kafka's `Errors`",
        "responses": "with that error",
    }
)
_OUT_OF_RANGE = _columns(
    {
        "case": (
            "`uncommitted`: between the high watermark and the end of the log (no error, and "
            "no records); `unavailable`: the leader has it, the follower not yet; "
            "`follower_begins_later`: the leader has it, the follower's log begins after it; "
            "`too_small`: before the start of the leader's log; `too_large`: beyond its end"
        ),
        "handling": (
            "what the consumer did: `wait`, `ask_leader`, `reset` (to where "
            "`auto.offset.reset` says), `truncate` (to where the leader's log left the one "
            "that was read), `fail`"
        ),
        "times": "how often",
    }
)
TABLES = (
    Table(
        "records",
        "Records",
        "batches",
        by=_OF_BROKER,
        always=(),
        columns=_RECORDS,
        make=lambda source, keys: volumes(source.batches, keys),
    ),
    Table(
        "latency",
        "Latency from the intended send time, service time from the actual",
        "batches",
        by=(*_OF_BROKER, "window"),
        always=("time",),
        columns=_LATENCY,
        make=_latency,
    ),
    Table(
        "failures",
        "Records that were given up",
        "batches",
        by=_OF_BROKER,
        always=("error", "name"),
        columns=_FAILURES,
        make=lambda source, keys: failures(source.batches, keys[:-2]),
    ),
    Table(
        "moves",
        "Moved leaders: how long each made the client wait",
        "redirects",
        by=(*_OF_PARTITION, "action"),
        always=("api",),
        columns=_MOVES,
        make=_moves,
        stands_for={"action": ("number", "action")},
    ),
    Table(
        "redirects",
        "Redirects: what met a leader that leads no more",
        "redirects",
        by=(*_OF_PARTITION, "action", "brokers"),
        always=("api",),
        columns=_REDIRECTS,
        make=_redirects,
        stands_for={"action": ("number", "action")},
    ),
    Table(
        "actions",
        "Actions: before, during and after",
        "actions",
        by=(),
        always=("run", "arm", "number", "action"),
        columns=_ACTIONS,
        make=_actions,
    ),
    Table(
        "rpcs",
        "Requests",
        "rpcs",
        by=(*_OF_CLIENT, "broker"),
        always=("software_name", "software_version", "api", "api_version"),
        columns=_API + _RPCS,
        make=lambda source, keys: rpc_table(source.rpcs, keys),
    ),
    Table(
        "metadata",
        "Metadata requests by cause",
        "rpcs",
        by=(*_OF_CLIENT, "broker"),
        always=("cause",),
        columns=_RPCS + _METADATA_BYTES,
        make=_metadata,
    ),
    Table(
        "reads",
        "Reads, by racks and role of the broker",
        "reads",
        by=_OF_BROKER,
        always=("client_rack", "broker_rack", "role"),
        columns=_READS,
        make=lambda source, keys: read_table(source.reads, keys),
    ),
    Table(
        "flips",
        "Changes of the replica that was read from",
        "reads",
        by=_OF_PARTITION,
        always=(),
        columns=_FLIPS,
        make=lambda source, keys: flip_table(source.reads, keys),
    ),
    Table(
        "read_errors",
        "Errors of fetches",
        "reads",
        by=_OF_BROKER,
        always=("error", "name"),
        columns=_READ_ERRORS,
        make=lambda source, keys: read_error_table(source.reads, keys[:-2]),
    ),
    Table(
        "out_of_range",
        "Offsets out of range",
        "reads",
        by=_OF_BROKER,
        always=("case", "handling"),
        columns=_OUT_OF_RANGE,
        make=lambda source, keys: out_of_range_table(source.reads, keys[:-2]),
    ),
)
"""Every table, in the order in which they are shown."""


def keys_of(tables: Iterable[Table]) -> tuple[str, ...]:
    """What `--by` takes: every key of some table."""
    return tuple(dict.fromkeys(key for table in tables for key in table.by))
