"""What a run was made with, and what two sides of runs do not have in common."""

from typing import Any

from kipctl.trace.settings import (
    actions_in_short,
    differences,
    end_of,
    interrupted_after,
    settings,
)


def described(**more: Any) -> dict[str, Any]:
    """A `run.json` as `perf produce` writes it, in short."""
    return {
        "schema_version": 1,
        "command": "perf produce",
        "started": "2026-01-01T00:00:00+00:00",
        "start_wall_us": 1,
        "interval_ns": 200_000,
        "throughput": 5000.0,
        "record_size": None,
        "leader_discovery": "kip951",
        "bootstrap_server": "b:1",
        "producer": {"acks": "all", "batch.size": "16384"},
        "cluster_before": {
            "cluster_id": "c1",
            "brokers": [{"id": 1, "rack": "a"}, {"id": 2, "rack": "b"}, {"id": 3, "rack": None}],
            "partitions": [{"replicas": [1, 2, 3]}, {"replicas": [2, 3, 1]}],
        },
        "summary": {
            "topic": "t",
            "kafka_version": "4.3.1",
            "actions": [{"action": "rotate"}] * 2 + [{"action": "restart:1"}],
        },
        **more,
    }


def test_settings_are_options_properties_and_the_cluster() -> None:
    assert settings(described()) == {
        "command": "perf produce",
        "throughput": "5000",
        "record_size": "-",
        "leader_discovery": "kip951",
        "acks": "all",
        "batch.size": "16384",
        "topic": "t",
        "kafka_version": "4.3.1",
        "actions": "2 x rotate, 1 x restart:1",
        "cluster_id": "c1",
        "brokers": "3",
        "racks": "2",
        "partitions": "2",
        "replication_factor": "3",
    }


def test_what_else_a_run_says_of_itself_is_a_setting_too() -> None:
    assert settings(described(workers=4, idle=False))["workers"] == "4"
    assert settings({"idle": False, "made": [1]}) == {"idle": "false"}


def test_a_run_that_came_to_nothing_has_settings() -> None:
    assert settings({"command": "x", "summary": None, "cluster_before": None}) == {"command": "x"}
    assert actions_in_short({}) == "none"
    killed = {"repaired": True, "during": "rotate"}
    assert actions_in_short(killed) == "rotate, how often is not known"


def test_equal_runs_differ_in_nothing() -> None:
    later = described(started="2026-02-02", start_wall_us=9, bootstrap_server="other:9")
    assert differences([described()], [later, described()]) == []


def test_every_setting_that_differs_is_told_with_all_its_values() -> None:
    other = described(producer={"acks": "1", "batch.size": "16384", "linger.ms": "5"}, workers=2)
    assert differences([described()], [other]) == [
        {"setting": "acks", "a_values": "all", "b_values": "1"},
        {"setting": "workers", "a_values": "-", "b_values": "2"},
        {"setting": "linger.ms", "a_values": "-", "b_values": "5"},
    ]
    assert differences([described()], [described(), other])[0]["b_values"] == "all | 1"


def test_how_far_an_interrupted_run_came_is_a_difference() -> None:
    cut = described(stopped=True, num_records=80_000, summary={"records": {"sent": 27_391}})
    whole = described(num_records=80_000, summary={"records": {"sent": 80_000}})
    assert interrupted_after(cut) == "27,391 of 80,000 records"
    assert interrupted_after(whole) == ""
    assert "stopped" not in settings(cut)
    assert differences([whole], [cut]) == [
        {"setting": "interrupted", "a_values": "-", "b_values": "27,391 of 80,000 records"}
    ]
    assert interrupted_after({"stopped": True}) == "? of ? records"


def test_whether_the_beginning_of_a_run_is_kept() -> None:
    assert end_of({}) == end_of({"kept_from_s": 0, "lasted_s": 9}) == ""
    assert end_of({"kept_from_s": 3600, "lasted_s": 90_000}) == "from 3,600 s on, of 90,000 s"
    assert end_of({"kept_from_s": 3600}) == "from 3,600 s on"


def test_sides_that_mix_the_same_values_differ_within_themselves() -> None:
    slow, fast = described(throughput=1.5), described(throughput=3000.0)
    assert differences([slow, fast], [slow, fast]) == [
        {"setting": "throughput", "a_values": "1.5 | 3000", "b_values": "1.5 | 3000"}
    ]
