"""What is said of a producer's Metadata requests, from rows that a tap recorded."""

from pathlib import Path
from typing import Any

import pytest
from trace_rows import record, table

from kipctl.errors import UsageError
from kipctl.experiments.metadata.experiment import (
    CLIENT_ID,
    CLIENTS,
    claims,
    least_asked,
    parse_clients,
)
from kipctl.load.metadata.phases import PhaseLoad, Rpc
from kipctl.load.metadata.plan import Phase
from kipctl.load.metadata.tapped import phase_result
from kipctl.probe.idle_eviction import TopicPolicy
from kipctl.protocol.api import ApiKey
from kipctl.trace.codes import MetadataCause
from kipctl.trace.store import Run

TOPICS = 50


def test_a_clients_own_requests_of_a_span_count(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    call = {
        "api_key": ApiKey.METADATA,
        "cause": MetadataCause.NEW_TOPIC,
        "topics": 1,
        "request_bytes": 30,
        "response_bytes": 90,
        "sent_us": 200,
        "received_us": 900,
    }
    calls = (
        call | {"sent_us": 99},
        call,
        call | {"received_us": 0},
        call | {"api_key": ApiKey.PRODUCE},
    )
    record(run, "rpcs", table("rpcs", *calls), CLIENT_ID)
    record(run, "rpcs", table("rpcs", call), "somebody", part=1)
    batch = {"records": 2, "intended_us": 150, "sent_us": 210, "acked_us": 1150}
    batches = table("batches", batch, batch | {"error": 3}, batch | {"sent_us": 5000})
    record(run, "batches", batches, CLIENT_ID)
    result = phase_result(run, CLIENT_ID, 100, 2000, {"UNKNOWN": 2})
    assert result.rpcs == [Rpc("new_topic", 1, 30, 90, 700), Rpc("new_topic", 1, 30, None, None)]
    assert result.records == 2 + 2
    assert result.latencies_us == [1000, 1000]
    assert result.failed == 2
    assert result.seconds == 0.0019


def rpc(topics: int) -> Rpc:
    return Rpc("max_age", topics, 1, 1, 1)


@pytest.mark.parametrize(
    ("phase", "asked", "expected"),
    [
        (Phase.IDLE_RETURN, [50, 5, 1, 1, 45], 5),
        (Phase.IDLE_RETURN, [1, 1], None),
        (Phase.STEADY, [50], None),
    ],
)
def test_renewals_of_few_topics_are_of_those_in_use(
    phase: Phase, asked: list[int], expected: int | None
) -> None:
    assert least_asked([rpc(topics) for topics in asked], PhaseLoad(phase, ())) == expected


def phase(name: Phase, **values: Any) -> dict[str, Any]:
    plain = {"requests": 4, "by_cause": {}, "topics_asked": 50, "most_topics_asked": 50}
    return {"phase": str(name), "response_bytes": 9, "least_asked": None} | plain | values


@pytest.mark.parametrize(
    ("most", "asked", "how"),
    [
        (1, TOPICS, "alone"),
        (13, 3 * TOPICS, "with some others"),
        (TOPICS, TOPICS * (TOPICS + 1) // 2, "with all that it knows"),
        (TOPICS, TOPICS, "all at once"),
        (TOPICS, None, None),
    ],
)
def test_new_topics_are_asked_for_alone_or_with_others(
    most: int, asked: int | None, how: str | None
) -> None:
    startup = phase(Phase.STARTUP, topics_asked=asked, most_topics_asked=most)
    claimed = claims({"client": "x", "phases": [startup]}, TOPICS)
    assert claimed["asks_for_new_topics"] == how
    assert claimed["startup_topics_asked"] == asked
    assert claimed["forgets_idle_topics"] is None
    assert claimed["renewal_topics"] is None


@pytest.mark.parametrize(("least", "forgets"), [(5, True), (TOPICS, False)])
def test_idle_topics_are_forgotten_or_not(least: int, forgets: bool) -> None:
    idle = phase(
        Phase.IDLE_RETURN, by_cause={"idle_eviction": 40, "new_topic": 5}, least_asked=least
    )
    claimed = claims({"client": "x", "phases": [phase(Phase.STARTUP), idle]}, TOPICS)
    assert claimed["forgets_idle_topics"] is forgets
    assert claimed["requests_for_returned_topics"] == 45


def test_clients_by_name() -> None:
    clients = parse_clients(",".join(CLIENTS))
    assert [client.name for client in clients] == list(CLIENTS)
    assert [client.policy for client in clients[:3]] == [
        TopicPolicy.LEGACY,
        TopicPolicy.KIP526,
        TopicPolicy.PRELOAD,
    ]
    assert all(client.arm is not None for client in clients[3:])


@pytest.mark.parametrize(
    "name", ["probe-kip951", "kafka-python", "", "java-4.3.1-capped", "librdkafka-1ms"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no client of this experiment"):
        parse_clients(name)
