"""Lines of a request log, cut at the few places that are counted, by Spark's own functions.

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
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from kipctl.pipeline.request_log.envelope import LAST_EPOCH, OFFSET, TIME, envelope_of
from kipctl.pipeline.request_log.envelope import MARKER as MARKER

HEAD_END = ',"request":'
FRONT_END = ',"correlationId":'
CLIENT = ',"clientId":'
CONNECTION = ',"connection":'
CONNECTION_END = ',"totalTimeMs":'
SOFTWARE = ',"clientInformation":'
IS_FORWARDED = '{"isForwarded":'
ERROR = '"errorCode":[^0]'
NAMED_REPLICA = '"preferredReadReplica":[^-]'
RACK = r'"rackId":("(?:[^"\\]|\\.){1,255}")'
READ_BYTES = '"recordsSizeInBytes":([1-9][0-9]{0,11})[,}]'
ANNOUNCED = '"clientSoftwareName":("[^"]*","clientSoftwareVersion":"[^"]*")'
FETCHER = r'^"broker-\d+-fetcher-\d+"'
METADATA_FOLLOWER = '"raft-client-'
DEPRECATED = '"requestApiVersionDeprecated":true}'
"""Ends the header of a version that Kafka 4 speaks no more (KIP-896)."""
SOFTWARE_START = '{"softwareName":"'
SOFTWARE_ENDS = ('"}}', r'(?s)"\},.*\}')
"""The last field of a line, or one of several: a line cut short lacks the `}` of its end."""
LAST_TIME = f"(?s)^.*({TIME})"
"""An envelope's own time stands before the line's."""

PIECES = ("origin", "client", "connection", "software", "announced", "rack")
CUT = StructType(
    [
        StructField("file", StringType()),
        StructField("is_request", BooleanType()),
        StructField("envelope", StringType()),
        *(StructField(name, StringType()) for name in PIECES),
        StructField("whole", StringType()),
        StructField("requests", LongType()),
        StructField("first_us", LongType()),
        StructField("last_us", LongType()),
        StructField("read_bytes", LongType()),
    ]
)
"""What lines are cut into, a row for one or for several that are alike.

