"""Cuts of lines say what a parser says of whole lines; damaged ones are counted, each once."""

import random
from collections import Counter

import pytest
from campaigns import as_many, campaign, chance
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from request_log_lines import LOGS, MARKER, log_lines, request_of, with_request

from kipctl.pipeline.request_log.groups import groups_of
from kipctl.pipeline.request_log.line_pieces import CUT, PIECES, cut, cut_each
from kipctl.protocol.api import ApiKey

pytestmark = pytest.mark.spark

STAMPS = (
    "[2026-11-21 11:13:09,119] DEBUG ",
    "[2026-11-21 11:13:60,119] DEBUG ",
    "[2026-02-30 11:13:09,119] DEBUG ",
    "[2026-11-21 11:13:09,1] DEBUG ",
    "2026-11-21T11:13:09.119 DEBUG broker-1 ",
    "1 2026-11-21 11:13:09 [DEBUG] ",
    "[2026-11-21 11:13:09,119+0200] DEBUG ",
    "2026-11-21T11:13:09.119119119Z stdout F ",
    "2026-11-21 11:13:09 -99:99 ",
    "[9999-99-99 99:99:99,999] ",
    "[11:13:09,119] ",
    "",
)
STRANGE = (
    '"errorCode":6',
    '"errorCode":',
    '"preferredReadReplica":2',
    '"rackId":"r\\"1"',
    '"recordsSizeInBytes":99999999999999999999,',
    '"totalTimeMs":1e300,',
    '"requestApiKey":99999999999,',
    '"requestApiKey":3,',
    '"clientSoftwareName":"x","clientSoftwareVersion":"y"',
    '"baseOffset":-99999999999999999999',
    ',"clientId":',
    ',"connection":"',
    ',"clientInformation":',
    '"}},',
    MARKER,
    MARKER + '{"isForwarded":',
    "\\",
    '"',
    "}",
    "größe ",
    "\u2028",
    "\x00",
)


def damaged(line: str, choose: random.Random) -> str:
    """The line with some of it taken away, said twice, put elsewhere, or not of it."""
    for _ in range(choose.choice((1, 1, 2, 3))):
        at, to = sorted(choose.randrange(len(line) + 1) for _ in range(2))
        match choose.randrange(7):
            case 0:
                line = line[:at]
            case 1:
                line = line[:at] + line[to:]
            case 2:
                line = line[:at] + choose.choice(STRANGE) + line[at:]
            case 3:
                line = line[:at] + line[at:to] + line[at:]
            case 4:
                line = choose.choice(STAMPS) + line[line.find(MARKER) :]
            case 5:
                head, mark, tail = line.partition(choose.choice(('"', ":", ",", "{", "0")))
                line = head + choose.choice(STRANGE) * bool(mark) + tail
            case 6:
                place = choose.randrange(min(400, len(line)) + 1)
                line = line[:place] + choose.choice(STRANGE) + line[place + choose.randrange(9) :]
    return line


def counted(groups: DataFrame) -> Counter[str]:
    """The groups' rows and their requests; of rows that are alike, whatever their times."""
    measures = ("requests", "first_us", "last_us", "read_bytes")
    keys = [name for name in groups.columns if name not in measures]
    merged = groups.groupBy(*keys).agg(
        F.sum("requests").alias("requests"),
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
        # Of all others they are not looked for.
        F.sum(F.when(F.col("rack").isNotNull(), F.col("read_bytes"))).alias("read_bytes"),
    )
    return Counter(str(sorted(row.asDict(recursive=True).items())) for row in merged.collect())


def kept_whole(lines: DataFrame) -> DataFrame:
    """Rows of CUT in which nothing is cut: a parser reads all of every request's line."""
    nothing = {name: F.lit(None).cast(CUT[name].dataType) for name in (*PIECES, "read_bytes")}
    whole = F.when(F.col("is_request"), F.col("value"))
    return (
        cut_each(lines, F.lit("UTC"), "file", "value")
        .withColumns({**nothing, "whole": whole})
        .drop("value")
    )


@pytest.fixture(scope="module")
def whole(spark: SparkSession) -> DataFrame:
    """The lines of the logs, each log as a file."""
    rows = [(line, name) for name in LOGS for line in log_lines(name)]
    return spark.createDataFrame(rows, "value string, file string").coalesce(2)


@pytest.fixture(scope="module")
def by_cut(whole: DataFrame) -> Counter[str]:
    return counted(groups_of(cut(whole, F.lit("UTC"))))


