"""Whether a cluster lets a client in, asked before clients under test are started."""

from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

_WITHIN_S = 8.0
"""For all bootstrap servers together, one after the other."""


def require_reachable(access: Access) -> None:
    """Raise the one error that says why a client would not get in, if it would not.

    Other clients try again and again, and take tens of seconds to say less: Java's for
    `request.timeout.ms` and more, librdkafka's until somebody asks what became of a record. It is
    not asked through a tap, which would record it as a client. Raises KipctlError within about
    8 s.
    """
    if access.is_behind_tap:
        return
    timeout_s = _WITHIN_S / len(access.bootstrap)
    with Cluster(access, timeout_s=timeout_s) as cluster:
        cluster.metadata(())
