"""Each way to plan, in examples that a person can follow."""

import pytest
from plan_worlds import after, by_name, cluster_of, outcome, sized

from kipctl.changes.plans.planners.add_brokers import add
from kipctl.changes.plans.planners.drain import drain
from kipctl.changes.plans.planners.leader_balance import Candidates, balance
from kipctl.changes.plans.planners.leader_bytes import bytes_in_by_leader
from kipctl.changes.plans.planners.placement import PlanInputs
from kipctl.changes.plans.planners.preferred_leaders import (
    balance_leaders,
    balance_leaders_by_bytes,
    leaders_off,
    set_preferred,
)
from kipctl.changes.plans.planners.rack_aware import rack_aware
from kipctl.changes.plans.planners.replace_broker import replace
from kipctl.changes.plans.planners.replication_factor import replication_factor
from kipctl.cluster.snapshot import PartitionId, Snapshot
from kipctl.errors import RefusedError, UsageError

Outcome = dict[int, tuple[int, ...] | str]


def test_a_drained_broker_gives_to_those_with_the_fewest_bytes() -> None:
    # Broker 1 leaves. 3 and 4 are empty but for 40 bytes on 3: the largest goes to 4.
    now = cluster_of((1, 2), (1, 2), (2, 3))
    assert outcome(drain(now, [1], sized(100, 50, 40))) == {0: (4, 2), 1: (3, 2)}


@by_name(
    ("now", "gone", "expected"),
    {
        # Rack b has the other replica: the new one goes to a or c, where broker 1 was not alone.
        "new rack": (cluster_of((1, 2), racks="abbc"), [1], {0: (2, 4)}),
        # In a cluster of two racks the new one stays in rack a.
        "same rack": (cluster_of((1, 2), racks="abab"), [1], {0: (2, 3)}),
        "no other broker of the rack": (
            cluster_of((1, 2), racks="abb", brokers=(1, 2, 3)),
            [1],
            {0: "its replicas would stand in fewer racks"},
        ),
        # A dead broker's replicas are drained too; nobody tells its rack.
        "dead": (cluster_of((9, 2), racks="abcd"), [9], {0: (1, 2)}),
        "the only replica": (cluster_of((1,)), [1], {0: (2,)}),
        "the only replica is dead": (cluster_of((9,)), [9], {0: "it has no leader to copy from"}),
        "only it is in sync": (
            cluster_of((1, 2), isr=[(1,)]),
            [1],
            {0: "every in-sync replica of it would leave; wait, or move fewer brokers at a time"},
        ),
        "no broker left": (
            cluster_of((1, 2, 3), brokers=(1, 2, 3)),
            [1],
            {0: "too few other brokers are alive"},
        ),
        # Both of two brokers at once, where a third is in sync.
        "two": (cluster_of((1, 2, 3), brokers=(1, 2, 3, 4, 5)), [1, 2], {0: (3, 4, 5)}),
    },
)
def test_who_gets_a_drained_replica(now: Snapshot, gone: list[int], expected: Outcome) -> None:
    assert outcome(drain(now, gone)) == expected


def test_the_leaders_of_a_drained_broker_are_spread() -> None:
    now = cluster_of((1, 2), (1, 3), (1, 4), (2, 3), brokers=(1, 2, 3, 4))
    plan = drain(now, [1])
    firsts = [replicas[0] for replicas in after(plan).values()]
    assert sorted([*firsts, 2]) in ([2, 3, 3, 4], [2, 2, 3, 4], [2, 3, 4, 4])


def test_leaders_leave_a_broker_and_are_shared() -> None:
    now = cluster_of((1, 2, 3), (1, 2, 3), (2, 1, 3), (3, 1, 2))
    plan = leaders_off(now, [1])
    assert after(plan) == {0: (2, 3, 1), 1: (3, 2, 1)}
    assert all(move.is_reorder for move in plan.moves)


