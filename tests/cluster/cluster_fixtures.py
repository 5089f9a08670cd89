"""Topics on the session's lab, and kipctl run against it as a user runs it; and a fake cluster."""

from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from commands import OnLab
from confluent_kafka.admin import AdminClient, NewTopic
from on_lab import Kipctl, MakeTopic, in_sync, wait_until_everywhere, wait_until_nowhere
from passing_clock import PassingClock, passing_clock
from reassigning import Reassigning, reassigning

from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

__all__ = [
    "a_busy_broker_is_not_silent",
    "clock",
    "cluster",
    "fake",
    "kipctl",
    "make_topic",
    "state",
]


@pytest.fixture(autouse=True)
def a_busy_broker_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has stopped refuses at once; only a paused one is waited for."""
    monkeypatch.setattr("kipctl.cluster.metadata_convergence.CONNECTION_TIMEOUT_S", 15.0)


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    with Cluster(lab.bootstrap_server, timeout_s=10.0) as cluster:
        yield cluster


@pytest.fixture
def make_topic(lab: Lab, cluster: Cluster) -> Iterator[MakeTopic]:
    """Make a topic with these replicas per partition, led by their first; removed afterwards."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    made: list[str] = []

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

    yield make
    if made:
        for deleted in admin.delete_topics(made).values():
            deleted.result()
        wait_until_nowhere(cluster, made)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where the commands keep their journal."""
    return tmp_path / "state"


@pytest.fixture
def kipctl(lab: Lab, state: Path) -> Kipctl:
    """Command lines on it, with a journal of their own."""
    return OnLab(lab.bootstrap_server, state).kipctl


@pytest.fixture
def clock() -> Iterator[PassingClock]:
    with passing_clock() as clock:
        yield clock


@pytest.fixture
def fake(request: pytest.FixtureRequest, clock: PassingClock) -> Iterator[Reassigning]:
    """A cluster of the module's REPLICAS, on which nobody has to wait."""
    with reassigning(request.module.REPLICAS) as (fake, _):
        yield fake
