"""`kipctl roll` of a lab, in this process, and a topic whose leaders it moves."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from on_lab import in_sync, wait_until_everywhere, wait_until_nowhere
from one_process import Said, in_this_process

from kipctl.cluster.snapshot import Snapshot
from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

TOPIC = "rolled"
REPLICAS = [(n % 3 + 1, (n + 1) % 3 + 1, (n + 2) % 3 + 1) for n in range(6)]
"""Two partitions are led by each broker."""


def kipctl(lab: Lab, *words: str) -> Said:
    return in_this_process(*words, KIPCTL_BOOTSTRAP_SERVER=lab.bootstrap_server)


def rolled(lab: Lab, *words: str) -> tuple[int, dict[str, Any], str]:
    """The status, the report and what was said."""
    said = kipctl(lab, "roll", *words, "-o", "json", "--yes")
    return said.status, json.loads(said.out or "{}"), said.err


@contextmanager
def rolled_topic(lab: Lab) -> Iterator[Cluster]:
    """A topic with its replicas in sync and led by the first of them, while the block lasts."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    replicas = [list(ids) for ids in REPLICAS]
    new = NewTopic(
        TOPIC, len(replicas), replica_assignment=replicas, config={"min.insync.replicas": "2"}
    )
    assert kipctl(lab, "wait", "--until", "in-sync,converged").status == 0
    admin.create_topics([new])[TOPIC].result()
    with Cluster(lab.bootstrap_server, timeout_s=10.0) as cluster:
        wait_until_everywhere(cluster, TOPIC, is_settled)
        yield cluster
        admin.delete_topics([TOPIC])[TOPIC].result()
        wait_until_nowhere(cluster, [TOPIC])


def is_settled(seen: Snapshot) -> bool:
    return len(seen.partitions) == len(REPLICAS) and not seen.not_led_by_preferred and in_sync(seen)
