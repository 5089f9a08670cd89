"""Rolls on real brokers that are killed at random moments, and of nodes that are."""

import os
from collections.abc import Callable

import pytest
from roll_faults import UNASKED, kills, moments

from kipctl.lab.cluster import Lab

pytestmark = pytest.mark.kafka

SEED = int(os.environ.get("KIPCTL_FAULTS_SEED", "1"))
"""Of the moments; when they come depends on the machine as well."""


@pytest.mark.timeout(900)
def test_killed_at_a_random_moment_a_roll_is_ended_by_the_next(lab: Lab) -> None:
    """More of them: benchmarks/roll_faults.py --kills."""
    print(f"KIPCTL_FAULTS_SEED={SEED}")
    for ended in kills(lab, range(SEED, SEED + 2), "2"):
        assert ended.fault == "", ended


@pytest.mark.timeout(1500)
def test_a_node_that_is_struck_meanwhile_loses_no_record_and_what_is_left_is_said(
    make_lab: Callable[..., Lab],
) -> None:
    """A drain and a roll, each with one fault. More: benchmarks/roll_faults.py --moments."""
    print(f"KIPCTL_FAULTS_SEED={SEED}")
    lab = make_lab(brokers=4, controllers=3, config=UNASKED)
    for ended in moments(lab, range(SEED, SEED + 2)):
        assert ended.fault == "", ended
