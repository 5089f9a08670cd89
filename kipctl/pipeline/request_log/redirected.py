"""What clients did after leader errors: the lines are read a second time for it, where it can be.

Only files are opened that hold requests of a time in which some client was refused.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kipctl.pipeline.redirect_episodes import ATTEMPTS
from kipctl.pipeline.request_log.bodies import (
    REPLICA,
    computed_once,
    took_us,
    with_bodies,
    with_whole_header,
)
from kipctl.pipeline.request_log.callers import client_key
from kipctl.pipeline.request_log.line_pieces import (
    CLIENT,
    HEAD_END,
    MARKER,
    after_last,
    answered_us,
    before_first,
)
from kipctl.pipeline.request_log.log import SLOT_US, RequestLog, Span, has_leader_error
from kipctl.pipeline.request_log.places import address_of, host_of

_MOST_SENT_ROUND = 500_000
"""Refusals whose clients fit into the memory of every executor."""


def attempts(log: RequestLog) -> DataFrame:
    """What refused clients asked for around then, in the schema ATTEMPTS: for `episodes`.

    After a refusal the client's requests of that kind are followed to the end of the next slot of
    SLOT_US: for 10 to 20 s.
    """
    slot = F.floor(F.col("last_us") / SLOT_US)
    watched = (
        log.calls.filter(has_leader_error())
        .select(
            F.col("single.asker").alias("asker"), F.explode(F.array(slot, slot + 1)).alias("slot")
        )
        .groupBy("asker")
        .agg(F.collect_set("slot").alias("slots"))
    )
    if log.refusals <= _MOST_SENT_ROUND:
        watched = F.broadcast(watched)
    text = log.text
    files = files_within(log.spans, log.refused_slots)
    if len(files) < len(log.spans):
        text = text.filter(F.col("file").isin(files))
    is_asking = F.contains("_head", F.lit('"requestApiKey":0,')) | F.contains(
        "_head", F.lit('"requestApiKey":1,')
    )
    us = answered_us(before_first("_head", MARKER), log.zone)
    lines = (
        text.filter(F.contains("value", F.lit(MARKER)))
        .select("value", "file", before_first("value", HEAD_END).alias("_head"))
        .filter(is_asking)
        .select("value", "file", "_head", computed_once(after_last("_head", CLIENT)).alias("asker"))
        .join(watched, "asker")
        .select(F.col("value").alias("whole"), "file", us.alias("received_us"), "slots")
        .filter(F.array_contains("slots", F.floor(F.col("received_us") / SLOT_US)))
        .transform(with_whole_header)
        .filter(
            F.col("header").isNotNull()
            & ~F.coalesce(F.col("header.isForwarded"), F.lit(False))
            & ~F.coalesce(F.col("header.requestHeader.clientId").rlike(REPLICA), F.lit(False))
        )
        .select(
            "whole",
            "header",
            "file",
            "received_us",
            address_of("header.connection").alias("address"),
            host_of("header.connection").alias("host"),
            F.col("header.requestHeader.clientId").alias("client"),
        )
        .join(log.place_rows, ["file", "address"], "left")
    )
    rows = lines.transform(with_bodies).select(
        "cluster",
        client_key().alias("client"),
        F.col("header.connection").alias("connection"),
        F.col("header.requestHeader.requestApiKey").alias("api_key"),
        "broker",
        (F.col("received_us") - took_us()).alias("sent_us"),
        "received_us",
        F.explode(_partitions()).alias("_of"),
    )
    return (
        rows.select("*", "_of.*")
        .join(_topic_names(log), ["cluster", "topic_id"], "left")
        .select("*", F.coalesce("topic_name", "name", "topic_id").alias("topic"))
        .select(*(F.col(field.name).cast(field.dataType) for field in ATTEMPTS))
    )


def files_within(spans: Mapping[str, Span], slots: Iterable[int]) -> list[str]:
    """The files that hold requests of one of these slots, or of the slot after it."""
    wanted = sorted({at for slot in slots for at in (slot, slot + 1)})

    def holds(span: Span) -> bool:
        first = bisect_left(wanted, span.first_us // SLOT_US)
        return first < len(wanted) and wanted[first] <= span.last_us // SLOT_US

    return sorted(file for file, span in spans.items() if holds(span))


def _topic_names(log: RequestLog) -> DataFrame:
    """`cluster`, `topic_id` and `name` of each topic that Metadata answers named, once."""
    return (
        log.calls.filter("metadata is not null")
        .select(F.col("metadata.cluster").alias("cluster"), F.explode("metadata.topics").alias("t"))
        .groupBy("cluster", F.col("t.id").alias("topic_id"))
        .agg(F.max("t.name").alias("name"))
    )


def _partitions() -> Column:
    """The partitions of a Produce or Fetch answer: `topic_name` and `topic_id` (one of them null),
    `partition`, `error`, `base_offset` of Produce, and `hint_leader`."""
    produced = (
        "flatten(transform(produced.response.responses, t -> transform(t.partitionResponses, p -> "
        "named_struct('topic_name', t.name, 'topic_id', t.topicId, 'partition', p.index, "
        "'error', p.errorCode, 'base_offset', p.baseOffset, "
        "'hint_leader', p.currentLeader.leaderId))))"
    )
    fetched = (
        "flatten(transform(fetched.response.responses, t -> transform(t.partitions, p -> "
        "named_struct('topic_name', t.topic, 'topic_id', t.topicId, "
        "'partition', p.partitionIndex, 'error', p.errorCode, 'base_offset', cast(null as bigint), "
        "'hint_leader', p.currentLeader.leaderId))))"
    )
    return F.expr(f"coalesce({produced}, {fetched})")
