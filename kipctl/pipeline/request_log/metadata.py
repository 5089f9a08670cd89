"""Why clients asked for Metadata, inferred from the sequence of their requests (KIP-526)."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.clients import SOFTWARE
from kipctl.pipeline.columns import count_if
from kipctl.pipeline.request_log.summary import has_leader_error
from kipctl.pipeline.rpcs import with_inferred_causes
from kipctl.protocol.api import ApiKey

_CLIENT = ("cluster", "client", "host")
_REQUEST = (
    *_CLIENT,
    "connection",
    "correlation",
    *SOFTWARE,
    "sent_us",
    "received_us",
    "topics",
    "asked",
    "error",
    "response_bytes",
    "answer",
    "minutes",
    "requests",
)
_BEGAN_US = 10_000_000
"""A client that begins asks for Metadata within this time after its first request."""


def metadata_requests(calls: DataFrame) -> DataFrame:
    """The Metadata requests of clients: what `RequestLog.calls` has of them, `sent_us`,
    `received_us`, `topics` (how many were asked for, null for all), `new_topics`, `error`,
    `response_bytes`, `requests` (1, unless a line is there twice), `cause`, `minutes` (that there
    are of the broker's log), and `same`: the client was told just what it had been told of these
    topics the last time.

    Their causes follow from the sequence of the client's requests and leader errors
    (`with_inferred_causes`). Of the topics asked for, those are new that the client never asked
    for before; a request for all topics tells nothing of new ones.
    """
    of_clients = calls.filter(F.col("origin") == "client")
    begun = of_clients.filter(F.col("api_key") == int(ApiKey.API_VERSIONS))
    connected = begun.groupBy("cluster", "connection").agg(F.min("first_us").alias("_connected_us"))
    alive = of_clients.groupBy(*_CLIENT).agg(F.min("first_us").alias("_alive_us"))
    asked = of_clients.filter("metadata is not null").select(
        *_CLIENT,
        "connection",
        F.col("single.correlation").alias("correlation"),
        *SOFTWARE,
        (F.col("last_us") - F.col("single.took_us")).alias("sent_us"),
        F.col("last_us").alias("received_us"),
        F.size("metadata.asked").alias("topics"),
        F.concat_ws(",", F.array_sort("metadata.asked")).alias("asked"),
        F.col("metadata.error").alias("error"),
        F.col("metadata.bytes").alias("response_bytes"),
        F.col("metadata.answer").alias("answer"),
        "minutes",
        "requests",
        F.explode_outer("metadata.asked").alias("_topic"),
    )
    first = F.min("sent_us").over(Window.partitionBy(*_CLIENT, "_topic"))
    is_new = F.col("_topic").isNotNull() & (F.col("sent_us") == first)
    before = Window.partitionBy(*_CLIENT, "asked").orderBy("sent_us", "connection", "correlation")
    # Its connection began just then, and nothing of the client was there before.
    began = F.col("sent_us") - F.least("_connected_us", "_alive_us")
    with_new_topics = (
        asked.select("*", is_new.alias("_is_new"))
        .groupBy(*_REQUEST)
        .agg(count_if(F.col("_is_new")).alias("_new"))
        .join(connected, ["cluster", "connection"], "left")
        .join(alive, list(_CLIENT), "left")
        .select(
            *_REQUEST,
            F.when(F.col("topics").isNotNull(), F.col("_new")).alias("new_topics"),
            F.coalesce(
                F.col("_connected_us").isNotNull() & (began <= _BEGAN_US), F.lit(False)
            ).alias("is_start"),
            F.coalesce(F.lag("answer").over(before) == F.col("answer"), F.lit(False)).alias("same"),
            F.lit(int(ApiKey.METADATA)).alias("api_key"),
            F.lit(None).cast("string").alias("cause"),
        )
    )
    refused = of_clients.filter(has_leader_error()).select(
        *_CLIENT, F.col("last_us").alias("time_us")
    )
    return with_inferred_causes(with_new_topics, refused, _CLIENT)
