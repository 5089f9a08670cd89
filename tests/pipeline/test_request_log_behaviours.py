"""What request logs say of clients that met moved leaders: each situation, and its right answer."""

import gzip
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from request_log_made import (
    JAVA,
    KGO,
    OLD,
    RDKAFKA,
    START_US,
    Line,
    connected,
    logs,
    produced,
    refused,
    shown,
    text,
    warm,
)

from kipctl.pipeline.request_log import analyse, read_request_log
from kipctl.report.request_log_answer import request_log_answer

pytestmark = pytest.mark.spark

UNTIL_MS = 200_000


def pipelining(client: str, at: float) -> list[Line]:
    """Five batches in flight on one connection, all sent again at once to the hinted leader."""
    return [
        produced(1, at - 50, client),
        *(refused(1, at + n, client, 2) for n in range(5)),
        *(produced(2, at + 8 + n, client) for n in range(5)),
    ]


def looping(client: str) -> list[Line]:
    """The broker that refuses names itself, and the client does not look, nor wait."""
    first = [shown(1, 0, client, software=KGO), produced(1, 600, client, software=KGO)]
    first.append(refused(1, 1050, client, 2, epoch=8, software=KGO))
    loop = [refused(2, 1060 + 10 * n, client, 2, epoch=8, software=KGO) for n in range(300)]
    return [*first, *loop, produced(2, 4070, client, software=KGO)]


def backing_off(client: str) -> list[Line]:
    """The same brokers, and a client that waits longer and longer, and looks."""
    times = (1102, 1207, 1412, 1812, 2612, 3612, 4612, 5612)
    return [
        refused(1, 1100, client, 2, epoch=8),
        *(refused(2, at, client, 2, epoch=8) for at in times),
        shown(2, 5612, client, 2, 8),
        produced(2, 6612, client),
    ]


def sent_elsewhere(client: str) -> list[Line]:
    """Something names leader 2 with the endpoint of node 1."""
    times = range(250, 15_001, 250)
    return [
        shown(1, 0, client, software=KGO),
        *(refused(3, at, client, 2, epoch=6, endpoints=[1], software=KGO) for at in times),
    ]


def two_of_one_id(number: int) -> list[Line]:
    """One process waits out its backoff; the other one was at the new leader already."""
    at = 20_000 * number
    more: dict[str, Any] = {"software": RDKAFKA, "host": f"10.9.1.{number}"}
    return [
        produced(1, at + 950, "rdkafka", port=7001, **more),
        refused(1, at + 1000, "rdkafka", 2, port=7001, **more),
        *(produced(2, at + 1003 + 20 * n, "rdkafka", port=7003, **more) for n in range(10)),
        produced(2, at + 1101, "rdkafka", port=7002, **more),
    ]


def of_a_pool(client: str, at: float, hint: int = -1) -> list[Line]:
    """One process that sends over any of its connections to a broker, as kafka-go's writer does."""
    return [
        refused(1, at, client, hint, port=7101),
        *(produced(2, at + 101 + n, client, port=7102 + n % 2) for n in range(6)),
    ]


def of_readers(client: str, at: float) -> list[Line]:
    """One process with a connection for each partition, as rskafka has them."""
    return [
        line
        for number in range(2)
        for line in (
            refused(1, at + number, client, 2, port=7201 + number, partition=number),
            *(
                produced(2, at + 2 + number + 10 * n, client, port=7301 + number, partition=number)
                for n in range(3)
            ),
        )
    ]


def upgraded(number: int) -> list[Line]:
    """One id on one host: 3.10.0 waits for Metadata, 3.9.0 (put back) follows."""
    old, new = ("somebodys", "3.10.0"), ("somebodys", "3.9.0")
    at = 15_000 * number
    software, wait, port = (old, 100, 5100) if number < 5 else (new, 1, 5200)
    more: dict[str, Any] = {"software": software, "host": "10.9.2.1"}
    told = [shown(1, at + 5002, "app", 2, 5, port=port, **more)] if wait == 100 else []
    return [
        refused(1, at + 5000, "app", 2, port=port, **more),
        *told,
        produced(2, at + 5000 + wait + 1, "app", port=port + 1, **more),
    ]


def asking_again(client: str) -> list[Line]:
    """librdkafka 2.3.0: after 100, 200, 400 ms and then each second, for what it was just told."""
    more: dict[str, Any] = {"software": ("librdkafka", "2.3.0")}
    return [
        shown(2, 10_000 * burst + at, client, 2, 8, **more)
        for burst in range(8)
        for at in (100, 300, 700, *range(1500, 9501, 1000))
    ]


