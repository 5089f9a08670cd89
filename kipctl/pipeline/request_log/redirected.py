"""What clients did after leader errors: the lines are read a second time for it, where it can be.

Only files are opened that hold requests of a time in which some client was refused.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.client_behaviour.episode import HintFault
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
from kipctl.pipeline.request_log.log import RequestLog
from kipctl.pipeline.request_log.places import address_of, host_of
from kipctl.pipeline.request_log.summary import SLOT_US, Span, has_leader_error
from kipctl.protocol.api import ApiKey

_API_NAME = r'"requestApiKeyName":"[A-Z_]+"'
_HINT = (
    "p.currentLeader.leaderId",
    "p.currentLeader.leaderEpoch",
    "flatten(transform({topics}, u -> transform(u.{partitions}, q -> q.currentLeader.leaderId)))",
)
_NO_OFFSET = "cast(null as bigint)"
_MOST_SENT_ROUND = 500_000
"""Refusals whose clients fit into the memory of every executor."""


def attempts(log: RequestLog) -> DataFrame:
    """What refused clients asked for around then, in the schema ATTEMPTS: for `episodes`.

    After a refusal the client's requests of that kind are followed to the end of the next slot of
    SLOT_US: for 10 to 20 s. What Metadata showed it is taken from all of these files.
    """
    slot = F.floor(F.col("last_us") / SLOT_US)
    asker = F.col("single.asker")
    of_metadata = F.regexp_replace(asker, _API_NAME, '"requestApiKeyName":"METADATA"')
    watched = (
        log.calls.filter(has_leader_error())
        .select(
            F.explode(
                F.array(
                    F.struct(asker.alias("asker"), F.array(slot, slot + 1).alias("slots")),
                    F.struct(of_metadata.alias("asker"), F.array().alias("slots")),
                )
            ).alias("of")
        )
        .groupBy("of.asker")
        .agg(F.array_distinct(F.flatten(F.collect_set("of.slots"))).alias("slots"))
    )
    if log.refusals <= _MOST_SENT_ROUND:
        watched = F.broadcast(watched)
    text = log.text
    files = files_within(log.spans, log.refused_slots)
    if len(files) < len(log.spans):
        text = text.filter(F.col("file").isin(files))
    produces, fetches, asks = (
        F.contains("_head", F.lit(f'"requestApiKey":{int(api)},'))
        for api in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA)
    )
    us = answered_us(before_first("_head", MARKER), log.zone)
    is_then = F.array_contains("slots", F.floor(F.col("received_us") / SLOT_US))
    lines = (
        text.filter(F.contains("value", F.lit(MARKER)))
        .select("value", "file", before_first("value", HEAD_END).alias("_head"))
        .filter(produces | fetches | asks)
        .select("value", "file", "_head", computed_once(after_last("_head", CLIENT)).alias("asker"))
        .join(watched, "asker")
        .select(F.col("value").alias("whole"), "file", us.alias("received_us"), "slots")
        .filter((F.size("slots") == 0) | is_then)
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
    of_connection = Window.partitionBy("cluster", "header.connection").orderBy(
        "received_us", "header.requestHeader.correlationId"
    )
    rows = lines.transform(with_bodies).select(
        "cluster",
        client_key().alias("client"),
        F.col("header.connection").alias("connection"),
        F.col("header.requestHeader.requestApiKey").alias("api_key"),
        "broker",
        (F.col("received_us") - took_us()).alias("sent_us"),
        "received_us",
        F.lag("received_us").over(of_connection).alias("free_us"),
        _partitions().alias("_partitions"),
        F.coalesce("produced.response.nodeEndpoints", "fetched.response.nodeEndpoints").alias(
            "_endpoints"
        ),
    )
    return (
        rows.select("*", F.explode("_partitions").alias("_of"))
        .select("*", "_of.*")
        .join(_topic_names(log), ["cluster", "topic_id"], "left")
        .join(_nodes(log), ["cluster"], "left")
        .withColumn("topic", F.coalesce("topic_name", "name", "topic_id"))
        .withColumn("hint_fault", _hint_fault())
        .select(*(F.col(field.name).cast(field.dataType) for field in ATTEMPTS))
    )


def _nodes(log: RequestLog) -> DataFrame:
    """Of each cluster `ids`, its brokers that Metadata names, and `at`, which are at an address."""
    rows = []
    for cluster, nodes in log.nodes.items():
        at: dict[str, list[int]] = defaultdict(list)
        for node in nodes:
            at[node.address].append(node.id)
        rows.append((cluster, sorted({node.id for node in nodes}), list(at.items())))
    ids = pa.list_(pa.int32())
    schema = pa.schema([("cluster", pa.string()), ("ids", ids), ("at", pa.map_(pa.string(), ids))])
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    spark = log.text.sparkSession
    return F.broadcast(spark.createDataFrame(pa.Table.from_pylist(named, schema)))


def _hint_fault() -> Column:
    """What is wrong with a hint by the answer itself, and the brokers that Metadata names.

    An endpoint is another node's where the answer gives that of a node that no error names, or an
    address at which Metadata has other nodes alone. A hint without one is of no use where no
    Metadata names its leader: which of it a client knows from before the log, nobody can tell.
    """
    leader = F.col("hint_leader")
    own = F.filter("_endpoints", lambda of: of["nodeId"] == leader)
    strange = F.exists("_endpoints", lambda of: ~F.array_contains("leaders", of["nodeId"]))
    at = F.try_element_at("at", F.concat_ws(":", own[0]["host"], own[0]["port"]))
    has_none = F.coalesce(F.size(own) <= 0, F.lit(True))
    return F.when(
        leader >= 0,
        F.when(leader == F.col("broker"), HintFault.REFUSER.value)
        .when(has_none & strange, HintFault.OTHER_ENDPOINT.value)
        .when(~has_none & ~F.array_contains(at, leader), HintFault.OTHER_ENDPOINT.value)
        .when(has_none & ~F.array_contains("ids", leader), HintFault.NO_ENDPOINT.value),
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


_ANSWERS = {
    "produced": ("responses", "partitionResponses", "index", "name", "p.baseOffset", _HINT),
    "fetched": ("responses", "partitions", "partitionIndex", "topic", _NO_OFFSET, _HINT),
    "asked": (
        *("topics", "partitions", "partitionIndex", "name", _NO_OFFSET),
        ("p.leaderId", "p.leaderEpoch", "array(p.leaderId)"),
    ),
}


def _partitions() -> Column:
    """The partitions of an answer: `topic_name` and `topic_id` (one of them may be null),
    `partition`, `error`, `base_offset` of Produce; `hint_leader` and `hint_epoch`, of Metadata the
    leader; and `leaders`, all that the answer names."""
    every = []
    for body, (topics, partitions, index, name, offset, hint) in _ANSWERS.items():
        leader, epoch, leaders = hint
        all_leaders = leaders.format(topics=f"{body}.response.{topics}", partitions=partitions)
        every.append(
            f"flatten(transform({body}.response.{topics}, t -> transform(t.{partitions}, p -> "
            f"named_struct('topic_name', t.{name}, 'topic_id', t.topicId, 'partition', p.{index}, "
            f"'error', p.errorCode, 'base_offset', {offset}, 'hint_leader', {leader}, "
            f"'hint_epoch', {epoch}, 'leaders', {all_leaders}))))"
        )
    return F.expr(f"coalesce({', '.join(every)})")
