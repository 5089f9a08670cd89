"""Kafka's JSON files: what is written is read back, and what is wrong is named with its place."""

import json
from pathlib import Path
from typing import ClassVar, cast

import pytest

from kipctl.changes.plans.kafka_json import (
    check_against,
    read_election,
    read_reassignment,
    reassignment_document,
)
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot
from kipctl.errors import UsageError

ENTRY = {"topic": "t", "partition": 0, "replicas": [1, 2]}
PLAN = json.dumps({"version": 1, "partitions": [ENTRY]})
OLD = json.dumps({"version": 1, "partitions": [{**ENTRY, "replicas": [2, 1]}]})


def write(folder: Path, content: object) -> Path:
    path = folder / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_an_assignment_is_read_back_as_written(tmp_path: Path) -> None:
    assignment = {PartitionId("b", 1): (3, 1), PartitionId("a", 0): (1, 2, 3)}
    document = reassignment_document(assignment)
    assert document["version"] == 1
    assert document["partitions"] == [
        {"topic": "a", "partition": 0, "replicas": [1, 2, 3], "log_dirs": ["any"] * 3},
        {"topic": "b", "partition": 1, "replicas": [3, 1], "log_dirs": ["any"] * 2},
    ]
    assert read_reassignment(write(tmp_path, document)).assignment == assignment


def test_unknown_keys_and_a_missing_version_are_fine_as_in_kafka(tmp_path: Path) -> None:
    path = write(tmp_path, {"_command": "reassign", "partitions": [{**ENTRY, "note": "x"}]})
    file = read_reassignment(path)
    assert file.assignment == {PartitionId("t", 0): (1, 2)}
    assert file.log_dirs == {}


