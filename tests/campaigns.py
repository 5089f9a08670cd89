"""Campaigns: tests of random cases, a few in `make test` and many in `make soak`.

Their seed is a new one in each session, and printed at its start; KIPCTL_SEED repeats one.
"""

import os
from random import Random

import pytest

IS_SOAK = bool(os.environ.get("KIPCTL_SOAK"))

# The first process of a session chooses; those that it starts inherit it.
SEED = os.environ.setdefault("KIPCTL_SEED", str(Random().randrange(10**6)))

campaign = pytest.mark.campaign
"""Marks a test that does more with KIPCTL_SOAK."""


def as_many(short: int, soak: int) -> int:
    """How many cases: `short` of them in `make test`."""
    return soak if IS_SOAK else short


def chance(name: str) -> Random:
    """The session's chance for one test: another for each name, the same for the same seed."""
    return Random(f"{SEED} {name}")