`is_request`: they hold the marker. `envelope`: what was cut off them (`opening.opened`), or what
`envelope_of` says of them; null of plain ones. Of a line that is like Kafka's, and whose body
says nothing that is counted, there are JSON pieces: `origin` (whether it was forwarded, API and
version), `client` (its id, and the API's name), `connection`, `software`; `announced` (what
ApiVersions tells of the client's software); and of a consumer that names its rack `rack` and
`read_bytes`. All other requests, with an error, a preferred read replica, or Metadata, have `whole`
instead, the line. `requests` counts the lines; `first_us` and `last_us` are microseconds since the
epoch, null where no line tells a time.
"""


def before_first(text: str | Column, mark: str) -> Column:
    """What stands before the first mark; all of the text when it has none."""
    return F.substring_index(text, mark, 1)


def after_last(text: str | Column, mark: str) -> Column:
    """What stands after the last mark; all of the text when it has none."""
    return F.substring_index(text, mark, -1)


def answered_us(stamp: str | Column, zone: Column) -> Column:
    """The time that stands before the marker, in microseconds since the epoch (bigint); null if
    none is recognised there. Of several it is the last. `zone` is that of times without an offset
    from UTC."""
    written = F.replace(F.regexp_extract(stamp, LAST_TIME, 1), F.lit(","), F.lit("."))
    moment = written.try_cast("timestamp")  # what has no offset is taken as UTC
    has_offset = written.rlike(f"{OFFSET}$")
    of_time = F.when(has_offset, moment).otherwise(F.to_utc_timestamp(moment, zone))
    digits = F.regexp_replace(F.regexp_extract(stamp, LAST_EPOCH, 1), "[.,]", "")
    second, fraction = F.substring(digits, 1, 10), F.substring(digits, 11, 6)
    of_epoch = F.concat(second, F.rpad(fraction, 6, "0")).try_cast("bigint")
    return F.when(written != "", F.unix_micros(of_time)).when(digits != "", of_epoch)


def stamp_of(value: str) -> Column:
    """What stands before the marker of a line."""
    return before_first(before_first(value, HEAD_END), MARKER)


def cut(lines: DataFrame, zone: Column) -> DataFrame:
    """Cut lines (`value`, `file`) into rows of CUT, one for each; `zone` is that of a `file`."""
    return cut_each(lines, zone, "file").select(CUT.names)


def cut_each(lines: DataFrame, zone: Column, *kept: str) -> DataFrame:
    """Cut lines into rows of CUT; columns to be kept go along."""
    ends = lines.select(
        "*",
        before_first("value", HEAD_END).alias("_head"),
        after_last("value", CONNECTION).alias("_tail"),
    )
    pieces = ends.select(
        "*",
        before_first("_head", FRONT_END).alias("_front"),
        after_last("_head", CLIENT).alias("client"),
        before_first("_tail", CONNECTION_END).alias("connection"),
        after_last("_tail", SOFTWARE).alias("software"),
    ).select(
        "*",
        after_last("_front", MARKER + IS_FORWARDED).alias("origin"),
        F.contains("_front", F.lit(MARKER)).alias("is_request"),
    )
    stamp = before_first("_front", MARKER)
    envelope = envelope_of(F.col("_front"), stamp, F.col("origin"))
    if "envelope" in lines.columns:
        envelope = F.coalesce("envelope", envelope)
    wholes = pieces.select(
        *(F.col(name) for name in pieces.columns if name != "envelope"),
        F.when(F.col("is_request"), envelope).alias("envelope"),
        F.when(F.col("is_request"), answered_us(stamp, zone)).alias("_us"),
        # In one after the other: Spark looks no further than it must.
        F.when(~F.col("is_request"), None)
        .when(~_like_kafkas() | _body_matters(), F.col("value"))
        .alias("whole"),
    )
    plain = F.col("is_request") & F.col("whole").isNull()
    rack = F.when(
        plain & _is_api(1) & ~_is_of_replica(),
        F.nullif(F.regexp_extract("value", RACK, 1), F.lit("")),
    )
    sizes = F.transform(
        F.regexp_extract_all("value", F.lit(READ_BYTES), F.lit(1)), lambda size: size.cast("bigint")
    )
    announced = F.when(plain & _is_api(18), F.regexp_extract("value", ANNOUNCED, 1))
    return wholes.select("*", rack.alias("rack"), announced.alias("announced")).select(
        *kept,
        "is_request",
        "envelope",
        *(F.when(plain, F.col(name)).alias(name) for name in PIECES[:4]),
        F.nullif("announced", F.lit("")).alias("announced"),
        "rack",
        "whole",
        F.lit(1).cast("bigint").alias("requests"),
        F.col("_us").alias("first_us"),
        F.col("_us").alias("last_us"),
        F.when(
            F.col("rack").isNotNull(),
            F.aggregate(sizes, F.lit(0).cast("bigint"), lambda total, size: total + size),
        ).alias("read_bytes"),
    )


def _is_api(key: int) -> Column:
    return F.contains("origin", F.lit(f'"requestApiKey":{key},'))


def _is_of_replica() -> Column:
    """A follower's fetcher, or a node that reads the cluster's metadata log."""
    fetcher = F.col("client").startswith('"broker-') & F.col("client").rlike(FETCHER)
    return fetcher | F.col("client").startswith(METADATA_FOLLOWER)


def _like_kafkas() -> Column:
    """Whether every piece was found where Kafka writes it."""
    software = F.col("software")
    # The marker twice: the line was cut, and the next one follows it.
    is_one = F.octet_length(before_first("_front", MARKER)) + F.octet_length("origin") + len(
        MARKER + IS_FORWARDED
    ) == F.octet_length("_front")
    last, one_of_several = SOFTWARE_ENDS
    return (
        is_one
        & (F.col("origin").startswith("false,") | F.col("origin").startswith("true,"))
        & F.col("client").startswith('"')
        & (F.col("client").endswith('"}') | F.col("client").endswith(DEPRECATED))
        & F.col("connection").startswith('"')
        & software.startswith(SOFTWARE_START)
        & (software.contains(last) | software.rlike(one_of_several))
    )


def _body_matters() -> Column:
    value = F.col("value")
    return (
        _is_api(3)
        | value.rlike(ERROR)
        | (_is_api(1) & ~_is_of_replica() & value.rlike(NAMED_REPLICA))
    )
