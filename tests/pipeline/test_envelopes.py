"""Logs as docker, Kubernetes, layouts and shippers hand them on: read as the plain ones are."""

import gzip
import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cramjam
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from request_log_lines import MARKER, log_lines, request_of, with_request

from kipctl.errors import PipelineError, UsageError
from kipctl.pipeline.period import parse_period
from kipctl.pipeline.request_lines.envelope import OLD_TEXT, PREFIXES, Way, way_of, ways
from kipctl.pipeline.request_log import RequestLog, analyse, read_request_log, summary
from kipctl.report.request_log_tables import request_log_tables

pytestmark = pytest.mark.spark

Lines = Sequence[str]
OTHER = '[2026-11-21 11:13:09,119] INFO [SocketServer nodeId=1] "ready"\tC:\\kafka (kafka.network)'


def sample() -> list[str]:
    """A few requests of every kind; Metadata that is longer than containerd's 16 KiB, twice that,
    and exactly so; and a line of another logger."""
    lines = log_lines("kafka-4.3.1")
    refused = [line for line in lines if '"currentLeader"' in line][:4]
    metadata = [
        line for line in lines if '"METADATA"' in line and '"topics":[{"errorCode"' in line
    ][:2]
    long = [wide(metadata[0], size) for size in (17_000, 34_000, 16_384)]
    umlauts = with_client(lines[3], 'größe "7"\\')
    chosen = {*lines[:8], *metadata, *long, *refused, umlauts}
    # As brokers write them, one after the other; each with a time of its own.
    return [*sorted(chosen, key=lambda line: line[:25]), OTHER]


def wide(line: str, size: int) -> str:
    """A Metadata line of that many bytes."""
    request = request_of(line)
    [topic, *_] = request["response"]["topics"]
    while len(with_request(line, request)) < size - 900:
        request["response"]["topics"].append({**topic, "name": "t" * 200})
    request["response"]["topics"].append({**topic, "name": ""})
    missing = size - len(with_request(line, request))
    request["response"]["topics"][-1]["name"] = "n" * missing
    return with_request(line, request)


def with_client(line: str, client: str) -> str:
    request = request_of(line)
    request["requestHeader"]["clientId"] = client
    return with_request(line, request)


def moment(line: str) -> datetime:
    """The time of a line, in UTC."""
    return datetime.strptime(line[1:24], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)


def iso(line: str) -> str:
    return moment(line).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def millis(line: str) -> int:
    return round(moment(line).timestamp() * 1000)


def bare(line: str) -> str:
    """What is logged, without what a pattern puts around it."""
    start = line.index(MARKER) if MARKER in line else line.index("INFO ") + 5
    return line[start:].rsplit(" (kafka", 1)[0]


LATE = "2026-11-21T19:00:00.123456789Z"
"""When something was shipped, hours after it was logged."""


def pieces(line: str, size: int = 16_384) -> list[str]:
    return [line[at : at + size] for at in range(0, len(line), size)]


def docker(lines: Lines) -> list[str]:
    return [
        json.dumps({"log": piece, "stream": "stdout", "time": LATE}, separators=(",", ":"))
        for line in lines
        for piece in pieces(f"{line}\n")
    ]


def cri(lines: Lines, stream: str = "stdout") -> list[str]:
    made = []
    for line in lines:
        *parts, last = pieces(line)
        made += [f"{LATE} {stream} P {part}" for part in parts]
        made.append(f"{LATE} {stream} F {last}")
    return made


def mixed(first: Lines, second: Lines) -> list[str]:
    """Line by line in turns."""
    longest = max(len(first), len(second))
    return [lines[at] for at in range(longest) for lines in (first, second) if at < len(lines)]


def two_streams(lines: Lines) -> list[str]:
    return mixed(cri(lines[::2]), cri(lines[1::2], "stderr"))


def each(make: Callable[[str], dict[str, Any]]) -> Callable[[Lines], list[str]]:
    return lambda lines: [json.dumps(make(line), ensure_ascii=False) for line in lines]


