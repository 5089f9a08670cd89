"""200 stories with a look at what must hold; and old faults, put back, are found by them.

More of them: `python tests/simulation --seeds 10000`. One again: `--first SEED --seeds 1`.
"""

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from old_faults import OLD_FAULTS
from play import play
from stage import SEEDS, Broken, Seen, play_all
from story import draw

from kipctl.trace.codes import PHASES, Decision, MetadataCause


def test_whatever_happens_the_invariants_hold_and_everything_is_reached() -> None:
    def missing(seen: Seen) -> list[object]:
        return [
            *(set(Decision) - set(seen.decisions)),
            *(set(PHASES) - set(seen.phases)),
            *(set(MetadataCause) - set(seen.causes)),
            *({"refused of a topic made anew"} - set(+seen.counts)),
        ]

    seen = play_all(lambda chance: play(draw(chance)), lambda seen: not missing(seen))
    assert not missing(seen)


@pytest.mark.parametrize("fault", OLD_FAULTS)
def test_an_old_fault_that_is_put_back_is_found(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    OLD_FAULTS[fault](monkeypatch)
    with pytest.raises(Broken):
        _play_all()


def _play_all() -> None:
    for seed in range(SEEDS):
        play(draw(random.Random(seed)))


@settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.randoms(use_true_random=False))
def test_stories_that_hypothesis_makes_up_and_shrinks(choose: random.Random) -> None:
    play(draw(choose))
