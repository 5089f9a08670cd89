"""Whether topics of kipctl's own runs are gone from a cluster. Used by tests."""

import time

from kipctl.cluster.topics import topics_named
from kipctl.transport.request import Cluster

_TIMEOUT_S = 60.0


def await_no_own_topics(cluster: Cluster) -> None:
    """Wait until a broker shows none: deleting takes a moment to be known everywhere."""
    deadline = time.monotonic() + _TIMEOUT_S
    while left := topics_named(cluster, "kipctl-.*"):
        assert time.monotonic() < deadline, f"left: {', '.join(left)}"
        time.sleep(0.05)