def prefixed(prefix: str) -> Callable[[Lines], list[str]]:
    return lambda lines: [prefix + line for line in lines]


def log4j2(line: str) -> dict[str, Any]:
    at = moment(line)
    instant = {"epochSecond": int(at.timestamp()), "nanoOfSecond": at.microsecond * 1000}
    return {
        "instant": instant,
        "thread": "data-plane-kafka-network-thread-1",
        "level": "DEBUG",
        "loggerName": "kafka.request.logger",
        "message": bare(line),
        "endOfBatch": False,
    }


def strimzi(line: str) -> dict[str, Any]:
    return {
        "@timestamp": iso(line),
        "level": "DEBUG",
        "logger": "kafka.request.logger",
        "message": bare(line),
    }


def loki_result(lines: Lines) -> dict[str, Any]:
    values = [[f"{millis(line)}000000", bare(line)] for line in lines]
    streams = [
        {"stream": {"pod": f"kafka-{n}", "app": "kafka"}, "values": values[n::2]} for n in (0, 1)
    ]
    return {"status": "success", "data": {"resultType": "streams", "result": streams}}


def cloudwatch(lines: Lines) -> dict[str, Any]:
    events = [
        {
            "logStreamName": "kafka/broker/0123",
            "timestamp": millis(line),
            "message": bare(line),
            "ingestionTime": 1_795_000_000_000,
            "eventId": "3" * 56,
        }
        for line in lines
    ]
    return {"events": events, "searchedLogStreams": []}


def journal_export(lines: Lines) -> list[str]:
    return [
        field
        for line in lines
        for field in (
            "__CURSOR=s=6c;i=9f;b=1d;m=2a;t=64;x=8b",
            f"__REALTIME_TIMESTAMP={millis(line)}000",
            "__MONOTONIC_TIMESTAMP=1234567890",
            f"MESSAGE={bare(line)}",
            "_SYSTEMD_UNIT=kafka.service",
            "",
        )
    ]


def pretty_requests(lines: Lines) -> list[str]:
    """The JSON of each request over several lines."""
    made = []
    for line in lines:
        start = line.partition(MARKER)[0] + MARKER
        text = start + json.dumps(request_of(line), indent=2) if MARKER in line else line
        made += text.split("\n")
    return made


