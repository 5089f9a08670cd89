"""Rolls on real brokers that are killed at random moments."""

import pytest
from campaigns import as_many, campaign, chance
from roll_faults import kills

from kipctl.lab.cluster import Lab

pytestmark = [pytest.mark.kafka, campaign]


@pytest.mark.timeout(1500)
def test_killed_at_a_random_moment_a_roll_is_ended_by_the_next(struck_lab: Lab) -> None:
    chances = (chance(f"a roll is killed {n}") for n in range(as_many(1, 40)))
    for ended in kills(struck_lab, chances, (2,)):
        assert ended.fault == "", ended
