"""`kipctl lab` in this process, and a topic with a record on a lab."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from on_lab import wait_until_nowhere
from one_process import in_this_process

from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster


def kipctl_lab(*arguments: str) -> tuple[int, str, str]:
    """The exit status, and both streams."""
    said = in_this_process("lab", *arguments)
    return said.status, said.out, said.err


def produce(lab: Lab, topic: str, replicas: int) -> None:
    """Make a topic and write a record to it that every in-sync replica has."""
    quiet = {"bootstrap.servers": lab.bootstrap_server, "log_level": 0}
    admin = AdminClient(quiet)
    admin.create_topics([NewTopic(topic, 3, replicas)])[topic].result()
    failed: list[object] = []
    producer = Producer({**quiet, "acks": "all", "message.timeout.ms": 60_000})
    producer.produce(topic, b"a record", on_delivery=lambda error, _: failed.append(error))
    producer.flush()
    assert failed == [None]


@contextmanager
def topic_on(lab: Lab, topic: str, replicas: int) -> Iterator[str]:
    """Such a topic while the block lasts."""
    produce(lab, topic, replicas)
    yield topic
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    admin.delete_topics([topic])[topic].result()
    with Cluster(lab.bootstrap_server) as cluster:
        wait_until_nowhere(cluster, [topic])


def runs_c1_only(lab: Lab, node_id: int) -> bool:
    """Whether Java was told to leave its second compiler out, by the arguments of the process."""
    arguments = Path(f"/proc/{lab.node(node_id).pid}/cmdline").read_bytes().split(b"\0")
    return b"-XX:TieredStopAtLevel=1" in arguments
