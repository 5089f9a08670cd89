"""Request logs that real brokers wrote: every count is held to a plain reading of the JSON."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from request_log_lines import (
    LOGS,
    analysed_log,
    log_lines,
    plainly_counted,
    request_of,
    requests_by_client,
    with_request,
)

from kipctl.errors import PipelineError, UsageError
from kipctl.pipeline.period import parse_period
from kipctl.pipeline.request_lines.rows import Kind
from kipctl.pipeline.request_log import RequestLog, analyse, read_request_log
from kipctl.pipeline.request_log.files import LONGEST_LINE, Timezones, text_of
from kipctl.pipeline.request_log.groups import of_kind

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


@pytest.fixture(params=LOGS)
def analysed(request: pytest.FixtureRequest, spark: SparkSession) -> tuple[str, dict[str, Any]]:
    """The name of a log, and what its document says of the only cluster, and of all lines."""
    document = analysed_log(spark, request.param).document
    [cluster] = document["clusters"]
    of_all = {name: document[name] for name in ("lines", "broken_lines")}
    return request.param, {**cluster, **of_all}


def test_counts_are_those_of_the_json(analysed: tuple[str, dict[str, Any]]) -> None:
    name, document = analysed
    expected = plainly_counted(log_lines(name))
    apis = [(row["api_key"], row["api_version"], row["requests"]) for row in document["apis"]]
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


def test_what_clients_do_with_hints(analysed: tuple[str, dict[str, Any]]) -> None:
    name, document = analysed
    hints = {row["software"]: row["hint_behaviour"] for row in document["fleet"]}
    expected = {
        "kafka-4.3.1": {
            "apache-kafka-java": "known to follow",
            "confluent-kafka-python": "waits",
            "kafka-python": "no hints",
            "kipctl": "follows",
        },
        # Its brokers speak Produce up to 9 and Fetch up to 15.
        "kafka-3.6.2": dict.fromkeys(
            ("apache-kafka-java", "confluent-kafka-python", "kafka-python", "kipctl"), "no hints"
        ),
        "transactions-4.3.1": {"confluent-kafka-python": "known to wait", "kipctl": "-"},
    }
    assert {software: hints[software] for software in expected[name]} == expected[name]


def test_a_client_that_pipelines_follows_its_hints(spark: SparkSession) -> None:
    """What was under way on the connection of a refusal is no answer to it."""
    [cluster] = analysed_log(spark, "kafka-4.3.1").document["clusters"]
    clients = {row["client"].split("@")[0]: row for row in cluster["refused_clients"]}
    hinted = clients["probe-kip951"]
    assert hinted["followed_hints"]["present"] == 54
    assert hinted["followed_hints"]["followed"] >= 50
    assert hinted["episodes"]["loops"] == 0
    told = {name: row["verdict"]["behaviour"] for name, row in clients.items()}
    assert told == {
        "probe-kip951": "follows",
        "probe-clicks": "follows",
        "probe-baseline": "ignores",
        "click-producer": "waits",
        "kp-producer": "no hints",
    }


def test_redirected_clients_waited(analysed: tuple[str, dict[str, Any]]) -> None:
    name, document = analysed
    refused = {row["software"]: row["not_leader"]["total"] for row in document["fleet"]}
    met = {row["software"]: row["episodes"]["total"] for row in document["fleet"]}
    assert {name for name, total in refused.items() if total} == {
        name for name, episodes in met.items() if episodes
    }
    if name != "transactions-4.3.1":
        assert refused["kafka-python"] > 0
        # It knows no hints and waits out its backoff of 100 ms; by how much less or more, clocks
        # that few clients went between do not tell in each of the logs.
        python = next(row for row in document["fleet"] if row["software"] == "kafka-python")
        assert python["wait_ms"]["longest"] >= 90


OTHERS = (
    "[2026-11-21 11:13:09,119] INFO [KafkaRaftServer nodeId=1] started (kafka.server)",
    "java.io.IOException: Connection reset by peer",
    "\tat java.base/sun.nio.ch.FileDispatcherImpl.read0(Native Method)",
    "",
    '{"isForwarded":false,"requestHeader":{"requestApiKey":1}}',
    'Completed the request, "request":{} ,"connection":"x"',
)
"""Lines among requests, where the request logger writes into server.log."""


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
        read = [row.value for row in text_of(spark, paths).collect()]
        assert sorted(read) == sorted(lines), paths


def test_what_a_brokers_folder_holds_besides(spark: SparkSession, tmp_path: Path) -> None:
    """A segment of records is read as one line, which no memory may hold."""
    lines = log_lines("kafka-3.6.2")[:3]
    (tmp_path / "request.log").write_text("\n".join(lines), encoding="utf-8")
    kept = tmp_path / "orders-0"
    kept.mkdir()
    number = f"{7:020}"
    for name in ("log", "log.deleted", "timeindex", "snapshot"):
        (kept / f"{number}.{name}").write_text(lines[0], encoding="utf-8")
    (kept / f"{number}-0000000003.checkpoint").write_text(lines[0], encoding="utf-8")
    with (tmp_path / "core").open("wb") as dumped:
        dumped.truncate(LONGEST_LINE + 1)
    read = [row.value for row in text_of(spark, [str(tmp_path)]).collect()]
    assert sorted(read) == sorted(lines)


def test_the_first_broken_lines_are_shown_by_file_and_number(
    spark: SparkSession, write_log: WriteLog
) -> None:
    """In files that Spark reads in many blocks, whose lines it does not number."""
    lines = log_lines("kafka-4.3.1")[:400]
    for number in range(3, 400, 26):
        # Anywhere after the marker, and before the last brace of the JSON.
        line = lines[number]
        first, last = line.index("Completed request:") + 18, line.rindex("}")
        lines[number] = line[: first + (last - first) * (number - 3) // 397]
    cut = {id(line) for line in lines[3::26]}
    for place, other in enumerate(OTHERS * 3):
        lines.insert(7 * place, other)
    cuts = [(number, line) for number, line in enumerate(lines, 1) if id(line) in cut]
    first_file = write_log(lines, "a log, 100%.log")
    second_file = write_log([OTHERS[0], *(line[:150] for line in lines[-10:])], "b.log")
    blocks = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(blocks)
    spark.conf.set(blocks, "100k")
    try:
        log = read_request_log(spark, [first_file, second_file])
        assert of_kind(log.rows, Kind.BLOCK).count() > 5
    finally:
        spark.conf.set(blocks, before)
    assert (log.lines["read"], log.lines["broken"], log.lines["other"]) == (429, 16 + 10, 19)
    assert log.lines["parsed"] == 400 - 16
    shown = [(first_file, number, line[:120]) for number, line in cuts]
    shown += [(second_file, 2 + number, lines[number - 10][:120]) for number in range(4)]
    assert [tuple(line.values()) for line in log.broken] == shown


def test_of_a_part_of_the_time_lines_have_their_number_in_the_file(
    spark: SparkSession, write_log: WriteLog
) -> None:
    lines = ["another line", *log_lines("kafka-4.3.1")]
    inside = [
        number
        for number, line in enumerate(lines, 1)
        if "11:13:20" <= line[12:24].replace(",", ".") < "11:13:30.5"
    ]
    broken = inside[50:150:33]
    for number in (*broken, inside[0] - 1, inside[-1] + 1):
        lines[number - 1] = lines[number - 1][:200]
    period = parse_period("2026-11-21T11:13:20", "2026-11-21T11:13:30.5")
    log = read_request_log(spark, [write_log(lines)], period=period)
    assert log.lines["read"] == len(inside) < len(lines)
    assert [line["line"] for line in log.broken] == broken
    with pytest.raises(UsageError, match="no start to count from"):
        read_request_log(spark, [write_log(lines)], period=parse_period("10s", None))


MOMENTS = {
    "[2026-11-21 11:13:09,119] DEBUG": "2026-11-21T10:13:09.119+00:00",
    "[2026-07-21 11:13:09,119] DEBUG": "2026-07-21T09:13:09.119+00:00",
    "2026-11-21T11:13:09.119 DEBUG broker-1": "2026-11-21T10:13:09.119+00:00",
    "1 2026-11-21 11:13:09 [DEBUG]": "2026-11-21T10:13:09.000+00:00",
    # What says how far it is from UTC needs no zone.
    "[2026-11-21 11:13:09,119+0530] DEBUG": "2026-11-21T05:43:09.119+00:00",
    "[2026-11-21 11:13:09,119 -05:00] DEBUG": "2026-11-21T16:13:09.119+00:00",
    "[2026-11-21T11:13:09,119+02] DEBUG": "2026-11-21T09:13:09.119+00:00",
    "2026-11-21T11:13:09.119456789Z stdout F": "2026-11-21T11:13:09.119+00:00",
    "2026-11-21 11:13:09 Zone": "2026-11-21T10:13:09.000+00:00",
}
"""What may stand before the marker, and the time that it is in Berlin."""
CLIENT_IDS = ('a "quoted" one', "back\\slash\\", 'größe,"clientId":"x', "", "{}}}", "a\tb", None)


@pytest.fixture(scope="module")
def of_many_files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RequestLog:
    """A file for each of MOMENTS, of the cluster `timed`; and one without any time, of another
    cluster, with a line for each of CLIENT_IDS."""
    folder = tmp_path_factory.mktemp("logs")

    def request(kind: str) -> str:
        line = next(line for line in log_lines("kafka-4.3.1") if f'"{kind}"' in line)
        return line[line.index("Completed") :]

    asked, produced = request("METADATA"), request("PRODUCE")
    cluster_id = request_of(asked)["response"]["clusterId"]
    for number, stamp in enumerate(MOMENTS):
        # Files of the same requests at the same time would be copies.
        own = asked.replace('"clientId":"', f'"clientId":"{number}-', 1)
        line = f"{stamp} {own.replace(cluster_id, 'timed')}\n"
        (folder / f"{number}.log").write_text(line, encoding="utf-8")
    lines = [asked]
    for client_id in CLIENT_IDS:
        whole = request_of(produced)
        whole["requestHeader"]["clientId"] = client_id
        lines.append(with_request(produced, whole))
    (folder / "ids.log").write_text("\n".join(lines), encoding="utf-8")
    return read_request_log(spark, [str(folder)], Timezones("Europe/Berlin"))


def test_times_are_in_the_brokers_zone(of_many_files: RequestLog) -> None:
    def written(us: int) -> str:
        return datetime.fromtimestamp(us / 1e6, UTC).isoformat(timespec="milliseconds")

    spans = {
        Path(row.file).name: (written(row.first_us), written(row.last_us))
        for row in of_kind(of_many_files.rows, Kind.PARSED).filter("first_us is not null").collect()
    }
    assert spans == {
        f"{number}.log": (moment, moment) for number, moment in enumerate(MOMENTS.values())
    }


def test_clients_of_any_id_and_times_that_are_not_known(of_many_files: RequestLog) -> None:
    timeless, timed = analyse(of_many_files)["clusters"]
    assert timed["cluster_id"] == "timed"
    period = {"from": min(MOMENTS.values()), "to": max(MOMENTS.values())}
    assert period.items() <= timed["period"].items()
    assert timeless["period"] == {"from": None, "to": None, "seconds": None}
    requests = {row["client_id"]: row["requests"] for row in timeless["clients"]}
    assert dict.fromkeys(CLIENT_IDS, 1).items() <= requests.items()


@pytest.mark.parametrize(
    ("name", "asked", "since", "error", "told"),
    [
        ("a.log", "a.log", "2026-12-31", UsageError, r"No request line of .* lies in the period"),
        # After the file was written.
        ("a.log", "a.log", "2999-12-31", UsageError, r"No request line of .* lies in the period"),
        ("a b.log.xz", "*.log.xz", None, UsageError, r"/a b\.log\.xz cannot be read: .* unpack it"),
        ("_b2.log", "_*.log", None, UsageError, "holds no files that Spark reads"),
        ("a.log", "gone.log", None, UsageError, r"There is no .*/gone\.log"),
        ("other.log", "other.log", None, PipelineError, "holds no request lines.*request-log on"),
    ],
)
def test_why_there_are_no_requests(
    spark: SparkSession,
    write_log: WriteLog,
    tmp_path: Path,
    name: str,
    asked: str,
    since: str | None,
    error: type[Exception],
    told: str,
) -> None:
    requests = log_lines("kafka-4.3.1")[:20]
    write_log({"a b.log.xz": ["nonsense"], "other.log": [OTHERS[0]]}.get(name, requests), name)
    with pytest.raises(error, match=f"(?s){told}"):
        read_request_log(spark, [f"{tmp_path}/{asked}"], period=parse_period(since, None))
