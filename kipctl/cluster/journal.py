"""The way back: every assignment that was replaced, saved before its reassignment is submitted.

An entry is a file in Kafka's own reassignment JSON, so kafka-reassign-partitions can play it back
as well. Files are named for the time (UTC) they were saved; a name that ends in `.undone.json` has
been rolled back.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kipctl.cluster.kafka_json import read_reassignment, reassignment_document
from kipctl.cluster.snapshot import Assignment, PartitionId
from kipctl.errors import UsageError
from kipctl.state import make_private, state_folder

UNDONE = ".undone.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One saved assignment."""

    path: Path

    def assignment(self) -> dict[PartitionId, tuple[int, ...]]:
        """Raises UsageError when the file has been damaged."""
        return read_reassignment(self.path).assignment

    def mark_undone(self) -> None:
        """The next rollback goes one further back."""
        self.path.rename(self.path.with_name(self.path.stem + UNDONE))

    def discard(self) -> None:
        """Forget it: nothing of what it was saved for has been accepted."""
        self.path.unlink()


@dataclass(frozen=True, slots=True)
class Journal:
    """The entries of one cluster."""

    folder: Path

    def save(self, assignment: Assignment) -> Entry:
        """Write the assignment to disk, whole or not at all. Raises UsageError when it cannot."""
        name = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        path = self.folder / f"{name}.json"
        unfinished = path.with_suffix(".tmp")
        try:
            make_private(self.folder)
            with unfinished.open("w", encoding="utf-8") as file:
                json.dump(reassignment_document(assignment), file)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(path)
        except OSError as error:
            raise UsageError(
                f"The current assignment cannot be saved in {self.folder}: {error.strerror}.",
                "Nothing was changed. Set XDG_STATE_HOME to a folder that can be written.",
            ) from None
        return Entry(path)

    def entries(self) -> tuple[Entry, ...]:
        """What can still be undone, the newest first."""
        paths = sorted(self.folder.glob("*.json"), reverse=True)
        return tuple(Entry(path) for path in paths if not path.name.endswith(UNDONE))

    def last(self) -> Entry | None:
        """What a rollback undoes."""
        return next(iter(self.entries()), None)


def journal(cluster_id: str, variables: Mapping[str, str] = os.environ) -> Journal:
    """The journal of a cluster, in `$XDG_STATE_HOME` (or `~/.local/state`) `/kipctl/journal/`."""
    return Journal(state_folder(variables) / "journal" / cluster_id)
