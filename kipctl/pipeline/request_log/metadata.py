"""Why clients asked for Metadata, inferred from the sequence of their requests (KIP-526)."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.columns import count_if
from kipctl.pipeline.request_log.log import has_leader_error
from kipctl.pipeline.rpcs import with_inferred_causes
from kipctl.protocol.api import ApiKey

_CLIENT = ("cluster", "client", "host")
_REQUEST = (
    *_CLIENT,
    "connection",
    "correlation",
    "software_name",
    "software_version",
    "sent_us",
    "received_us",
    "topics",
    "error",
    "response_bytes",
    "requests",
)


def metadata_requests(calls: DataFrame) -> DataFrame:
    """The Metadata requests of clients: what `RequestLog.calls` has of them, `sent_us`,
    `received_us`, `topics` (how many were asked for, null for all), `new_topics`, `error`,
    `response_bytes`, `requests` (1, unless a line is there twice) and `cause`.

    Their causes follow from the sequence of the client's requests and leader errors
    (`with_inferred_causes`). Of the topics asked for, those are new that the client never asked
    for before; a request for all topics tells nothing of new ones.
    """
    of_clients = calls.filter(F.col("origin") == "client")
    asked = of_clients.filter("metadata is not null").select(
        *_CLIENT,
        "connection",
        F.col("single.correlation").alias("correlation"),
        "software_name",
        "software_version",
        (F.col("last_us") - F.col("single.took_us")).alias("sent_us"),
        F.col("last_us").alias("received_us"),
        F.size("metadata.asked").alias("topics"),
        F.col("metadata.error").alias("error"),
        F.col("metadata.bytes").alias("response_bytes"),
        "requests",
        F.explode_outer("metadata.asked").alias("_topic"),
    )
    first = F.min("sent_us").over(Window.partitionBy(*_CLIENT, "_topic"))
    is_new = F.col("_topic").isNotNull() & (F.col("sent_us") == first)
    with_new_topics = (
        asked.select("*", is_new.alias("_is_new"))
        .groupBy(*_REQUEST)
        .agg(count_if(F.col("_is_new")).alias("_new"))
        .select(
            "*",
            F.when(F.col("topics").isNotNull(), F.col("_new")).alias("new_topics"),
            F.lit(int(ApiKey.METADATA)).alias("api_key"),
            F.lit(None).cast("string").alias("cause"),
        )
        .drop("_new")
    )
    refused = of_clients.filter(has_leader_error()).select(
        *_CLIENT, F.col("last_us").alias("time_us")
    )
    return with_inferred_causes(with_new_topics, refused, _CLIENT)
