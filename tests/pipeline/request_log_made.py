"""Request logs made by hand: a few lines of what a broker writes, for what clients may do.

A story is a list of lines (`Line`) of the brokers of one cluster; `logs` writes the file of each.
"""

import gzip
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

START_US = int(datetime(2026, 9, 8, 9, tzinfo=UTC).timestamp()) * 1_000_000
CLUSTER = "a made cluster"
BROKERS = (1, 2, 3)
NO_LEADER = 6
JAVA = ("apache-kafka-java", "3.9.0")
RDKAFKA = ("librdkafka", "2.16.0")
OLD = ("old", "0.1")
"""Its versions are deprecated (KIP-896), as brokers from 3.7 on say."""
KGO = ("kgo", "v1.20.3")
PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
_NAMES = {
    PRODUCE: "PRODUCE",
    FETCH: "FETCH",
    METADATA: "METADATA",
    API_VERSIONS: "API_VERSIONS",
}
_VERSIONS = {PRODUCE: 11, FETCH: 13, METADATA: 12, API_VERSIONS: 4}


class Line(NamedTuple):
    """A request that a broker answered at a time (milliseconds of its own clock)."""

    broker: int
    at_ms: float
    client: str
    api: int
    request: dict[str, Any]
    response: dict[str, Any]
    software: tuple[str, str]
    port: int
    host: str
    took_ms: float


def address(broker: int) -> str:
    return f"10.1.0.{broker}"


def endpoint(broker: int) -> dict[str, Any]:
    return {"nodeId": broker, "host": address(broker), "port": 9092, "rack": f"az-{broker}"}


def line(
    broker: int,
    at_ms: float,
    client: str,
    api: int,
    request: dict[str, Any],
    response: dict[str, Any],
    *,
    software: tuple[str, str] = JAVA,
    port: int | None = None,
    host: str = "10.9.0.7",
    took_ms: float = 1.0,
) -> Line:
    """A client has a connection to each broker, if `port` (of its end) does not say another."""
    port = 10_000 + 4 * (crc32(client.encode()) % 10_000) + broker if port is None else port
    return Line(broker, at_ms, client, api, request, response, software, port, host, took_ms)


def produced(
    broker: int,
    at_ms: float,
    client: str,
    error: int = 0,
    *,
    leader: int = -1,
    epoch: int = 5,
    partition: int = 0,
    endpoints: Iterable[int] | None = None,
    **more: Any,
) -> Line:
    """Produce for a partition of `orders`; an error may name a leader, with its endpoint."""
    answer: dict[str, Any] = {"index": partition, "errorCode": error}
    answer["baseOffset"] = -1 if error else 7
    response: dict[str, Any] = {}
    if leader >= 0:
        answer["currentLeader"] = {"leaderId": leader, "leaderEpoch": epoch}
        given = (leader,) if endpoints is None else endpoints
        response = {"nodeEndpoints": [endpoint(node) for node in given]}
    responses = [{"name": "orders", "partitionResponses": [answer]}]
    request = {"acks": -1, "topicData": []}
    return line(
        broker, at_ms, client, PRODUCE, request, {"responses": responses, **response}, **more
    )


def refused(broker: int, at_ms: float, client: str, leader: int = -1, **more: Any) -> Line:
    return produced(broker, at_ms, client, NO_LEADER, leader=leader, **more)


def fetched(broker: int, at_ms: float, client: str, size: int, rack: str = "", **more: Any) -> Line:
    """So many bytes of records of `orders`, by a consumer that names its rack, or none."""
    partition = {"partitionIndex": 0, "errorCode": 0, "recordsSizeInBytes": size}
    response = {"errorCode": 0, "responses": [{"topic": "orders", "partitions": [partition]}]}
    return line(broker, at_ms, client, FETCH, {"rackId": rack}, response, **more)


def shown(
    broker: int, at_ms: float, client: str, leader: int = 1, epoch: int = 5, **more: Any
) -> Line:
    """Metadata of `orders`, which all brokers know by now."""
    partition = {"errorCode": 0, "partitionIndex": 0, "leaderId": leader, "leaderEpoch": epoch}
    topic = {"errorCode": 0, "name": "orders", "topicId": "b3JkZXJz", "partitions": [partition]}
    response = {
        "brokers": [endpoint(node) for node in BROKERS],
        "clusterId": CLUSTER,
        "topics": [topic],
        "errorCode": 0,
    }
    request = {"topics": [{"topicId": "b3JkZXJz", "name": "orders"}]}
    return line(broker, at_ms, client, METADATA, request, response, **more)


def connected(broker: int, at_ms: float, client: str, **more: Any) -> Line:
    """ApiVersions, with which a connection begins."""
    return line(broker, at_ms, client, API_VERSIONS, {}, {"errorCode": 0, "apiKeys": []}, **more)


def warm(until_ms: float = 0) -> list[Line]:
    """That all brokers were there, from the start to then: someone asked each for Metadata."""
    times = {0.0, float(until_ms)}
    return [
        shown(broker, at, "warm", host="10.9.9.9", port=4000 + broker)
        for broker in BROKERS
        for at in sorted(times)
    ]


def text(line: Line, ahead_ms: float = 0) -> str:
    """The line as a broker writes it whose clock is ahead by so much."""
    us = START_US + round(1000 * (line.at_ms + ahead_ms))
    stamp = datetime.fromtimestamp(us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    header: dict[str, Any] = {
        "requestApiKey": line.api,
        "requestApiVersion": _VERSIONS[line.api],
        "correlationId": 1,
        "clientId": line.client,
        "requestApiKeyName": _NAMES[line.api],
    }
    if line.software[0] == OLD[0]:
        header["requestApiVersionDeprecated"] = True
    name, version = line.software
    request = {
        "isForwarded": False,
        "requestHeader": header,
        "request": line.request,
        "response": line.response,
        "connection": f"{address(line.broker)}:9092-{line.host}:{line.port}-0-1",
        "totalTimeMs": line.took_ms,
        "clientInformation": {"softwareName": name, "softwareVersion": version},
    }
    told = json.dumps(request, separators=(",", ":"))
    return f"[{stamp}] DEBUG Completed request:{told} (kafka.request.logger)"


def logs(
    folder: Path, lines: Iterable[Line], ahead_ms: dict[int, float] | None = None
) -> list[str]:
    """Write the log of each broker, the second one's packed; returns the paths."""
    by_broker: dict[int, list[Line]] = {}
    for line in sorted(lines, key=lambda line: line.at_ms):
        by_broker.setdefault(line.broker, []).append(line)
    paths = []
    for broker, own in sorted(by_broker.items()):
        ahead = (ahead_ms or {}).get(broker, 0)
        whole = "".join(f"{text(line, ahead)}\n" for line in own).encode()
        path = folder / f"b{broker}" / ("request.log.gz" if broker == 2 else "request.log")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(whole) if broker == 2 else whole)
        paths.append(str(path))
    return paths
