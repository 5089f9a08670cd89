"""How the canary's leaders move along with a change: one in each batch. Pure rules."""

from collections.abc import Sequence

from kipctl.changes.elections.batches import MAX_PER_REQUEST
from kipctl.changes.plans.plan import Move, Plan

MOST_PARTITIONS = 60
"""Of a canary's topic, where a change has more batches than that."""


def add_canary_moves(plan: Plan, own: Sequence[Move], batch: int) -> tuple[Plan, int]:
    """The plan with some of these moves among its own, and how large its batches are then.

    One in each batch, which is larger by it: there are as many batches as without. Where there are
    more batches than such moves, these are spread over them, and batches stay as they are.
    """
    batches = -(-len(plan.moves) // batch)
    if len(own) >= batches:
        places = [number * (batch + 1) for number in range(batches)]
        return _with(plan, own, places), min(batch + 1, MAX_PER_REQUEST)
    total = len(plan.moves) + len(own)
    return _with(plan, own, [number * total // len(own) for number in range(len(own))]), batch


def _with(plan: Plan, own: Sequence[Move], places: Sequence[int]) -> Plan:
    """The plan with the first of those moves at these places, which grow."""
    moves = list(plan.moves)
    for place, move in zip(places, own, strict=False):
        moves.insert(place, move)
    return Plan(tuple(moves), plan.skipped)
