"""How the canary's leaders move along with a change: some in each batch. Pure rules."""

from collections.abc import Sequence

from kipctl.cluster.moves.plan import Move, Plan

MOST_PARTITIONS = 60
"""Of a canary's topic, where a change has more batches than that."""


def batches_of(plan: Plan, size: int) -> int:
    """How many batches of that size the plan has."""
    return -(-len(plan.moves) // size)


def spread(plan: Plan, own: Sequence[Move]) -> Plan:
    """The plan with these moves among its own, evenly, so that batches have some each."""
    moves = list(plan.moves)
    total = len(moves) + len(own)
    for number, move in enumerate(own):
        moves.insert(number * total // len(own), move)
    return Plan(tuple(moves), plan.skipped)
