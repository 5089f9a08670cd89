"""A plan in a file: Kafka's own JSON, or CSV as people keep it in a table.

CSV (`.csv`) has a line of headings, `topic,partition,replicas` or `topic,partition,leader`, with
commas, semicolons or tabs between. The replicas of a partition are broker ids in order, with
spaces, `|` or, in quotes, commas between. A leader is put before the other replicas.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from kipctl.changes.plans.kafka_json import ReassignmentFile, read_reassignment, wrong_file
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import UsageError

TOPIC, PARTITION, REPLICAS, LEADER = "topic", "partition", "replicas", "leader"
_HEADINGS = f"{TOPIC},{PARTITION},{REPLICAS} or {TOPIC},{PARTITION},{LEADER}"
_NUMBER = re.compile(r"[0-9]{1,9}")
_ROW = TypeVar("_ROW")


@dataclass(frozen=True, slots=True)
class LeadersFile:
    """The leaders that a file wants, in its order."""

    path: Path
    leaders: Mapping[PartitionId, int]


def read_plan(path: Path) -> ReassignmentFile | LeadersFile:
    """The plan in a file. Raises UsageError, naming file and place."""
    if not _is_csv(path):
        return read_reassignment(path)
    headings, rows = _read_csv(path)
    if REPLICAS in headings:
        lines = {}
        assignment = {}
        for line, partition_id, replicas in _unique(path, rows, _replicas):
            assignment[partition_id], lines[partition_id] = replicas, line
        return ReassignmentFile(path, assignment, lines=lines)
    leaders = {partition_id: leader for _, partition_id, leader in _unique(path, rows, _leader)}
    return LeadersFile(path, leaders)


def read_assignment(path: Path) -> ReassignmentFile:
    """The replicas that a file wants. Raises UsageError, also where it names leaders alone."""
    plan = read_plan(path)
    if isinstance(plan, LeadersFile):
        raise wrong_file(path, "line 1", f"{REPLICAS} are needed here, and there are leaders alone")
    return plan


def _is_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


_Rows = Sequence[tuple[int, dict[str, str]]]


def _read_csv(path: Path) -> tuple[Sequence[str], _Rows]:
    """The headings, and the cells of each line by heading, with its number."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise UsageError(f"{path} is no text in UTF-8: {error}.") from None
    first = text.partition("\n")[0]
    between = max(",;\t", key=first.count)
    try:
        reader = csv.reader(text.splitlines(), delimiter=between, strict=True)
        lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(row)]
    except csv.Error as error:
        raise wrong_file(path, f"line {reader.line_num}", f"this is not CSV: {error}") from None
    headings = [cell.lower() for cell in lines[0][1]] if lines else []
    if sorted(headings) not in (
        sorted((TOPIC, PARTITION, REPLICAS)),
        sorted((TOPIC, PARTITION, LEADER)),
    ):
        raise wrong_file(path, "line 1", f"there should be the headings {_HEADINGS}")
    if not lines[1:]:
        raise wrong_file(path, "line 2", "there should be at least one partition")
    for line, row in lines[1:]:
        if len(row) != len(headings):
            raise wrong_file(
                path, f"line {line}", f"there should be 3 cells, and there are {len(row)}"
            )
    return headings, [(line, dict(zip(headings, row, strict=True))) for line, row in lines[1:]]


def _unique(
    path: Path, rows: _Rows, value: Callable[[dict[str, str]], _ROW | str]
) -> Iterator[tuple[int, PartitionId, _ROW]]:
    """Each line's number, partition and value; `value` is a text where it is none."""
    seen: dict[PartitionId, int] = {}
    for line, row in rows:
        place = f"line {line}"
        if not row[TOPIC]:
            raise wrong_file(path, place, "topic should be a name")
        if not _NUMBER.fullmatch(row[PARTITION]):
            raise wrong_file(path, place, f"{row[TOPIC]}: partition should be a number from 0")
        partition = PartitionId(row[TOPIC], int(row[PARTITION]))
        if first := seen.get(partition):
            raise wrong_file(path, place, f"{partition} stands there twice, first in line {first}")
        seen[partition] = line
        read = value(row)
        if isinstance(read, str):
            raise wrong_file(path, place, f"{partition} {read}")
        yield line, partition, read


def _replicas(row: dict[str, str]) -> tuple[int, ...] | str:
    words = re.split(r"[\s,|]+", row[REPLICAS])
    if not all(map(_NUMBER.fullmatch, words)):
        return f"needs replicas, such as 1 2 3, and has {row[REPLICAS]!r}"
    replicas = tuple(map(int, words))
    if len(set(replicas)) < len(replicas):
        return f"names a broker twice: {row[REPLICAS]}"
    return replicas


def _leader(row: dict[str, str]) -> int | str:
    if not _NUMBER.fullmatch(row[LEADER]):
        return f"needs a leader, a broker's id, and has {row[LEADER]!r}"
    return int(row[LEADER])
