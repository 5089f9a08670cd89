"""What a file says partitions are to be: Kafka's own JSON, a table, or an entry of a journal."""

from collections.abc import Sequence
from pathlib import Path

from kipctl.changes.journal.entry import read_entry
from kipctl.changes.plans.kafka_json import ReassignmentFile
from kipctl.changes.plans.plan_files import read_assignment
from kipctl.next_step import Command, NextStep
from kipctl.typed_json import plain_json


def _is_entry(path: Path) -> bool:
    try:
        document = plain_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and "schema" in document


def how_to_carry_out(paths: Sequence[Path]) -> NextStep:
    """What to do for what these files say: an entry is gone on with, as long as it is open."""
    entry = next(filter(_is_entry, paths), None)
    if entry is None:
        return "Carry it out: " + Command("reassign", plan=paths)
    known = read_entry(entry)
    if known.is_open:
        return "Carry it out: " + Command("changes resume", journal=entry)
    return f"The entry is {known.state}. See what is another way: " + Command(
        "changes show", journal=entry
    )


def read_target(path: Path) -> ReassignmentFile:
    """Raises UsageError for what is none of them."""
    if not _is_entry(path):
        return read_assignment(path)
    after = read_entry(path).after
    return ReassignmentFile(path, {p: ids for p, ids in after.items() if ids})
