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


def _parsed(json: Column, schema: str) -> Column:
    return F.from_json(json, schema, {"columnNameOfCorruptRecord": _CORRUPT})


def _json_of(whole: str) -> Column:
    """The JSON of a line. What follows it, the logger's name, stops no parser."""
    return after(whole, MARKER)


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
    told = [
        "requestHeader.requestApiKey",
        "requestHeader.requestApiVersion",
        "connection",
        "totalTimeMs",
    ]
    is_whole = F.col(f"header.{_CORRUPT}").isNull()
    for name in told:
        is_whole &= F.col(f"header.{name}").isNotNull()
    return groups.withColumn("header", _parsed(text, HEADER)).withColumn(
        "header", F.when(is_whole, F.col("header"))
    )


def with_body(lines: DataFrame, api: ApiKey, schema: str, line: str = "whole") -> DataFrame:
    """Add `request` and `response` of lines of one API; lines whose body is broken are left out."""
    text = _json_of(line)
    if api == ApiKey.PRODUCE:
        text = F.replace(text, F.lit(ANSWERED_NOT), F.lit('"response":null,'))
    return (
        lines.withColumn("_body", _parsed(text, schema))
        .filter(f"_body.{_CORRUPT} is null")
        .withColumn("request", F.col("_body.request"))
        .withColumn("response", F.col("_body.response"))
        .drop("_body")
    )


def produce_partitions(lines: DataFrame, *kept: str) -> DataFrame:
    """A row for each partition of each Produce answer.

    Result: the columns to keep; `topic_name`, `topic_id` (one of them null), `partition`, `error`,
    `base_offset`, and of the hint `hint_leader`, `hint_epoch`, `hint_endpoint` (null without).
    """
    return _partitions(
        lines,
        kept,
        F.expr("response.responses"),
        ("topic.name", "topic.partitionResponses", "p.index"),
        {"error": "p.errorCode", "base_offset": "p.baseOffset"},
    )


def fetch_partitions(lines: DataFrame, *kept: str) -> DataFrame:
    """A row for each partition of each Fetch answer.

    Result: as of `produce_partitions`, with `preferred_read_replica` (null if none is named) and
    `bytes` instead of the base offset.
    """
    return _partitions(
        lines,
        kept,
        F.expr("response.responses"),
        ("topic.topic", "topic.partitions", "p.partitionIndex"),
        {
            "error": "p.errorCode",
            "preferred_read_replica": "if(p.preferredReadReplica >= 0, p.preferredReadReplica, "
            "null)",
            "bytes": "coalesce(p.recordsSizeInBytes, 0L)",
        },
    )


def _partitions(
    lines: DataFrame,
    kept: tuple[str, ...],
    topics: Column,
    names: tuple[str, str, str],
    columns: dict[str, str],
) -> DataFrame:
    name, partitions, index = names
    endpoint = F.expr(
        "try_element_at(transform(filter(endpoints, e -> e.nodeId = p.currentLeader.leaderId), "
        "e -> concat(e.host, ':', e.port)), 1)"
    )
    return (
        lines.select(
            *kept,
            F.explode(topics).alias("topic"),
            F.expr("response.nodeEndpoints").alias("endpoints"),
        )
        .select(
            *kept,
            F.expr(name).alias("topic_name"),
            F.col("topic.topicId").alias("topic_id"),
            F.explode(partitions).alias("p"),
            "endpoints",
        )
        .select(
            *kept,
            "topic_name",
            "topic_id",
            F.expr(index).alias("partition"),
            *(F.expr(sql).alias(column) for column, sql in columns.items()),
            F.expr("p.currentLeader.leaderId").alias("hint_leader"),
            F.expr("p.currentLeader.leaderEpoch").alias("hint_epoch"),
            endpoint.alias("hint_endpoint"),
        )
    )
