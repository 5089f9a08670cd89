"""kipctl killed at random moments of a throttled drain with data, on real brokers, and ended."""

import os
from pathlib import Path
from random import Random

import pytest
from faults import moments

from kipctl.lab.cluster import Lab

pytestmark = pytest.mark.kafka


@pytest.mark.timeout(600)
def test_killed_at_a_random_moment_it_is_ended_by_the_next(lab: Lab, tmp_path: Path) -> None:
    """More of them: benchmarks/faults.py."""
    seed = int(os.environ.get("KIPCTL_FAULTS_SEED") or Random().randrange(10**6))
    print(f"KIPCTL_FAULTS_SEED={seed}")
    for ended in moments(lab, tmp_path, range(seed, seed + 3)):
        assert ended.fault == "", ended
