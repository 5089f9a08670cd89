"""Topics on the session's lab, and kipctl run against it as a user runs it; and a fake cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import OnLab
from on_lab import Kipctl, MakeTopic, topics_on
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
def make_topic(lab: Lab) -> Iterator[MakeTopic]:
    with topics_on(lab) as make:
        yield make


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
