"""What tests of runs share: the cluster that is their lab, and commands on it."""

from collections.abc import Iterator
from functools import partial

import pytest
from one_process import Kipctl, in_this_process

from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    with Cluster(lab.bootstrap_server) as connected:
        yield connected


@pytest.fixture
def kipctl(lab: Lab) -> Kipctl:
    """kipctl with these words on the lab, in this process."""
    on_lab = partial(in_this_process, KIPCTL_BOOTSTRAP_SERVER=lab.bootstrap_server)
    return lambda words: on_lab(*words.split())
