"""Lines are read as a plain reading of their JSON has them; damaged ones are counted, each once."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from operator import itemgetter
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from campaigns import as_many, campaign, chance
from hypothesis import given
from hypothesis import strategies as st
from request_log_lines import LOGS, MARKER, log_lines, partitions_of, request_of, with_request

from kipctl.pipeline.request_lines.contents import REPLICA
from kipctl.pipeline.request_lines.followed import FOLLOWED_COLUMNS, followed_requests
from kipctl.pipeline.request_lines.metadata_size import metadata_answer_bytes
from kipctl.pipeline.request_lines.moment import moment_us, zone_named
from kipctl.pipeline.request_lines.reader import LineReader, Reading
from kipctl.pipeline.request_lines.requests import (
    MetadataAnswer,
    MetadataPartition,
    MetadataTopic,
    Node,
)
from kipctl.pipeline.request_lines.rows import Kind
from kipctl.protocol.message import encode
from kipctl.protocol.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Rows = dict[str, list[dict[str, Any]]]
PLAINLY = Reading()
SLICE = 5_000_000

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


def read(lines: Iterable[str], reading: Reading = PLAINLY, batches: int = 1) -> Rows:
    """The rows of one file's lines, by their kind."""
    values = list(lines)
    size = -(-len(values) // batches)
    whole = pa.RecordBatch.from_pydict(
        {
            "value": values,
            "file": ["f"] * len(values),
            "block": pa.array([0] * len(values), pa.int64()),
            "id": pa.array(range(len(values)), pa.int64()),
        }
    )
    parts = [whole.slice(start, size) for start in range(0, len(values), size)]
    rows: Rows = defaultdict(list)
    for batch in LineReader(reading)(parts):
        for row in batch.to_pylist():
            rows[row["kind"]].append(row)
    return rows


def counted(rows: Rows) -> Counter[str]:
    """Requests of rows that are alike."""
    counts: Counter[str] = Counter()
    for row in rows[Kind.PARSED]:
        keys = {name: row[name] for name in KEYS}
        counts[str(keys)] += row["requests"]
    return counts


KEYS = (
    *("api_key", "api", "api_version", "client", "connection", "is_forwarded", "address", "host"),
    *("software", "rack", "is_deprecated", "principal", "listener", "security_protocol"),
    "answers",
)


def plainly(line: str) -> dict[str, Any]:
    """What a plain reading of the line's JSON says of a request."""
    request = request_of(line)
    header, told = request["requestHeader"], request["clientInformation"]
    asked, connection = request["request"] or {}, request["connection"]
    local, remote = connection.split("-")[:2]
    announced = (asked.get("clientSoftwareName"), asked.get("clientSoftwareVersion"))
    of_client = (told["softwareName"], told["softwareVersion"])
    name, version = announced if of_client[0] == "unknown" else of_client
    answers: Counter[tuple[int, bool, bool, bool]] = Counter()
    key = header["requestApiKey"]
    for partition in partitions_of(request) if key in (0, 1) else ():
        named = partition.get("preferredReadReplica", -1) >= 0
        if partition["errorCode"] or named:
            hinted = partition.get("currentLeader", {}).get("leaderId", -1) >= 0
            appended = partition.get("baseOffset", -1) >= 0
            answers[partition["errorCode"], hinted, appended, named] += 1
    if key == 1 and request["response"]["errorCode"]:
        answers[request["response"]["errorCode"], False, False, False] += 1
    names = ("error", "hinted", "appended", "named", "partitions")
    return {
        "api_key": key,
        "api": header["requestApiKeyName"],
        "api_version": header["requestApiVersion"],
        "client": header["clientId"],
        "connection": connection,
        "is_forwarded": request["isForwarded"],
        "address": local,
        "host": remote.rpartition(":")[0],
        "software": name and {"name": name, "version": version},
        "rack": (asked.get("rackId") or None) if key == 1 else None,
        "is_deprecated": header.get("requestApiVersionDeprecated", False),
        "principal": request["principal"],
        "listener": request["listener"],
        "security_protocol": request["securityProtocol"],
        "answers": [dict(zip(names, (*row, n), strict=True)) for row, n in answers.items()] or None,
    }


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("batches", [1, 3])
def test_every_request_is_what_its_json_says(name: str, batches: int) -> None:
    lines = log_lines(name)
    rows = read(lines, batches=batches)
    assert counted(rows) == Counter(str(plainly(line)) for line in lines)
    assert rows.keys() <= {
        Kind.PARSED,
        Kind.BLOCK,
        Kind.TIMES,
        Kind.NODE,
        Kind.TOPIC,
        Kind.FOLLOWED,
        Kind.TOOK,
    }
    assert sum(row["requests"] for row in rows[Kind.BLOCK]) == len(lines)


@pytest.mark.parametrize("name", LOGS)
def test_bytes_of_the_records_that_clients_write_and_read(name: str) -> None:
    plain: Counter[tuple[int, str, str | None]] = Counter()
    for line in log_lines(name):
        request = request_of(line)
        header, asked = request["requestHeader"], request["request"]
        partitions = partitions_of(request) if header["requestApiKey"] == 1 else ()
        if header["requestApiKey"] == 0:
            partitions = [it for topic in asked["topicData"] for it in topic["partitionData"]]
        if size := sum(partition["recordsSizeInBytes"] for partition in partitions):
            rack = asked.get("rackId") or None
            plain[header["requestApiKey"], header["clientId"], rack] += size
    sizes: Counter[tuple[int, str, str | None]] = Counter()
    for row in read(log_lines(name))[Kind.PARSED]:
        if row["record_bytes"]:
            sizes[row["api_key"], row["client"], row["rack"]] += row["record_bytes"]
    assert sizes == plain
    assert name != "kafka-4.3.1" or {key[0] for key in plain} == {0, 1}


@pytest.mark.parametrize("name", LOGS)
def test_what_metadata_answers_name(name: str) -> None:
    nodes, topics = set(), set()
    node_of, topic_of = itemgetter("nodeId", "host", "port", "rack"), itemgetter("topicId", "name")
    for line in log_lines(name):
        request = request_of(line)
        if request["requestHeader"]["requestApiKey"] == 3:
            answer = request["response"]
            nodes |= {(answer["clusterId"], *node_of(node)) for node in answer["brokers"]}
            topics |= {topic_of(topic) for topic in answer["topics"] if "topicId" in topic}
    rows = read(log_lines(name))
    assert {(row["cluster"], *row["node"].values()) for row in rows[Kind.NODE]} == nodes
    assert {tuple(row["topic"].values()) for row in rows[Kind.TOPIC]} == {
        topic for topic in topics if None not in topic
    }


@pytest.mark.parametrize("name", LOGS)
def test_requests_by_which_clients_are_followed(name: str) -> None:
    lines = log_lines(name)
    batch = pa.RecordBatch.from_pylist(
        [{column: row[column] for column in FOLLOWED_COLUMNS} for row in read(lines)[Kind.FOLLOWED]]
    )
    counts: Counter[str] = Counter()
    for followed in followed_requests([batch]):
        for row in followed.to_pylist():
            errors = [
                (p["partition"], p["error"], p["hint_leader"], p["hint_epoch"])
                for p in row["partitions"] or ()
            ]
            counts[str((row["connection"], row["correlation"], row["took_us"], errors))] += 1
    plain: Counter[str] = Counter()
    for line in lines:
        request = request_of(line)
        header = request["requestHeader"]
        if header["requestApiKey"] not in (0, 1, 3) or request["isForwarded"]:
            continue
        if REPLICA.fullmatch(header["clientId"]):
            continue
        if header["requestApiKey"] == 3:
            partitions = [p for t in request["response"]["topics"] for p in t["partitions"]]
            leaders = [(p["leaderId"], p.get("leaderEpoch")) for p in partitions]
        else:
            partitions = partitions_of(request)
            hints = [p.get("currentLeader", {}) for p in partitions]
            leaders = [(hint.get("leaderId"), hint.get("leaderEpoch")) for hint in hints]
        errors = [
            (p["partitionIndex"] if "partitionIndex" in p else p["index"], p["errorCode"], *leader)
            for p, leader in zip(partitions, leaders, strict=True)
        ]
        took_us = round(1000 * request["totalTimeMs"])
        plain[str((request["connection"], header["correlationId"], took_us, errors))] += 1
    assert counts == plain


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


def test_a_line_is_broken_wherever_it_is_damaged() -> None:
    lines = log_lines("kafka-4.3.1")
    refused = next(line for line in lines if '"currentLeader"' in line)
    plain = next(line for line in lines if '"PRODUCE"' in line and '"errorCode":0' in line)
    assert read([refused, plain]).keys() & {Kind.PARSED, Kind.BROKEN, Kind.OTHER} == {Kind.PARSED}
    for line in (refused, plain):
        for damaged in (*broken(line), line.replace('"responses":[', '"responses":')):
            rows = read([damaged])
            assert rows.keys() & {Kind.PARSED, Kind.BROKEN, Kind.OTHER} == {Kind.BROKEN}, damaged
            [shown] = rows[Kind.SHOWN]
            assert shown["text"] == damaged[:120]


def test_where_a_body_is_not_of_its_kind_the_rest_is_read() -> None:
    line = next(line for line in log_lines("kafka-4.3.1") if '"currentLeader"' in line)
    [row] = read([line.replace('"errorCode":', '"errorCode":99999999999')])[Kind.PARSED]
    expected = plainly(line)
    assert row["answers"] is None
    assert [row[name] for name in KEYS[:-1]] == [expected[name] for name in KEYS[:-1]]


def test_what_follows_the_json_and_stands_around_it() -> None:
    line = log_lines("kafka-4.3.1")[0]
    for other in (f"{line} {{mdc}} }}", line.replace("{", "{ ", 1), line.encode()[:-20].decode()):
        assert counted(read([other])) == counted(read([line])), other


def test_fields_in_another_order() -> None:
    lines = log_lines("kafka-4.3.1")[:60]
    turned = [with_request(line, dict(reversed(request_of(line).items()))) for line in lines]
    assert counted(read(turned)) == counted(read(lines))


def test_lines_outside_the_period() -> None:
    lines = log_lines("kafka-4.3.1")
    times = sorted(datetime.fromisoformat(f"{line[1:11]}T{line[12:20]}Z") for line in lines)
    since, until = (int(times[len(times) * n // 3].timestamp() * 1e6) for n in (1, 2))
    within = Reading(since_us=since, until_us=until)
    inside = read(lines, within)[Kind.PARSED]
    assert 0 < sum(row["requests"] for row in inside) < len(lines)
    assert all(since <= row["first_us"] <= row["last_us"] < until for row in inside)
    # The time may be in the envelope, which is not opened yet.
    wrapped = [json.dumps({"log": line}, separators=(",", ":")) for line in lines[:9]]
    assert sum(row["requests"] for row in read(wrapped, within)[Kind.OUTSIDE]) == 9


@pytest.mark.parametrize("name", LOGS)
def test_lines_in_slices_of_time(name: str) -> None:
    """The same rows, each of one slice; a node is named in the slices of the lines that name it."""
    lines = log_lines(name)
    whole, slices = read(lines), read(lines, Reading(slice_us=SLICE))
    assert counted(slices) == counted(whole)
    for kind in (Kind.PARSED, Kind.TIMES):
        for row in slices[kind]:
            assert row["first_us"] // SLICE == row["last_us"] // SLICE == row["slice"]
    for kind in (Kind.TOOK, Kind.FOLLOWED):
        assert all(row["slice"] is not None for row in slices[kind])
    took = [sum(len(row["packed"]) for row in rows[Kind.TOOK]) for rows in (slices, whole)]
    assert took[0] == took[1] == 14 * len(lines)
    asked = {row["slice"] for row in slices[Kind.PARSED] if row["metadata"]}
    named = {
        number
        for row in slices[Kind.NODE]
        for run in row["slices"]
        for number in range(run["first"], run["last"] + 1)
    }
    assert named
    assert named <= asked
    assert not any(row["slice"] or row["slices"] for rows in whole.values() for row in rows)


def test_a_part_of_slices_is_a_part_of_the_time() -> None:
    """What a pack keeps of a slice is what is read of its time alone."""
    lines = [*log_lines("kafka-4.3.1"), "[2026-09-06 12:00:00,000] INFO x"]
    slices = read(lines, Reading(slice_us=SLICE))
    for number in sorted({row["slice"] for row in slices[Kind.PARSED]})[:3]:
        alone = read(lines, Reading(since_us=number * SLICE, until_us=(number + 1) * SLICE))
        for kind in (Kind.PARSED, Kind.OTHER, Kind.TOOK, Kind.FOLLOWED):
            of_slice = [row | {"slice": None} for row in slices[kind] if row["slice"] == number]
            assert sorted(map(str, of_slice)) == sorted(map(str, alone[kind]))


@campaign
def test_damaged_lines() -> None:
    """None of them ends the reading, each is counted once, and they change nothing about the
    others."""
    choose = chance("damaged lines")
    lines = [line for name in LOGS for line in log_lines(name)]
    mixed = [damaged(choose.choice(lines), choose) for _ in range(as_many(3000, 100_000))]
    mixed += ["", MARKER, MARKER + "{}", ',"request":' + MARKER, '"clientId":"']
    rows = read(mixed)
    kinds = {
        kind: sum(row["requests"] for row in rows[kind])
        for kind in (Kind.PARSED, Kind.BROKEN, Kind.OTHER)
    }
    assert sum(kinds.values()) == len(mixed)
    assert all(kinds.values())
    both = counted(read([*mixed, *lines]))
    both.subtract(counted(rows))
    assert +both == counted(read(lines))
    batch = [{column: row[column] for column in FOLLOWED_COLUMNS} for row in rows[Kind.FOLLOWED]]
    assert list(followed_requests([pa.RecordBatch.from_pylist(batch)]))


@pytest.mark.parametrize(
    ("stamp", "zone", "expected"),
    [
        ("[2026-11-21 11:13:09,119] DEBUG ", "UTC", "2026-11-21T11:13:09.119Z"),
        ("[2026-11-21 11:13:09,119] DEBUG ", "Europe/Berlin", "2026-11-21T10:13:09.119Z"),
        ("[2026-11-21 11:13:09,119] DEBUG ", "+02:00", "2026-11-21T09:13:09.119Z"),
        ("2026-11-21T09:00:00Z [2026-11-21 11:13:09,1] ", "UTC", "2026-11-21T11:13:09.100Z"),
        ("[2026-11-21 11:13:09,119-0530] ", "Europe/Berlin", "2026-11-21T16:43:09.119Z"),
        ("2026-11-21T11:13:09.119119119Z stdout F ", "+02:00", "2026-11-21T11:13:09.119119Z"),
        # Clocks are put back: the hour comes twice; and are set forward: it does not come.
        ("[2026-10-25 02:30:00,000] ", "Europe/Berlin", "2026-10-25T00:30:00Z"),
        ("[2026-03-29 02:30:00,000] ", "Europe/Berlin", "2026-03-29T01:30:00Z"),
        ("1795260789119 DEBUG ", "Europe/Berlin", "2026-11-21T11:33:09.119Z"),
        ("1795260789.5 DEBUG ", "UTC", "2026-11-21T11:33:09.500Z"),
        *((stamp, "UTC", None) for stamp in ("", "[11:13:09,119] ", "2026-02-30 11:13:09 ")),
        *((stamp, "UTC", None) for stamp in ("[2026-11-21 11:13:60,119] ", "9999-99-99 99:99:99")),
        ("2026-11-21 11:13:09 -99:99 ", "UTC", None),
    ],
)
def test_moments(stamp: str, zone: str, expected: str | None) -> None:
    us = expected and round(datetime.fromisoformat(expected).timestamp() * 1e6)
    assert moment_us(stamp.encode(), zone_named(zone)) == us


@given(
    st.datetimes(datetime(2020, 9, 14), datetime(2037, 1, 1)),
    st.sampled_from(["UTC", "Asia/Tokyo"]),
)
def test_the_time_of_a_line_is_found_quickly_and_rightly(at: datetime, zone: str) -> None:
    stamp = f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}] DEBUG "
    line = stamp + log_lines("kafka-4.3.1")[0].partition("DEBUG ")[2]
    [row] = read([line], Reading(zone=zone))[Kind.PARSED]
    assert row["first_us"] == row["last_us"] == moment_us(stamp.encode(), zone_named(zone))


RESPONSE = MetadataResponse(
    brokers=(
        MetadataResponseBroker(1, "broker-1.example", 9092, "rack-1"),
        MetadataResponseBroker(2, "größer.example", 19092, None),
    ),
    cluster_id="MkU3OEVBNTcwNTJENDM2Qk",
    controller_id=1,
    topics=(
        MetadataResponseTopic(
            name="t" * 130,
            topic_id=UUID(int=7),
            partitions=tuple(
                MetadataResponsePartition(0, index, 1, 4, (1, 2), (1,), (2,))
                for index in range(200)
            ),
        ),
        MetadataResponseTopic(error_code=3, name="gone"),
    ),
)


@pytest.mark.parametrize("version", range(14))
def test_the_size_of_a_metadata_answer_is_that_of_its_bytes(version: int) -> None:
    def partition(source: MetadataResponsePartition) -> MetadataPartition:
        offline = list(source.offline_replicas) if version >= 5 else None
        return MetadataPartition(
            replica_nodes=list(source.replica_nodes),
            isr_nodes=list(source.isr_nodes),
            offline_replicas=offline,
        )

    answer = MetadataAnswer(
        cluster_id=RESPONSE.cluster_id,
        brokers=[Node(b.node_id, b.host, b.port, b.rack) for b in RESPONSE.brokers],
        topics=[
            MetadataTopic(name=topic.name, partitions=[partition(p) for p in topic.partitions])
            for topic in RESPONSE.topics
        ],
    )
    header = 9 if version >= 9 else 8  # length, correlation id, tagged fields
    assert metadata_answer_bytes(answer, version) == header + len(encode(RESPONSE, version))