@by_name(
    ("now", "off", "expected"),
    {
        "in sync": (cluster_of((1, 2, 3), isr=[(1, 3)]), [1], {0: (3, 2, 1)}),
        "not in sync": (
            cluster_of((1, 2), isr=[(1,)]),
            [1],
            {0: "no replica on another broker is in sync"},
        ),
        "one replica": (cluster_of((1,)), [1], {0: "no replica on another broker is in sync"}),
        # A whole rack: what is behind the new leader comes before those of the rack.
        "rack": (cluster_of((1, 2, 3, 4)), [1, 2], {0: (3, 4, 1, 2)}),
        # 2 is the preferred leader and could lead: an election is enough.
        "astray": (cluster_of((2, 1), leaders=(1,)), [1], {0: (2, 1)}),
        # 2 is the preferred leader and cannot lead, 3 can.
        "preferred behind": (
            cluster_of((2, 1, 3), isr=[(1, 3)], leaders=(1,)),
            [1],
            {0: (3, 2, 1)},
        ),
        "not there": (cluster_of((2, 1)), [1], {}),
    },
)
def test_where_leaders_go_that_leave_a_broker(
    now: Snapshot, off: list[int], expected: Outcome
) -> None:
    assert outcome(leaders_off(now, off)) == expected


@pytest.mark.parametrize(
    ("now", "least", "spare", "refused"),
    [
        (cluster_of((1, 2, 3)), 2, 0, ""),
        (cluster_of((1, 2, 3, 4)), 2, 1, ""),
        (cluster_of((1, 2, 3)), 2, 1, "t-0 has 2 replicas in sync without broker 1, and its"),
        (cluster_of((2, 1, 3)), 2, 1, "t-0 has 2 replicas in sync"),  # it may lead nothing
        (cluster_of((2, 3, 4)), 3, 1, ""),
        (cluster_of((1, 2, 3, 4), isr=[(1, 2, 3)]), 2, 1, "t-0 has 2 replicas in sync"),
        (cluster_of((1, 2, 3, 4)), None, 1, "its min.insync.replicas is not known"),
    ],
)
def test_leaders_leave_only_where_there_is_something_to_spare(
    now: Snapshot, least: int | None, spare: int, refused: str
) -> None:
    inputs = PlanInputs(min_insync={} if least is None else {"t": least}, spare=spare)
    if not refused:
        leaders_off(now, [1], inputs)
        return
    with pytest.raises(RefusedError, match=refused):
        leaders_off(now, [1], inputs)


@by_name(
    ("sizes", "expected"),
    {
        # One partition gets as much as the others together.
        "one large": ((90, 30, 30, 30), {0: (2, 1)}),
        "nothing comes in": ((0, 0, 0, 0), {}),
        "even by one": ((50, 50, 0, 0), {0: (2, 1)}),
        "not to be mended": ((100, 0, 0, 0), {}),
    },
)
def test_leaders_are_evened_out_by_what_comes_in(
    sizes: tuple[int, ...], expected: dict[int, tuple[int, ...]]
) -> None:
    now = cluster_of((1, 2), (1, 2), (1, 2), (1, 2), brokers=(1, 2))
    plan = balance_leaders_by_bytes(now, sized(*sizes))
    assert after(plan) == expected
    assert bytes_in_by_leader(now, plan, sized(*sizes).sizes, 1e-6).startswith(
        f"MB/s in, by preferred leader: broker 1 {sum(sizes)}.0 and then"
    )


def test_a_leader_is_given_by_name() -> None:
    now = cluster_of((1, 2, 3), (1, 2), (1, 2), (1, 2), isr=[None, None, (1,)])
    wanted = {PartitionId("t", n): broker for n, broker in enumerate((3, 4, 2, 1))}
    assert outcome(set_preferred(now, wanted)) == {
        0: (3, 1, 2),
        1: "broker 4 has no replica of it",
        2: "broker 2 is not in sync",
        3: "broker 1 is its preferred leader already",
    }
    with pytest.raises(UsageError, match="no partition t-7"):
        set_preferred(now, {PartitionId("t", 7): 1})
    with pytest.raises(UsageError, match="Broker 8 is not alive"):
        set_preferred(now, {PartitionId("t", 0): 8})


