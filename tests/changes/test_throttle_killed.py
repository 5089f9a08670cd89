"""`kipctl throttle adapt`, killed at any moment: what it has set is named, and put back later."""

import os
import signal
import subprocess
import sys
from copy import deepcopy

import pytest
from campaigns import as_many, campaign, chance
from reassigning import Reassigning

from kipctl.changes.execution.throttled_change import entries_with_throttles
from kipctl.cluster.snapshot import PartitionId
from kipctl.cluster.throttle_configs import LEADER_RATE
from kipctl.process import wait_until
from kipctl.protocol.describe_configs import ResourceType

BIG = PartitionId("big", 0)
REPLICAS = {BIG: (1, 2, 3)}
BEFORE = {(int(ResourceType.BROKER), "1"): {LEADER_RATE: "7"}}
ADAPT = ("throttle", "adapt", "--guard", "offline > 0", "--begin-at", "4MB/s", "--yes")


@pytest.fixture
def clock() -> None:
    """The process that is killed lives in real time."""


def set_now(fake: Reassigning) -> dict[tuple[int, str], dict[str, str]]:
    return {resource: dict(configs) for resource, configs in fake.configs.items() if configs}


@campaign
@pytest.mark.parametrize("moment", range(as_many(4, 40)))
def test_nothing_is_left_silently(fake: Reassigning, moment: int) -> None:
    fake.partitions[BIG].isr = (1, 2)
    fake.configs = deepcopy(BEFORE)
    variables = {
        **os.environ,
        "KIPCTL_BOOTSTRAP_SERVER": fake.bootstrap_server,
        "XDG_STATE_HOME": str(fake.state),
    }
    running = subprocess.Popen(
        [sys.executable, "-m", "kipctl", *ADAPT], env=variables, stderr=subprocess.DEVNULL
    )
    try:
        assert wait_until(lambda: set_now(fake) != BEFORE, 60), "no throttle was set"
        # From right after that until some raises of the rate later.
        ended = wait_until(
            lambda: running.poll() is not None, chance(f"adapt {moment}").uniform(0, 3)
        )
        assert not ended
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait(10)
    assert len(entries_with_throttles(fake.kept)) == 1
    assert "throttle still set" in fake.kipctl("changes list").out
    assert "A throttle is still set" in fake.kipctl("").out
    fake.partitions[BIG].isr = None
    fake.kipctl("changes clear-throttles --yes")
    assert set_now(fake) == BEFORE
    assert entries_with_throttles(fake.kept) == []
