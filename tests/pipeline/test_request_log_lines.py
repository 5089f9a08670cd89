"""Request logs that real brokers wrote: every count is held to a plain reading of the JSON."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from request_log_lines import (
    LOGS,
    log_files,
    log_lines,
    plainly_counted,
    request_of,
    requests_by_client,
    with_request,
)

from kipctl.errors import PipelineError, UsageError
from kipctl.pipeline.period import parse_period
from kipctl.pipeline.request_log import RequestLog, read_request_log
from kipctl.pipeline.request_log.analysis import analyse
from kipctl.pipeline.request_log.files import Timezones

pytestmark = pytest.mark.spark

WriteLog = Callable[..., str]


@pytest.fixture
def write_log(tmp_path: Path) -> WriteLog:
    """Write lines to a file, and return its path."""

    def write(lines: list[str], name: str = "request.log") -> str:
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    return write


def of_one_cluster(document: dict[str, Any]) -> dict[str, Any]:
    """What a document says of the only cluster, and of all lines."""
    [cluster] = document["clusters"]
    return {**cluster, "lines": document["lines"], "broken_lines": document["broken_lines"]}


@pytest.fixture(scope="module", params=LOGS)
def analysed(request: pytest.FixtureRequest, spark: SparkSession) -> tuple[str, dict[str, Any]]:
    """The name of a log and its document."""
    log = read_request_log(spark, [str(path) for path in log_files(request.param)])
    return request.param, of_one_cluster(analyse(log))


def test_counts_are_those_of_the_json(analysed: tuple[str, dict[str, Any]]) -> None:
    name, document = analysed
    expected = plainly_counted(log_lines(name))
    apis = [(row["api_key"], row["version"], row["requests"]) for row in document["apis"]]
    assert apis == expected.pop("apis")
    assert {key: document[key] for key in expected} == expected


def test_every_request_has_its_client(analysed: tuple[str, dict[str, Any]]) -> None:
    name, document = analysed
    counted: Counter[tuple[str, str, str, bool]] = Counter()
    for row in document["clients"]:
        is_forwarded = row["origin"] == "forwarded"
        counted[row["software"], row["version"], row["client_id"], is_forwarded] += row["requests"]
    assert counted == requests_by_client(log_lines(name))


def test_followers_and_brokers_are_no_clients(analysed: tuple[str, dict[str, Any]]) -> None:
    _, document = analysed
    origins = {row["client_id"]: row["origin"] for row in document["clients"]}
    assert origins["broker-1-fetcher-0"] == "replica"
    assert origins["raft-client-1"] in ("replica", "broker")
    # A broker's own requests to the controller bear its number.
    assert {origins.get(str(number), "broker") for number in (1, 2, 3)} == {"broker"}
    fleet = {(row["software"], row["version"]): row for row in document["fleet"]}
    ids = [row for row in document["clients"] if row["origin"] == "client"]
    assert sum(row["requests"] for row in fleet.values()) == sum(row["requests"] for row in ids)


def test_documents_are_json_and_name_brokers(analysed: tuple[str, dict[str, Any]]) -> None:
    _, document = analysed
    assert json.loads(json.dumps(document)) == document
    assert [row["rack"] for row in document["brokers"]] == ["rack-1", "rack-2", "rack-3"]


def test_who_can_use_hints(analysed: tuple[str, dict[str, Any]]) -> None:
    name, document = analysed
    hints = {row["software"]: row["hints"] for row in document["fleet"]}
    expected = {
        "kafka-4.3.1": {
            "apache-kafka-java": "uses",
            "confluent-kafka-python": "waits",
            "kafka-python": "none",
            "kipctl": "uses",
        },
        # Its brokers speak Produce up to 9 and Fetch up to 15.
        "kafka-3.6.2": dict.fromkeys(
            ("apache-kafka-java", "confluent-kafka-python", "kafka-python", "kipctl"), "none"
        ),
        "transactions-4.3.1": {"confluent-kafka-python": "waits", "kipctl": "-"},
    }
    assert {software: hints[software] for software in expected[name]} == expected[name]


def test_redirected_clients_waited(analysed: tuple[str, dict[str, Any]]) -> None:
    name, document = analysed
    refused = {row["software"]: row["leader_errors"]["total"] for row in document["fleet"]}
    waited = {row["software"]: row["wait_ms"]["episodes"] for row in document["fleet"]}
    assert {name for name, total in refused.items() if total} == {
        name for name, episodes in waited.items() if episodes
    }
    if name != "transactions-4.3.1":
        assert refused["kafka-python"] > 0
        # It knows no hints and waits out its backoff of 100 ms.
        python = next(row for row in document["fleet"] if row["software"] == "kafka-python")
        assert python["wait_ms"]["p50"] >= 90


def mixed(name: str = "kafka-4.3.1") -> list[str]:
    """Request lines among others, as where the request logger writes into server.log."""
    others = [
        "[2026-11-21 11:13:09,119] INFO [KafkaRaftServer nodeId=1] started (kafka.server)",
        "java.io.IOException: Connection reset by peer",
        "\tat java.base/sun.nio.ch.FileDispatcherImpl.read0(Native Method)",
        "",
        '{"isForwarded":false,"requestHeader":{"requestApiKey":1}}',
        'Completed the request, "request":{} ,"connection":"x"',
    ]
    lines = log_lines(name)
    for place, other in enumerate(others * 3):
        lines.insert(7 * place, other)
    return lines


def test_other_lines_are_passed_over(spark: SparkSession, write_log: WriteLog) -> None:
    lines = mixed()
    document = of_one_cluster(analyse(read_request_log(spark, [write_log(lines)])))
    expected = plainly_counted(lines)
    assert document["lines"] == expected["lines"]
    assert document["lines"]["other"] == 18
    assert document["fetch_errors"] == expected["fetch_errors"]


def test_files_folders_and_wildcards(spark: SparkSession, tmp_path: Path) -> None:
    lines = log_lines("kafka-3.6.2")
    folder = tmp_path / "logs of a broker"
    folder.mkdir()
    (folder / "request.log").write_text("\n".join(lines[:300]) + "\n", encoding="utf-8")
    with gzip.open(folder / "request.log.1.gz", "wt", encoding="utf-8") as packed:
        packed.write("\n".join(lines[300:]))  # without a line feed at the end
    links = tmp_path / "links"
    links.mkdir()
    for name in ("request.log", "request.log.1.gz"):
        (links / name).symlink_to(folder / name)
    (links / "current.log").symlink_to("request.log")
    for paths in (
        [str(folder)],
        [f"{folder}/*"],
        [f"{folder}/request.log", f"{folder}/*.gz"],
        # What is in a folder, and no file twice.
        [str(tmp_path)],
        [str(tmp_path), str(folder), f"{folder}/request.log", f"{folder}/*"],
        [str(links)],
        [f"{links}/*"],
    ):
        log = read_request_log(spark, paths)
        assert (log.lines.read, log.lines.parsed) == (len(lines), len(lines))


def test_cut_lines_are_counted_and_shown(spark: SparkSession, write_log: WriteLog) -> None:
    whole = log_lines("kafka-4.3.1")[:400]
    lines = list(whole)
    cuts = {}
    for number in range(3, 400, 26):
        line = whole[number]
        # Anywhere after the marker, and before the last brace of the JSON.
        first, last = line.index("Completed request:") + 18, line.rindex("}")
        end = first + (last - first) * (number - 3) // 397
        lines[number] = cuts[number + 1] = line[:end]
    path = write_log(lines, "a log, 100%.log")
    log = read_request_log(spark, [path])
    assert (log.lines.read, log.lines.broken, log.lines.other) == (400, len(cuts), 0)
    assert log.lines.parsed == 400 - len(cuts)
    assert [(line.file, line.line) for line in log.broken] == [(path, number) for number in cuts]
    assert [line.text for line in log.broken] == [text[:120] for text in cuts.values()]


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


def test_damaged_lines_are_broken(spark: SparkSession, write_log: WriteLog) -> None:
    refused = next(line for line in log_lines("kafka-4.3.1") if '"currentLeader"' in line)
    # Damage anywhere shows in a line whose body is read, here one with an error.
    damaged = [*broken(refused), refused.replace('"responses":[', '"responses":')]
    log = read_request_log(spark, [write_log([refused, *damaged])])
    assert (log.lines.parsed, log.lines.broken) == (1, len(damaged))
    assert [line.line for line in log.broken] == list(range(2, len(damaged) + 2))


def test_damage_outside_the_bodies_shows_in_every_line(
    spark: SparkSession, write_log: WriteLog
) -> None:
    plain = next(line for line in log_lines("kafka-4.3.1") if '"PRODUCE"' in line)
    assert '"errorCode":0' in plain
    times_or_bodies = (f" {plain}", '"totalTimeMs":,')
    damaged = [line for line in broken(plain) if not any(part in line for part in times_or_bodies)]
    log = read_request_log(spark, [write_log([plain, *damaged])])
    assert (log.lines.parsed, log.lines.broken) == (1, len(damaged))


def test_broken_lines_have_their_number_in_the_file(
    spark: SparkSession, write_log: WriteLog
) -> None:
    """In files that Spark reads in many blocks, whose lines it does not number."""
    lines = log_lines("kafka-4.3.1")
    numbers = [5, 100, 399, len(lines)]
    for number in numbers:
        lines[number - 1] = lines[number - 1][:200]
    first, second = write_log(lines, "a.log"), write_log([*lines[:99], "x"], "b.log")
    blocks = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(blocks)
    spark.conf.set(blocks, "100k")
    try:
        log = read_request_log(spark, [first, second])
        assert log.text.select("block").distinct().count() > 5
    finally:
        spark.conf.set(blocks, before)
    found = [(line.file, line.line) for line in log.broken]
    assert found == [(first, number) for number in numbers] + [(second, 5)]


def test_broken_lines_of_a_part_of_the_time_have_their_number_in_the_file(
    spark: SparkSession, write_log: WriteLog
) -> None:
    lines = [line for line in log_lines("kafka-4.3.1") if line.startswith("[")][:300]
    lines.sort(key=lambda line: line[:25])
    for number in (50, 201):
        lines[number - 1] = lines[number - 1][:200]
    at = lines[142][1:24].replace(" ", "T").replace(",", ".")
    path = write_log(["another line", *lines])
    log = read_request_log(spark, [path], period=parse_period(at, None))
    assert log.lines.read < 200
    assert [line.line for line in log.broken] == [202]


def test_only_the_first_broken_lines_are_shown(spark: SparkSession, write_log: WriteLog) -> None:
    lines = [line[:150] for line in log_lines("kafka-4.3.1")[:50]]
    log = read_request_log(spark, [write_log(lines)])
    assert log.lines.broken == 50
    assert [line.line for line in log.broken] == list(range(1, 21))


@pytest.mark.parametrize(
    "client_id", ['a "quoted" one', "back\\slash\\", 'größe,"clientId":"x', "", "{}}}", "a\tb"]
)
def test_client_ids_of_any_kind(spark: SparkSession, write_log: WriteLog, client_id: str) -> None:
    line = next(line for line in log_lines("kafka-4.3.1") if '"PRODUCE"' in line)
    request = request_of(line)
    request["requestHeader"]["clientId"] = client_id
    log = read_request_log(spark, [write_log([with_request(line, request)])])
    assert [row.client for row in log.calls.collect()] == [client_id]


def test_a_client_without_an_id(spark: SparkSession, write_log: WriteLog) -> None:
    line = next(line for line in log_lines("kafka-4.3.1") if '"PRODUCE"' in line)
    request = request_of(line)
    request["requestHeader"]["clientId"] = None
    log = read_request_log(spark, [write_log([with_request(line, request)])])
    document = of_one_cluster(analyse(log))
    assert [(row["client_id"], row["requests"]) for row in document["clients"]] == [(None, 1)]


def test_fields_in_another_order(spark: SparkSession, write_log: WriteLog) -> None:
    """Lines that are not laid out like Kafka's are read whole."""
    lines = log_lines("kafka-4.3.1")[:60]
    turned = [with_request(line, dict(reversed(request_of(line).items()))) for line in lines]
    documents = [
        analyse(read_request_log(spark, [write_log(of, name)]))
        for name, of in (("a.log", lines), ("b.log", turned))
    ]
    assert documents[0] == documents[1]


