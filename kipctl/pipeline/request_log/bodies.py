"""What the JSON of a request line holds, as far as it is used: narrow schemas, one for each API."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kipctl.pipeline.request_log.cuts import ANSWERED_NOT, MARKER, after
from kipctl.protocol.api import ApiKey

_CORRUPT = "_corrupt"
_LEADER = "currentLeader: struct<leaderId: int, leaderEpoch: int>"
_ENDPOINTS = "nodeEndpoints: array<struct<nodeId: int, host: string, port: int>>"
HEADER = f"""
    isForwarded boolean,
    requestHeader struct<requestApiKey: int, requestApiVersion: int, correlationId: int,
        clientId: string, requestApiKeyName: string>,
    connection string,
    totalTimeMs double,
    clientInformation struct<softwareName: string, softwareVersion: string>,
    {_CORRUPT} string
"""
PRODUCE = f"""
    request struct<acks: int, topicData: array<struct<name: string, topicId: string,
        partitionData: array<struct<index: int, recordsSizeInBytes: bigint>>>>>,
    response struct<responses: array<struct<name: string, topicId: string,
        partitionResponses: array<struct<index: int, errorCode: int, baseOffset: bigint,
            {_LEADER}>>>>, {_ENDPOINTS}>,
    {_CORRUPT} string
"""
FETCH = f"""
    request struct<replicaId: int, replicaState: struct<replicaId: int>, rackId: string,
        topics: array<struct<topic: string, topicId: string,
            partitions: array<struct<partition: int, fetchOffset: bigint>>>>>,
    response struct<errorCode: int, responses: array<struct<topic: string, topicId: string,
        partitions: array<struct<partitionIndex: int, errorCode: int, preferredReadReplica: int,
            recordsSizeInBytes: bigint, {_LEADER}>>>>, {_ENDPOINTS}>,
    {_CORRUPT} string
"""
METADATA = f"""
    request struct<topics: array<struct<topicId: string, name: string>>>,
    response struct<errorCode: int, clusterId: string,
        brokers: array<struct<nodeId: int, host: string, port: int, rack: string>>,
        topics: array<struct<errorCode: int, name: string, topicId: string,
            partitions: array<struct<errorCode: int, partitionIndex: int, leaderId: int,
                leaderEpoch: int, replicaNodes: array<int>, isrNodes: array<int>,
                offlineReplicas: array<int>>>>>>,
    {_CORRUPT} string
