"""Rolls on real brokers that are killed at random moments, and of nodes that are."""

from collections.abc import Callable

import pytest
from campaigns import as_many, campaign, chance
from roll_faults import UNASKED, kills, moments

from kipctl.lab.cluster import Lab

pytestmark = [pytest.mark.kafka, campaign]


@pytest.mark.timeout(1500)
def test_killed_at_a_random_moment_a_roll_is_ended_by_the_next(struck_lab: Lab) -> None:
    chances = (chance(f"a roll is killed {n}") for n in range(as_many(2, 40)))
    for ended in kills(struck_lab, chances, (2,)):
        assert ended.fault == "", ended


@pytest.mark.timeout(1500)
def test_a_node_that_is_struck_meanwhile_loses_no_record_and_what_is_left_is_said(
    make_lab: Callable[..., Lab],
) -> None:
    """A drain or a roll, with one fault."""
    lab = make_lab(brokers=4, controllers=3, config=UNASKED)
    chances = (chance(f"a node is struck {n}") for n in range(as_many(1, 20)))
    for ended in moments(lab, chances, rolled=as_many(2, 4)):
        assert ended.fault == "", ended
