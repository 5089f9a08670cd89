"""Preferred leaders spread by the bytes that come in, not by their number.

To find the most even way is as hard as packing knapsacks; so the broker with the most hands over
what evens it out best, again and again, until none has more than `EVEN_ENOUGH` above the mean, or
no single partition makes it better.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.planners.leader_balance import Candidates
from kipctl.cluster.snapshot import PartitionId, Snapshot

EVEN_ENOUGH = 0.05
"""Of the mean: closer than what comes in stays from one look to the next."""


def balance_bytes(
    fixed: Mapping[int, int], choices: Sequence[Candidates], sizes: Sequence[int]
) -> list[int]:
    """The leader of each choice, such that brokers get about as many bytes; `sizes` are theirs.

    `fixed` are the bytes that each broker gets for other partitions; every broker that may lead is
    in it. Each choice has a leader `now`. Few partitions move: each time the one, and to the
    broker, that lowers the sum of squares most.
    """
    at = [choice.now for choice in choices]
    load = Counter(fixed)
    held: dict[int | None, set[int]] = {broker: set() for broker in fixed}
    for place, broker in enumerate(at):
        if broker is not None:
            load[broker] += sizes[place]
            held[broker].add(place)
    enough = (1 + EVEN_ENOUGH) * sum(load.values()) / max(1, len(load))
    left = set(load)
    while left:
        giver = max(left, key=lambda broker: (load[broker], -broker))
        if load[giver] <= enough:
            break
        ways = (
            (sizes[place] * (load[giver] - load[other] - sizes[place]), -place, -other)
            for place in held[giver]
            for other in choices[place].may
            if other != giver
        )
        gain, *way = max(ways, default=(0, 0, 0))
        if gain <= 0:
            left.discard(giver)
            continue
        place, taker = (-number for number in way)
        for broker, change in ((giver, -1), (taker, 1)):
            load[broker] += change * sizes[place]
        held[giver].discard(place)
        held[taker].add(place)
        at[place] = taker
        left = set(load)
    return [broker for broker in at if broker is not None]


def bytes_in_by_leader(
    now: Snapshot, plan: Plan, grown: Mapping[PartitionId, int], seconds: float
) -> str:
    """What came in by preferred leader in so many seconds, and by that of the plan. Pure."""
    after = plan.preferred_leaders
    before, later = Counter[int](), Counter[int]()
    for partition in now.partitions:
        first = partition.preferred_leader
        before[first] += grown.get(partition.id, 0)
        later[after.get(partition.id, first)] += grown.get(partition.id, 0)
    rates = (
        f"broker {broker} {before[broker] / seconds / 1e6:.1f} and then"
        f" {later[broker] / seconds / 1e6:.1f}"
        for broker in now.broker_ids
    )
    return f"MB/s in, by preferred leader: {', '.join(rates)}."
