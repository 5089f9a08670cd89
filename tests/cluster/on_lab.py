"""Looking at the session's lab from tests: Metadata of all brokers, and waiting for it."""

from collections.abc import Callable
from dataclasses import dataclass

from kipctl.cluster.snapshot import Snapshot, from_metadata, take_snapshot
from kipctl.errors import UnreachableError
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic
from kipctl.transport.request import Cluster


@dataclass(frozen=True)
class Ran:
    """What a command left behind: its exit status and both streams."""

    status: int
    out: str
    err: str


Kipctl = Callable[..., Ran]
MakeTopic = Callable[[str, list[list[int]]], str]


def replicas_of(cluster: Cluster, topic: str) -> list[tuple[int, ...]]:
    return [partition.replicas for partition in take_snapshot(cluster, [topic]).partitions]


def leaders_of(cluster: Cluster, topic: str) -> list[int]:
    return [partition.leader for partition in take_snapshot(cluster, [topic]).partitions]


def wait_until_everywhere(cluster: Cluster, topic: str, holds: Callable[[Snapshot], bool]) -> None:
    """Ask every broker until all show it; pytest's own timeout is the limit."""
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False
    )
    while True:
        cluster.metadata(())
        try:
            answers = [cluster.broker(broker).request(request) for broker in cluster.nodes]
        except UnreachableError:  # it has just stopped, and is still listed
            continue
        if all(not a.topics[0].error_code and holds(from_metadata(a)) for a in answers):
            return


def in_sync(snapshot: Snapshot) -> bool:
    return all(set(p.isr) == set(p.replicas) for p in snapshot.partitions)
