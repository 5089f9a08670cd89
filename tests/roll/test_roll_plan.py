"""In which order brokers are restarted, and what that is told to risk: by table."""

from dataclasses import replace

import pytest
from plan_worlds import cluster_of

from kipctl.cluster.snapshot import PartitionId, Snapshot
from kipctl.errors import RefusedError, UsageError
from kipctl.own_topic_names import new_name
from kipctl.report.roll_tables import plan_answer
from kipctl.roll.plan import Effect, Facts, RollPlan, plan_roll, require_safe
from kipctl.roll.quorum import Quorum, Voter


def order(plan: RollPlan) -> list[int]:
    return [step.broker for step in plan.steps]


@pytest.mark.parametrize(
    ("racks", "voters", "active", "chosen", "expected"),
    [
        ("", {101}, 101, (), [1, 2, 3, 4]),
        ("abab", {101}, 101, (), [1, 3, 2, 4]),
        ("bbaa", {101}, 101, (), [3, 4, 1, 2]),
        ("abab", {1, 2}, 1, (), [3, 4, 2, 1]),
        ("abab", {1, 2, 3}, 2, (), [4, 1, 3, 2]),
        ("abab", {1, 2, 3, 4}, 3, (), [1, 2, 4, 3]),
        ("abab", None, None, (), [1, 3, 2, 4]),
        ("abab", {1, 2}, 1, (1, 4), [4, 1]),
    ],
)
def test_racks_one_by_one_controllers_after_brokers_the_active_one_last(
    racks: str,
    voters: set[int] | None,
    active: int | None,
    chosen: tuple[int, ...],
    expected: list[int],
) -> None:
    snapshot = cluster_of((1, 2, 3), racks=racks)
    known = None if voters is None else frozenset(voters)
    plan = plan_roll(Facts(snapshot, known, active, min_insync={"t": 2}), chosen)
    assert order(plan) == expected


@pytest.mark.parametrize(
    ("replicas", "least", "lost", "below", "single", "unknown"),
    [
        ((1, 2, 3), 2, 0, 0, 0, 0),
        ((1, 2, 3), 3, 0, 1, 0, 0),
        ((1, 2), 2, 0, 1, 0, 0),
        ((1, 2), 1, 0, 0, 1, 0),
        ((1,), 1, 1, 0, 0, 0),
        ((2, 3, 4), 2, 0, 0, 0, 0),
        ((1, 2), None, 0, 0, 1, 1),
        ((1, 2, 3), None, 0, 0, 0, 1),
        ((1,), None, 1, 0, 0, 0),
        ((1, 2), 3, 0, 0, 1, 0),  # refuses acks=all writes already
    ],
)
def test_what_the_restart_of_broker_1_risks(
    replicas: tuple[int, ...], least: int | None, lost: int, below: int, single: int, unknown: int
) -> None:
    plan = plan_roll(Facts(cluster_of(replicas), frozenset(), 9, min_insync={"t": least}), (1,))
    [step] = plan.steps
    effects = (Effect.LOST, Effect.BELOW, Effect.SINGLE, Effect.UNKNOWN)
    assert [len(step.effects.get(effect, ())) for effect in effects] == [
        lost,
        below,
        single,
        unknown,
    ]
    assert step.is_harmful == bool(lost or below or unknown)
    assert (step.leaders, step.replicas) == (int(replicas[0] == 1), int(1 in replicas))


@pytest.mark.parametrize(
    ("snapshot", "moving", "refused"),
    [
        (cluster_of((1, 2, 3)), (), ""),
        (cluster_of((1, 2, 3), isr=[(1, 2)]), (), "t-0: it lacks broker 3"),
        (cluster_of((1, 2, 9)), (), "it lacks broker 9 (down: start it)"),
        (cluster_of((1, 2, 3)), (PartitionId("t", 0),), "being reassigned, such as t-0"),
    ],
)
def test_a_cluster_that_is_not_whole_refuses_the_roll_whatever_is_forced(
    snapshot: Snapshot, moving: tuple[PartitionId, ...], refused: str
) -> None:
    plan = plan_roll(Facts(snapshot, frozenset(), 9, min_insync={"t": 1}, moving=moving))
    if not refused:
        require_safe(plan, force=False)
        return
    with pytest.raises(RefusedError) as error:
        require_safe(plan, force=True)
    assert refused in error.value.what


