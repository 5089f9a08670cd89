"""The topic `kipctl-perf`: made for a run, and removed after it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kipctl.cluster.snapshot import Snapshot
from kipctl.cluster.topics import (
    LATEST,
    await_no_topic,
    await_topic,
    create_topic,
    delete_topic,
    offsets,
    topic_id,
)
from kipctl.errors import KipctlError, RefusedError, UsageError
from kipctl.experiments.plan import OWN_TOPIC
from kipctl.transport.request import Cluster

_LOOK_AGAIN_S = 1.0
"""Records that somebody writes meanwhile are seen."""


@contextmanager
def own_topic(
    cluster: Cluster,
    partitions: int,
    replication_factor: int,
    message: Callable[[str], None],
) -> Iterator[Snapshot]:
    """The topic, made anew (`replication_factor` 0: 3, or the number of brokers if less).

    It is removed after the block, unless somebody else has made it anew meanwhile. Raises
    RefusedError while records come to one that is there already.
    """
    if topic_id(cluster, OWN_TOPIC) is not None:
        if _demand_idle(cluster):
            message(f"Removing the topic {OWN_TOPIC} that an earlier run left.")
            delete_topic(cluster.access, OWN_TOPIC)
        await_no_topic(cluster, OWN_TOPIC)
    factor = replication_factor or min(3, len(cluster.nodes))
    message(f"Creating topic {OWN_TOPIC}: {partitions} partitions on {factor} replicas each.")
    create_topic(cluster.access, OWN_TOPIC, partitions, factor)
    own = None
    try:
        snapshot = await_topic(cluster, OWN_TOPIC, partitions)
        own = topic_id(cluster, OWN_TOPIC)
        yield snapshot
    finally:
        try:
            if own is None or topic_id(cluster, OWN_TOPIC) in (own, None):
                delete_topic(cluster.access, OWN_TOPIC)
            else:
                message(f"Topic {OWN_TOPIC} was made anew by somebody else, and is left as it is.")
        except KipctlError as failed:
            message(f"Topic {OWN_TOPIC} is still there, with its data: {failed.what}")


def _demand_idle(cluster: Cluster) -> bool:
    """Raise RefusedError if records come to the topic; False if it is just being removed.

    Where a leader does not answer, none can come.
    """
    try:
        before = offsets(cluster, OWN_TOPIC, LATEST)
        time.sleep(_LOOK_AGAIN_S)
        is_idle = offsets(cluster, OWN_TOPIC, LATEST) == before
    except UsageError:  # there is none any more: one broker had not heard yet
        return False
    except RefusedError:
        return True
    if not is_idle:
        raise RefusedError(
            f"Records come to topic {OWN_TOPIC}: another run of kipctl's perf is under way on "
            "this cluster, and each would remove the other's topic.",
            "Wait for its end, or name a topic of your own with --topic.",
        )
    return True
