"""What is wrong with a `run.json` is told by its field."""

from typing import Any

import pytest

from kipctl.trace.description import wrong_field

ACTION = {
    "action": "rotate",
    "called_ms": 1.5,
    "answered_ms": 2,
    "converged_ms": None,
    "partitions": 3,
    "error": None,
}
CLUSTER = {
    "cluster_id": "c",
    "brokers": [{"id": 1, "rack": None}],
    "partitions": [{"replicas": [1]}],
}


def without(name: str) -> dict[str, Any]:
    return {field: value for field, value in ACTION.items() if field != name}


@pytest.mark.parametrize(
    ("description", "wrong"),
    [
        ({}, ""),
        ({"summary": None, "interval_ns": 5, "producer": {"acks": "all"}}, ""),
        ({"summary": {"actions": [ACTION], "records": {"sent": 1}}}, ""),
        ({"interval_ns": None}, "interval_ns is null"),
        ({"warmup_records": "many"}, "warmup_records is of a wrong type (str)"),
        ({"start_wall_us": [1]}, "start_wall_us is of a wrong type (list)"),
        ({"producer": None}, "producer is null"),
        ({"summary": [1]}, "summary is of a wrong type (list)"),
        ({"summary": {"records": 7}}, ""),  # as `experiment metadata` has it
        ({"summary": {"actions": {}}}, "summary.actions is of a wrong type (dict)"),
        ({"summary": {"actions": [ACTION, None]}}, "summary.actions[1] is null"),
        (
            {"summary": {"actions": [without("called_ms")]}},
            "summary.actions[0].called_ms is missing",
        ),
        (
            {"summary": {"actions": [ACTION | {"called_ms": None}]}},
            "summary.actions[0].called_ms is null",
        ),
        ({"started": 7}, "started is of a wrong type (int)"),
        ({"cluster_before": {}}, ""),
        ({"cluster_before": CLUSTER}, ""),
        ({"cluster_before": [1]}, "cluster_before is of a wrong type (list)"),
        ({"cluster_before": {"cluster_id": "c"}}, "cluster_before.brokers is missing"),
        (
            {"cluster_before": CLUSTER | {"brokers": [{"id": 1}]}},
            "cluster_before.brokers[0].rack is missing",
        ),
        (
            {"cluster_before": CLUSTER | {"brokers": [{"rack": []}]}},
            "cluster_before.brokers[0].rack is of a wrong type (list)",
        ),
        (
            {"cluster_before": CLUSTER | {"partitions": [{"replicas": 3}]}},
            "cluster_before.partitions[0].replicas is of a wrong type (int)",
        ),
        ({"summary": {"latency_ms": []}}, "summary.latency_ms is of a wrong type (list)"),
        (
            {"summary": {"latency_ms": {"p99": "1"}}},
            "summary.latency_ms.p99 is of a wrong type (str)",
        ),
    ],
)
def test_the_field_is_named(description: dict[str, Any], wrong: str) -> None:
    assert wrong_field(description) == wrong