def test_a_restart_that_stops_partitions_has_to_be_insisted_on() -> None:
    plan = plan_roll(Facts(cluster_of((1, 2), (1,)), frozenset(), 9, min_insync={"t": 2}))
    with pytest.raises(RefusedError, match=r"broker 1: t-1 without any replica, t-0 below") as no:
        require_safe(plan, force=False)
    assert "2 of 4 brokers" in no.value.what
    require_safe(plan, force=True)


@pytest.mark.parametrize(
    ("replicas", "least", "spare", "at_minimum", "without_spare"),
    [
        ((1, 2, 3), 2, 0, 1, 0),
        ((1, 2, 3, 4), 2, 0, 0, 0),
        ((1, 2, 3), 2, 1, 1, 1),
        ((1, 2, 3, 4), 2, 1, 0, 0),
        ((1, 2, 3, 4), 2, 2, 0, 1),
        ((2, 3, 4), 3, 1, 0, 0),  # broker 1 has no replica of it
        ((1, 2, 3), 3, 1, 0, 0),  # below it: that is worse, and said
        ((1, 2, 3), None, 1, 0, 0),
    ],
)
def test_a_partition_at_its_minimum_is_told_from_one_with_room(
    replicas: tuple[int, ...], least: int | None, spare: int, at_minimum: int, without_spare: int
) -> None:
    facts = Facts(cluster_of(replicas), frozenset(), 9, min_insync={"t": least})
    plan = plan_roll(facts, (1,), spare=spare)
    [step] = plan.steps
    seen = (Effect.AT_MINIMUM, Effect.LESS_THAN_SPARE)
    assert [len(step.effects.get(effect, ())) for effect in seen] == [at_minimum, without_spare]
    document = step.as_document()
    answer = plan_answer(plan.as_document()).first
    assert ("less than --spare asks for would be left of 1 partition while" in answer) == bool(
        without_spare
    )
    assert document["at_min_insync_replicas"] == at_minimum
    assert document["such_as"]["at_minimum"] == ["t-0"] * at_minimum
    if without_spare:
        with pytest.raises(RefusedError, match="leaves less to spare than was asked for") as no:
            require_safe(plan, force=False)
        assert "broker 1: t-0 with too few above min.insync.replicas" in no.value.what
        require_safe(plan, force=True)


def test_a_restart_of_which_nobody_knows_what_it_stops_has_to_be_insisted_on() -> None:
    plan = plan_roll(Facts(cluster_of((1, 2, 3)), frozenset(), 9, min_insync={"t": None}))
    with pytest.raises(RefusedError, match="not known: broker 1: t-0 of unknown") as no:
        require_safe(plan, force=False)
    assert "DescribeConfigs" in no.value.next_step
    require_safe(plan, force=True)


def test_a_client_that_is_shown_no_topic_cannot_roll() -> None:
    nothing = "No topic is shown: there is none, or none that User:alice may Describe."
    plan = plan_roll(Facts(cluster_of(), frozenset(), 9, none_shown=nothing))
    with pytest.raises(RefusedError, match="No topic is shown"):
        require_safe(plan, force=True)


def test_a_broker_that_is_not_there_cannot_be_chosen() -> None:
    known = Facts(cluster_of((1, 2)), fenced=(7,))
    with pytest.raises(RefusedError, match="Broker 7 is registered, and down"):
        plan_roll(known, (7,))
    with pytest.raises(UsageError, match="Broker 8 is not in the cluster"):
        plan_roll(known, (8,))


def test_what_is_not_known_is_said() -> None:
    plan = plan_roll(Facts(cluster_of((1, 2)), fenced=(7,), min_insync={"t": None}))
    said = " ".join(plan.not_known)
    assert "Which brokers are controllers is not known" in said
    assert "min.insync.replicas of 1 topic, such as t, is not known" in said
    assert "Broker 7 is registered and down" in said