def storming(client: str) -> list[Line]:
    """kafkajs 2.2.4: 80 requests in 1.1 s for what it was just told."""
    return [shown(1, 50_000 + 14 * number, client, 2, 8) for number in range(80)]


def asking_alike(client: str) -> list[Line]:
    """Three processes of one name, of which each asks ten times a second."""
    return [
        shown(1, 60_000 + 100 * number + port, client, 2, 8, port=7400 + port)
        for number in range(20)
        for port in range(3)
    ]


def blind(client: str, at: float) -> list[Line]:
    """It is refused without a hint, goes on at the same broker, and does not look."""
    return [refused(1, at + 500 * number, client) for number in range(16)]


def awaiting(client: str, at: float) -> list[Line]:
    """It has asked a broker that is paused, which tells it a while after the refusal."""
    return [shown(3, at + 3000, client, 2, 8, took_ms=6000), *blind(client, at)]


def knowing(client: str, at: float) -> list[Line]:
    """It goes to the leader at once, which takes its time."""
    return [refused(1, at, client), produced(2, at + 8000, client, took_ms=7990)]


def starting(client: str) -> list[Line]:
    return [
        connected(1, 30_000, client),
        shown(1, 30_002, client),
        produced(1, 30_005, client),
        shown(1, 160_000, client),
    ]


def long_lived(client: str, at: float) -> list[Line]:
    """It was there before the log; refused, it asks at once."""
    return [
        produced(1, at, client),
        refused(1, at + 1000, client),
        shown(1, at + 1002, client, 2),
        produced(2, at + 1004, client),
    ]


