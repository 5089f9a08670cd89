"""A scripted cluster whose clock the test has."""

import pytest
from scripted_requests import Clock

from kipctl.conform.cluster import Cluster


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster(clock: Clock) -> Cluster:
    made = Cluster({"t": 2}, now_us=clock)
    made.start()
    return made
