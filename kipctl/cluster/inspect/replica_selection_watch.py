"""Where readers are sent, looked at again and again: what changes between two looks."""

import time
from collections.abc import Callable, Iterator, Sequence

from kipctl.cluster.inspect.replica_selection import Choice, Flip, flips
from kipctl.cluster.inspect.replica_selection_facts import observe
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.transport.request import Cluster

POLL_S = 0.25
SETTLE_S = 0.5
"""Seconds: a change is reported soon, though its reason may not be known yet."""


def watch(
    cluster: Cluster,
    wanted: Snapshot,
    before: Sequence[Choice],
    seconds: float | None,
    ended: Callable[[float], bool],
) -> Iterator[Flip]:
    """Each change since `before`, for so many seconds (None: for ever), or until `ended`.

    `ended` waits up to so many seconds for the user to end it, and tells whether that happened.
    Raises UnreachableError when no broker answers any more, UsageError when a topic is gone.
    """
    ids = [p.id for p in wanted.partitions]
    racks = list(dict.fromkeys(choice.rack for choice in before))
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    while (left_s := deadline - time.monotonic()) > 0 and not ended(min(POLL_S, left_s)):
        now = observe(
            cluster, take_snapshot(cluster, wanted.topics).only(ids), racks, SETTLE_S
        ).choices
        yield from flips(before, now)
        before = now
