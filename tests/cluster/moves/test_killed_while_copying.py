"""kipctl killed while data is copied at a throttle: what it leaves, and how that is taken back."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from on_lab import Kipctl
from reassigning import kipctl_on, reassigning

from kipctl.cluster.snapshot import PartitionId
from kipctl.protocol.describe_configs import ResourceType

T = [PartitionId("t", n) for n in range(4)]
REPLICAS = (1, 2, 3)
DRAIN = ("reassign", "--drain", "3", "--yes", "--throttle", "50MB/s", "--batch", "2")


def states(kipctl: Kipctl) -> list[str]:
    history = json.loads(kipctl("reassign", "--history", "-o", "json").out)
    return [entry["state"] for entry in history["entries"]]


def test_what_it_left_is_known_and_can_all_be_taken_back(tmp_path: Path) -> None:
    with reassigning(dict.fromkeys(T, REPLICAS)) as (cluster, broker):
        cluster.moves_at_once = False
        kipctl = kipctl_on(broker, tmp_path)
        variables = {"KIPCTL_BOOTSTRAP_SERVER": broker.address, "XDG_STATE_HOME": str(tmp_path)}
        with subprocess.Popen(
            [sys.executable, "-m", "kipctl", *DRAIN],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=os.environ | variables,
        ) as process:
            while not cluster.altered:
                assert process.poll() is None
            history = kipctl("reassign", "--history").out
            assert f"process {process.pid}, is changing this cluster now." in history
            assert "kipctl reassign --resume" not in history
            assert "--rollback" not in history
            assert "Stop it after its batch: kipctl reassign --pause" in history
            process.send_signal(signal.SIGKILL)
            process.communicate()

        # The batch that was submitted goes on, the next one never began, the throttle is set.
        assert len(cluster.altered) == 1
        under_way = [p for p in T if cluster.partitions[p].target]
        assert len(under_way) == 2
        assert cluster.configs[ResourceType.BROKER, "4"]
        assert states(kipctl) == ["submitted"]
        history = kipctl("reassign", "--history").out
        assert f"0 of {len(T)} partitions have their new replicas." in history
        assert "was stopped before its end." in history
        assert "Go on with it: kipctl reassign --resume" in history
        assert "Or undo it: kipctl reassign --rollback" in history
        ran = kipctl("reassign", "--clear-throttles", "--yes")
        assert ran.status == 4
        assert "still being reassigned" in ran.err

        assert kipctl("reassign", "--cancel", "--yes").status == 0
        assert cluster.replicas() == dict.fromkeys(T, REPLICAS)
        assert not any(cluster.partitions[p].target for p in T)
        assert kipctl("reassign", "--clear-throttles", "--yes").status == 0
        assert not any(cluster.configs.values())
        ran = kipctl("reassign", "--rollback", "--yes")
        assert (ran.status, "There is nothing to roll back" in ran.err) == (4, True)