def test_controllers_that_are_no_brokers_are_left_alone() -> None:
    plan = plan_roll(Facts(cluster_of((1, 2)), frozenset({1, 101, 102}), 101))
    assert plan.controllers_only == (101, 102)
    assert [step.role for step in plan.steps] == [
        "broker",
        "broker",
        "broker",
        "broker, controller",
    ]


def test_topics_of_kipctls_own_runs_hold_nobodys_data() -> None:
    seen = cluster_of((1,), (1, 2))
    own = PartitionId(new_name("kipctl-perf"), 0)
    mine = replace(seen.partitions[0], id=own)
    snapshot = replace(seen, partitions=(mine, seen.partitions[1]))
    [step] = plan_roll(Facts(snapshot, min_insync={"t": 1, own.topic: 2}), (1,)).steps
    assert step.effects.keys().isdisjoint((Effect.LOST, Effect.BELOW))
    assert (step.replicas, step.effects[Effect.SINGLE]) == (2, [PartitionId("t", 1)])


def with_controllers(*ids: int, active: int, behind_ms: int | None = 0) -> Facts:
    """Two brokers, and these controllers, of which the first is so far behind."""
    voters = tuple(Voter(controller, f"c{controller}", 9093, 0, 0) for controller in ids)
    voters = (replace(voters[0], behind_ms=behind_ms), *voters[1:])
    quorum = Quorum(active, 4, voters)
    snapshot = cluster_of((1, 2), brokers=(1, 2))
    return Facts(snapshot, quorum.ids, active, min_insync={"t": 1}, quorum=quorum)


@pytest.mark.parametrize(
    ("ids", "active", "chosen", "expected"),
    [
        ((101, 102, 103), 102, (), [1, 2, 101, 103, 102]),
        ((101, 102, 103), 101, None, [102, 103, 101]),
        ((101, 102, 103), 103, (2,), [2, 101, 102, 103]),
        ((1, 102, 103), 1, (), [2, 1, 102, 103]),
        ((1, 102, 103), 103, None, [102, 103]),
    ],
)
def test_controllers_that_are_no_brokers_come_last_where_it_was_asked_for(
    ids: tuple[int, ...], active: int, chosen: tuple[int, ...] | None, expected: list[int]
) -> None:
    plan = plan_roll(with_controllers(*ids, active=active), chosen, controllers=True)
    assert order(plan) == expected
    assert plan.controllers_only == ()
    last = plan.steps[-1]
    assert (last.host, last.port, last.is_controller_only) == (f"c{last.broker}", 9093, True)
    assert (last.role == "active controller") == (last.broker == active)


@pytest.mark.parametrize(
    ("ids", "is_harmful"),
    [((101,), True), ((101, 102), True), ((101, 102, 103), False), ((1, 102), True)],
)
def test_a_majority_of_controllers_has_to_be_left(ids: tuple[int, ...], is_harmful: bool) -> None:
    plan = plan_roll(with_controllers(*ids, active=ids[0]), (), controllers=ids != (1, 102))
    assert [s.broker for s in plan.steps if s.no_quorum] == (
        [] if not is_harmful else [node for node in order(plan) if node in ids]
    )
    if not is_harmful:
        require_safe(plan, force=False)
        return
    with pytest.raises(RefusedError, match="no majority of controllers is left"):
        require_safe(plan, force=False)
    require_safe(plan, force=True)


@pytest.mark.parametrize(("behind_ms", "said"), [(2001, "for 2.0 s"), (None, "not caught up")])
def test_a_controller_that_is_not_caught_up_refuses_restarts_of_controllers(
    behind_ms: int | None, said: str
) -> None:
    facts = with_controllers(101, 102, 103, active=102, behind_ms=behind_ms)
    with pytest.raises(RefusedError, match=said):
        require_safe(plan_roll(facts, controllers=True), force=True)
    require_safe(plan_roll(facts), force=False)  # of brokers alone it does not


def test_controllers_that_are_not_there_or_not_known_cannot_be_restarted() -> None:
    with pytest.raises(UsageError, match="no controllers that are no brokers"):
        plan_roll(with_controllers(1, 2, active=1), controllers=True)
    with pytest.raises(UsageError, match="Which controllers there are is not known"):
        plan_roll(Facts(cluster_of((1, 2))), controllers=True)