@pytest.fixture(scope="module")
def clients(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All of these in one log: its document's only cluster, and `answer`."""
    stories = [
        warm(UNTIL_MS),
        *(pipelining(f"p{number}", 15_000 * number + 2000) for number in range(10)),
        looping("loader"),
        backing_off("shop"),
        sent_elsewhere("etl"),
        *(two_of_one_id(number) for number in range(5)),
        *(upgraded(number) for number in range(10)),
        of_a_pool("pool", 3000),
        of_a_pool("hinted-pool", 4000, 2),
        of_readers("readers", 5000),
        asking_again("producer.host"),
        [shown(1, 60_000 * n, "quiet.host", 2, 8, software=RDKAFKA) for n in range(4)],
        storming("storm.host"),
        asking_alike("alike.host"),
        starting("new"),
        blind("blind", 70_000),
        awaiting("awaiting", 80_000),
        knowing("knowing", 90_000),
        [produced(1, at, "deprecated", software=OLD) for at in (100, 200, 300)],
        *(long_lived(f"old{number}", 1000 * number + 5000) for number in range(5)),
    ]
    paths = logs(tmp_path_factory.mktemp("stories"), [line for story in stories for line in story])
    log = read_request_log(spark, paths)
    document = analyse(log)
    [cluster] = document["clusters"]
    return {**cluster, "log": log, "answer": "\n".join(request_log_answer(document))}


def by_client(cluster: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["client"]: row for row in cluster["refused_clients"]}


def test_what_was_in_flight_is_neither_a_miss_nor_a_loop(clients: dict[str, Any]) -> None:
    for number in range(10):
        row = by_client(clients)[f"p{number}@10.9.0.7"]
        assert (row["episodes"]["followed"], row["episodes"]["loops"]) == (1, 0)
        assert row["followed_hints"] == {"present": 5, "followed": 5, "at_once": 5}
        assert row["verdict"]["behaviour"] == "follows"


def test_a_loop_on_hints_that_name_the_refuser(clients: dict[str, Any]) -> None:
    told = by_client(clients)["loader@10.9.0.7"]["verdict"]
    assert (told["behaviour"], told["fault"]) == ("loops", "the refuser itself")
    assert "mended in 1.21.7" in told["advice"]
    assert "3.0 s without success" in told["sentence"]
    assert told["advice"] in clients["answer"]


def test_a_client_that_backs_off_from_such_hints_follows_none(clients: dict[str, Any]) -> None:
    row = by_client(clients)["shop@10.9.0.7"]
    assert (row["verdict"]["behaviour"], row["episodes"]["loops"]) == ("unusable", 0)
    assert row["verdict"]["fault"] == "the refuser itself"
    assert row["followed_hints"] == {"present": 9, "followed": 0, "at_once": 0}


def test_hints_with_the_endpoint_of_another_node(clients: dict[str, Any]) -> None:
    row = by_client(clients)["etl@10.9.0.7"]
    assert (row["verdict"]["behaviour"], row["leader_errors"]) == ("unusable", 60)
    assert row["verdict"]["fault"] == "another node's endpoint"
    assert "15 s without success" in row["verdict"]["sentence"]
    assert row["followed_hints"]["followed"] == 0


def test_findings_are_those_of_the_tap(clients: dict[str, Any]) -> None:
    findings = {(finding["id"], finding["software"]): finding for finding in clients["findings"]}
    loop, storm = findings["hint-hot-loop", KGO[0]], findings["metadata-storm", JAVA[0]]
    assert clients["findings"][0] == loop
    assert (loop["is_known"], loop["known"]["mended_in"]) == (True, "1.21.7")
    assert (loop["client_count"], loop["client_ids"]) == (1, ["loader@10.9.0.7"])
    assert (storm["is_known"], storm["client_ids"]) == (False, ["storm.host@10.9.0.7"])
    assert 5 <= storm["times"] <= 6
    # Ten clients followed one hint each: no one of them is enough.
    unrefreshed = findings["hint-no-refresh", JAVA[0]]
    assert (unrefreshed["client_count"], unrefreshed["client_ids"]) == (0, [])
    unasked = findings["no-metadata-after-6", JAVA[0]]
    assert (unasked["times"], unasked["client_ids"]) == (1, ["blind@10.9.0.7"])
    assert {id for id, _ in findings} == {
        *("hint-hot-loop", "metadata-storm", "no-metadata-after-6", "hint-no-refresh")
    }


def test_the_answer_begins_with_findings_and_leaves_notes_to_the_table(
    clients: dict[str, Any],
) -> None:
    first, second, *rest = clients["answer"].splitlines()
    assert first.startswith("hint-hot-loop (problem): kgo v1.20.3, loader@10.9.0.7 asks the same")
    assert first.endswith(
        "Known: twmb/franz-go#1412, mended in 1.21.7. More: kipctl explain hint-hot-loop"
    )
    assert second.startswith("metadata-storm (warning): ")
    assert not any(line.startswith("hint-no-refresh") for line in rest)


def test_processes_of_one_id_on_one_host_are_counted_as_such(clients: dict[str, Any]) -> None:
    [row] = [row for row in clients["fleet"] if row["version"] == RDKAFKA[1]]
    assert (row["episodes"]["total"], row["episodes"]["namesakes"]) == (5, 5)
    assert (row["followed_hints"]["followed"], row["wait_ms"]["p50"]) == (0, None)
    assert "several processes may share" in row["verdict"]["sentence"]


@pytest.mark.parametrize(
    ("client", "namesakes", "wait_ms"),
    [("pool", 0, 100), ("hinted-pool", 1, None), ("readers", 0, 1)],
)
def test_connections_of_one_process_are_no_namesakes(
    clients: dict[str, Any], client: str, namesakes: int, wait_ms: float | None
) -> None:
    """Those of a pool may be, where they are sent hints: nobody can tell which one follows them."""
    row = by_client(clients)[f"{client}@10.9.0.7"]
    assert (row["episodes"]["namesakes"], row["wait_ms"]["p50"]) == (namesakes, wait_ms)


def test_versions_of_one_id_are_told_by_connection(clients: dict[str, Any]) -> None:
    by_version = {
        row["version"]: (row["episodes"]["total"], row["wait_ms"]["p50"])
        for row in clients["fleet"]
        if row["software"] == "somebodys"
    }
    assert by_version == {"3.10.0": (5, 100), "3.9.0": (5, 1)}


def test_metadata_again_and_again_has_no_cause(clients: dict[str, Any]) -> None:
    asking, *others = clients["metadata_clients"]
    assert asking["client"] == "producer.host@10.9.0.7"
    assert (asking["requests"], asking["unexplained"], asking["answered_the_same"]) == (96, 95, 95)
    assert "mended in 2.4" in asking["known_bug"]
    assert asking["known_bug"] in clients["answer"]
    [quiet] = [row for row in others if row["client"] == "quiet.host@10.9.0.7"]
    assert (quiet["unexplained"], quiet["by_cause"]["max_age"], quiet["known_bug"]) == (0, 3, None)


def test_causes_of_clients_that_were_there_before_the_log(clients: dict[str, Any]) -> None:
    """A leader change is one before anything is called a start; a start is a connection's first."""
    causes = clients["metadata"]["by_cause"]
    assert causes["start"] == 1
    assert causes["leader_change"] == 5 + 5 + 1  # old ones, those of `somebodys`, and of shop
    assert causes["max_age"] == 3  # of quiet.host


def test_lines_of_deprecated_versions_are_counted_together(clients: dict[str, Any]) -> None:
    """Their header ends otherwise (KIP-896)."""
    [row] = clients["log"].calls.filter("client = 'deprecated'").collect()
    assert (row.requests, row.software_name) == (3, OLD[0])


def moved_on(client: str, at: float) -> list[Line]:
    """It goes to broker 2 at once, and 8 s later to broker 3."""
    return [
        refused(1, at, client, 2, epoch=6),
        *(produced(2, at + 2 + 1000 * n, client) for n in range(8)),
        refused(2, at + 8002, client, 3, epoch=7),
        produced(3, at + 8004, client),
    ]


@pytest.fixture(scope="module")
def without_broker_2(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The log of broker 2 is missing, that of broker 1 is there twice, once packed, and has a line
    of 1970; the document."""
    folder = tmp_path_factory.mktemp("without 2")
    stories = [moved_on(f"c{number}", 20_000 * number) for number in range(6)]
    first, second, *_ = logs(folder, [*chain(warm(UNTIL_MS), *stories)])
    Path(second).unlink()
    early = text(produced(1, 0, "early"), -START_US / 1000)
    path = Path(first)
    path.write_text(f"{early}\n{path.read_text()}")
    (path.parent / "request.log.1.gz").write_bytes(gzip.compress(path.read_bytes()))
    return analyse(read_request_log(spark, [str(folder)]))


def test_what_led_to_a_broker_without_a_log_is_unseen(without_broker_2: Any) -> None:
    [cluster] = without_broker_2["clusters"]
    [row] = cluster["fleet"]
    assert row["verdict"]["behaviour"] == "unknown"
    assert "the log of a broker that led is missing" in row["verdict"]["sentence"]
    assert (row["episodes"]["unseen"], row["wait_ms"]["p50"]) == (6, None)
    logged = {node["broker"]: node["line_count"] for node in cluster["brokers"]}
    assert logged == {1: 9, 2: 0, 3: 8}
    assert "There is no log of broker 2:" in "\n".join(request_log_answer(without_broker_2))


def test_a_log_and_its_copy_are_one(without_broker_2: Any) -> None:
    assert without_broker_2["lines"]["read"] == 9 + 8
    [(copy, kept)] = without_broker_2["copies"].items()
    assert {Path(copy).name, Path(kept).name} == {"request.log", "request.log.1.gz"}
    assert "1 file holds what another one holds" in "\n".join(request_log_answer(without_broker_2))


def test_a_line_of_1970_does_not_stretch_the_period(without_broker_2: Any) -> None:
    [cluster] = without_broker_2["clusters"]
    assert cluster["period"]["seconds"] == UNTIL_MS / 1000
    # Three minutes and a third of each broker: each was asked twice.
    assert cluster["metadata"]["per_minute"] == pytest.approx(4 / (UNTIL_MS / 60_000))


def test_clocks_that_are_apart_make_no_waits(spark: SparkSession, tmp_path: Path) -> None:
    """Clients wait 100 ms one way and the other; broker 2's clock is 95 ms behind, and broker 3
    writes the time of another zone."""
    waiting = []
    for number in range(12):
        for broker, other in ((1, 2), (2, 1)):
            at, client = 10_000 * number + 5000 * broker, f"c{number}-{broker}"
            waiting += [
                refused(broker, at, client, other, epoch=6, software=RDKAFKA),
                produced(other, at + 101, client, software=RDKAFKA),
            ]
    paths = logs(tmp_path, [*warm(UNTIL_MS), *waiting], {2: -95, 3: 3_600_000})
    document = analyse(read_request_log(spark, paths))
    [cluster] = document["clusters"]
    [row] = [row for row in cluster["fleet"] if row["version"] == RDKAFKA[1]]
    assert row["verdict"]["behaviour"] == "waits"
    assert row["followed_hints"] == {"present": 24, "followed": 24, "at_once": 0}
    assert (row["wait_ms"]["p50"], row["wait_ms"]["max"]) == (100, 100)
    apart = {node["broker"]: node["hours_apart"] for node in cluster["brokers"]}
    assert apart == {1: None, 2: None, 3: 1}
    assert "broker 3 begins and ends 1 h after" in "\n".join(request_log_answer(document))


def test_clocks_that_were_put_back_within_a_file_are_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Zones are not named, and an hour is there twice (`shared/cases`, dst)."""
    first_ms = (datetime(2026, 10, 25, 2, 40, tzinfo=UTC).timestamp() * 1e6 - START_US) / 1000
    path = tmp_path / "request.log"
    minutes = [*range(20), *range(-40, -20)]
    lines = [shown(1, first_ms + 60_000 * minute, "shop") for minute in minutes]
    path.write_text("".join(f"{text(line)}\n" for line in lines))
    document = analyse(read_request_log(spark, [str(path)]))
    [turn] = document["turned_clocks"]
    assert (turn["file"], turn["is_forward"]) == (str(path), False)
    assert turn["at"] == "2026-10-25T02:59:00.000+00:00"
    assert "go back by an hour at 2026-10-25T02:59" in "\n".join(request_log_answer(document))
