"""Who read what from where: racks, roles, flips of the replica, errors by code."""

import random

import pytest
from frames import Row, frame, only, part_of, rows_by
from pyspark.sql import SparkSession

from kipctl.pipeline.reads import (
    flip_table,
    out_of_range_table,
    read_error_table,
    read_table,
    with_role,
)

KEYS = (
    *("run", "arm", "client", "software_name", "software_version", "topic", "partition"),
    *("broker", "client_rack", "broker_rack", "role"),
)

pytestmark = pytest.mark.spark

LOCAL: Row = {"client_rack": "a", "broker_rack": "a"}
CROSS: Row = {"client_rack": "a", "broker_rack": "b"}


def test_bytes_are_counted_by_rack_and_role(spark: SparkSession) -> None:
    rows: list[Row] = [
        {**LOCAL, "is_leader": True, "bytes": 10, "records": 1},
        {**LOCAL, "is_leader": False, "bytes": 100, "records": 2},
        {**CROSS, "is_leader": True, "bytes": 1000, "records": None},
        {**CROSS, "is_leader": True, "bytes": None, "error": 6},
        {**CROSS, "is_leader": True, "bytes": 0, "preferred_read_replica": 2},
        {"client_rack": None, "broker_rack": "b", "is_leader": None, "bytes": 10_000},
        {"client_rack": "", "broker_rack": None, "is_leader": False, "bytes": 1},
    ]
    reads = frame(spark, "reads", rows, error=0)
    whole = only(read_table(reads, ["run"]))
    expected = {
        "responses": 7,
        "records": 3,
        "bytes": 11_111,
        "local_bytes": 110,
        "cross_rack_bytes": 1000,
        "unknown_rack_bytes": 10_001,
        "follower_bytes": 101,
        "named_a_replica": 1,
        "errors": 1,
        "local_share": 110 / 1110,
    }
    assert part_of(whole, expected) == expected
    by_place = rows_by(read_table(reads), "client_rack", "broker_rack", "role")
    assert {place: row["bytes"] for place, row in by_place.items()} == {
        ("a", "a", "leader"): 10,
        ("a", "a", "follower"): 100,
        ("a", "b", "leader"): 1000,
        (None, "b", "unknown"): 10_000,
        ("", None, "follower"): 1,
    }
    assert by_place["a", "b", "leader"]["local_share"] == 0.0
    assert by_place[None, "b", "unknown"]["local_share"] is None
    assert by_place[None, "b", "unknown"]["records"] is None
    assert set(KEYS) <= set(with_role(reads).columns)


def by(broker: int | None, **more: int) -> Row:
    return {"broker": broker, **more}


def naming(broker: int, replica: int) -> Row:
    return {"broker": broker, "preferred_read_replica": replica}


FLIPS: dict[str, tuple[list[Row], tuple[int, int]]] = {
    # fetch responses of one client; flips, and changes of the preferred replica
    "steady": ([by(1), by(1), by(1)], (0, 0)),
    # Its lease ended: the leader is asked anew, and says the same.
    "sent to a follower, and steady there": ([naming(1, 2), by(2), naming(1, 2), by(2)], (0, 0)),
    "to and fro": ([by(1), naming(1, 2), by(2), naming(1, 3), by(3), by(1)], (3, 1)),
    "an error is no read": ([by(1), by(2, error=6), by(1)], (0, 0)),
    "an unknown broker is no other one": ([by(1), by(None), by(1)], (0, 0)),
}


def test_flips_are_changes_of_the_broker_read_from(spark: SparkSession) -> None:
    rows = [
        {"client": name, "time_us": 10 * turn, **response}
        for name, (responses, _) in FLIPS.items()
        for turn, response in enumerate(responses)
    ]
    # Another partition, topic or run of the same client is a sequence of its own.
    rows += [
        {"client": "to and fro", "time_us": 15, "broker": 9, **other}
        for other in ({"partition": 1}, {"topic": "u"}, {"run": "r2"})
    ]
    random.Random(4).shuffle(rows)
    reads = frame(spark, "reads", rows, error=0)
    by_client = rows_by(flip_table(reads.filter("run = 'r'"), ["client"]), "client")
    assert {name: (row["flips"], row["preferred_changes"]) for name, row in by_client.items()} == {
        name: expected for name, (_, expected) in FLIPS.items()
    }
    expected = {"partitions": 3, "flipped": 1, "flips": 3, "most_flips": 3}
    assert part_of(by_client["to and fro"], expected) == expected
    by_run = rows_by(flip_table(reads), "run")
    assert by_run["r"]["partitions"] == len(FLIPS) + 2
    steady = dict.fromkeys(("flipped", "flips", "most_flips", "preferred_changes"), 0)
    assert by_run["r2"] == {"arm": "kip951", "partitions": 1, **steady}


def test_errors_are_counted_by_code_and_named(spark: SparkSession) -> None:
    rows = [{"error": code} for code in (0, 0, 1, 6, 6, 74)]
    by_error = rows_by(read_error_table(frame(spark, "reads", rows)), "error")
    assert {code: (row["name"], row["responses"]) for code, row in by_error.items()} == {
        1: ("OFFSET_OUT_OF_RANGE", 1),
        6: ("NOT_LEADER_OR_FOLLOWER", 2),
        74: ("FENCED_LEADER_EPOCH", 1),
    }


def test_offsets_out_of_range_are_counted_by_case_and_what_was_done(spark: SparkSession) -> None:
    waits = {"range_case": "uncommitted", "range_handling": "wait"}
    asks = {"range_case": "unavailable", "range_handling": "ask_leader"}
    rows = [waits, waits, {**waits, "broker": 2}, asks, {"error": 1}, {"records": 3}]
    reads = frame(spark, "reads", rows, broker=1, error=0)
    by_broker = rows_by(out_of_range_table(reads, ["broker"]), "broker", "case", "handling")
    assert {key: row["times"] for key, row in by_broker.items()} == {
        (1, "uncommitted", "wait"): 2,
        (2, "uncommitted", "wait"): 1,
        (1, "unavailable", "ask_leader"): 1,
    }
