"""Lines are cut alike by Spark's own functions and by Python, whatever is in them."""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from request_log_lines import LOGS, MARKER, log_lines

from kipctl.pipeline.request_log import arrow_cuts, cuts
from kipctl.pipeline.request_log.groups import groups_of

pytestmark = pytest.mark.spark

STAMPS = (
    "[2026-11-21 11:13:09,119] DEBUG ",
    "[2026-11-21 11:13:60,119] DEBUG ",
    "[2026-02-30 11:13:09,119] DEBUG ",
    "[2026-11-21 11:13:09,1] DEBUG ",
    "2026-11-21T11:13:09.119 DEBUG broker-1 ",
    "1 2026-11-21 11:13:09 [DEBUG] ",
    "[9999-99-99 99:99:99,999] ",
    "[11:13:09,119] ",
    "",
)
PIECES = (
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
                line = line[:at] + choose.choice(PIECES) + line[at:]
            case 3:
                line = line[:at] + line[at:to] + line[at:]
            case 4:
                line = choose.choice(STAMPS) + line[line.find(MARKER) :]
            case 5:
                head, mark, tail = line.partition(choose.choice(('"', ":", ",", "{", "0")))
                line = head + choose.choice(PIECES) * bool(mark) + tail
            case 6:
                place = choose.randrange(min(400, len(line)) + 1)
                line = line[:place] + choose.choice(PIECES) + line[place + choose.randrange(9) :]
    return line


def counted(groups: DataFrame) -> Counter[str]:
    """The groups' rows and their requests; of rows that are alike, whatever their times."""
    measures = ("requests", "first_us", "last_us", "read_bytes")
    keys = [name for name in groups.columns if name not in measures]
    merged = groups.groupBy(*keys).agg(
        F.sum("requests").alias("requests"),
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
        F.sum("read_bytes").alias("read_bytes"),
    )
    return Counter(str(sorted(row.asDict(recursive=True).items())) for row in merged.collect())


def both_ways(spark: SparkSession, lines: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    # In several files, which come in one task.
    rows = [(line, f"file {number // 700}") for number, line in enumerate(lines)]
    text = spark.createDataFrame(rows, "value string, file string").coalesce(2)
    zone = F.lit("UTC")
    native = groups_of(cuts.cut(text), zone, is_counted=False)
    python = groups_of(arrow_cuts.cut(text), zone, is_counted=True)
    return counted(native), counted(python)


@pytest.mark.parametrize("name", LOGS)
def test_the_lines_of_brokers(spark: SparkSession, name: str) -> None:
    native, python = both_ways(spark, log_lines(name))
    assert native == python
    assert len(native) > 100


def test_damaged_lines(spark: SparkSession) -> None:
    """None of them ends the job, and both ways take each for the same."""
    choose = random.Random(11)
    lines = [line for name in LOGS for line in log_lines(name)]
    mixed: list[Any] = [damaged(choose.choice(lines), choose) for _ in range(2000)]
    mixed += ["", MARKER, MARKER + "{}", ',"request":' + MARKER, '"clientId":"']
    native, python = both_ways(spark, mixed)
    assert native == python
    for kind in ("parsed", "broken", "other"):
        assert any(f"('kind', '{kind}')" in row for row in native)