def test_the_lines_of_brokers(whole: DataFrame, by_cut: Counter[str]) -> None:
    by_parser = counted(groups_of(kept_whole(whole)))
    # What a client announces of itself stands in the body of ApiVersions.
    assert without_announcements(by_cut) == without_announcements(by_parser)
    assert len(by_cut) > 300


def without_announcements(groups: Counter[str]) -> Counter[str]:
    announcement = str(("api_key", int(ApiKey.API_VERSIONS)))
    return Counter({of: number for of, number in groups.items() if announcement not in of})


def broken(line: str) -> list[str]:
    """A line broken in several ways, none of which a parser takes."""
    return [
        line.replace('"requestHeader":{', '"requestHeader":'),
        line.replace('"requestApiVersion":', '"requestApiVersion":x'),
        line.replace('"clientId":"', '"clientId":'),
        line.replace(',"connection":', ',"connection"'),
        line.replace('"totalTimeMs":', '"totalTimeMs":,'),
        line.replace('"softwareName":"', '"softwareName":'),
        line.replace('"}} (kafka', '" (kafka'),
        line[:60] + line,  # the broker died, and went on in the same line
        line[: len(line) // 2] + " " + line,
        "[2026-11-21 11:13:09,119] DEBUG Completed request:",
        "[2026-11-21 11:13:09,119] DEBUG Completed request:{} (kafka.request.logger)",
        "Completed request:nothing of the kind",
    ]


def test_a_line_is_broken_wherever_it_is_damaged(spark: SparkSession) -> None:
    lines = log_lines("kafka-4.3.1")
    refused = next(line for line in lines if '"currentLeader"' in line)
    plain = next(line for line in lines if '"PRODUCE"' in line and '"errorCode":0' in line)
    # Damage anywhere shows in a line whose body is read, here one with an error.
    damaged = [*broken(refused), refused.replace('"responses":[', '"responses":')]
    # Of other lines neither times nor bodies are looked at.
    unseen = (f" {plain}", '"totalTimeMs":,')
    damaged += [line for line in broken(plain) if not any(part in line for part in unseen)]
    rows = [(line, "parsed", line) for line in (refused, plain)]
    rows += [(line, "broken", line) for line in damaged]
    text = spark.createDataFrame(rows, "value string, expected string, file string")
    kinds = {row.file: row.kind for row in groups_of(cut(text, F.lit("UTC"))).collect()}
    assert kinds == {line: expected for line, expected, _ in rows}


def test_fields_in_another_order(spark: SparkSession) -> None:
    """Lines that are not laid out like Kafka's are read whole."""
    lines = log_lines("kafka-4.3.1")[:60]
    turned = [with_request(line, dict(reversed(request_of(line).items()))) for line in lines]
    rows = [(line, name) for name, of in (("a", lines), ("b", turned)) for line in of]
    groups = groups_of(cut(spark.createDataFrame(rows, "value string, file string"), F.lit("UTC")))
    # By what is in the line they are joined again with others, laid out as they are.
    found = groups.withColumn("single", F.col("single").dropFields("asker")).cache()
    laid_out, otherwise = (
        without_announcements(counted(found.filter(F.col("file") == name).drop("file")))
        for name in "ab"
    )
    assert laid_out == otherwise
    found.unpersist()


@campaign
def test_damaged_lines(spark: SparkSession, whole: DataFrame, by_cut: Counter[str]) -> None:
    """None of them ends the job, each is counted once, and they change nothing about the others."""
    choose = chance("damaged lines")
    lines = [line for name in LOGS for line in log_lines(name)]
    mixed = [damaged(choose.choice(lines), choose) for _ in range(as_many(700, 20_000))]
    mixed += ["", MARKER, MARKER + "{}", ',"request":' + MARKER, '"clientId":"']
    # In several files, which come in one task.
    rows = [(line, f"file {number // 700}") for number, line in enumerate(mixed)]
    text = spark.createDataFrame(rows, "value string, file string").coalesce(2)
    both = groups_of(cut(text.unionAll(whole), F.lit("UTC"))).cache()
    kinds: Counter[str] = Counter()
    for row in both.filter("file like 'file %'").collect():
        kinds[row.kind] += row.requests
    assert kinds.keys() == {"parsed", "broken", "other"}
    assert kinds.total() == len(mixed)
    assert counted(both.filter("file not like 'file %'")) == by_cut
    both.unpersist()
