"""Elections from end to end: batches, what stops them, and what is not known."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from electing_broker import ElectingCluster, partition

from kipctl.changes.elections import batches as election_batches
from kipctl.changes.elections.batches import ElectionOutcome, elect_preferred, elect_unclean
from kipctl.changes.elections.request import ElectionResult, Outcome
from kipctl.cluster.metadata_convergence import LeaderWatch
from kipctl.cluster.snapshot import NO_LEADER, Broker, PartitionId
from kipctl.errors import (
    KipctlError,
    PartlyDoneError,
    RefusedError,
    TimedOutError,
    UnreachableError,
)
from kipctl.protocol.error_codes import ErrorCode
from kipctl.transport.request import Cluster

T = [PartitionId("t", number) for number in range(5)]


def led_by_another(count: int = 5) -> ElectingCluster:
    return ElectingCluster.of(*(partition("t", n, (1, 2), leader=2) for n in range(count)))


def hold(
    cluster: ElectingCluster,
    *,
    timeout_s: float = 30.0,
    batch: int = election_batches.BATCH,
    expected: Mapping[PartitionId, int] | None = None,
) -> ElectionOutcome:
    """Elect the preferred leaders of all that is there."""
    with cluster.start() as broker, Cluster(broker.address, timeout_s=30.0) as reached:
        before = cluster.snapshot()
        if expected is None:
            expected = {partition.id: partition.preferred_leader for partition in before.partitions}
        return elect_preferred(reached, expected, before, timeout_s=timeout_s, batch=batch)


def outcomes(held: ElectionOutcome) -> list[Outcome]:
    return [elected.outcome for elected in held.outcomes]


def test_a_batch_is_known_to_every_broker_before_the_next_is_asked_for() -> None:
    cluster = led_by_another()
    looked: list[int] = []
    cluster.before_election = lambda: looked.append(cluster.metadata_asked)
    held = hold(cluster, batch=2)
    assert cluster.elected == [T[:2], T[2:4], T[4:]]
    assert outcomes(held) == [Outcome.ELECTED] * 5
    assert set(held.knew_us) == set(held.watched) == {1, 2, 3}
    # Each of three brokers has shown each batch.
    assert looked[1] >= 3
    assert looked[2] >= looked[1] + 3


def test_nothing_to_elect_is_nothing_asked() -> None:
    cluster = led_by_another()
    assert hold(cluster, expected={}).outcomes == ()
    assert cluster.elected == []


@pytest.mark.parametrize(
    ("code", "why"),
    [(ErrorCode.REQUEST_TIMED_OUT, "REQUEST_TIMED_OUT"), (None, "closed the connection")],
)
def test_an_answer_that_is_lost_is_an_outcome_not_known(code: int | None, why: str) -> None:
    cluster = led_by_another()
    cluster.codes = [code]
    with pytest.raises(TimedOutError, match="is not known") as lost:
        hold(cluster)
    assert why in lost.value.what
    assert "inspect leaders" in lost.value.next_step
    assert cluster.elected == []


def test_nobody_there_to_be_asked_is_no_outcome_at_all() -> None:
    cluster = led_by_another()
    with cluster.start() as broker:
        address, before = broker.address, cluster.snapshot()
    with Cluster(address) as reached, pytest.raises(UnreachableError):
        elect_preferred(reached, {T[0]: 1}, before)


def test_while_there_is_no_controller_it_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kipctl.changes.elections.request.FIRST_PAUSE_S", 0.001)
    cluster = led_by_another()
    cluster.codes = [ErrorCode.NOT_CONTROLLER] * 5
    assert outcomes(hold(cluster)) == [Outcome.ELECTED] * 5


def test_without_a_controller_in_time_nobody_was_elected() -> None:
    cluster = led_by_another()
    cluster.codes = [ErrorCode.NOT_CONTROLLER] * 1000
    with pytest.raises(TimedOutError, match=r"NOT_CONTROLLER.*nobody was elected"):
        hold(cluster, timeout_s=0.01)


def test_a_partition_whose_outcome_is_not_known_is_watched() -> None:
    cluster = led_by_another(2)
    cluster.refusals = {T[0]: ErrorCode.REQUEST_TIMED_OUT}
    assert outcomes(hold(cluster)) == [Outcome.ELECTED] * 2


def test_partitions_that_fail_are_not_waited_for() -> None:
    cluster = led_by_another(3)
    cluster.refusals = {T[1]: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert outcomes(hold(cluster)) == [Outcome.ELECTED, Outcome.FAILED, Outcome.ELECTED]


@pytest.mark.parametrize(
    ("codes", "error", "what"),
    [
        ([ErrorCode.POLICY_VIOLATION], RefusedError, "refused the election"),
        (
            [0, ErrorCode.POLICY_VIOLATION],
            PartlyDoneError,
            "2 of 5 partitions have had an election; 3 have not. The cluster refused",
        ),
        (
            [0, ErrorCode.REQUEST_TIMED_OUT],
            TimedOutError,
            "2 of 5 partitions have had an election, of 2 it is not known; 1 has not.",
        ),
    ],
)
def test_what_stops_a_batch_stops_the_rest_and_says_how_far_it_came(
    codes: list[int | None], error: type[KipctlError], what: str
) -> None:
    cluster = led_by_another()
    cluster.codes = [*codes]
    with pytest.raises(error) as stopped:
        hold(cluster, batch=2)
    assert what in stopped.value.what
    assert len(cluster.elected) == len(codes) - 1


@pytest.mark.parametrize(
    ("where", "interrupted", "how_far"),
    [
        (
            election_batches,
            "elect",
            "2 of 5 partitions have had an election, of 2 it is not known; 1 has not.",
        ),
        (LeaderWatch, "news", "2 of 5 partitions have had an election; 3 have not."),
    ],
    ids=["while a batch is asked for", "while its brokers are awaited"],
)
def test_ctrl_c_says_how_far_the_batches_came(
    where: Any, interrupted: str, how_far: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, real = led_by_another(), getattr(where, interrupted)

    def stopped(*asked: Any) -> Any:
        if cluster.elected:
            raise KeyboardInterrupt
        return real(*asked)

    monkeypatch.setattr(where, interrupted, stopped)
    with pytest.raises(KeyboardInterrupt) as ended:
        hold(cluster, batch=2)
    assert how_far in "".join(ended.value.__notes__)


def test_a_topic_that_is_deleted_meanwhile_is_gone() -> None:
    cluster = led_by_another(2)
    other = partition("other", 0, (1, 2), leader=2)
    cluster.partitions[other.id] = other
    cluster.before_election = lambda: cluster.delete("other")
    held = hold(cluster)
    assert held.gone == (other.id,)
    assert sorted(outcomes(held)) == [Outcome.ELECTED, Outcome.ELECTED, Outcome.GONE]


def test_a_topic_that_is_deleted_once_it_is_elected_is_gone() -> None:
    cluster = led_by_another(1)
    cluster.after_election = lambda: cluster.delete("t")
    held = hold(cluster)
    assert (held.gone, outcomes(held)) == ((T[0],), [Outcome.ELECTED])


def test_the_deadline_ends_a_wait_that_always_has_news() -> None:
    cluster = led_by_another(1)
    cluster.before_metadata = lambda: cluster.lead(T[0], 3 - cluster.partitions[T[0]].leader)
    with pytest.raises(TimedOutError, match=r"not led as expected .* such as t-0"):
        hold(cluster, timeout_s=0.2, expected={T[0]: 7})


def test_a_silent_broker_is_named_and_not_counted_among_those_that_know() -> None:
    cluster = led_by_another(4)
    with cluster.start() as broker, Cluster(broker.address, timeout_s=30.0) as reached:
        before = cluster.snapshot()
        with ElectingCluster.of().start() as stopped:
            silent = Broker(9, "127.0.0.1", stopped.port, None)
        before = replace(before, brokers=(*before.brokers[:2], silent))
        expected = dict.fromkeys(T[:4], 1)
        held = elect_preferred(reached, expected, before, batch=2)
    assert held.silent == (9,)
    assert held.watched == (1, 2, 9)
    assert set(held.knew_us) == {1, 2}


def leaderless(count: int = 3) -> ElectingCluster:
    return ElectingCluster.of(*(partition("t", n, (7, 1), NO_LEADER, (7,)) for n in range(count)))


def unclean(cluster: ElectingCluster, timeout_s: float = 30.0, batch: int = 2) -> ElectionOutcome:
    with cluster.start() as broker, Cluster(broker.address, timeout_s=30.0) as reached:
        return elect_unclean(reached, tuple(cluster.partitions), timeout_s, batch)


def test_an_unclean_election_goes_in_batches_too() -> None:
    cluster = leaderless()
    held = unclean(cluster)
    assert cluster.elected == [T[:2], T[2:3]]
    assert held.outcomes == tuple(ElectionResult(partition_id, 0) for partition_id in T[:3])
    assert {partition.leader for partition in cluster.partitions.values()} == {1}


@pytest.mark.parametrize(
    ("code", "gone", "outcome"),
    [
        (0, True, Outcome.ELECTED),
        (ErrorCode.REQUEST_TIMED_OUT, False, Outcome.ELECTED),
        (ErrorCode.REQUEST_TIMED_OUT, True, Outcome.UNKNOWN),
    ],
)
def test_the_wait_for_leaders_takes_a_deleted_topic_for_gone(
    code: int, gone: bool, outcome: Outcome
) -> None:
    cluster = leaderless(1)
    cluster.refusals = {T[0]: code}
    if gone:
        cluster.after_election = lambda: cluster.delete("t")
    held = unclean(cluster)
    assert outcomes(held) == [outcome]
    assert held.gone == ((T[0],) if gone else ())


def test_an_elected_partition_without_a_leader_in_time_is_said() -> None:
    cluster = leaderless(1)
    cluster.elects = False
    with pytest.raises(TimedOutError, match="1 elected partition without a leader yet"):
        unclean(cluster, timeout_s=0.05)