def test_a_log_without_requests(spark: SparkSession, write_log: WriteLog) -> None:
    path = write_log(["[2026-11-21 11:13:09,119] INFO started (kafka.server)"])
    with pytest.raises(PipelineError, match="holds no request lines") as raised:
        read_request_log(spark, [path])
    assert "request-log on" in raised.value.next_step


def test_requests_outside_the_period(spark: SparkSession, write_log: WriteLog) -> None:
    path = write_log(log_lines("kafka-4.3.1")[:20])
    for since in ("2026-12-31", "2999-12-31"):  # which of the two is after the file was written
        with pytest.raises(UsageError, match=r"No request line of .* lies in the period"):
            read_request_log(spark, [path], period=parse_period(since, None))


def test_files_that_spark_does_not_read(spark: SparkSession, write_log: WriteLog) -> None:
    lines = log_lines("kafka-4.3.1")[:20]
    packed = write_log(["nonsense"], "a b.log.xz")
    with pytest.raises(UsageError, match=r"/a b\.log\.xz cannot be read: .* unpack it"):
        read_request_log(spark, [packed.replace("a b", "*")])
    hidden = write_log(lines, "_b2.log")
    with pytest.raises(UsageError, match=r"holds no files that Spark reads"):
        read_request_log(spark, [hidden.replace("_b2", "_*")])


