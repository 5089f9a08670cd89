"""Kafka's own JSON files: reassignments (version 1) and the partitions of an election.

Source: ReassignPartitionsCommand and LeaderElectionCommand. As there, unknown keys are ignored.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kipctl.cluster.snapshot import Assignment, PartitionId, Snapshot
from kipctl.errors import UsageError
from kipctl.typed_json import plain_json

ANY_LOG_DIR = "any"


def reassignment_document(assignment: Assignment) -> dict[str, object]:
    """The assignment as kafka-reassign-partitions reads it."""
    return {
        "version": 1,
        "partitions": [
            {
                "topic": partition_id.topic,
                "partition": partition_id.partition,
                "replicas": list(replicas),
                "log_dirs": [ANY_LOG_DIR] * len(replicas),
            }
            for partition_id, replicas in sorted(assignment.items())
        ],
    }


@dataclass(frozen=True, slots=True)
class ReassignmentFile:
    """The assignment in a file, in its order, and whether it names log directories.

    Kafka's own tool prints the directories that replicas are in now. kipctl moves no replica from
    one to another: brokers place new replicas themselves.
    """

    path: Path
    assignment: dict[PartitionId, tuple[int, ...]]
    names_log_dirs: bool
    lines: Mapping[PartitionId, int] = field(default_factory=dict)
    """Of a table, where each partition stands."""


def read_reassignment(path: Path) -> ReassignmentFile:
    """Raises UsageError, naming file and place, for what is not such a file."""
    version, entries = _read(path)
    if version not in (None, 1):
        raise wrong_file(path, "version", f"{version!r} is not 1, the only one known")
    assignment: dict[PartitionId, tuple[int, ...]] = {}
    names_log_dirs = False
    for place, partition_id, entry in entries:
        replicas = entry.get("replicas")
        if not isinstance(replicas, list) or not replicas or not all(map(_is_id, replicas)):
            raise wrong_file(path, place, f"{partition_id} needs replicas, a list of broker ids")
        if len(set(replicas)) < len(replicas):
            raise wrong_file(path, place, f"{partition_id} names a broker twice: {replicas}")
        log_dirs = entry.get("log_dirs", [ANY_LOG_DIR] * len(replicas))
        if not isinstance(log_dirs, list) or len(log_dirs) != len(replicas):
            raise wrong_file(path, place, f"{partition_id} needs as many log_dirs as replicas")
        names_log_dirs = names_log_dirs or any(d != ANY_LOG_DIR for d in log_dirs)
        if partition_id in assignment:
            raise wrong_file(path, place, f"{partition_id} stands there twice")
        assignment[partition_id] = tuple(replicas)
    return ReassignmentFile(path, assignment, names_log_dirs)


def read_election(path: Path) -> tuple[PartitionId, ...]:
    """The partitions in an election file. Raises UsageError, naming file and place."""
    chosen: dict[PartitionId, None] = {}
    for place, partition_id, _ in _read(path)[1]:
        if partition_id in chosen:
            raise wrong_file(path, place, f"{partition_id} stands there twice")
        chosen[partition_id] = None
    return tuple(chosen)


def check_against(
    file: ReassignmentFile, snapshot: Snapshot, *, brokers_alive: bool = True
) -> None:
    """Raise UsageError for a partition, or a broker that is not alive, if the file names one."""
    known, brokers = snapshot.by_id, snapshot.broker_ids
    topics = frozenset(snapshot.topics)
    for index, (partition_id, replicas) in enumerate(file.assignment.items()):
        line = file.lines.get(partition_id)
        place = f"partitions[{index}]" if line is None else f"line {line}"
        if partition_id.topic not in topics:
            raise wrong_file(file.path, place, f"there is no topic {partition_id.topic!r}")
        if partition_id not in known:
            raise wrong_file(file.path, place, f"there is no partition {partition_id}")
        # A stopped broker that already holds the partition may stay; a new one must be alive.
        allowed = {*brokers, *known[partition_id].replicas}
        strange = [broker for broker in replicas if broker not in allowed]
        if brokers_alive and strange:
            alive = ", ".join(map(str, brokers))
            raise wrong_file(
                file.path,
                place,
                f"{partition_id}: broker {strange[0]} is not alive; these are: {alive}",
            )


def _read(path: Path) -> tuple[object, Iterator[tuple[str, PartitionId, dict[str, object]]]]:
    """The version, and each entry of `partitions` with its place in the file."""
    try:
        document = plain_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise wrong_file(path, place, f"this is not JSON: {error.msg}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not a JSON text that can be read: {error}.") from None
    entries = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries:
        raise wrong_file(path, "partitions", "there should be a list with at least one partition")
    return document.get("version"), _entries(path, entries)


def _entries(
    path: Path, entries: list[object]
) -> Iterator[tuple[str, PartitionId, dict[str, object]]]:
    for index, entry in enumerate(entries):
        place = f"partitions[{index}]"
        if not isinstance(entry, dict):
            raise wrong_file(path, place, "this should be an object")
        topic, partition = entry.get("topic"), entry.get("partition")
        if not isinstance(topic, str) or not topic:
            raise wrong_file(path, place, "topic should be a name")
        if not isinstance(partition, int) or not _is_id(partition):
            raise wrong_file(path, place, f"{topic}: partition should be a number from 0")
        yield place, PartitionId(topic, partition), entry


def _is_id(number: object) -> bool:
    """True for what fits Kafka's int32 ids."""
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**31


def wrong_file(path: Path, place: str, problem: str) -> UsageError:
    """What is wrong with a file, and where in it."""
    return UsageError(f"{path}: {place}: {problem}.", "Nothing was changed. Correct the file.")
