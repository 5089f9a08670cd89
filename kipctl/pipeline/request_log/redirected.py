"""What clients did after leader errors: of the requests by which clients are followed, theirs."""

from collections import defaultdict

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.client_behaviour.episode import HintFault
from kipctl.pipeline.jvm import of_table
from kipctl.pipeline.redirect_episodes import ATTEMPTS
from kipctl.pipeline.request_lines.rows import SLOT_US, Kind
from kipctl.pipeline.request_log.callers import client_key
from kipctl.pipeline.request_log.groups import followed_of, of_kind
from kipctl.pipeline.request_log.log import RequestLog
from kipctl.pipeline.request_log.summary import has_leader_error
from kipctl.protocol.api import ApiKey


def attempts(log: RequestLog) -> DataFrame:
    """What refused clients asked for around then, in the schema ATTEMPTS: for `episodes`.

    After a refusal the client's requests of that kind are followed to the end of the next slot of
    SLOT_US: for 10 to 20 s. What Metadata showed it is taken from all of the log.
    """
    slot = F.floor(F.col("last_us") / SLOT_US)
    of_client = (F.coalesce("client", F.lit("")).alias("client"), F.col("host"))
    refused = log.calls.filter(has_leader_error())
    watched = refused.select(
        *of_client, "api_key", F.explode(F.array(slot, slot + 1)).alias("slot")
    ).unionByName(
        refused.select(*of_client, F.lit(int(ApiKey.METADATA)).alias("api_key")),
        allowMissingColumns=True,
    )
    # A row for each client that was refused, API and slot: fewer by far than requests.
    then = F.broadcast(watched.distinct()).alias("then")
    is_theirs = (
        F.coalesce("of.client", F.lit("")).eqNullSafe(F.col("then.client"))
        & (F.col("of.host") == F.col("then.host"))
        & (F.col("of.api_key") == F.col("then.api_key"))
        & (F.col("then.slot").isNull() | (F.col("of.slot") == F.col("then.slot")))
    )
    theirs = of_kind(log.rows, Kind.FOLLOWED).alias("of").join(then, is_theirs, "left_semi")
    requests = followed_of(theirs).join(log.place_rows, ["file", "address"], "left")
    of_connection = Window.partitionBy("cluster", "connection").orderBy(
        "received_us", "correlation"
    )
    rows = requests.select(
        "cluster",
        client_key().alias("client"),
        "connection",
        "api_key",
        "broker",
        (F.col("received_us") - F.col("took_us")).alias("sent_us"),
        "received_us",
        F.lag("received_us").over(of_connection).alias("free_us"),
        "partitions",
        "leaders",
        "endpoints",
    )
    return (
        rows.select("*", F.explode("partitions").alias("_of"))
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
    spark = log.rows.sparkSession
    return F.broadcast(of_table(spark, pa.Table.from_pylist(named, schema)))


def _hint_fault() -> Column:
    """What is wrong with a hint by the answer itself, and the brokers that Metadata names.

    An endpoint is another node's where the answer gives that of a node that no error names, or an
    address at which Metadata has other nodes alone. A hint without one is of no use where no
    Metadata names its leader: which of it a client knows from before the log, nobody can tell.
    """
    leader = F.col("hint_leader")
    own = F.filter("endpoints", lambda node: node["nodeId"] == leader)
    strange = F.exists("endpoints", lambda node: ~F.array_contains("leaders", node["nodeId"]))
    at = F.try_element_at("at", F.concat_ws(":", own[0]["host"], own[0]["port"]))
    has_none = F.coalesce(F.size(own) <= 0, F.lit(True))
    return F.when(
        leader >= 0,
        F.when(leader == F.col("broker"), HintFault.REFUSER.value)
        .when(has_none & strange, HintFault.OTHER_ENDPOINT.value)
        .when(~has_none & ~F.array_contains(at, leader), HintFault.OTHER_ENDPOINT.value)
        .when(has_none & ~F.array_contains("ids", leader), HintFault.NO_ENDPOINT.value),
    )


def _topic_names(log: RequestLog) -> DataFrame:
    """`cluster`, `topic_id` and `name` of each topic that Metadata answers named, once."""
    named = of_kind(log.rows, Kind.TOPIC).groupBy("cluster", F.col("topic.id").alias("topic_id"))
    return named.agg(F.max("topic.name").alias("name"))
