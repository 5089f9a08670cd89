"""What every plan has to keep, on small clusters of every kind; and that it is as good as it says.

After a plan the cluster is taken to be as `after_moves` says; planned again, nothing is to move.
The clusters are others each time: a few here, many in soak.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from campaigns import as_many, campaign, chance
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from plan_worlds import DEAD, after_moves, clusters, known_of

from kipctl.changes.plans.plan import Move, Plan
from kipctl.changes.plans.planners.add_brokers import add
from kipctl.changes.plans.planners.drain import drain
from kipctl.changes.plans.planners.leader_balance import Candidates, balance
from kipctl.changes.plans.planners.leader_bytes import EVEN_ENOUGH, balance_bytes
from kipctl.changes.plans.planners.placement import PlanInputs, in_sync, known_brokers
from kipctl.changes.plans.planners.preferred_leaders import (
    balance_leaders,
    leaders_off,
    set_preferred,
)
from kipctl.changes.plans.planners.rack_aware import rack_aware
from kipctl.changes.plans.planners.replace_broker import replace
from kipctl.changes.plans.planners.replication_factor import replication_factor
from kipctl.changes.plans.planners.rotate_leaders import replace_leaders, rotate
from kipctl.cluster.snapshot import Partition, Snapshot
from kipctl.errors import UsageError

Replan = Callable[[Snapshot], Plan]


def of_any_cluster(test: Callable[[st.DataObject], None]) -> Callable[[], None]:
    drawn = seed(chance(test.__name__).randrange(2**32))(given(st.data())(test))
    return campaign(settings(max_examples=as_many(30, 3000), database=None)(drawn))


def racks_of(snapshot: Snapshot, replicas: tuple[int, ...]) -> set[str]:
    rack = {broker.id: broker.rack for broker in snapshot.brokers}
    return {known for replica in replicas if (known := rack.get(replica)) is not None}


def check_every_rule(
    snapshot: Snapshot, known: PlanInputs, plan: Plan, *, fewer: bool = False
) -> None:
    """What holds of all ways; with `fewer` replicas there may be fewer racks too."""
    before = snapshot.by_id
    assert [m.id for m in plan.moves] == sorted({m.id for m in plan.moves})
    assert not {m.id for m in plan.moves} & {s.id for s in plan.skipped}
    for move in plan.moves:
        partition = before[move.id]
        can_lead = in_sync(partition, snapshot.broker_ids)
        assert known.chosen is None or move.id in known.chosen
        assert (move.before, move.leader) == (partition.replicas, partition.leader)
        assert move.after != move.before or move.after[0] != move.leader
        assert move.after
        assert len(set(move.after)) == len(move.after)
        assert set(move.adding) <= set(snapshot.broker_ids)
        if move.is_reorder:
            assert move.after[0] in can_lead
        else:
            assert partition.leader in partition.replicas
            assert len(move.before) == 1 or set(can_lead) & set(move.after)
            assert_racks_kept(snapshot, move, fewer)


def assert_racks_kept(snapshot: Snapshot, move: Move, fewer: bool) -> None:
    racks_before, racks_after = (len(racks_of(snapshot, r)) for r in (move.before, move.after))
    if not fewer:
        assert racks_after >= racks_before
    elif set(move.before) == set(snapshot.by_id[move.id].isr) and None not in {
        broker.rack for broker in snapshot.brokers
    }:
        assert racks_after >= min(racks_before, len(move.after))


def carried_out(
    snapshot: Snapshot, known: PlanInputs, replan: Replan, *, fewer: bool = False
) -> tuple[Plan, Snapshot]:
    """A plan that keeps every rule, and the cluster after it, of which nothing is left to move."""
    plan = replan(snapshot)
    check_every_rule(snapshot, known, plan, fewer=fewer)
    reached = after_moves(snapshot, plan.moves)
    if DEAD not in known_brokers(snapshot) - known_brokers(reached):  # or nobody knows of it now
        assert replan(reached).moves == ()
    return plan, reached


def left_or_moved(
    plan: Plan, known: PlanInputs, reached: Snapshot
) -> Iterator[tuple[Partition, bool]]:
    """Each partition that may change, and whether it is left alone."""
    left = {skipped.id for skipped in plan.skipped}
    for partition in reached.partitions:
        if known.chosen is None or partition.id in known.chosen:
            yield partition, partition.id in left


def spread(snapshot: Snapshot, weights: dict[object, int] | None = None) -> tuple[int, ...]:
    """Replicas, or their bytes, of each live broker."""
    load = Counter(dict.fromkeys(snapshot.broker_ids, 0))
    for partition in snapshot.partitions:
        for replica in partition.replicas:
            if replica in snapshot.broker_ids:
                load[replica] += 1 if weights is None else weights[partition.id]
    return tuple(load[broker] for broker in snapshot.broker_ids)


def preferred(snapshot: Snapshot) -> list[int]:
    firsts = Counter(partition.replicas[0] for partition in snapshot.partitions)
    return [firsts[broker] for broker in snapshot.broker_ids]


def squares(counts: list[int]) -> int:
    return sum(count**2 for count in counts)


@of_any_cluster
def test_a_drained_broker_is_empty_or_it_is_said_why_not(data: st.DataObject) -> None:
    snapshot = data.draw(clusters())
    known = data.draw(known_of(snapshot))
    holders = sorted({*snapshot.broker_ids, *(r for p in snapshot.partitions for r in p.replicas)})
    gone = set(data.draw(st.lists(st.sampled_from(holders), min_size=1, max_size=3)))
    if gone >= set(snapshot.broker_ids):
        return
    plan, reached = carried_out(snapshot, known, lambda s: drain(s, gone, known))
    for partition, is_left in left_or_moved(plan, known, reached):
        assert bool(gone & set(partition.replicas)) is is_left
    for move in plan.moves:
        assert set(move.removing) == gone & set(move.before)
        assert len(move.adding) == len(move.removing)


@of_any_cluster
def test_a_drained_brokers_bytes_are_spread(data: st.DataObject) -> None:
    """Placed largest first on the emptiest, no broker gets further above the mean than one log."""
    sizes = data.draw(st.lists(st.integers(1, 100), min_size=1, max_size=20))
    snapshot = data.draw(clusters(healthy=True, most=1))
    partition = snapshot.partitions[0]
    brokers = snapshot.broker_ids
    leaders = st.sampled_from(brokers)
    partitions = tuple(
        Partition(partition.id._replace(partition=n), (b := data.draw(leaders),), (b,), b, 1)
        for n in range(len(sizes))
    )
    snapshot = Snapshot(
        "c", tuple(b.__class__(b.id, b.host, b.port, None) for b in snapshot.brokers), partitions
    )
    known = PlanInputs({p.id: size for p, size in zip(partitions, sizes, strict=True)})
    plan = drain(snapshot, [1], known)
    assert plan.skipped == ()
    weights: dict[object, int] = dict(known.sizes)
    before, now = spread(snapshot, weights), spread(after_moves(snapshot, plan.moves), weights)
    assert now[0] == 0
    assert max(now) <= max(*before[1:], sum(sizes) / (len(brokers) - 1) + max(sizes))


@of_any_cluster
def test_leaders_leave_or_it_is_said_why_not(data: st.DataObject) -> None:
    snapshot = data.draw(clusters())
    known = data.draw(known_of(snapshot))
    off = set(data.draw(st.lists(st.sampled_from(snapshot.broker_ids), min_size=1, max_size=3)))
    plan, reached = carried_out(snapshot, known, lambda s: leaders_off(s, off, known))
    assert all(move.is_reorder for move in plan.moves)
    for partition, is_left in left_or_moved(plan, known, reached):
        assert is_left or not {partition.replicas[0], partition.leader} & off
    # Of all ways to give these partitions leaders elsewhere there is none that is more even.
    changed = {move.id for move in plan.moves if move.after != move.before}
    moved = [p for p in snapshot.partitions if p.id in changed][:5]
    elsewhere = [[r for r in in_sync(p, snapshot.broker_ids) if r not in off] for p in moved]
    if len(changed) <= 5:
        besides = Counter(p.replicas[0] for p in snapshot.partitions if p.id not in changed)
        best = min(
            squares([besides[b] + firsts.count(b) for b in snapshot.broker_ids])
            for firsts in itertools.product(*elsewhere)
        )
        assert squares(preferred(reached)) == best


@of_any_cluster
def test_a_named_leader_stands_first_or_it_is_said_why_not(data: st.DataObject) -> None:
    snapshot = data.draw(clusters())
    partition = data.draw(st.sampled_from(snapshot.partitions))
    broker = data.draw(st.sampled_from(snapshot.broker_ids))
    wanted = {partition.id: broker}
    plan, _ = carried_out(snapshot, PlanInputs(), lambda s: set_preferred(s, wanted))
    assert len(plan.moves) + len(plan.skipped) == 1
    assert all(move.is_reorder and move.after[0] == broker for move in plan.moves)


@of_any_cluster
def test_leaders_are_as_even_as_can_be_with_as_few_moves_as_can_be(data: st.DataObject) -> None:
    snapshot = data.draw(clusters(most=7))
    known = data.draw(known_of(snapshot))
    plan, reached = carried_out(snapshot, known, lambda s: balance_leaders(s, known))
    assert all(move.is_reorder for move in plan.moves)
    assert max(preferred(reached)) <= max(preferred(snapshot))

    def choices(partition: Partition) -> list[int]:
        can_lead = in_sync(partition, snapshot.broker_ids)
        may = known.chosen is None or partition.id in known.chosen
        first = partition.replicas[0]
        return can_lead if may and first in can_lead else [first]

    firsts = [partition.replicas[0] for partition in snapshot.partitions]
    best = min(
        (
            squares([leads.count(broker) for broker in snapshot.broker_ids]),
            sum(a != b for a, b in zip(leads, firsts, strict=True)),
        )
        for leads in itertools.product(*map(choices, snapshot.partitions))
    )
    assert (squares(preferred(reached)), len(plan.moves)) == best


@of_any_cluster
def test_evening_out_finds_the_best_of_all(data: st.DataObject) -> None:
    brokers = range(data.draw(st.integers(1, 5)))
    fixed = {broker: data.draw(st.integers(0, 3)) for broker in brokers}
    choices = []
    for _ in range(data.draw(st.integers(0, 6))):
        may = data.draw(st.lists(st.sampled_from(brokers), min_size=1, max_size=3, unique=True))
        now = data.draw(st.sampled_from([None, *may]))
        choices.append(Candidates(tuple(may), now, data.draw(st.sampled_from("abc"))))
    others = {("a", broker): data.draw(st.integers(0, count)) for broker, count in fixed.items()}

    def cost(leads: tuple[int, ...]) -> tuple[int, int, int]:
        moves = sum(choice.now not in (None, b) for choice, b in zip(choices, leads, strict=True))
        by_topic = Counter(zip((choice.topic for choice in choices), leads, strict=True)) + Counter(
            others
        )
        return (
            squares([fixed[b] + leads.count(b) for b in brokers]),
            moves,
            squares(list(by_topic.values())),
        )

    leaders = tuple(balance(fixed, choices, others))
    assert cost(leaders) == min(map(cost, itertools.product(*(choice.may for choice in choices))))


@of_any_cluster
def test_bytes_are_evened_out_until_no_partition_makes_it_better(data: st.DataObject) -> None:
    brokers = range(1, data.draw(st.integers(2, 5)))
    fixed = {broker: data.draw(st.integers(0, 50)) for broker in brokers}
    choices, sizes = [], data.draw(st.lists(st.integers(0, 100), max_size=12))
    for _ in sizes:
        may = data.draw(st.lists(st.sampled_from(brokers), min_size=1, max_size=3, unique=True))
        choices.append(Candidates(tuple(may), data.draw(st.sampled_from(may))))

    def load(leads: list[int]) -> Counter[int]:
        got = Counter(fixed)
        for broker, size in zip(leads, sizes, strict=True):
            got[broker] += size
        return got

    leads = balance_bytes(fixed, choices, sizes)
    assert all(leader in choice.may for choice, leader in zip(choices, leads, strict=True))
    before = load([choice.now or 0 for choice in choices])
    after = load(leads)
    assert squares(list(after.values())) <= squares(list(before.values()))
    enough = (1 + EVEN_ENOUGH) * after.total() / len(brokers)
    for choice, size, leader in zip(choices, sizes, leads, strict=True):
        if after[leader] > enough:
            assert all(after[b] + size >= after[leader] for b in choice.may if b != leader and size)
    assert (
        balance_bytes(
            fixed,
            [Candidates(choice.may, now) for choice, now in zip(choices, leads, strict=True)],
            sizes,
        )
        == leads
    )


def test_topics_are_even_where_brokers_are_by_as_many_moves() -> None:
    """Two hundred topics of three partitions, all led by one broker: 401 moves make brokers even,
    and so chosen every topic is, but for what the last two moves leave."""
    choices = [Candidates((1, 2, 3), 1, f"topic-{n // 3}") for n in range(600)]
    leaders = balance({1: 4, 2: 3, 3: 2}, choices)
    assert sorted(leaders.count(broker) for broker in (1, 2, 3)) == [199, 200, 201]
    assert sum(leader != 1 for leader in leaders) == 401
    spreads = Counter(
        tuple(leaders[n : n + 3].count(broker) for broker in (1, 2, 3)) for n in range(0, 600, 3)
    )
    assert spreads[1, 1, 1] == 199


@of_any_cluster
def test_a_new_broker_is_filled_and_nobody_is_worse_off(data: st.DataObject) -> None:
    snapshot = data.draw(clusters())
    known = data.draw(known_of(snapshot))
    if len(snapshot.broker_ids) < 2:
        return
    new = set(data.draw(st.lists(st.sampled_from(snapshot.broker_ids[1:]), min_size=1, max_size=2)))
    plan = add(snapshot, new, known)
    check_every_rule(snapshot, known, plan)
    known_sizes = [known.sizes[p.id] for p in snapshot.partitions if p.id in known.sizes]
    usual = sum(known_sizes) // len(known_sizes) if known_sizes else 1
    weights: dict[object, int] = {p.id: known.sizes.get(p.id, usual) for p in snapshot.partitions}
    before = spread(snapshot, weights)
    after = spread(after_moves(snapshot, plan.moves), weights)
    mean = sum(before) / len(before)
    for broker, was, now in zip(snapshot.broker_ids, before, after, strict=True):
        if broker in new:
            assert was <= now <= max(was, mean)
        else:
            assert now <= was
            assert now == was or abs(now - mean) <= abs(was - mean) + 1e-6
    for move in plan.moves:
        assert set(move.adding) <= new
        assert len(move.before) == len(move.after)
    moved = sum(weights[move.id] * len(move.adding) for move in plan.moves)
    room = sum(
        max(0.0, mean - b) for b, id in zip(before, snapshot.broker_ids, strict=True) if id in new
    )
    assert moved <= room + 1


@of_any_cluster
def test_filling_a_new_broker_again_moves_nothing(data: st.DataObject) -> None:
    snapshot = data.draw(clusters(healthy=True))
    known = data.draw(known_of(snapshot))
    carried_out(snapshot, known, lambda s: add(s, {snapshot.broker_ids[-1]}, known))


@of_any_cluster
def test_a_new_and_empty_broker_gets_its_share_where_nothing_forbids(data: st.DataObject) -> None:
    """All in sync, no racks, sizes equal: it comes within one replica of the mean."""
    old = data.draw(clusters(healthy=True, most=30))
    new = max(old.broker_ids) + 1
    brokers = tuple(
        type(b)(b.id, b.host, b.port, None)
        for b in (*old.brokers, type(old.brokers[0])(new, "localhost", 9000 + new, None))
    )
    snapshot = Snapshot(old.cluster_id, brokers, old.partitions)
    now = spread(after_moves(snapshot, add(snapshot, [new]).moves))
    counts = dict(zip(snapshot.broker_ids, now, strict=True))
    mean = sum(counts.values()) / len(counts)
    held = [b for b in old.broker_ids if counts[b] >= mean + 1]
    assert counts[new] > mean - 1 or not held or counts[new] >= len(old.partitions)


@of_any_cluster
def test_a_successor_has_all_or_it_is_said_why_not(data: st.DataObject) -> None:
    snapshot = data.draw(clusters())
    known = data.draw(known_of(snapshot))
    holders = sorted({*snapshot.broker_ids, *(r for p in snapshot.partitions for r in p.replicas)})
    broker = data.draw(st.sampled_from(holders))
    successor = data.draw(
        st.sampled_from([b for b in snapshot.broker_ids if b != broker] or [DEAD])
    )
    if successor not in snapshot.broker_ids:
        return
    plan, reached = carried_out(snapshot, known, lambda s: replace(s, {broker: successor}, known))
    for partition, is_left in left_or_moved(plan, known, reached):
        assert (broker in partition.replicas) is is_left
    for move in plan.moves:
        assert [r if r != broker else successor for r in move.before] == list(move.after)


@of_any_cluster
def test_partitions_have_so_many_replicas_or_it_is_said_why_not(data: st.DataObject) -> None:
    snapshot = data.draw(clusters())
    known = data.draw(known_of(snapshot))
    factor, force = data.draw(st.integers(1, 4)), data.draw(st.booleans())
    plan, reached = carried_out(
        snapshot, known, lambda s: replication_factor(s, factor, known, force=force), fewer=True
    )
    for partition, is_left in left_or_moved(plan, known, reached):
        assert (len(partition.replicas) != factor) is is_left
    for move in plan.moves:
        partition = snapshot.by_id[move.id]
        assert not (move.adding and move.removing)
        assert partition.leader in move.after
        kept = set(in_sync(partition, snapshot.broker_ids)) & set(move.after)
        if move.removing:
            least = known.min_insync.get("t")
            assert force or (least is not None and least <= factor)
            assert len(kept) == min(factor, len(in_sync(partition, snapshot.broker_ids)))
            assert move.after[0] == move.before[0] or move.after[0] == partition.leader


@of_any_cluster
def test_replicas_stand_in_as_many_racks_as_can_be(data: st.DataObject) -> None:
    snapshot = data.draw(clusters())
    known = data.draw(known_of(snapshot))
    racks = {broker.rack for broker in snapshot.brokers} - {None}
    if len(racks) < 2:
        with pytest.raises(UsageError):
            rack_aware(snapshot, known)
        return
    plan, reached = carried_out(snapshot, known, lambda s: rack_aware(s, known))
    rack = {broker.id: broker.rack for broker in snapshot.brokers}
    for partition, is_left in left_or_moved(plan, known, reached):
        in_racks = [r for r in partition.replicas if rack.get(r) is not None]
        stand_in = racks_of(snapshot, partition.replicas)
        assert is_left or len(stand_in) == min(len(in_racks), len(racks))
    for move in plan.moves:
        gained = racks_of(snapshot, move.after) - racks_of(snapshot, move.before)
        assert len(move.adding) == len(move.removing) == len(gained)
        assert move.leader in move.after


@of_any_cluster
def test_rotation_and_replaced_leaders_keep_the_rules_too(data: st.DataObject) -> None:
    snapshot = data.draw(clusters())
    rotated = rotate(snapshot)
    check_every_rule(snapshot, PlanInputs(), rotated)
    assert all(move.is_reorder and move.after[0] != move.leader for move in rotated.moves)
    for move in replace_leaders(snapshot).moves:
        assert move.leader not in move.after
        assert len(set(move.after)) == len(move.before)
