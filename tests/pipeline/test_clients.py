"""What clients can make of leader hints, by their software and the versions they speak."""

from collections.abc import Sequence

import pytest

from kipctl.pipeline.clients import HintUse, hint_use, version_numbers


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
