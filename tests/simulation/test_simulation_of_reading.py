"""200 stories of the consumer; and old faults, put back, are found by them.

More of them: `python tests/simulation --client consume --seeds 10000`. One again: `--first SEED
--seeds 1`.
"""

import random

import pytest
from old_faults import OLD_FAULTS_OF_READING
from play_consumer import play
from stage import SEEDS, Broken, Seen, play_all
from story_of_reading import draw

from kipctl.trace.codes import Decision, MetadataCause, RangeCase, RangeHandling

CAUSES = {MetadataCause.LEADER_CHANGE, MetadataCause.MAX_AGE, MetadataCause.ERROR_RETRY}
"""The others are of the start, and of topics that come into use."""


def test_whatever_happens_what_is_read_is_what_the_logs_have() -> None:
    def missing(seen: Seen) -> list[object]:
        return [
            *(set(RangeCase) - set(seen.cases)),
            *(set(RangeHandling) - set(seen.handlings)),
            *(set(Decision) - set(seen.decisions)),
            *(CAUSES - set(seen.causes)),
        ]

    seen = play_all(lambda chance: play(draw(chance)), lambda seen: not missing(seen))
    assert not missing(seen)


@pytest.mark.parametrize("fault", OLD_FAULTS_OF_READING)
def test_an_old_fault_that_is_put_back_is_found(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    OLD_FAULTS_OF_READING[fault](monkeypatch)
    with pytest.raises(Broken):
        _play_all()


def _play_all() -> None:
    for seed in range(SEEDS):
        play(draw(random.Random(seed)))
