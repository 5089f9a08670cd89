"""Lines of a request log, cut at the few places that are counted, without reading all of them.

Kafka writes a line's fields in one order (`RequestConvertToJson.requestDescMetrics`): the header of
the request comes first, client and connection last, and between them the two bodies, which are
nearly all of the line. Most bodies say nothing that is counted: no error, no replica named. So the
head and the tail are cut off by their field names, bodies are searched for what matters, and lines
that are alike are counted together. What was cut is put together again as a small JSON document
for each group, which a parser then has to accept; lines that do not look like Kafka's, or whose
body matters, are kept whole. JSON's quotes make the cuts safe: within a string, a quote is escaped,
so none of the names below can stand there.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

MARKER = "Completed request:"
ANSWERED_NOT = '"response":"",'
"""What stands for the answer to a Produce request with acks=0, which has none."""

_IS_FORWARDED = '{"isForwarded":'
_ERROR = '"errorCode":[^0]'
_NAMED_REPLICA = '"preferredReadReplica":[^-]'
_NAMED_RACK = '"rackId":"[^"]'
_ANY_TIME = r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)"
_READ_BYTES = (
    "aggregate(regexp_extract_all(value, '\"recordsSizeInBytes\":([1-9][0-9]*)', 1), "
    "0L, (sum, size) -> sum + cast(size as bigint))"
)
KEYS = ("is_request", "origin", "client", "connection", "software", "announced", "rack", "whole")
"""What lines that are counted together have in common."""


def before(text: str | Column, mark: str) -> Column:
    """What stands before the first mark; all of the text when it has none."""
    return F.substring_index(text, mark, 1)


def after(text: str | Column, mark: str) -> Column:
    """What stands after the last mark; all of the text when it has none."""
    return F.substring_index(text, mark, -1)


def time_of(stamp: Column, timezone: str) -> Column:
    """The time that stands before the marker (timestamp), null if none is recognised there.

    log4j writes the broker's own zone and does not name it: it is `timezone`.
    """
    kafkas = F.replace(after(before(stamp, "]"), "["), F.lit(","), F.lit("."))
    parts = [F.regexp_extract(stamp, _ANY_TIME, group) for group in (1, 2)]
    other = F.replace(F.concat_ws(" ", *parts), F.lit(","), F.lit("."))
    local = F.coalesce(kafkas.try_cast("timestamp"), other.try_cast("timestamp"))
    return local if timezone == "UTC" else F.to_utc_timestamp(local, timezone)


def cut(lines: DataFrame, timezone: str, *kept: str) -> DataFrame:
    """Cut lines (`value`, `file`) into what is counted; columns to be kept go along.

    Result: `is_request` (it holds the marker); `time` of completion. For a line that is like
    Kafka's, and whose body says nothing that is counted: the JSON pieces `origin` (whether it was
    forwarded, API and version), `client` (its id, and the API's name), `connection`, `software`,
    and `announced` (what ApiVersions tells of the client's software); of a consumer that names its
    rack `rack` and `read_bytes` (bigint). All other requests, with an error, a preferred read
    replica, or Metadata, have `whole`, the line, and `file`, instead.
    """
    ends = lines.select(
        "*",
        before("value", ',"request":').alias("head"),
        after("value", ',"connection":').alias("tail"),
    )
    pieces = ends.select(
        "*",
        before("head", ',"correlationId":').alias("front"),
        after("head", ',"clientId":').alias("client"),
        before("tail", ',"totalTimeMs":').alias("connection"),
        after("tail", ',"clientInformation":').alias("software"),
    ).select(
        "*",
        after("front", MARKER + _IS_FORWARDED).alias("origin"),
        F.contains("front", F.lit(MARKER)).alias("is_request"),
    )
    named = pieces.select(
        "*",
        time_of(before("front", MARKER), timezone).alias("time"),
        # In one after the other: Spark looks no further than it must.
        F.when(~F.col("is_request"), None)
        .when(~_like_kafkas() | _body_matters(), F.col("value"))
        .alias("whole"),
        (F.col("is_request") & _is_fetch() & ~_is_of_replica()).alias("_is_read"),
    )
    plain = F.col("is_request") & F.col("whole").isNull()

    def of_plain(name: str) -> Column:
        return F.when(plain, F.col(name)).alias(name)

    of_rack = F.col("_is_read") & F.col("whole").isNull() & F.col("value").rlike(_NAMED_RACK)
    announced = '"clientSoftwareName":("[^"]*","clientSoftwareVersion":"[^"]*")'
    return named.select(
        "is_request",
        "time",
        *map(of_plain, ("origin", "client", "connection", "software")),
        F.when(plain & _is_api(18), F.regexp_extract("value", announced, 1)).alias("announced"),
        F.when(of_rack, F.regexp_extract("value", '"rackId":("(?:[^"\\\\]|\\\\.)*")', 1)).alias(
            "rack"
        ),
        F.when(of_rack, F.expr(_READ_BYTES)).alias("read_bytes"),
        "whole",
        *(kept or [F.when(F.col("whole").isNotNull(), F.col("file")).alias("file")]),
    )


def grouped(cuts: DataFrame) -> DataFrame:
    """Lines that are alike, counted: KEYS, `file`, `requests`, `first`, `last`, `read_bytes`."""
    return cuts.groupBy(*KEYS, "file").agg(
        F.count("*").alias("requests"),
        F.min("time").alias("first"),
        F.max("time").alias("last"),
        F.sum("read_bytes").alias("read_bytes"),
    )


def _is_api(key: int) -> Column:
    return F.contains("origin", F.lit(f'"requestApiKey":{key},'))


def _is_fetch() -> Column:
    return _is_api(1)


def _is_of_replica() -> Column:
    """A follower's fetcher, or a node that reads the cluster's metadata log."""
    brokers = F.col("client").startswith('"broker-') & F.col("client").rlike(
        r'^"broker-\d+-fetcher-\d+"'
    )
    return brokers | F.col("client").startswith('"raft-client-')


def _like_kafkas() -> Column:
    """Whether every piece was found where Kafka writes it. A line cut short lacks its last `}`."""
    software = F.col("software")
    # The marker twice: the line was cut, and the next one follows it.
    once = F.octet_length(before("front", MARKER)) + F.octet_length("origin") + len(
        MARKER + _IS_FORWARDED
    ) == F.octet_length("front")
    return (
        once
        & (F.col("origin").startswith("false,") | F.col("origin").startswith("true,"))
        & F.col("client").startswith('"')
        & F.col("client").endswith('"}')
        & F.col("connection").startswith('"')
        & software.startswith('{"softwareName":"')
        & (software.contains('"}}') | software.rlike(r'"\},.*\}'))
    )


def _body_matters() -> Column:
    value = F.col("value")
    return (
        _is_api(3)
        | value.rlike(_ERROR)
        | (_is_fetch() & ~_is_of_replica() & value.rlike(_NAMED_REPLICA))
    )
