"""What a consumer's rows come to: brokers, flips and their reasons, cases, Kafka's lines."""

from typing import Any

import pytest
from rows import rows_of

from kipctl.measure.client_totals import met_in
from kipctl.measure.consumer_summary import (
    DETAILED_HEADER,
    HEADER,
    Answers,
    FetchCalls,
    MeasuredConsume,
    brokers,
    flip_groups,
    interval_line,
    kafka_line,
    out_of_range,
    summarize_consume,
)
from kipctl.measure.replica_flips import LOST, NAMED, OTHER
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.run import ConsumeOutcome, ConsumeSpec
from kipctl.protocol.api import ApiKey
from kipctl.trace.codes import RangeCase, RangeHandling
from kipctl.transport.access import Access

START_US = 7_000_000
FENCED_LEADER_EPOCH = 74


def read(at_ms: int, broker: int, records: int = 10, **more: int) -> dict[str, int]:
    return {
        "time_us": START_US + at_ms * 1000,
        "broker": broker,
        "broker_rack": broker - 1,
        "records": records,
        "bytes": records * 100,
        "is_leader": broker == 1,
        "preferred_read_replica": -1,
        "range_case": -1,
        "range_handling": -1,
    } | more


def lost_fetch(sent_ms: int, broker: int) -> dict[str, int]:
    return {
        "api_key": ApiKey.FETCH,
        "broker": broker,
        "sent_us": START_US + sent_ms * 1000,
        "cause": -1,
        "error": -1,
    }


def measured(
    reads: list[dict[str, int]], rpcs: list[dict[str, int]] | None = None, rack: str = ""
) -> MeasuredConsume:
    outcome = ConsumeOutcome(
        spec=ConsumeSpec(Access("h:1"), "t", 1000, config=ConsumerConfig(client_rack=rack)),
        cluster_id="c",
        start_us=START_US,
        end_us=START_US + 9_000_000,
        wall_start_us=1_700_000_000_000_000,
        records=sum(row["records"] for row in reads),
        bytes=sum(row["bytes"] for row in reads),
        partitions=4,
        errors={},
        topics=("t",),
        endpoints=(),
        racks=("a", "b", "c"),
        cpu_s=0.5,
        stopped=False,
    )
    calls, requests = FetchCalls(), rows_of("rpcs", *(rpcs or []))
    answers = Answers(calls.add(requests))
    for row in reads:  # in files of many rows they come in pieces
        answers.add(rows_of("reads", row))
    return MeasuredConsume(outcome, answers, calls, met_in(rows_of("redirects"), requests))


@pytest.mark.parametrize(
    ("between", "rpcs", "why"),
    [
        ([read(2, 1, 0, preferred_read_replica=2)], [], NAMED),
        ([read(2, 1, 0, error=FENCED_LEADER_EPOCH)], [], "FENCED_LEADER_EPOCH"),
        # It was named, and refused before anything came: the error is the later news.
        (
            [read(2, 1, 0, preferred_read_replica=3), read(3, 3, 0, error=6)],
            [],
            "NOT_LEADER_OR_FOLLOWER",
        ),
        ([], [lost_fetch(2, broker=1)], LOST),
        ([], [lost_fetch(2, broker=3)], OTHER),  # of another broker
        ([], [lost_fetch(9, broker=1)], OTHER),  # later
        ([], [], OTHER),
    ],
)
def test_why_a_partition_came_from_another_broker(
    between: list[dict[str, int]], rpcs: list[dict[str, int]], why: str
) -> None:
    run = measured([read(1, 1), *between, read(5, 2), read(6, 2)], rpcs)
    assert [(f.from_broker, f.to_broker, f.why, f.gap_us) for f in run.answers.flips.all] == [
        (1, 2, why, 4000)
    ]


def test_partitions_do_not_mix_and_equal_flips_are_told_once() -> None:
    run = measured(
        [
            read(1, 1, partition=0),
            read(2, 2, partition=1),
            read(3, 2, partition=0),
            read(4, 1, partition=3),
            read(10, 2, partition=3),
        ]
    )
    assert [f.partition for f in run.answers.flips.all] == [0, 3]
    assert flip_groups(run) == [
        {
            "from_broker": 1,
            "to_broker": 2,
            "why": OTHER,
            "partitions": 2,
            "times": 2,
            "first_ms": 3.0,
            "gap_ms": {"p50": 2.0, "max": 6.0},
        }
    ]


def test_brokers_are_told_as_leaders_and_followers_with_their_share() -> None:
    run = measured([read(1, 1, 30), read(2, 2, 60), read(3, 2, 10, is_leader=1)], rack="b")
    shares = [(b["broker"], b["rack"], b["read_as"], b["share"], b["local"]) for b in brokers(run)]
    assert shares == [
        (1, "a", "leader", 0.3, False),
        (2, "b", "follower", 0.6, True),
        (2, "b", "leader", 0.1, True),
    ]
    assert {b["local"] for b in brokers(measured([read(1, 1)]))} == {None}


def test_offsets_out_of_range_are_counted_by_case_and_handling() -> None:
    case = {"range_case": RangeCase.TOO_SMALL, "range_handling": RangeHandling.RESET}
    run = measured([read(1, 1), read(2, 1, 0, **case), read(3, 1, 0, **case)])
    assert out_of_range(run) == [{"case": "too_small", "handling": "reset", "times": 2}]


def test_the_line_of_kafkas_tool_has_its_headers_fields() -> None:
    run = measured([read(500, 1, 1000), read(2000, 1, 3000), read(5000, 1, 0)])
    line = kafka_line(run, lambda wall_us: f"[{wall_us}]")
    assert line == (
        "[1700000000000000], [1700000002000000], 0.3815, 0.1907, 4000, 2000.0000, 0, 2000, "
        "0.1907, 2000.0000"
    )
    assert len(line.split(", ")) == len(HEADER.split(", "))


def test_interval_lines_add_up() -> None:
    first, records, size = interval_line(rows_of("reads", read(1, 1, 10)), 0, 0, 2.0, str)
    second, records, size = interval_line(rows_of("reads", read(2, 1, 30)), records, size, 2.0, str)
    assert (records, size) == (40, 4000)
    assert first.split(", ")[4:6] == ["10", "5.0000"]
    assert second.split(", ")[4:6] == ["40", "15.0000"]
    assert len(second.split(", ")) == len(DETAILED_HEADER.split(", "))


def test_a_run_without_a_record_has_a_summary_and_a_line() -> None:
    run = measured([])
    document: dict[str, Any] = summarize_consume(run, [], None)
    assert document["records"] == {"read": 0, "bytes": 0}
    assert document["brokers"] == document["flips"] == document["out_of_range"] == []
    assert kafka_line(run, str).split(", ")[4] == "0"
