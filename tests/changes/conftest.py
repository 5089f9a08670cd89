"""The same fixtures as for looks: see `cluster_fixtures`."""

from cluster_fixtures import (
    a_busy_broker_is_not_silent,
    clock,
    cluster,
    fake,
    kipctl,
    make_topic,
    state,
)

__all__ = [
    "a_busy_broker_is_not_silent",
    "clock",
    "cluster",
    "fake",
    "kipctl",
    "make_topic",
    "state",
]
