"""Kafka's own JSON files: reassignments (version 1) and the partitions of an election.

Source: ReassignPartitionsCommand and LeaderElectionCommand. As there, unknown keys are ignored.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kipctl.cluster.snapshot import Assignment, PartitionId, Snapshot
from kipctl.counts import counted
from kipctl.errors import UsageError
from kipctl.next_step import Command
from kipctl.typed_json import plain_json

ANY_LOG_DIR = "any"
_MOST_DOCUMENTS = 100_000
_MOST_FAULTS = 5
LogDirs = Mapping[PartitionId, Mapping[int, str]]
"""Directories by partition and broker."""


def reassignment_document(
    assignment: Assignment, log_dirs: "LogDirs | None" = None
) -> dict[str, object]:
    """The assignment as kafka-reassign-partitions reads it, with the directories that are known."""
    dirs = log_dirs or {}
    return {
        "version": 1,
        "partitions": [
            {
                "topic": partition_id.topic,
                "partition": partition_id.partition,
                "replicas": list(replicas),
                "log_dirs": [dirs.get(partition_id, {}).get(b, ANY_LOG_DIR) for b in replicas],
            }
            for partition_id, replicas in sorted(assignment.items())
        ],
    }


@dataclass(frozen=True, slots=True)
class ReassignmentFile:
    """The assignment in a file, in its order.

    `log_dirs` are the directories that it names.
    """

    path: Path
    assignment: dict[PartitionId, tuple[int, ...]]
    log_dirs: LogDirs = field(default_factory=dict)
    lines: Mapping[PartitionId, int] = field(default_factory=dict)
    """Of a table, where each partition stands."""
    note: str = ""
    """What of the file was not taken, in a sentence; "" for nothing."""


def read_reassignment(path: Path) -> ReassignmentFile:
    """Raises UsageError, naming file and place, for what is not such a file."""
    faults = Faults(path)
    version, entries = _read(path)
    if version not in (None, 1):
        raise wrong_file(path, "version", f"{version!r} is not 1, the only one known")
    assignment: dict[PartitionId, tuple[int, ...]] = {}
    directories: dict[PartitionId, dict[int, str]] = {}
    needless = 0
    for place, partition_id, entry in _entries(entries, faults):
        replicas = entry.get("replicas")
        if not isinstance(replicas, list) or not replicas or not all(map(_is_id, replicas)):
            faults.add(place, f"{partition_id} needs replicas, a list of broker ids")
            continue
        if len(set(replicas)) < len(replicas):
            faults.add(place, f"{partition_id} names a broker twice: {replicas}")
        log_dirs = entry.get("log_dirs", [ANY_LOG_DIR] * len(replicas))
        if not isinstance(log_dirs, list) or not all(
            isinstance(log_dir, str) for log_dir in log_dirs
        ):
            faults.add(place, f"{partition_id}: log_dirs should be a list of paths")
            continue
        named = any(log_dir != ANY_LOG_DIR for log_dir in log_dirs)
        if len(log_dirs) != len(replicas):
            needless += 1
            if named:
                faults.add(place, f"{partition_id} needs as many log_dirs as replicas")
        if named:
            pairs = zip(replicas, log_dirs, strict=False)
            directories[partition_id] = dict(pair for pair in pairs if pair[1] != ANY_LOG_DIR)
        if partition_id in assignment:
            faults.add(place, f"{partition_id} stands there twice")
        assignment[partition_id] = tuple(replicas)
    faults.require_none()
    note = (
        f"{path}: the log_dirs of {counted(needless, 'partition')} are not as many as the replicas;"
        ' they name none ("any"), and are not needed.'
        if needless
        else ""
    )
    return ReassignmentFile(path, assignment, directories, note=note)


def read_election(path: Path) -> tuple[PartitionId, ...]:
    """The partitions in an election file. Raises UsageError, naming file and place."""
    chosen: dict[PartitionId, None] = {}
    faults = Faults(path)
    for place, partition_id, _ in _entries(_read(path)[1], faults):
        if partition_id in chosen:
            faults.add(place, f"{partition_id} stands there twice")
        chosen[partition_id] = None
    faults.require_none()
    return tuple(chosen)


def check_against(
    file: ReassignmentFile, snapshot: Snapshot, *, brokers_alive: bool = True
) -> None:
    """Raise UsageError for a partition, or a broker that is not alive, if the file names one."""
    known, brokers = snapshot.by_id, snapshot.broker_ids
    topics = frozenset(snapshot.topics)
    faults = Faults(file.path)
    for index, (partition_id, replicas) in enumerate(file.assignment.items()):
        line = file.lines.get(partition_id)
        place = f"partitions[{index}]" if line is None else f"line {line}"
        if partition_id.topic not in topics:
            faults.add(place, f"there is no topic {partition_id.topic!r}")
            continue
        if partition_id not in known:
            faults.add(place, f"there is no partition {partition_id}")
            continue
        # A stopped broker that already holds the partition may stay; a new one must be alive.
        allowed = {*brokers, *known[partition_id].replicas}
        strange = [broker for broker in replicas if broker not in allowed]
        if brokers_alive and strange:
            alive = ", ".join(map(str, brokers))
            faults.add(
                place, f"{partition_id}: broker {strange[0]} is not alive; these are: {alive}"
            )
    faults.require_none()


def _read(path: Path) -> tuple[object, list[object]]:
    """The version, and the entries of `partitions`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        try:
            document = plain_json(text)
        except json.JSONDecodeError as error:
            document = _pasted(path, text)
            if document is None:
                place = f"line {error.lineno} column {error.colno}"
                raise wrong_file(path, place, f"this is not JSON: {error.msg}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise UsageError(f"{path} is not a JSON text that can be read: {error}.") from None
    if isinstance(document, dict) and isinstance(topics := document.get("topics"), list):
        names = [str(topic.get("topic")) for topic in topics if isinstance(topic, dict)]
        raise UsageError(
            f"{path} names topics, for kafka-reassign-partitions --generate, and no replicas.",
            "kipctl plans itself, as in: " + Command("reassign --rotate --dry-run", topic=names),
        )
    if isinstance(document, dict) and "topic" in document and "partitions" not in document:
        document = [document]  # one entry alone
    if isinstance(document, list):
        document = {"partitions": document}
    entries = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries:
        raise wrong_file(path, "partitions", "there should be a list with at least one partition")
    return document.get("version"), entries


def _pasted(path: Path, text: str) -> object:
    """The plan in what kafka-reassign-partitions prints, or in lines of JSON; None for neither.

    Of the two that --generate prints it is the proposal; the other is the way back (Kafka's
    ReassignPartitionsCommand). Raises UsageError where it cannot be told which of several is meant.
    """
    documents: list[tuple[str, int, object]] = []
    decoder, at, end = json.JSONDecoder(), -1, 0
    while len(documents) < _MOST_DOCUMENTS and (at := text.find("{", end)) >= 0:
        try:
            _, after = decoder.raw_decode(text, at)
            heading = text[end:at].strip()
            documents.append((heading, text.count("\n", 0, at) + 1, plain_json(text[at:after])))
        except (ValueError, RecursionError):
            return None
        end = after
    if all(isinstance(document, dict) and "topic" in document for _, _, document in documents):
        besides = text[end:].strip() or any(heading.strip(",") for heading, _, _ in documents)
        return [document for _, _, document in documents] if documents and not besides else None
    proposed = [document for heading, _, document in documents if heading.startswith("Proposed")]
    if len(proposed) == 1:
        return proposed[0]
    if len(documents) > 1:
        lines = ", ".join(str(line) for _, line, _ in documents)
        raise wrong_file(path, f"lines {lines}", "these are several plans: leave one")
    return documents[0][2] if documents and documents[0][0][:1].isalpha() else None


def _entries(
    entries: list[object], faults: "Faults"
) -> Iterator[tuple[str, PartitionId, dict[str, object]]]:
    """Each entry that names a partition, with its place in the file."""
    for index, entry in enumerate(entries):
        place = f"partitions[{index}]"
        if not isinstance(entry, dict):
            faults.add(place, "this should be an object")
            continue
        topic, partition = entry.get("topic"), entry.get("partition")
        if not isinstance(topic, str) or not topic:
            faults.add(place, "topic should be a name")
        elif not isinstance(partition, int) or not _is_id(partition):
            faults.add(place, f"{topic}: partition should be a number from 0")
        else:
            yield place, PartitionId(topic, partition), entry


def _is_id(number: object) -> bool:
    """True for what fits Kafka's int32 ids."""
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**31


@dataclass(slots=True)
class Faults:
    """What is wrong with a file, and where in it: all of it is said at once."""

    path: Path
    faults: list[str] = field(default_factory=list)

    def add(self, place: str, problem: str) -> None:
        self.faults.append(f"{place}: {problem}")

    def require_none(self) -> None:
        """Raise UsageError, with the first few, if there is one."""
        if self.faults:
            more = len(self.faults) - _MOST_FAULTS
            said = "; ".join(self.faults[:_MOST_FAULTS])
            said += f"; and {counted(more, 'more fault')}" if more > 0 else ""
            raise UsageError(f"{self.path}: {said}.", "Nothing was changed. Correct the file.")


def wrong_file(path: Path, place: str, problem: str) -> UsageError:
    """What is wrong with a file, and where in it."""
    return UsageError(f"{path}: {place}: {problem}.", "Nothing was changed. Correct the file.")
