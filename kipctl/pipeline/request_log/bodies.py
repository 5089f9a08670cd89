"""What the JSON of a request line holds, as far as it is used: narrow schemas, one for each API."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kipctl.pipeline.columns import is_leader_error
from kipctl.pipeline.request_log.line_pieces import (
    CLIENT,
    HEAD_END,
    MARKER,
    after_last,
    before_first,
)
from kipctl.pipeline.request_log.sizes import metadata_response_bytes
from kipctl.protocol.api import ApiKey

ANSWERED_NOT = '"response":"",'
"""What stands for the answer to a Produce request with acks=0, which has none."""
REPLICA = r"^(broker-\d+-fetcher-\d+|raft-client-\d+)$"
"""Client ids of followers, and of nodes that read the cluster's metadata log."""

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
    response struct<responses: array<struct<name: string, topicId: string,
        partitionResponses: array<struct<index: int, errorCode: int, baseOffset: bigint,
            {_LEADER}>>>>, {_ENDPOINTS}>,
    {_CORRUPT} string
"""
FETCH = f"""
    request struct<rackId: string>,
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
_LONGEST_MS = 1e10
_MOST_BYTES = 1_000_000_000_000
"""More than a request can take, or an answer hold: what is above is damage."""


def with_whole_header(lines: DataFrame) -> DataFrame:
    """Add `header` (HEADER) of the line in `whole`; null where that is none, or its JSON is broken.

    So it is where a line holds the marker twice: it was cut, and the next one follows it.
    """
    is_one = F.octet_length(F.substring_index("whole", MARKER, 2)) == F.octet_length("whole")
    return _with_header(lines, F.when(is_one, _json_of("whole")))


def with_header_of_pieces(groups: DataFrame) -> DataFrame:
    """Add `header` (HEADER) of the pieces that were cut; null where they are no JSON together."""
    put_together = F.concat(
        F.lit('{"isForwarded":'),
        "origin",
        F.lit(',"clientId":'),
        "client",
        F.lit(',"connection":'),
        "connection",
        F.lit(',"totalTimeMs":0,"clientInformation":'),
        "software",
    )
    return _with_header(groups, put_together)


def _with_header(lines: DataFrame, json: Column) -> DataFrame:
    needed = ("requestHeader.requestApiKey", "requestHeader.requestApiVersion", "connection")
    is_whole = F.col(f"_parsed.{_CORRUPT}").isNull() & F.col("_parsed.totalTimeMs").isNotNull()
    for name in needed:
        is_whole &= F.col(f"_parsed.{name}").isNotNull()
    parsed = lines.select("*", computed_once(_parsed(json, HEADER)).alias("_parsed"))
    return parsed.select("*", F.when(is_whole, F.col("_parsed")).alias("header")).drop("_parsed")


def with_bodies(lines: DataFrame) -> DataFrame:
    """Add `produced`, `fetched` and `asked`, each as its schema says, to lines (`whole`, `header`);
    null in those of other APIs and where the body is broken."""
    text = _json_of("whole")
    answered = F.replace(text, F.lit(ANSWERED_NOT), F.lit('"response":null,'))
    bodies = F.struct(
        _of_api(ApiKey.PRODUCE, answered, PRODUCE).alias("produced"),
        _of_api(ApiKey.FETCH, text, FETCH).alias("fetched"),
        _of_api(ApiKey.METADATA, text, METADATA).alias("asked"),
    )
    unbroken = [
        F.when(F.col(f"_bodies.{name}.{_CORRUPT}").isNull(), F.col(f"_bodies.{name}")).alias(name)
        for name in ("produced", "fetched", "asked")
    ]
    parsed = lines.select("*", computed_once(bodies).alias("_bodies"))
    return parsed.select("*", *unbroken).drop("_bodies")


def narrowed(cuts: DataFrame) -> DataFrame:
    """Rows of `cuts.CUT` with `notes` in place of `whole`: what is to be known of such a line.

    `notes` (null where there was no such line) has the `header`; `answers`, how many partitions
    were answered with an error or a preferred read replica, alike ones together (`error`, `hinted`:
    it names a leader, `appended`: it has a base offset, `named`: a replica, `partitions`); `rack`
    and `read_bytes` of Fetch; the `metadata` that was asked for and answered; and of Metadata and
    of leader errors told to clients `single`, what tells the request from others: `us` (its time),
    `took_us`, `correlation`, and `asker` (the client as the line has it). Nothing of it is as long
    as a line, but for the topics of Metadata.
    """
    lines = cuts.transform(with_whole_header).transform(with_bodies)
    answers = F.col("_answers")
    counted = F.transform(
        F.array_distinct(answers),
        lambda one: one.withField(
            "partitions", F.size(F.filter(answers, lambda other: other == one)).cast("bigint")
        ),
    )
    is_of_client = ~F.coalesce(F.col("header.requestHeader.clientId").rlike(REPLICA), F.lit(False))
    is_refused = is_of_client & F.exists(answers, lambda one: is_leader_error(one["error"]))
    single = F.struct(
        F.col("first_us").alias("us"),
        took_us().alias("took_us"),
        F.col("header.requestHeader.correlationId").alias("correlation"),
        after_last(before_first("whole", HEAD_END), CLIENT).alias("asker"),
    )
    header = F.col("header").dropFields(_CORRUPT, "totalTimeMs")
    of_fetch = F.col("fetched").isNotNull()
    notes = F.struct(
        header.withField(
            "requestHeader", header["requestHeader"].dropFields("correlationId")
        ).alias("header"),
        F.when(F.size(answers) > 0, counted).alias("answers"),
        F.when(of_fetch, F.nullif("fetched.request.rackId", F.lit(""))).alias("rack"),
        F.when(of_fetch, _read_bytes()).alias("read_bytes"),
        F.when(F.col("asked").isNotNull(), _metadata()).alias("metadata"),
        F.when(is_refused | F.col("asked").isNotNull(), single).alias("single"),
    )
    noted = lines.select("*", computed_once(_answers()).alias("_answers"))
    return noted.select(
        *(name for name in cuts.columns if name != "whole"),
        F.when(F.col("whole").isNotNull(), notes).alias("notes"),
    )


