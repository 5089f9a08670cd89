"""The phases of `perf metadata`, and what is made of requests, by table."""

from dataclasses import replace
from typing import Any

import pytest

from kipctl.errors import UsageError
from kipctl.load.metadata.phases import PhaseResult, Rpc, growth, phase_document, phase_loads
from kipctl.load.metadata.plan import OWN_TOPICS, ClientKind, MetadataPlan, Phase
from kipctl.probe.idle_eviction import TopicPolicy
from kipctl.report.metadata_tables import perf_metadata_tables
from kipctl.transport.access import Access

STARTUP, STEADY, CHANGES, IDLE = Phase


def test_every_topic_gets_a_record_at_startup_and_all_of_them_in_turn_after_it() -> None:
    startup, steady, changes, _ = phase_loads(tuple(Phase), 1000, 500, 6)
    assert [segment.records for segment in startup.segments] == [1000]
    assert list(startup.segments[0].topics) == list(range(1000))
    assert [segment.records for segment in (*steady.segments, *changes.segments)] == [3000, 3000]
    assert (startup.max_age_ms, steady.max_age_ms, changes.max_age_ms) == (None, 2000, None)


@pytest.mark.parametrize(("topics", "busy"), [(2, 1), (9, 1), (60, 6), (1000, 100)])
def test_nine_tenths_are_idle_long_enough_and_come_back_once(topics: int, busy: int) -> None:
    idle = phase_loads([IDLE], topics, 100, 1)[-1]
    meanwhile, back = idle.segments
    assert (idle.max_age_ms, idle.max_idle_ms) == (2000, 5000)
    assert list(meanwhile.topics) == list(range(busy))
    # Idle for 5 s, and until two renewals of every 2 s after that have been answered, however late.
    assert meanwhile.records / meanwhile.rate == 11
    assert list(back.topics) == list(range(busy, topics))
    assert back.records == topics - busy


@pytest.mark.parametrize(
    ("asked", "done"),
    [
        ((), [STARTUP]),
        ((IDLE,), [STARTUP, IDLE]),
        ((CHANGES, STEADY), [STARTUP, STEADY, CHANGES]),
        ((STARTUP,), [STARTUP]),
    ],
)
def test_phases_have_their_order_and_begin_with_startup(
    asked: tuple[Phase, ...], done: list[Phase]
) -> None:
    assert [load.phase for load in phase_loads(asked, 10, 100, 1)] == done


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"topics": 1}, "--topics is 1; it must be at least 2."),
        ({"partitions": 0}, "--partitions is 0"),
        ({"record_size": 0}, "--record-size is 0"),
        ({"throughput": -1}, "--throughput and --for must be above 0."),
        ({"seconds": float("nan")}, "--throughput and --for must be above 0."),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        MetadataPlan(Access("127.0.0.1:1"), **settings)


def test_topics_are_numbered_and_the_probe_goes_under_each_policy_librdkafka_as_it_is() -> None:
    names = MetadataPlan(Access("127.0.0.1:1"), topics=20_000).names
    assert (names[0], names[-1]) == (f"{OWN_TOPICS}-00001", f"{OWN_TOPICS}-20000")
    assert list(names) == sorted(names)
    both = (ClientKind.LIBRDKAFKA, ClientKind.PROBE)
    assert MetadataPlan(Access("127.0.0.1:1"), clients=both).arms == (
        (ClientKind.LIBRDKAFKA, None),
        (ClientKind.PROBE, TopicPolicy.KIP526),
        (ClientKind.PROBE, TopicPolicy.LEGACY),
    )


def result(rpcs: list[Rpc], waits_us: list[int] | None = None) -> PhaseResult:
    return PhaseResult(2, 0, 0.5, [1000, 3000], waits_us, rpcs)


def test_a_phase_adds_up_its_requests_and_says_why_records_failed() -> None:
    rpcs = [
        Rpc("start", 0, 30, 100, 900),
        Rpc("new_topic", 1, 60, 200, 1000),
        Rpc("new_topic", 2, 90, 300, 2000),
    ]
    assert phase_document(STARTUP, result(rpcs, [5000]), 3) == {
        "phase": "startup",
        "records": 2,
        "failed": 0,
        "errors": {},
        "seconds": 0.5,
        "requests": 3,
        "brokers_counted": 3,
        "by_cause": {"start": 1, "new_topic": 2},
        "topics_asked": 3,
        "most_topics_asked": 2,
        "request_bytes": 180,
        "response_bytes": 600,
        "request_ms": spread(1.3, 1.0, 2.0, 3.9),
        "waited_records": 1,
        "waited_ms": spread(5.0, 5.0, 5.0, 5.0),
        "latency_ms": spread(2.0, 1.0, 3.0, 4.0),
    }
    denied = {"TOPIC_AUTHORIZATION_FAILED": 2}
    document = phase_document(STARTUP, replace(result([]), failed=2, errors=denied), None)
    assert (document["failed"], document["errors"]) == (2, denied)


def spread(mean: float, p50: float, highest: float, total: float) -> dict[str, float]:
    tail = dict.fromkeys(("p95", "p99", "p999", "max"), highest)
    return {"mean": mean, "p50": p50, **tail, "sum": total}


def test_what_a_client_does_not_tell_is_null_and_shown_as_such() -> None:
    document = phase_document(STEADY, result([Rpc(None, None, None, None, None)]), None)
    assert document["by_cause"] == {"unknown": 1}
    unknown = ("topics_asked", "request_bytes", "response_bytes", "waited_records", "waited_ms")
    assert [document[name] for name in unknown] == [None] * 5
    client = {"client": "librdkafka", "policy": None, "phases": [document], "growth": []}
    run = {"topic_count": 1, "partition_count": 1, "kafka_version": None, "clients": [client]}
    requests, waits = perf_metadata_tables(run)
    assert requests.titles[:4] == ("Client", "Phase", "Requests", "Unknown")
    assert requests.rows == (("librdkafka", "steady", 1, 1, None, 0, None, None),)
    assert waits.rows[0][4:9] == (None,) * 5


def test_growth_is_shown_at_each_tenth_of_the_new_topics() -> None:
    rpcs = [Rpc("start", 0, 30, 100, 1)]
    rpcs += [Rpc("new_topic", n, 10 * n, 100 * n, 1000 * n) for n in range(1, 101)]
    steps = growth(result(rpcs))
    assert [step["number"] for step in steps] == [1, *range(10, 101, 10)]
    assert steps[-1] == {
        "number": 100,
        "topic_count": 100,
        "request_bytes": 1000,
        "response_bytes": 10_000,
        "duration_ms": 100.0,
    }
    assert [step["number"] for step in growth(result(rpcs[:3]))] == [1, 2]
    assert growth(result([])) == []
