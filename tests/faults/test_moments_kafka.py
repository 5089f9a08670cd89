"""kipctl killed at random moments of a throttled drain with data, on real brokers, and ended."""

from pathlib import Path

import pytest
from campaigns import as_many, campaign, chance
from faults import moments

from kipctl.lab.cluster import Lab

pytestmark = pytest.mark.kafka


@campaign
@pytest.mark.timeout(3600)
def test_killed_at_a_random_moment_it_is_ended_by_the_next(lab: Lab, tmp_path: Path) -> None:
    """One moment, resumed or rolled back by chance; in soak there are more, and more data. Both
    after any step are in `test_every_step.py`."""
    first = chance("moments").randrange(10**6)
    seeds = range(first, first + as_many(1, 20))
    for ended in moments(lab, tmp_path, seeds, megabytes=as_many(1, 2)):
        assert ended.fault == "", ended
