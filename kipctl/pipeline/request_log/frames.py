"""A request log as the frames of a trace: a row for each request, refusal, attempt, read.

`run` is the log's name, `arm` and `source` say that it is a log; times are microseconds since the
Unix epoch. A request was sent when it arrived at the broker, and received when it was answered. A
line does not tell sizes on the wire.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.columns import is_leader_error
from kipctl.pipeline.episodes import ATTEMPTS
from kipctl.pipeline.inputs import spark_schema
from kipctl.pipeline.request_log.bodies import (
    once,
    partitions,
    with_bodies,
    with_header,
)
from kipctl.pipeline.request_log.callers import CALLER, client_key, with_call, with_caller
from kipctl.pipeline.request_log.cluster import with_leader, with_topic
from kipctl.pipeline.request_log.cuts import ANSWERED_NOT, MARKER, after, before, time_of
from kipctl.pipeline.request_log.log import RequestLog
from kipctl.pipeline.request_log.sizes import metadata_response_bytes
from kipctl.pipeline.rpcs import with_inferred_causes
from kipctl.protocol.api import ApiKey

ARM = "log"
SOURCE = "request_log"
SLOT_US = 10_000_000
"""After a refusal the client's requests are followed to the end of the next slot of this length:
for 10 to 20 s."""

_CALL = ("api_key", "api_version", *CALLER)
_FIRST_ERROR = "nullif(regexp_extract(whole, '\"errorCode\":(-?[1-9][0-9]*)', 1), '')"


def requests(log: RequestLog, text: DataFrame | None = None) -> DataFrame:
    """A row for each request whose line is whole, of the `text` (`value`) or of the whole log.

    Result: what `with_call` and `with_caller` add, `sent_us`, `received_us`, and `whole`, the line.
    """
    text = log.text if text is None else text
    stamp = before(before("value", ',"request":'), MARKER)
    pieces = ("origin", "client", "connection", "software")
    lines = text.filter(F.contains("value", F.lit(MARKER))).select(
        F.unix_micros(time_of(stamp, log.timezone)).alias("received_us"),
        F.col("value").alias("whole"),
        *(F.lit(None).cast("string").alias(name) for name in pieces),
    )
    return (
        lines.transform(with_header)
        .filter("header is not null")
        .transform(with_call)
        .withColumn("sent_us", _sent_us())
        .transform(with_caller, log.connections, log.brokers)
    )


def rpcs(log: RequestLog) -> DataFrame:
    """The dataset `rpcs`, with `run` and `arm`: every request but those among brokers, with the
    causes of Metadata requests.

    `error` is the first that the answer holds; sizes are null but for answers to Metadata, where
    they are computed. An acks=0 request has no answer.
    """
    asked = requests(log).filter("origin in ('client', 'forwarded')")
    unanswered = F.contains("whole", F.lit(ANSWERED_NOT)) & (
        F.col("api_key") == int(ApiKey.PRODUCE)
    )
    others = (
        asked.filter(f"api_key != {int(ApiKey.METADATA)} or is_forwarded")
        .withColumn("received_us", F.when(~unanswered, F.col("received_us")))
        .withColumn("error", F.expr(f"coalesce(cast({_FIRST_ERROR} as int), 0)"))
        .withColumn("connection", F.col("number"))
    )
    metadata = metadata_rpcs(log, refusals(told(log)))
    once = F.explode(F.sequence(F.lit(1).cast("bigint"), F.col("requests")))
    each = metadata.withColumn("_again", once).withColumn("connection", F.col("number"))
    rows = others.unionByName(each, allowMissingColumns=True)
    return _in_schema(rows, log, spark_schema("rpcs"))


def metadata_rpcs(log: RequestLog, refused: DataFrame) -> DataFrame:
    """The Metadata requests of clients, with the columns of `rpcs` that a line tells, `cause`,
    `host`, and `requests`: 1, unless a line is there twice.

    Their causes follow from the sequence of the client's requests (`with_inferred_causes`) and its
    refusals, which are rows of `told`. Of the topics asked for, those are new that the client
    (`client_key`) never asked for before; a request for all topics tells nothing of new ones.
    """
    asked = (
        log.metadata.withColumn("sent_us", _sent_us())
        .withColumn("_asked", F.expr("transform(request.topics, t -> coalesce(t.name, t.topicId))"))
        .withColumn("topics", F.expr("if(request.topics is null, null, size(request.topics))"))
        .withColumn("error", _metadata_error())
        .withColumn("response_bytes", metadata_response_bytes())
        .drop("request", "response", "header")
        .transform(with_caller, log.connections, log.brokers)
        .filter("origin = 'client'")
        .withColumn("cause", F.lit(None).cast("string"))
        # The rules below look at these rows several times.
        .transform(checkpointed)
    )
    told_off = refused.select("client", "host", F.col("received_us").alias("time_us"))
    return with_inferred_causes(
        asked.transform(_with_new_topics).drop("_asked"), told_off, ("client", "host")
    )


def _with_new_topics(asked: DataFrame) -> DataFrame:
    """Add `new_topics`: how many of `_asked` the client never asked for before."""
    request = ("client", "host", "sent_us", "connection", "correlation")
    first = F.min("sent_us").over(Window.partitionBy("client", "host", "_topic"))
    new = (
        asked.select(*request, F.explode("_asked").alias("_topic"))
        .withColumn("_is_new", F.col("sent_us") == first)
        .groupBy(*request)
        .agg(F.count(F.when(F.col("_is_new"), True)).alias("new_topics"))
    )
    none = F.when(F.col("_asked").isNotNull(), F.lit(0).cast("bigint"))
    return asked.join(new, list(request), "left").withColumn(
        "new_topics", F.coalesce("new_topics", none)
    )


def told(log: RequestLog) -> DataFrame:
    """A row for each partition whose answer held an error or named a replica, and for each Fetch
    answer that failed as a whole (`topic` and `partition` null).

    Result: `requests` (1 unless a line is there twice), `api_key`, `api_version`, CALLER, `asker`
    (the client as the line has it), `sent_us`, `received_us`, `topic`, `partition`, `error`,
    `base_offset`, `hint_leader`, `hint_epoch`, `hint_endpoint`, `preferred_read_replica`.
    """
    lines = log.calls.filter("whole is not null").withColumn("received_us", F.unix_micros("first"))
    timed = lines.withColumn("sent_us", _sent_us()).withColumn(
        "asker", after(before("whole", ',"request":'), ',"clientId":')
    )
    kept = ("requests", *_CALL, "asker", "sent_us", "received_us")
    noted = "error != 0 or preferred_read_replica is not null"
    return (
        partitions(timed.transform(with_bodies), *kept)
        .filter(noted)
        .transform(with_topic, log.topics)
        .drop("bytes")
    )


def refusals(rows: DataFrame) -> DataFrame:
    """The rows of `told` in which a client was told of a leader error."""
    return rows.filter(is_leader_error()).filter("origin = 'client'")


def redirects(log: RequestLog) -> DataFrame:
    """The dataset `redirects`, with `run` and `arm`: leader errors told to clients.

    What the client did with a hint, and where its time went, no line tells: `decision` is null
    where there was a hint, and so are the phases. See `attempts` for what it did next.
    """
    api = F.when(F.col("api_key") == int(ApiKey.PRODUCE), "produce").otherwise("fetch")
    rows = (
        refusals(told(log))
        .withColumn("api", api)
        .withColumn("error_us", F.col("received_us"))
        .withColumn("from_broker", F.col("broker"))
        .withColumn("decision", F.when(~has_hint(), "absent"))
    )
    return _in_schema(rows, log, spark_schema("redirects"))


def has_hint() -> Column:
    """Whether an error names the leader; never null."""
    return F.coalesce(F.col("hint_leader") >= 0, F.lit(False))


def attempts(log: RequestLog, refused: DataFrame) -> DataFrame:
    """What refused clients asked for around then, in the schema ATTEMPTS: for `episodes`.

    `refused` are rows of `told`; `client` is a `client_key`. The text is read once more for it, but
    only requests of the same API by a refused client's id are looked into, answered from the slot
    of the refusal to the end of the next.
    """
    slots = F.expr(f"sequence(received_us div {SLOT_US}, received_us div {SLOT_US} + 1)")
    watched = (
        refused.select("asker", F.explode(slots).alias("slot"))
        .groupBy("asker")
        .agg(F.collect_set("slot").alias("slots"))
    )
    # As in `with_header`, what is cut must not be cut again for each condition on it.
    heads = log.text.select("value", once(before("value", ',"request":')).alias("head"))
    asking = heads.filter(
        F.contains("head", F.lit('"requestApiKey":0,'))
        | F.contains("head", F.lit('"requestApiKey":1,'))
    ).select("value", "head", once(after("head", ',"clientId":')).alias("asker"))
    stamp = before("head", MARKER)
    slot = F.unix_micros(time_of(stamp, log.timezone)).cast("bigint")
    chosen = (
        asking.join(F.broadcast(watched), "asker")
        .filter(F.array_contains("slots", F.floor(slot / SLOT_US)))
        .select("value")
    )
    kept = (*_CALL, "sent_us", "received_us")
    rows = partitions(requests(log, chosen).transform(with_bodies), *kept).filter(
        "origin = 'client' and partition is not null"
    )
    named = rows.transform(with_topic, log.topics).withColumn("client", client_key())
    return _in_schema(named, log, ATTEMPTS)


def reads(log: RequestLog) -> DataFrame:
    """The dataset `reads`, with `run` and `arm`: every partition of every answer to a consumer.

    The leader of a partition is the one that Metadata answers told last before the read, of the
    highest leader epoch (`leaders_of`); before the first it is not known. How many records were
    read is not known either.
    """
    kept = (*_CALL, "client_rack", "received_us", "offsets")
    fetched = (
        requests(log)
        .filter(f"api_key = {int(ApiKey.FETCH)} and origin = 'client'")
        .transform(with_bodies)
        .withColumn("request", F.col("fetched.request"))
        .filter("coalesce(request.replicaState.replicaId, request.replicaId, -1) < 0")
    )
    offsets = F.expr(
        "map_from_entries(array_distinct(flatten(transform(request.topics, t -> transform("
        "t.partitions, p -> struct(concat(coalesce(t.topic, t.topicId), '/', p.partition), "
        "p.fetchOffset))))))"
    )
    of_partition = partitions(
        fetched.withColumn("client_rack", F.nullif("request.rackId", F.lit(""))).withColumn(
            "offsets", offsets
        ),
        *kept,
    )
    place = F.concat(F.coalesce("topic_name", "topic_id"), F.lit("/"), "partition")
    rows = (
        of_partition.filter("partition is not null")
        .withColumn("fetch_offset", F.try_element_at("offsets", place))
        .drop("offsets")
        .transform(with_topic, log.topics)
        .withColumn("time_us", F.col("received_us"))
        .transform(with_leader, log.leaders)
        .withColumn("is_leader", F.col("leader") == F.col("broker"))
        .withColumn("broker_rack", log.brokers.rack_of(F.col("broker")))
    )
    return _in_schema(rows, log, spark_schema("reads"))


def rack_reads(log: RequestLog) -> DataFrame:
    """What consumers that name their rack read: the columns of `RequestLog.calls`, with `rack`,
    `read_bytes` and `broker_rack`, a row for alike requests."""
    sizes = F.expr(
        "aggregate(flatten(transform(fetched.response.responses, t -> transform(t.partitions, "
        "p -> coalesce(p.recordsSizeInBytes, 0L)))), 0L, (sum, size) -> sum + size)"
    )
    # A line that was kept whole was not searched for them.
    whole = (
        log.calls.filter("whole is not null and origin = 'client'")
        .transform(with_bodies)
        .filter("fetched is not null")
        .withColumn("rack", F.nullif("fetched.request.rackId", F.lit("")))
        .withColumn("read_bytes", sizes)
        .select(log.calls.columns)
    )
    cut = log.calls.filter("whole is null and origin = 'client'")
    return (
        cut.unionByName(whole)
        .filter("rack is not null")
        .withColumn("broker_rack", log.brokers.rack_of(F.col("broker")))
    )


def _in_schema(rows: DataFrame, log: RequestLog, schema: StructType) -> DataFrame:
    """The schema's columns in its order, preceded by `run` and `arm`; null what rows lack."""
    of_log = {"run": log.name, "arm": ARM, "source": SOURCE}
    columns = []
    for name in dict.fromkeys(("run", "arm", *schema.names)):
        value = F.lit(of_log[name]) if name in of_log else None
        if value is None:
            value = F.col(name) if name in rows.columns else F.lit(None)
        field = schema[name] if name in schema.names else None
        columns.append((value.cast(field.dataType) if field else value).alias(name))
    return rows.select(*columns)


def _metadata_error() -> Column:
    return F.expr(
        "coalesce(nullif(response.errorCode, 0), "
        "try_element_at(filter(transform(response.topics, t -> t.errorCode), e -> e != 0), 1), 0)"
    )


def _sent_us() -> Column:
    return F.col("received_us") - F.round(F.col("total_ms") * 1000).cast("bigint")
