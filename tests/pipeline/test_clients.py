"""What clients can make of leader hints, by their software and the versions they speak."""

from collections.abc import Sequence

import pytest
from frames import of_schema
from pyspark.sql import SparkSession

from kipctl.pipeline.clients import HINT_COUNTS, HintUse, hint_use, version_numbers, waits
from kipctl.pipeline.redirect_episodes import ATTEMPTS, episodes


@pytest.mark.parametrize(
    ("name", "version", "produce", "fetch", "use"),
    [
        ("apache-kafka-java", "4.3.1", [13], [], HintUse.USES),
        ("apache-kafka-java", "3.7.0", [10], [], HintUse.USES),
        ("apache-kafka-java", "4.3.1", [], [16], HintUse.USES),
        ("apache-kafka-java", "3.6.0", [9], [], HintUse.NONE),
        # A new client of old brokers is sent no hints.
        ("apache-kafka-java", "4.3.1", [9], [15], HintUse.NONE),
        # While brokers are upgraded it meets both.
        ("apache-kafka-java", "4.3.1", [9, 10], [], HintUse.USES),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", [10], [], HintUse.WAITS),
        ("librdkafka", "2.16.0", [], [16], HintUse.WAITS),
        ("kafka-python", "3.0.12", [9], [12], HintUse.NONE),
        ("kgo", "v1.17.0", [10], [], HintUse.USES),
        ("kgo", "v1.16.2", [10], [], HintUse.GETS),
        ("kipctl", "0.1.0", [13], [], HintUse.USES),
        ("sarama", "1.45.0", [11], [], HintUse.GETS),
        ("unknown", "unknown", [13], [], HintUse.GETS),
        ("apache-kafka-java", "unknown", [13], [], HintUse.GETS),
        ("kipctl", "0.1.0", [], [], HintUse.NOT_APPLICABLE),
    ],
)
def test_hint_use(
    name: str, version: str, produce: Sequence[int], fetch: Sequence[int], use: HintUse
) -> None:
    assert hint_use(name, version, produce, fetch) is use


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("3.7.1", (3, 7, 1)), ("v1.17.0-rc1", (1, 17, 0)), ("4", (4,)), ("unknown", ()), ("", ())],
)
def test_version_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert version_numbers(text) == numbers


@pytest.mark.spark
def test_the_time_of_an_episode_whose_end_was_not_seen_is_not_known(spark: SparkSession) -> None:
    """Clients a and b are refused with a hint; only of b is the next attempt there to see."""
    common = {"cluster": "c", "topic": "t", "partition": 0, "api_key": 0, "connection": "x"}
    refused = {"broker": 1, "sent_us": 0, "received_us": 1000, "error": 6, "hint_leader": 2}
    then = {"broker": 2, "sent_us": 3500, "received_us": 4000, "error": 0}
    attempts = [
        common | {"client": "a"} | refused,
        common | {"client": "b"} | refused,
        common | {"client": "b"} | then,
    ]
    for clients, finished_us in ((("a",), None), (("a", "b"), 2500)):
        mine = [row for row in attempts if row["client"] in clients]
        owners = spark.createDataFrame(
            [("c", client, "s", "1") for client in clients],
            "cluster string, client string, software_name string, software_version string",
        )
        [row] = waits(episodes(of_schema(spark, ATTEMPTS, mine)), owners).collect()
        assert (row["episodes"], row["unfinished"]) == (len(clients), 1)
        times = {row[f"{name}_us"] for name in ("p50", "p99", "max", "sum")}
        assert times == {finished_us}
        hints = {name: row[f"hints_{name}"] for name in HINT_COUNTS}
        seen = len(clients) - 1
        assert hints == {"present": len(clients), "unseen": 1, "reached": seen, "used": seen}