@by_name(
    ("now", "expected"),
    {
        "even": (cluster_of((1, 2), (2, 1), brokers=(1, 2)), {}),
        # A difference of one is as even as it can be.
        "one more": (cluster_of((1, 2), (1, 2), (2, 1), brokers=(1, 2)), {}),
        "two more": (cluster_of((1, 2), (1, 2), brokers=(1, 2)), {0: (2, 1)}),
        # 1 has no replica beside 3: one of 1's goes to 2, and one of 2's to 3.
        "direct": (cluster_of((1, 2), (1, 2), (2, 1), (2, 3), brokers=(1, 2, 3)), {3: (3, 2)}),
        "by way of another": (
            cluster_of((1, 2), (1, 2), (1, 2), (2, 3), (2, 3), (2, 3), brokers=(1, 2, 3)),
            {0: (2, 1), 3: (3, 2), 4: (3, 2)},
        ),
        "not in sync": (cluster_of((1, 2), (1, 2), isr=[(1,), (1,)], brokers=(1, 2)), {}),
    },
)
def test_leaders_are_evened_out_with_few_moves(
    now: Snapshot, expected: dict[int, tuple[int, ...]]
) -> None:
    assert after(balance_leaders(now)) == expected


def test_a_leader_that_is_away_has_its_partitions_again_when_it_is_back() -> None:
    now = cluster_of((1, 2), (1, 2), (1, 2), isr=[(2,), (2,), (2,)], brokers=(1, 2))
    assert set(outcome(balance_leaders(now)).values()) == {"its preferred leader is not in sync"}


@pytest.mark.parametrize(
    ("fixed", "choices", "leads"),
    [
        ({1: 0, 2: 0}, [Candidates((1, 2)), Candidates((1, 2))], [1, 2]),
        ({1: 5, 2: 0}, [Candidates((1, 2)), Candidates((1, 2))], [2, 2]),
        ({1: 0, 2: 0}, [Candidates((1, 2), 2), Candidates((1, 2), 1)], [2, 1]),
        # The one that has no choice is dealt with first.
        ({1: 0, 2: 0}, [Candidates((1, 2)), Candidates((1,))], [2, 1]),
        ({1: 0}, [], []),
    ],
)
def test_choices_are_evened_out(
    fixed: dict[int, int], choices: list[Candidates], leads: list[int]
) -> None:
    assert balance(fixed, choices) == leads


def test_a_new_broker_is_filled_up_to_the_mean_by_the_fullest() -> None:
    # 1 has 90, 2 has 60, 3 nothing: each is to have 50. 40 of 1's would fit, and 50 would not.
    now = cluster_of((1,), (1,), (2,), (2,), brokers=(1, 2, 3))
    plan = add(now, [3], sized(50, 40, 50, 10))
    assert after(plan) == {1: (3,), 3: (3,)}


def test_a_new_broker_gets_as_many_replicas_as_the_others_where_sizes_are_unknown() -> None:
    now = cluster_of((1, 2), (2, 1), (1, 2), (2, 1), (1, 2), (2, 1), brokers=(1, 2, 3))
    plan = add(now, [3])
    held = [r for p in now.partitions for r in after(plan).get(p.id.partition, p.replicas)]
    assert [held.count(broker) for broker in (1, 2, 3)] == [4, 4, 4]


def test_a_new_broker_takes_nothing_that_would_bring_replicas_into_one_rack() -> None:
    # 3 is in 2's rack: it may only have what is 2's.
    now = cluster_of((1, 2), (1, 2), (1, 2), racks="abb", brokers=(1, 2, 3))
    assert after(add(now, [3])) == {2: (1, 3)}


def test_a_successor_stands_where_its_predecessor_stood() -> None:
    now = cluster_of((1, 2), (2, 1), (2, 3), (1, 4), (1, 2), isr=[None, None, None, None, (1,)])
    assert outcome(replace(now, {1: 4})) == {
        0: (4, 2),
        1: (2, 4),
        3: "broker 4 has, or would get, another replica of it",
        4: "every in-sync replica of it would leave; wait, or move fewer brokers at a time",
    }