WRAPPED: dict[str, Callable[[Lines], Sequence[str]]] = {
    "docker": docker,
    "cri": cri,
    "cri of two streams": two_streams,
    "kubectl --timestamps": prefixed(f"{LATE} "),
    "kubectl --prefix": prefixed("[pod/kafka-0/kafka] "),
    "docker compose": prefixed("broker-1  | "),
    "docker compose in colours": prefixed("\x1b[36mbroker-1  | \x1b[0m"),
    "journalctl": prefixed("Nov 21 19:00:00 host-1 kafka-server-start.sh[4711]: "),
    "journalctl -o short-iso": prefixed(
        "2026-11-21T19:00:00+0100 host-1 kafka-server-start.sh[4711]: "
    ),
    "journalctl -o json": each(
        lambda line: {
            "__CURSOR": "s=1;i=2",
            "MESSAGE": line,
            "_PID": "4711",
            "__REALTIME_TIMESTAMP": "1795000000000000",
        }
    ),
    "journalctl -o json, times of its own": each(
        lambda line: {"MESSAGE": bare(line), "__REALTIME_TIMESTAMP": f"{millis(line)}000"}
    ),
    "journalctl -o export": journal_export,
    "syslog": prefixed("<134>1 2026-11-21T19:00:00.000Z host-1 kafka 4711 - - "),
    "logcli": prefixed(f'{LATE} {{app="kafka", pod="kafka-0"}} '),
    "logcli -o jsonl": each(
        lambda line: {"labels": {"pod": "kafka-0"}, "line": line, "timestamp": LATE}
    ),
    "loki": lambda lines: [json.dumps(loki_result(lines))],
    "loki, pretty": lambda lines: json.dumps(loki_result(lines), indent=2).split("\n"),
    "aws logs tail": prefixed(f"{LATE} kafka/broker/0123 "),
    "cloudwatch": lambda lines: [json.dumps(cloudwatch(lines))],
    "cloudwatch, pretty": lambda lines: json.dumps(cloudwatch(lines), indent=4).split("\n"),
    "strimzi": each(strimzi),
    "log4j2": each(log4j2),
    "log4j2, pretty": lambda lines: [
        part for line in lines for part in json.dumps(log4j2(line), indent=2).split("\n")
    ],
    "log4j2, complete": lambda lines: (
        json.dumps([log4j2(line) for line in lines], indent=2)
        .replace("},\n  {", "}, {")
        .split("\n")
    ),
    "array": lambda lines: [json.dumps([strimzi(line) for line in lines])],
    "array of lines": lambda lines: [json.dumps(list(lines))],
    "logback": each(
        lambda line: {"sequenceNumber": 0, "timestamp": millis(line), "message": bare(line)}
    ),
    "logstash": each(
        lambda line: {"message": bare(line), "@version": "1", "@timestamp": iso(line)}
    ),
    "gelf": each(
        lambda line: {
            "version": "1.1",
            "short_message": bare(line),
            "timestamp": moment(line).timestamp(),
        }
    ),
    "fluent bit": each(
        lambda line: {"date": moment(line).timestamp(), "log": bare(line), "stream": "stdout"}
    ),
    "filebeat": each(
        lambda line: {
            "@timestamp": LATE,
            "message": line,
            "event": {"original": line},
            "log": {"offset": 7, "file": {"path": "/logs/a.log"}},
        }
    ),
    "some shipper": each(lambda line: {"ts": iso(line), "payload": {"text": {"log": bare(line)}}}),
    "docker in loki": lambda lines: each(
        lambda line: {"labels": {"pod": "kafka-0"}, "line": line, "timestamp": LATE}
    )(docker(lines)),
    "cri in loki": lambda lines: each(
        lambda line: {"labels": {"pod": "kafka-0"}, "line": line, "timestamp": LATE}
    )(cri(lines)),
    "json layout in docker": lambda lines: docker(each(strimzi)(lines)),
    "json layout in docker in loki": lambda lines: each(
        lambda line: {"line": line, "timestamp": LATE}
    )(docker(each(strimzi)(lines))),
    "json layout in cri": lambda lines: cri(each(strimzi)(lines)),
    "json layout in docker compose": lambda lines: prefixed("broker-1  | ")(each(strimzi)(lines)),
    "two containers": lambda lines: mixed(
        *(
            each(lambda line, pod=pod: {"pod": pod, "line": line, "timestamp": LATE})(cri(half))
            for pod, half in (("kafka-0", lines[::2]), ("kafka-1", lines[1::2]))
        )
    ),
    "partial message": lambda lines: [
        json.dumps(
            {"log": piece, "container_id": "0a"}
            | (
                {}
                if len(pieces(line)) == 1
                else {
                    "partial_message": "true",
                    "partial_id": "7",
                    "partial_ordinal": str(number),
                    "partial_last": "true" if number == len(pieces(line)) else "false",
                }
            )
        )
        for line in lines
        for number, piece in enumerate(pieces(line), 1)
    ],
    "csv": lambda lines: [f'"{LATE}","{line.replace(chr(34), chr(34) * 2)}"' for line in lines],
    "pretty requests": pretty_requests,
    "pretty requests in docker": lambda lines: docker(pretty_requests(lines)),
    "colours in docker": lambda lines: docker([f"\x1b[36m{line}\x1b[0m" for line in lines]),
    "docker, by jq": lambda lines: [
        part
        for line in docker(lines)
        for part in json.dumps(json.loads(line), indent=2).split("\n")
    ],
    "log4j2, pretty, in docker": lambda lines: docker(WRAPPED["log4j2, pretty"](lines)),
    "log4j2, pretty, in cri": lambda lines: cri(WRAPPED["log4j2, pretty"](lines)),
    "array by lines": lambda lines: [
        "[",
        *(("," if at else "") + line for at, line in enumerate(each(log4j2)(lines))),
        "]",
    ],
    "google, pretty": lambda lines: json.dumps(
        [
            {"jsonPayload": {"message": bare(line)}, "timestamp": iso(line), "receivedAt": LATE}
            for line in lines
        ],
        indent=2,
    ).split("\n"),
    "quotes as u0022": lambda lines: [
        json.dumps({"LogEntry": line}).replace('\\"', "\\u0022") for line in lines
    ],
    "fluentd": lambda lines: [
        f"{iso(line)}\tkafka\t{json.dumps({'message': bare(line)})}" for line in lines
    ],
    "cri by fluent bit": lambda lines: [
        json.dumps({"date": 1.5, "stream": "stdout", "logtag": tag, "log": text})
        for _, _, tag, text in (line.split(" ", 3) for line in cri(lines))
    ],
    "pieces without a word": lambda lines: [
        json.dumps({"@timestamp": LATE, "message": piece, "container": {"id": "7"}})
        for line in lines
        for piece in pieces(line)
    ],
    "pieces by journalctl": lambda lines: [
        f"Nov 21 19:00:00 host-1 kafka[4711]: {piece}" for line in lines for piece in pieces(line)
    ],
    "time and json": lambda lines: prefixed(f"{LATE} ")(each(strimzi)(lines)),
    "docker by logcli": lambda lines: prefixed(f'{LATE} {{app="kafka"}} ')(docker(lines)),
    "pretty requests in json": each(
        lambda line: {"message": "\n".join(pretty_requests([line])), "ts": LATE}
    ),
    "UNIX MILLIS": lambda lines: [f"{millis(line)} DEBUG {bare(line)}" for line in lines],
    "UNIX": lambda lines: [
        f"DEBUG [{moment(line).timestamp():.3f}] {bare(line)}" for line in lines
    ],
}
NOT_KEPT = {"array of lines"}
"""Those in which a line of another logger cannot be told from the envelope."""