"""
"""Produce up to 12 and Fetch up to 12 name topics, later versions give their id."""


def with_header(groups: DataFrame) -> DataFrame:
    """Add `header` (HEADER) of cut and of whole lines; null where the JSON is broken.

    So it is where a line holds the marker twice: it was cut, and the next one follows it.
    """
    put_together = F.concat(
        F.lit('{"isForwarded":'),
        F.col("origin"),
        F.lit(',"clientId":'),
        F.col("client"),
        F.lit(',"connection":'),
        F.col("connection"),
        F.lit(',"totalTimeMs":0,"clientInformation":'),
        F.col("software"),
    )
    is_one = F.octet_length(F.substring_index("whole", MARKER, 2)) == F.octet_length("whole")
    text = F.when(F.col("whole").isNull(), put_together).when(is_one, _json_of("whole"))
    told = ("requestHeader.requestApiKey", "requestHeader.requestApiVersion", "connection")
    is_whole = F.col(f"_parsed.{_CORRUPT}").isNull() & F.col("_parsed.totalTimeMs").isNotNull()
    for name in told:
        is_whole &= F.col(f"_parsed.{name}").isNotNull()
    return (
        groups.select("*", once(_parsed(text, HEADER)).alias("_parsed"))
        .withColumn("header", F.when(is_whole, F.col("_parsed")))
        .drop("_parsed")
    )


def with_bodies(lines: DataFrame) -> DataFrame:
    """Add `produced` and `fetched`, each a `request` and a `response`, to lines (`whole`,
    `api_key`); null in those of other APIs and where the body is broken."""
    text = _json_of("whole")
    answered = F.replace(text, F.lit(ANSWERED_NOT), F.lit('"response":null,'))
    bodies = F.struct(
        _of_api(ApiKey.PRODUCE, answered, PRODUCE).alias("produced"),
        _of_api(ApiKey.FETCH, text, FETCH).alias("fetched"),
    )
    whole = [
        F.when(F.col(f"_bodies.{name}.{_CORRUPT}").isNull(), F.col(f"_bodies.{name}")).alias(name)
        for name in ("produced", "fetched")
    ]
    return lines.select("*", once(bodies).alias("_bodies")).select("*", *whole).drop("_bodies")


def with_metadata(lines: DataFrame) -> DataFrame:
    """Add `request` and `response` to Metadata lines; those whose body is broken are left out."""
    parsed = lines.select("*", once(_parsed(_json_of("whole"), METADATA)).alias("_parsed"))
    whole = parsed.filter(f"_parsed.{_CORRUPT} is null")
    return whole.select("*", "_parsed.request", "_parsed.response").drop("_parsed")


def partitions(lines: DataFrame, *kept: str) -> DataFrame:
    """A row for each partition of each Produce and Fetch answer of lines `with_bodies`, and for
    each Fetch that failed as a whole (`partition` null).

    Result: the columns to keep; `topic_name`, `topic_id` (one of them null), `partition`, `error`;
    `base_offset` of Produce; `preferred_read_replica` (null if none is named) and `bytes` of Fetch;
    and of a hint `hint_leader`, `hint_epoch`, `hint_endpoint` (null without).
    """
    hint = "'hint_leader', p.currentLeader.leaderId, 'hint_epoch', p.currentLeader.leaderEpoch"
    produced = (
        "flatten(transform(produced.response.responses, t -> transform(t.partitionResponses, p -> "
        "named_struct('topic_name', t.name, 'topic_id', t.topicId, 'partition', p.index, "
        "'error', p.errorCode, 'base_offset', p.baseOffset, "
        f"'preferred_read_replica', cast(null as int), 'bytes', cast(null as bigint), {hint}))))"
    )
    fetched = (
        "flatten(transform(fetched.response.responses, t -> transform(t.partitions, p -> "
        "named_struct('topic_name', t.topic, 'topic_id', t.topicId, 'partition', p.partitionIndex, "
        "'error', p.errorCode, 'base_offset', cast(null as bigint), "
        "'preferred_read_replica', if(p.preferredReadReplica >= 0, p.preferredReadReplica, null), "
        f"'bytes', coalesce(p.recordsSizeInBytes, 0L), {hint}))))"
    )
    failed = (
        "if(fetched.response.errorCode != 0, array(named_struct("
        "'topic_name', cast(null as string), 'topic_id', cast(null as string), "
        "'partition', cast(null as int), 'error', fetched.response.errorCode, "
        "'base_offset', cast(null as bigint), 'preferred_read_replica', cast(null as int), "
        "'bytes', 0L, 'hint_leader', cast(null as int), 'hint_epoch', cast(null as int))), array())"
    )
    endpoint = F.expr(
        "try_element_at(transform(filter(endpoints, e -> e.nodeId = partition_.hint_leader), "
        "e -> concat(e.host, ':', e.port)), 1)"
    )
    return lines.select(
        *kept,
        F.expr("coalesce(produced.response.nodeEndpoints, fetched.response.nodeEndpoints)").alias(
            "endpoints"
        ),
        F.explode(F.expr(f"coalesce({produced}, concat({fetched}, {failed}))")).alias("partition_"),
    ).select(*kept, "partition_.*", endpoint.alias("hint_endpoint"))


def _parsed(json: Column, schema: str) -> Column:
    return F.from_json(json, schema, {"columnNameOfCorruptRecord": _CORRUPT})


def _of_api(api: ApiKey, json: Column, schema: str) -> Column:
    return _parsed(F.when(F.col("api_key") == int(api), json), schema)


def _json_of(whole: str) -> Column:
    """The JSON of a line. What follows it, the logger's name, stops no parser."""
    return after(whole, MARKER)


def once(value: Column) -> Column:
    """A column of the value that is computed once for each row.

    Spark moves conditions to where rows come from, and would compute what they are about again for
    each of them. It does not move them past rows that are made, as here, one from each.
    """
    return F.explode(F.array(value))