def test_a_path_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"There is no .*/gone\.log"):
        read_request_log(spark, [f"{tmp_path}/gone.log"])


def period_of(log: RequestLog) -> tuple[str, str]:
    period = of_one_cluster(analyse(log))["period"]
    return period["from"], period["to"]


def test_a_part_of_the_time(spark: SparkSession) -> None:
    lines = log_lines("kafka-4.3.1")
    files = [str(path) for path in log_files("kafka-4.3.1")]
    period = parse_period("2026-11-21T11:13:20", "2026-11-21T11:13:30.5")
    log = read_request_log(spark, files, period=period)
    inside = [line for line in lines if "11:13:20" <= line[12:24].replace(",", ".") < "11:13:30.5"]
    assert 0 < len(inside) < len(lines)
    assert log.lines.read == len(inside)
    with pytest.raises(UsageError, match="no start to count from"):
        read_request_log(spark, files, period=parse_period("10s", None))


@pytest.mark.parametrize(
    ("stamp", "moment"),
    [
        ("[2026-11-21 11:13:09,119] DEBUG", "2026-11-21T10:13:09.119+00:00"),
        ("[2026-07-21 11:13:09,119] DEBUG", "2026-07-21T09:13:09.119+00:00"),
        ("2026-11-21T11:13:09.119 DEBUG broker-1", "2026-11-21T10:13:09.119+00:00"),
        ("1 2026-11-21 11:13:09 [DEBUG]", "2026-11-21T10:13:09.000+00:00"),
        ("", None),
        # What says how far it is from UTC needs no zone.
        ("[2026-11-21 11:13:09,119+0530] DEBUG", "2026-11-21T05:43:09.119+00:00"),
        ("[2026-11-21 11:13:09,119 -05:00] DEBUG", "2026-11-21T16:13:09.119+00:00"),
        ("[2026-11-21T11:13:09,119+02] DEBUG", "2026-11-21T09:13:09.119+00:00"),
        ("2026-11-21T11:13:09.119456789Z stdout F", "2026-11-21T11:13:09.119+00:00"),
        ("2026-11-21 11:13:09 Zone", "2026-11-21T10:13:09.000+00:00"),
    ],
)
def test_times_are_in_the_brokers_zone(
    spark: SparkSession, write_log: WriteLog, stamp: str, moment: str | None
) -> None:
    line = log_lines("kafka-4.3.1")[0]
    moved = f"{stamp} {line[line.index('Completed') :]}"
    log = read_request_log(spark, [write_log([moved])], Timezones("Europe/Berlin"))
    assert period_of(log) == (moment, moment)
