"""The producer on real brokers, of which one is killed: every record once."""

from pathlib import Path

import pytest
from real_writes import TOPICS, assert_all_in_the_log_once, measured_during, spec_for, topics

from kipctl.lab.cluster import Lab
from kipctl.probe.leadership import LeaderDiscovery

pytestmark = pytest.mark.kafka


def test_idempotent_records_are_in_the_log_exactly_once_through_a_broker_killed(
    struck_lab: Lab, tmp_path: Path
) -> None:
    def kill_and_start() -> None:
        struck_lab.kill(2)
        struck_lab.start(2)

    with topics(struck_lab, *TOPICS.values()) as cluster:
        specs = [spec_for(struck_lab, discovery) for discovery in LeaderDiscovery]
        for ran in measured_during(cluster, tmp_path, kill_and_start, *specs):
            assert_all_in_the_log_once(cluster, ran)
            # Its partitions were led by others meanwhile.
            assert len({row["leader_epoch"] for row in ran.batches}) > 1