def took_us() -> Column:
    """How long the broker took for the request of a `header`, in microseconds (bigint)."""
    milliseconds = F.col("header.totalTimeMs")
    believable = F.when(milliseconds.between(0, _LONGEST_MS), F.round(milliseconds * 1000))
    return F.coalesce(believable.cast("bigint"), F.lit(0).cast("bigint"))


def _answers() -> Column:
    """The partitions that were answered with an error or a replica's name, one by one."""

    def answer(
        error: Column, leader: Column | None, offset: Column | None, named: Column
    ) -> Column:
        return F.struct(
            error.alias("error"),
            _is_set(leader).alias("hinted"),
            _is_set(offset).alias("appended"),
            named.alias("named"),
        )

    no = F.lit(False)
    produced = F.flatten(
        F.transform(
            "produced.response.responses",
            lambda topic: F.transform(
                topic["partitionResponses"],
                lambda p: answer(
                    p["errorCode"], p["currentLeader"]["leaderId"], p["baseOffset"], no
                ),
            ),
        )
    )
    fetched = F.flatten(
        F.transform(
            "fetched.response.responses",
            lambda topic: F.transform(
                topic["partitions"],
                lambda p: answer(
                    p["errorCode"],
                    p["currentLeader"]["leaderId"],
                    None,
                    _is_set(p["preferredReadReplica"]),
                ),
            ),
        )
    )
    whole_error = F.col("fetched.response.errorCode")
    failed = F.when(whole_error != 0, F.array(answer(whole_error, None, None, no)))
    none = F.array().cast(
        "array<struct<error: int, hinted: boolean, appended: boolean, named: boolean>>"
    )
    every = F.concat(*(F.coalesce(of, none) for of in (produced, fetched, failed)))
    return F.filter(every, lambda one: (one["error"] != 0) | one["named"])


def _is_set(number: Column | None) -> Column:
    """Whether a number is there that is not negative; never null."""
    return F.lit(False) if number is None else F.coalesce(number >= 0, F.lit(False))


def _read_bytes() -> Column:
    sizes = F.flatten(
        F.transform(
            "fetched.response.responses",
            lambda topic: F.transform(topic["partitions"], lambda p: p["recordsSizeInBytes"]),
        )
    )
    none = F.lit(0).cast("bigint")
    return F.aggregate(
        F.filter(sizes, lambda size: size.between(0, _MOST_BYTES)),
        none,
        lambda total, size: total + size,
    )


def _metadata() -> Column:
    answer = "asked.response"
    asked = F.transform(
        "asked.request.topics", lambda topic: F.coalesce(topic["name"], topic["topicId"])
    )
    errors = F.filter(
        F.transform(f"{answer}.topics", lambda topic: topic["errorCode"]), lambda code: code != 0
    )
    named = F.filter(f"{answer}.topics", lambda t: t["topicId"].isNotNull() & t["name"].isNotNull())
    error = F.coalesce(
        F.nullif(F.col(f"{answer}.errorCode"), F.lit(0)),
        F.try_element_at(errors, F.lit(1)),
        F.lit(0),
    )
    return F.struct(
        asked.alias("asked"),
        error.alias("error"),
        metadata_response_bytes(answer, "header.requestHeader.requestApiVersion").alias("bytes"),
        F.col(f"{answer}.clusterId").alias("cluster"),
        F.col(f"{answer}.brokers").alias("brokers"),
        F.xxhash64(f"{answer}.topics").alias("answer"),
        F.transform(
            named, lambda t: F.struct(t["topicId"].alias("id"), t["name"].alias("name"))
        ).alias("topics"),
    )


def _parsed(json: Column, schema: str) -> Column:
    return F.from_json(json, schema, {"columnNameOfCorruptRecord": _CORRUPT})


def _of_api(api: ApiKey, json: Column, schema: str) -> Column:
    is_of_api = F.col("header.requestHeader.requestApiKey") == int(api)
    return _parsed(F.when(is_of_api, json), schema)


def _json_of(whole: str) -> Column:
    """The JSON of a line. What follows it, the logger's name, stops no parser."""
    return after_last(whole, MARKER)


def computed_once(value: Column) -> Column:
    """A column of the value that is computed once for each row.

    Spark moves conditions to where rows come from, and would compute what they are about again for
    each of them. It does not move them past rows that are made, as here, one from each.
    """
    return F.explode(F.array(value))
