"""Looking at the session's lab from tests: Metadata of all brokers, and waiting for it."""

import json
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from kipctl.changes.execution.plan_execution import reassign
from kipctl.changes.plans.plan import plan_to
from kipctl.cluster.snapshot import PartitionId, Snapshot, from_metadata, is_missing, take_snapshot
from kipctl.errors import TimedOutError, UnreachableError
from kipctl.lab.cluster import Lab
from kipctl.process import wait_until
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kipctl.transport.request import Cluster

_TIMEOUT_S = 300


@dataclass(frozen=True)
class Ran:
    """What a command left behind: its exit status and both streams."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What `-o json` has printed."""
        return json.loads(self.out)


Kipctl = Callable[..., Ran]
MakeTopic = Callable[..., str]


@contextmanager
def topics_on(lab: Lab) -> Iterator[MakeTopic]:
    """Make topics with these replicas per partition, led by their first. All brokers show them
    then, and none does after the block."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    made: list[str] = []
    with Cluster(lab.bootstrap_server, timeout_s=10.0) as cluster:

        def make(name: str, replicas: list[list[int]], away: Collection[int] = ()) -> str:
            topic = NewTopic(name, len(replicas), replica_assignment=replicas)
            admin.create_topics([topic])[name].result()
            made.append(name)
            firsts = [ids[0] for ids in replicas]
            wait_until_everywhere(
                cluster,
                name,
                lambda seen: in_sync(seen, away) and [p.leader for p in seen.partitions] == firsts,
            )
            return name

        try:
            yield make
        finally:
            if made:
                for deleted in admin.delete_topics(made).values():
                    deleted.result()
                wait_until_nowhere(cluster, made)


def replicas_of(cluster: Cluster, topic: str) -> list[tuple[int, ...]]:
    return [partition.replicas for partition in take_snapshot(cluster, [topic]).partitions]


def leaders_of(cluster: Cluster, topic: str) -> list[int]:
    return [partition.leader for partition in take_snapshot(cluster, [topic]).partitions]


def wait_until_everywhere(cluster: Cluster, topic: str, holds: Callable[[Snapshot], bool]) -> None:
    """Ask every broker until all show it."""
    _await_metadata(
        cluster,
        [topic],
        lambda answer: not answer.topics[0].error_code and holds(from_metadata(answer)),
    )


def wait_until_nowhere(cluster: Cluster, topics: Sequence[str]) -> None:
    """Ask every broker until none shows any of them."""
    _await_metadata(
        cluster, topics, lambda answer: all(is_missing(topic.error_code) for topic in answer.topics)
    )


def _await_metadata(
    cluster: Cluster, topics: Sequence[str], holds: Callable[[MetadataResponse], bool]
) -> None:
    request = MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=name) for name in topics),
        allow_auto_topic_creation=False,
    )

    def all_show_it() -> bool:
        cluster.metadata(())
        try:
            answers = [cluster.broker(broker).request(request) for broker in cluster.nodes]
        except (UnreachableError, TimedOutError):  # it has just stopped, and is still listed
            return False
        return bool(answers) and all(map(holds, answers))

    assert wait_until(all_show_it, _TIMEOUT_S)


def in_sync(snapshot: Snapshot, away: Collection[int] = ()) -> bool:
    """Whether all replicas are, but for those on brokers that are away."""
    return all(set(p.isr) == {*p.replicas} - {*away} for p in snapshot.partitions)


def reorder(cluster: Cluster, topic: str, *replicas: tuple[int, ...]) -> None:
    """Change the preferred leaders, and leave the leaders where they are."""
    target = {PartitionId(topic, number): ids for number, ids in enumerate(replicas)}
    reassign(cluster, plan_to(take_snapshot(cluster, [topic]), target))


def outcomes(ran: Ran) -> list[tuple[int, str, int]]:
    return [(p["partition"], p["outcome"], p["leader"]) for p in ran.document["partitions"]]


def kafka_reassign_partitions(lab: Lab, *arguments: str) -> str:
    command = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    return kafka_tool(lab, command, "--bootstrap-server", lab.bootstrap_server, *arguments)


def kafka_configs(lab: Lab, *arguments: str) -> str:
    return kafka_tool(lab, "kafka.admin.ConfigCommand", *arguments)


def kafka_tool(lab: Lab, command: str, *arguments: str) -> str:
    java = [lab.java.path, "-XX:TieredStopAtLevel=1", "-cp", ":".join(map(str, lab.jars.paths))]
    return subprocess.run(
        [*java, command, *arguments],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
