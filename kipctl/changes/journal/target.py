"""What a file says partitions are to be: Kafka's own JSON, a table, or an entry of a journal."""

from pathlib import Path

from kipctl.changes.journal.entry import read_entry
from kipctl.changes.plans.kafka_json import ReassignmentFile
from kipctl.changes.plans.plan_files import read_assignment
from kipctl.typed_json import plain_json


def read_target(path: Path) -> ReassignmentFile:
    """Raises UsageError for what is none of them."""
    try:
        document = plain_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        document = None
    if not isinstance(document, dict) or "schema" not in document:
        return read_assignment(path)
    after = read_entry(path).after
    return ReassignmentFile(path, {p: ids for p, ids in after.items() if ids})
