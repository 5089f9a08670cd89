"""A finding, its severity, and the wording that findings share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kipctl.cluster.snapshot import Partition
from kipctl.counts import first_few
from kipctl.severity import Severity


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence each: what is so, what follows from it, and what to change.

    `id` never changes: `kipctl explain` shows the page of that name in docs/findings. `commands`
    are those that `change` ends with, each a line to paste.
    """

    id: str
    severity: Severity
    what: str
    consequence: str
    change: str
    commands: tuple[str, ...] = ()


def problem(id: str, what: str, consequence: str, change: str) -> Finding:
    return Finding(id, Severity.PROBLEM, what, consequence, change)


def warning(id: str, what: str, consequence: str, change: str) -> Finding:
    return Finding(id, Severity.WARNING, what, consequence, change)


def note(id: str, what: str, consequence: str, change: str) -> Finding:
    return Finding(id, Severity.NOTE, what, consequence, change)


def capital(text: str) -> str:
    """The text as a sentence begins."""
    return text[:1].upper() + text[1:]


def named_for_command(topics: Sequence[str]) -> Sequence[str] | str:
    """The value of a command's --topic: all of them where they are few, else what stands for one
    of them."""
    return topics if len(topics) <= 3 else "TOPIC"


def partition_list(partitions: Iterable[Partition]) -> str:
    """The first few of them, and how many more there are."""
    return first_few([partition.id for partition in partitions])
