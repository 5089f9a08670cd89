"""Whether topics of kipctl's own runs are gone from a cluster. Used by tests."""

import re
import time

from kipctl.protocol.metadata import metadata_request
from kipctl.transport.request import Cluster

_TIMEOUT_S = 60.0


def await_no_own_topics(cluster: Cluster) -> None:
    """Wait until no broker shows any: the next test may ask another one than this test did."""
    deadline = time.monotonic() + _TIMEOUT_S
    cluster.metadata(())
    for broker in cluster.nodes:
        while left := _shown_by(cluster, broker):
            assert time.monotonic() < deadline, f"left: {', '.join(left)}"
            time.sleep(0.05)


def _shown_by(cluster: Cluster, broker: int) -> list[str]:
    names = [t.name or "" for t in cluster.broker(broker).request(metadata_request(None)).topics]
    return [name for name in names if re.fullmatch("kipctl-.*", name)]