def test_log_directories_are_noticed(tmp_path: Path) -> None:
    path = write(tmp_path, {"partitions": [{**ENTRY, "log_dirs": ["/disk1", "any"]}]})
    assert read_reassignment(path).log_dirs == {PartitionId("t", 0): {1: "/disk1"}}


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("", "line 1 column 1: this is not JSON"),
        ('{"partitions": [', "line 1 column 17: this is not JSON"),
        ("[]", "partitions: there should be a list"),
        ({"version": 1}, "partitions: there should be a list"),
        ({"partitions": []}, "partitions: there should be a list"),
        ({"version": 2, "partitions": [ENTRY]}, "version: 2 is not 1"),
        ({"partitions": [7]}, r"partitions\[0\]: this should be an object"),
        ({"partitions": [{"partition": 0}]}, r"partitions\[0\]: topic should be a name"),
        ({"partitions": [{**ENTRY, "partition": "0"}]}, "partition should be a number"),
        ({"partitions": [{**ENTRY, "partition": True}]}, "partition should be a number"),
        ({"partitions": [{**ENTRY, "partition": -1}]}, "partition should be a number"),
        ({"partitions": [{**ENTRY, "partition": 2**31}]}, "partition should be a number"),
        ({"partitions": [{**ENTRY, "replicas": []}]}, "t-0 needs replicas"),
        ({"partitions": [{**ENTRY, "replicas": [1, "2"]}]}, "t-0 needs replicas"),
        ({"partitions": [{**ENTRY, "replicas": [1, 1]}]}, "t-0 names a broker twice"),
        ({"partitions": [ENTRY, ENTRY]}, r"partitions\[1\]: t-0 stands there twice"),
        (
            {"partitions": [{**ENTRY, "log_dirs": ["/disk1"]}]},
            "t-0 needs as many log_dirs as replicas",
        ),
        ({"partitions": [{**ENTRY, "log_dirs": [1, 2]}]}, "t-0: log_dirs should be a list"),
        (f"{PLAN}\n{PLAN}", "lines 1, 2: these are several plans"),
        (f"# ours\n{PLAN}", "line 1 column 1: this is not JSON"),
        (f"Proposed ...\n{PLAN}\nProposed ...\n{PLAN}", "lines 2, 4: these are several"),
        (f"Current ...\n{PLAN[:-1]}", "line 1 column 1: this is not JSON"),
    ],
)
def test_a_broken_plan_names_file_and_place(tmp_path: Path, content: object, place: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(UsageError, match=place) as error:
        read_reassignment(path)
    assert error.value.what.startswith(str(path))


@pytest.mark.parametrize(
    "pasted",
    [
        f"Current partition replica assignment\n{OLD}\n\nProposed partition reassignment"
        f" configuration\n{PLAN}\n",
        f"Proposed partition reassignment configuration\n{PLAN}",
        f"Proposed partition reassignment configuration\n{PLAN}\nSave this",
        json.dumps([ENTRY]),
        json.dumps(ENTRY),
        f"\ufeff{PLAN}",
    ],
    ids=["generate", "the proposal alone", "a text behind", "a list", "an entry", "a BOM"],
)
def test_what_people_paste_for_a_plan_is_understood(tmp_path: Path, pasted: str) -> None:
    assert read_reassignment(write(tmp_path, pasted)).assignment == {PartitionId("t", 0): (1, 2)}


def test_all_faults_of_a_plan_are_named_at_once(tmp_path: Path) -> None:
    wrong = [{"partition": 0}, {**ENTRY, "replicas": [1, 1]}, ENTRY, ENTRY, *[7] * 4]
    with pytest.raises(UsageError) as error:
        read_reassignment(write(tmp_path, {"partitions": wrong}))
    assert error.value.what.endswith(
        "plan.json: partitions[0]: topic should be a name; partitions[1]: t-0 names a broker twice:"
        " [1, 1]; partitions[2]: t-0 stands there twice; partitions[3]: t-0 stands there twice;"
        " partitions[4]: this should be an object; and 3 more faults."
    )


def test_an_entry_a_line_is_a_plan(tmp_path: Path) -> None:
    lines = f"{json.dumps(ENTRY)}\n{json.dumps({**ENTRY, 'partition': 1})}\n"
    assert len(read_reassignment(write(tmp_path, lines)).assignment) == 2


def test_log_dirs_that_name_none_need_not_fit_the_replicas(tmp_path: Path) -> None:
    entries = [{**ENTRY, "partition": n, "log_dirs": ["any"] * 4} for n in range(3)]
    file = read_reassignment(write(tmp_path, {"partitions": entries}))
    assert (len(file.assignment), file.log_dirs) == (3, {})
    assert "the log_dirs of 3 partitions are not as many as the replicas" in file.note


def test_a_file_of_topics_to_move_says_what_plans(tmp_path: Path) -> None:
    path = write(tmp_path, {"topics": [{"topic": "parcels"}, {"topic": "invoices"}], "version": 1})
    with pytest.raises(UsageError, match="names topics, for kafka-reassign-partitions") as error:
        read_reassignment(path)
    assert "kipctl reassign --rotate --dry-run --topic parcels --topic invoices" in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.json cannot be read: No such file"):
        read_reassignment(tmp_path / "absent.json")
    for long in ("9" * 5000, "9" * 25, "1e999", "[" * 100_000, "[" * 150 + "]" * 150):
        path = write(tmp_path, f'{{"version": {long}, "partitions": [1]}}')
        with pytest.raises(UsageError, match="not a JSON text that can be read"):
            read_reassignment(path)
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not a JSON text"):
        read_reassignment(binary)
    with pytest.raises(UsageError, match="not a JSON text"):
        read_reassignment(write(tmp_path, "[" * 100_000))


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({**ENTRY, "topic": "nowhere"}, "there is no topic 'nowhere'"),
        ({**ENTRY, "partition": 5}, "there is no partition t-5"),
        ({**ENTRY, "replicas": [1, 9]}, "broker 9 is not alive; these are: 1, 2"),
    ],
)
def test_a_plan_for_another_cluster_is_refused(
    tmp_path: Path, entry: dict[str, object], problem: str
) -> None:
    path = write(tmp_path, {"partitions": [{**ENTRY, "partition": 1}, entry]})
    cluster = Snapshot(
        "c",
        (Broker(1, "localhost", 1, None), Broker(2, "localhost", 2, None)),
        tuple(Partition(PartitionId("t", n), (1, 3), (1,), 1, 0, (3,)) for n in (0, 1)),
    )
    with pytest.raises(UsageError, match=rf"partitions\[1\]: .*{problem}"):
        check_against(read_reassignment(path), cluster)


def test_a_large_plan_is_checked_without_counting_the_topics_each_time(tmp_path: Path) -> None:
    """The topics of a snapshot are put together out of all its partitions."""

    class Counting:
        counted = 0
        broker_ids = (1, 2)
        by_id: ClassVar = {
            p: Partition(p, (1, 2), (1,), 1, 0) for p in (PartitionId("t", n) for n in range(50))
        }

        @property
        def topics(self) -> tuple[str, ...]:
            self.counted += 1
            return ("t",)

    path = write(tmp_path, {"partitions": [{**ENTRY, "partition": n} for n in range(50)]})
    snapshot = Counting()
    check_against(read_reassignment(path), cast(Snapshot, snapshot))
    assert snapshot.counted == 1


def test_a_stopped_broker_may_stay_in_a_plan(tmp_path: Path) -> None:
    path = write(tmp_path, {"partitions": [{**ENTRY, "replicas": [3, 1]}]})
    cluster = Snapshot(
        "c",
        (Broker(1, "localhost", 1, None),),
        (Partition(PartitionId("t", 0), (1, 3), (1,), 1, 0, (3,)),),
    )
    check_against(read_reassignment(path), cluster)


def test_an_election_file(tmp_path: Path) -> None:
    path = write(tmp_path, {"partitions": [{"topic": "t", "partition": 1}, ENTRY]})
    assert read_election(path) == (PartitionId("t", 1), PartitionId("t", 0))
    with pytest.raises(UsageError, match=r"partitions\[1\]: t-0 stands there twice"):
        read_election(write(tmp_path, {"partitions": [ENTRY, ENTRY]}))