@pytest.mark.parametrize(
    ("successors", "message"),
    [
        ({8: 1}, "There is no broker 8"),
        ({1: 8}, "Broker 8 is not alive"),
        ({1: 2, 2: 3}, "Broker 2 cannot take the place of 1 and be replaced itself"),
    ],
)
def test_who_cannot_take_anothers_place(successors: dict[int, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(cluster_of((1, 2)), successors)


@by_name(
    ("now", "factor", "expected"),
    {
        "a new rack": (cluster_of((1, 2), racks="abbc"), 3, {0: (1, 2, 4)}),
        "one rack": (cluster_of((1, 2), racks="aaaa"), 3, {0: (1, 2, 3)}),
        "too few": (cluster_of((1, 2)), 5, {0: "too few other brokers are alive"}),
        "no leader": (cluster_of((9,)), 2, {0: "it has no leader to copy from"}),
        "the last": (cluster_of((1, 2, 3)), 2, {0: (1, 2)}),
        "out of sync": (cluster_of((1, 2, 3), isr=[(1, 3)]), 2, {0: (1, 3)}),
        "not the leader": (cluster_of((1, 2, 3), leaders=(3,)), 2, {0: (1, 3)}),
        # 1 and 3 share a rack: 3 leaves, though 2 comes first from the end.
        "shared rack": (cluster_of((1, 3, 2), racks="abac"), 2, {0: (1, 2)}),
        "min.insync.replicas": (
            cluster_of((1, 2, 3)),
            1,
            {0: "its min.insync.replicas is 2: acks=all writes would be refused"},
        ),
        "as it is": (cluster_of((1, 2)), 2, {}),
        # The preferred leader is not in sync, and leaves: the leader stands first.
        "preferred out of sync": (
            cluster_of((1, 2, 3), isr=[(2, 3)], leaders=(3,)),
            2,
            {0: (3, 2)},
        ),
    },
)
def test_more_replicas_or_fewer(now: Snapshot, factor: int, expected: Outcome) -> None:
    plan = replication_factor(now, factor, PlanInputs(min_insync={"t": 2}))
    assert outcome(plan) == expected


def test_fewer_replicas_than_min_insync_take_force() -> None:
    now = cluster_of((1, 2, 3))
    assert outcome(replication_factor(now, 2)) == {0: "its min.insync.replicas is not known"}
    assert after(replication_factor(now, 1, PlanInputs(min_insync={"t": 2}), force=True)) == {
        0: (1,)
    }
    with pytest.raises(UsageError, match="factor of 0"):
        replication_factor(now, 0)


@by_name(
    ("now", "expected"),
    {
        "apart": (cluster_of((1, 2), racks="aabb"), {0: (1, 3)}),
        "apart already": (cluster_of((1, 3), racks="aabb"), {}),
        # The leader stays, and so does who is alone in its rack.
        "leader": (cluster_of((1, 2, 3), racks="aabc", leaders=(2,)), {0: (4, 2, 3)}),
        # Who is not in sync goes first.
        "not in sync": (cluster_of((1, 2, 3), racks="aaab", isr=[(1, 3)]), {0: (1, 4, 3)}),
        # Three replicas in two racks: there is no third.
        "no more racks": (cluster_of((1, 2, 3), racks="aabb"), {}),
        # 9 is dead: it may be in the other rack.
        "dead": (cluster_of((1, 9), racks="aabb"), {}),
    },
)
def test_replicas_are_set_apart(now: Snapshot, expected: dict[int, tuple[int, ...]]) -> None:
    assert after(rack_aware(now)) == expected


def test_there_have_to_be_racks() -> None:
    with pytest.raises(UsageError, match="fewer than two racks"):
        rack_aware(cluster_of((1, 2)))


def test_only_chosen_partitions_change_and_all_count() -> None:
    now = cluster_of((1, 2), (1, 3), (4, 3), (4, 3))
    known = PlanInputs(chosen=frozenset({PartitionId("t", 0)}))
    assert set(after(drain(now, [1], known))) == {0}
    assert set(after(leaders_off(now, [1], known))) == {0}
    # 3 and 4 have as many replicas each, but for 2 of t-1's being counted though it does not move.
    assert after(drain(now, [1], known)) == {0: (2, 4)}


@pytest.mark.parametrize("plan", [drain, leaders_off])
def test_a_broker_that_nobody_knows_cannot_be_left(plan: type) -> None:
    with pytest.raises(UsageError, match="There is no broker 8; there are 1, 2, 3, 4"):
        plan(cluster_of((1, 2)), [8])


def test_the_last_broker_cannot_be_drained() -> None:
    with pytest.raises(UsageError, match="No other broker is alive"):
        drain(cluster_of((1,), brokers=(1,)), [1])
    with pytest.raises(UsageError, match="No other broker is alive"):
        add(cluster_of((1,), brokers=(1,)), [1])
