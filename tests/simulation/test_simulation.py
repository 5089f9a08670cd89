"""Stories of each client with a look at what must hold; and old faults, put back, are found.

More of them: `python tests/simulation --seeds 10000`. One again: `--first SEED --seeds 1`.
"""

import random

import pytest
from campaigns import IS_SOAK, as_many, campaign
from clients import CLIENTS, Fault, fresh
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from stage import Broken


@campaign
@pytest.mark.parametrize("client", CLIENTS)
def test_whatever_happens_the_invariants_hold_and_everything_is_reached(client: str) -> None:
    """Of the producer: no record is lost, or twice in the log. Of the consumer: what is read is
    what the logs have.
    """
    known = CLIENTS[client]
    seen = known.play_all([*known.reaching, *fresh(client, as_many(30, 10_000))])
    assert known.reaches - set(+seen) == set()


@campaign
@pytest.mark.parametrize(
    ("client", "fault", "seed"),
    [
        pytest.param(client, fault, seed, id=f"{client}-{fault.__name__}")
        for client, known in CLIENTS.items()
        for fault, seed in known.faults.items()
    ],
)
def test_an_old_fault_that_is_put_back_is_found(
    client: str, fault: Fault, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the known seed, and by chance where there is time for it."""
    fault(monkeypatch)
    seeds = fresh(fault.__name__, 5_000) if IS_SOAK else [seed]
    with pytest.raises(Broken):
        CLIENTS[client].play_all(seeds)


@campaign
@settings(
    max_examples=as_many(5, 500),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@pytest.mark.parametrize("client", CLIENTS)
@given(choose=st.randoms(use_true_random=False))
def test_stories_that_hypothesis_makes_up_and_shrinks(client: str, choose: random.Random) -> None:
    CLIENTS[client].play(choose)
