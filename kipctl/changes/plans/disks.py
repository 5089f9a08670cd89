"""What it is to move a replica to another log directory of its broker."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kipctl.cluster.snapshot import PartitionId


class DiskMove(NamedTuple):
    """A replica, by the id of its broker: the directory that it is in, and the one that it is to be
    in; and its bytes."""

    id: PartitionId
    broker: int
    before: str
    after: str
    size: int = 0


def by_broker(
    moves: Iterable[DiskMove], directory: Callable[[DiskMove], str]
) -> dict[PartitionId, dict[int, str]]:
    """This directory of each move, by its partition and broker."""
    directories: dict[PartitionId, dict[int, str]] = {}
    for move in moves:
        directories.setdefault(move.id, {})[move.broker] = directory(move)
    return directories
