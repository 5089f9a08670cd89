"""A few seconds of fuzzing of all that needs no Spark. More of it: `python tests/fuzz`."""

from pathlib import Path

import pytest
from campaigns import SEED, as_many, campaign
from fuzzing import Tally, fuzz
from targets import TARGETS

FEW = {"running-tap": 20, "http": 30, "brokers": 6, "clusters": 10, "plans": 6, "journals": 8}
FEW |= {"rolls": 20, "runs": 7, "left": 30, "properties": 20, "stores": 40}
"""Of those of which one takes long."""


@campaign
@pytest.mark.parametrize("name", [name for name in TARGETS if name != "logs"])
def test_whatever_is_said_or_left_ends_with_a_value_or_a_declared_error(
    name: str, tmp_path: Path
) -> None:
    with TARGETS[name](tmp_path) as readers:
        tally = fuzz(name, readers, SEED, range(FEW.get(name, 300) * as_many(1, 100)), Tally())
    assert [(entry.fault, entry.reader, entry.content) for entry in tally.failures.values()] == []