def written(folder: Path, name: str, lines: Lines, end: str = "\n") -> Path:
    path = folder / f"{name.replace(' ', '_')}.log"
    path.write_bytes("".join(f"{line}{end}" for line in lines).encode())
    return path


def requests_of(log: RequestLog) -> dict[str, Counter[str]]:
    """What is known of the requests, by the file's name."""
    columns = [
        *("api_key", "api_version", "client", "connection", "software_name", "is_forwarded"),
        *("is_deprecated", "principal", "listener", "security_protocol"),
        *("requests", "first_us", "last_us", "rack", "record_bytes"),
        *("answers", "metadata", "single"),
    ]
    rows = log.calls.select(F.regexp_extract("file", r"([^/]+)\.log[^/]*$", 1), F.struct(*columns))
    requests: dict[str, Counter[str]] = {}
    for name, row in rows.collect():
        requests.setdefault(name.replace("_", " "), Counter())[str(row.asDict(recursive=True))] += 1
    return requests


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return sample()


@pytest.fixture(scope="module")
def plain(spark: SparkSession, lines: Lines, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("plain"), "plain", lines)


@pytest.fixture(scope="module")
def plainly(spark: SparkSession, plain: Path) -> RequestLog:
    return read_request_log(spark, [str(plain)])


@pytest.fixture(scope="module")
def wrapped(
    spark: SparkSession, lines: Lines, tmp_path_factory: pytest.TempPathFactory
) -> RequestLog:
    """Every envelope as a file, all of them read at once, though each holds the same."""
    folder = tmp_path_factory.mktemp("wrapped")
    for name, wrap in WRAPPED.items():
        written(folder, name, wrap(lines))
    written(folder, "crlf", docker(lines), "\r\n")
    (folder / "packed.log.gz").write_bytes(gzip.compress("\n".join(docker(lines)).encode()))
    halves = (cri(lines[:7]), cri(lines[7:]))  # in two frames, as files put together have them
    texts = ("".join(f"{x}\n" for x in half).encode() for half in halves)
    (folder / "zstandard.log.zst").write_bytes(b"".join(map(cramjam.zstd.compress, texts)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "_copies", lambda rows: {})
        return read_request_log(spark, [str(folder)])


def test_plain_lines_are_in_no_envelope(plainly: RequestLog, lines: Lines) -> None:
    assert (plainly.lines["parsed"], plainly.lines["other"]) == (len(lines) - 1, 1)
    assert (plainly.envelopes, plainly.untimed) == ({}, 0)


def test_what_is_read_in_an_envelope_is_what_is_read_without(
    plainly: RequestLog, wrapped: RequestLog
) -> None:
    [expected] = requests_of(plainly).values()
    read = requests_of(wrapped)
    assert read.keys() == {*WRAPPED, "crlf", "packed", "zstandard"}
    wrong = {
        name: (expected - rows, rows - expected) for name, rows in read.items() if rows != expected
    }
    assert wrong == {}


def test_every_line_is_counted_once(wrapped: RequestLog, lines: Lines) -> None:
    files = len(WRAPPED) + 3
    assert wrapped.lines["broken"] == 0
    assert wrapped.lines["parsed"] == files * (len(lines) - 1)
    assert wrapped.lines["other"] == files - len(NOT_KEPT)
    assert wrapped.untimed == 0


def test_envelopes_are_named(wrapped: RequestLog, lines: Lines) -> None:
    files = {name: count / (len(lines) - 1) for name, count in wrapped.envelopes.items()}
    assert {name: files[name] for name in files if " in " not in name} == {
        "CRI": 3,
        "CloudWatch": 2,
        "JSON": 13,
        "JSON layout": 7,
        "Loki": 3,
        "docker compose": 2,
        "docker json-file": 6,
        "journald": 6,
        "kubectl --prefix": 1,
        "logcli": 1,
        "syslog": 1,
        "time before the line": 2,
    }
    assert files["docker json-file in logcli"] == 1
    assert files["JSON layout in docker json-file in JSON"] == 1
    assert files["JSON layout in docker compose"] == 1


def test_tables_of_an_envelope_are_those_of_the_plain_log(
    spark: SparkSession, tmp_path: Path, plainly: RequestLog, lines: Lines
) -> None:
    expected = analyse(plainly)
    assert expected["envelopes"] == {}
    path = written(tmp_path, "cri", cri(lines))
    document = analyse(read_request_log(spark, [str(path)]))
    assert document["clusters"] == expected["clusters"]
    assert document["lines"] == expected["lines"]
    [table, *_] = request_log_tables(document)
    assert any(f"CRI ({len(lines) - 1})" in note for note in table.notes)


def test_lines_in_the_middle_of_others(spark: SparkSession, tmp_path: Path, lines: Lines) -> None:
    """What a start script writes, plain lines, and JSON in one file; a broken line of each."""
    layout = each(strimzi)(lines)
    cut = [lines[2][:300], layout[3][:300], *docker([lines[4][:300]])]
    path = written(tmp_path, "mixed", ["+ exec java", *lines, *cut[:1], *layout, *cut[1:]])
    log = read_request_log(spark, [str(path)])
    requests = len(lines) - 1
    assert (log.lines["parsed"], log.lines["broken"], log.lines["other"]) == (2 * requests, 3, 3)
    numbers = [len(lines) + 2, 2 * len(lines) + 3, 2 * len(lines) + 4]
    assert [(line["file"], line["line"]) for line in log.broken] == [
        (str(path), n) for n in numbers
    ]
    assert all(line["text"].startswith(("[2026", "{")) for line in log.broken)


def test_of_a_part_of_the_time_envelopes_are_opened_first(
    spark: SparkSession, tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the time comes after the request, where nothing looks for it in plain lines."""
    since = sorted(moment(line) for line in lines[:-1])[5]
    later = [line for line in lines[:-1] if moment(line) >= since]
    wrap = WRAPPED["logstash"]
    folder = tmp_path / "logs"
    folder.mkdir()
    written(folder, "logstash", wrap(lines))
    written(folder, "plain", lines)
    monkeypatch.setattr(summary, "_copies", lambda rows: {})
    period = parse_period(since.isoformat(), None)
    log = read_request_log(spark, [str(folder)], period=period, by_time=True)
    assert log.lines["parsed"] == 2 * len(later)
    assert log.slice_us > 0
    with pytest.raises(UsageError, match="in the period"):
        read_request_log(spark, [str(folder)], period=parse_period("2027-01-01T00:00:00", None))


def test_requests_that_tell_no_time_are_counted(
    spark: SparkSession, tmp_path: Path, lines: Lines
) -> None:
    path = written(tmp_path, "untimed", [f"11:13:09,119 DEBUG {bare(line)}" for line in lines])
    log = read_request_log(spark, [str(path)])
    assert log.untimed == log.lines["parsed"] == len(lines) - 1
    [table, *_] = request_log_tables(analyse(log))
    assert any(f"{log.untimed} requests tell no time" in note for note in table.notes)


OLD = (
    "[2021-03-04 10:00:00,040] DEBUG Completed request:RequestHeader(apiKey=PRODUCE, apiVersion=8, "
    "clientId=shop, correlationId=1) -- {acks=-1,timeout=30000},response:{responses=[]} from "
    "connection 10.1.0.1:9092-10.9.0.7:51110-1;totalTime:1.185 (kafka.request.logger)"
)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([OLD, "other", OLD], ["text of Kafka before 2.8 (2 lines)", "line 1: [2021", "2.8.0"]),
        (["x", f"[2026] {MARKER}{{"], ["of 1:", "line 2: [2026", '{"isForwarded"']),
        ([f'{{"log":"{MARKER}{{\\"isForw"}}', f"{MARKER}{{}}"], ["of 2:", "line 1: "]),
        ([f'"message" : "{MARKER}{{\\"', "", "}"], ["of 1:", "line 1: "]),
    ],
    ids=["text of Kafka 2.6", "nothing after the brace", "cut in an envelope", "a document's end"],
)
def test_where_nothing_can_be_read_the_first_line_is_shown(
    spark: SparkSession, tmp_path: Path, content: list[str], words: list[str]
) -> None:
    path = written(tmp_path, "broken", content)
    with pytest.raises(PipelineError) as refused:
        read_request_log(spark, [str(path)])
    told = f"{refused.value.what} {refused.value.next_step}"
    assert [word for word in [*words, str(path)] if word not in told] == []
    assert told.count("\n") == 0


def test_a_document_without_clusters_has_tables() -> None:
    counts = {"read": 1, "parsed": 0, "broken": 1, "other": 0}
    document = {"lines": counts, "broken_lines": [], "clusters": []}
    [table] = request_log_tables(document)
    assert table.name == "lines"


def test_how_a_file_is_opened() -> None:
    """By what needs most of all that was seen in it."""
    assert way_of("0 \\") == Way(0, 1)
    assert way_of("1 " + "\\" * 7) == Way(1, 3)
    assert way_of("CRI") is None
    seen = {
        ("a", "0 \\\\\\", True): 5,
        ("a", "3 \\", True): 1,
        ("b", PREFIXES[2][0], True): 1,
        ("c", PREFIXES[2][0], False): 1,
        ("d", OLD_TEXT, False): 1,
    }
    assert ways(seen) == {"a": Way(3, 2), "c": Way(1, 0)}
    assert ways({("b", "0 \\", True): 1}, {"b": Way(1, 3)}) == {"b": Way(1, 3)}
