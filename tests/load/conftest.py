"""What tests of runs share: the cluster that is their lab, and commands on it."""

from collections.abc import Iterator
from functools import partial

import pytest
from one_process import Kipctl, in_this_process
from until_met import UntilMet

from kipctl.lab.cluster import Lab
from kipctl.load import measure
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


@pytest.fixture
def until_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process last until their producer has met each of their actions."""
    monkeypatch.setattr(measure, "PlannedActions", UntilMet)
