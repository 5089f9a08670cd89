"""Small clusters for planners: written out for tables, and made up for properties."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st

from kipctl.changes.plans.plan import Move, Plan
from kipctl.changes.plans.planners.placement import PlanInputs
from kipctl.cluster.snapshot import NO_LEADER, Broker, Partition, PartitionId, Snapshot

DEAD = 9
"""A broker that has replicas, and is not alive."""


def cluster_of(
    *replicas: Sequence[int],
    racks: str = "",
    brokers: Sequence[int] = (1, 2, 3, 4),
    isr: Sequence[Sequence[int] | None] = (),
    leaders: Sequence[int] = (),
) -> Snapshot:
    """Partitions t-0, t-1, ... on these replicas, the first leading and all in sync unless said.

    `racks` has one letter a broker; without, brokers have none.
    """
    partitions = []
    for number, ids in enumerate(replicas):
        given = isr[number] if number < len(isr) else None
        live = tuple(r for r in (ids if given is None else given) if r in brokers)
        usual = ids[0] if ids[0] in live else (live[0] if live else NO_LEADER)
        partitions.append(
            Partition(
                PartitionId("t", number),
                tuple(ids),
                live,
                leaders[number] if number < len(leaders) else usual,
                7,
                tuple(r for r in ids if r not in brokers),
            )
        )
    known = tuple(
        Broker(id, "localhost", 9000 + id, racks[place] if racks else None)
        for place, id in enumerate(brokers)
    )
    return Snapshot("cluster", known, tuple(partitions))


def by_name(names: tuple[str, ...], cases: Mapping[str, tuple[Any, ...]]) -> pytest.MarkDecorator:
    """A table of cases, each with its name in front."""
    return pytest.mark.parametrize(names, cases.values(), ids=cases)


def sized(*sizes: int) -> PlanInputs:
    """The bytes of t-0, t-1, ..."""
    return PlanInputs({PartitionId("t", number): size for number, size in enumerate(sizes)})


def after(plan: Plan) -> dict[int, tuple[int, ...]]:
    """The new replicas by partition number."""
    return {move.id.partition: move.after for move in plan.moves}


def outcome(plan: Plan) -> dict[int, tuple[int, ...] | str]:
    """The new replicas by partition number, or why it is left alone."""
    left = {skipped.id.partition: skipped.reason for skipped in plan.skipped}
    assert not left.keys() & after(plan).keys()
    return {**after(plan), **left}


@st.composite
def clusters(draw: st.DrawFn, *, healthy: bool = False, most: int = 12) -> Snapshot:
    """2 to 6 live brokers and perhaps a dead one, in racks or not; anything may be out of sync.

    A `healthy` one has no dead broker, all replicas in sync and every partition a leader.
    """
    brokers = tuple(range(1, draw(st.integers(2, 6)) + 1))
    rack = st.sampled_from(draw(st.sampled_from([(None,), ("a", "b", "c"), ("a", "b", None)])))
    known = tuple(Broker(id, "localhost", 9000 + id, draw(rack)) for id in brokers)
    holders = brokers if healthy else (*brokers, DEAD)
    partitions = []
    for number in range(draw(st.integers(1, most))):
        replicas = tuple(
            draw(st.permutations(holders))[: draw(st.integers(1, min(4, len(holders))))]
        )
        live = [r for r in replicas if r in brokers]
        isr = live if healthy else [r for r in live if draw(st.integers(0, 3))]
        leader = draw(st.sampled_from(isr)) if isr else NO_LEADER
        partitions.append(
            Partition(
                PartitionId("t", number),
                replicas,
                tuple(isr),
                leader,
                7,
                tuple(r for r in replicas if r not in brokers),
            )
        )
    return Snapshot("cluster", known, tuple(partitions))


@st.composite
def known_of(draw: st.DrawFn, snapshot: Snapshot) -> PlanInputs:
    """Sizes of none, some or all partitions; which may change; and min.insync.replicas or not."""
    size = st.one_of(st.just(0), st.integers(1, 10), st.integers(1, 10**12))
    sized_ones = draw(st.sampled_from(["none", "some", "all"]))
    sizes = {
        p.id: draw(size)
        for p in snapshot.partitions
        if sized_ones == "all" or (sized_ones == "some" and draw(st.booleans()))
    }
    chosen = None
    if draw(st.booleans()):
        chosen = frozenset(p.id for p in snapshot.partitions if draw(st.booleans()))
    min_insync = {"t": draw(st.integers(1, 3))} if draw(st.booleans()) else {}
    return PlanInputs(sizes, min_insync, chosen)


def after_moves(snapshot: Snapshot, moves: Iterable[Move]) -> Snapshot:
    """The cluster after these moves and an election: what was copied is in sync."""
    after = {move.id: move.after for move in moves}

    def moved(partition: Partition) -> Partition:
        replicas = after[partition.id]
        new = [replica for replica in replicas if replica not in partition.replicas]
        isr = tuple(r for r in replicas if r in partition.isr or r in new)
        return replace(
            partition,
            replicas=replicas,
            isr=isr,
            offline=tuple(r for r in partition.offline if r in replicas),
            leader=replicas[0] if replicas[0] in isr else partition.leader,
        )

    return replace(
        snapshot, partitions=tuple(moved(p) if p.id in after else p for p in snapshot.partitions)
    )
