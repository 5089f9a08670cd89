"""Cuts of lines say what a parser says of whole lines; damaged ones are counted, each once."""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from request_log_lines import LOGS, MARKER, log_lines

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


def text_of(spark: SparkSession, lines: Iterable[str]) -> DataFrame:
    # In several files, which come in one task.
    rows = [(line, f"file {number // 700}") for number, line in enumerate(lines)]
    return spark.createDataFrame(rows, "value string, file string").coalesce(2)


def kept_whole(lines: DataFrame) -> DataFrame:
    """Rows of CUT in which nothing is cut: a parser reads all of every request's line."""
    nothing = {name: F.lit(None).cast(CUT[name].dataType) for name in (*PIECES, "read_bytes")}
    whole = F.when(F.col("is_request"), F.col("value"))
    return (
        cut_each(lines, F.lit("UTC"), "file", "value")
        .withColumns({**nothing, "whole": whole})
        .drop("value")
    )


@pytest.mark.parametrize("name", LOGS)
def test_the_lines_of_brokers(spark: SparkSession, name: str) -> None:
    text = text_of(spark, log_lines(name))
    # What a client announces of itself stands in the body of ApiVersions.
    by_cut, by_parser = (
        counted(groups_of(cuts).filter(F.col("api_key") != int(ApiKey.API_VERSIONS)))
        for cuts in (cut(text, F.lit("UTC")), kept_whole(text))
    )
    assert by_cut == by_parser
    assert len(by_cut) > 100


def test_damaged_lines(spark: SparkSession) -> None:
    """None of them ends the job, each is counted once, and they change nothing about the others."""
    choose = random.Random(11)
    lines = [line for name in LOGS for line in log_lines(name)]
    whole = text_of(spark, lines).withColumn("file", F.lit("whole"))
    mixed: list[Any] = [damaged(choose.choice(lines), choose) for _ in range(2000)]
    mixed += ["", MARKER, MARKER + "{}", ',"request":' + MARKER, '"clientId":"']
    both = groups_of(cut(text_of(spark, mixed).unionAll(whole), F.lit("UTC")))
    rows = both.groupBy("file", "kind").agg(F.sum("requests").alias("lines")).collect()
    kinds: Counter[str] = Counter()
    for row in rows:
        if row.file != "whole":
            kinds[row.kind] += row.lines
    assert kinds.keys() == {"parsed", "broken", "other"}
    assert kinds.total() == len(mixed)
    among_damaged = counted(both.filter("file = 'whole'"))
    assert among_damaged == counted(groups_of(cut(whole, F.lit("UTC"))))
