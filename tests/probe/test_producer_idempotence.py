"""Idempotence: whatever happens, every record is in the log once and in order."""

from collections import Counter

import pytest
from fake_kafka import TOPIC, SimulatedCluster, producer_epoch
from fake_run import (
    IDEMPOTENT,
    ONE_RECORD_EACH,
    REFRESH,
    assert_all_in_the_log_once_and_in_order,
    at_batch,
    run_fake,
)

from kipctl.conform.cluster import Attempt, HungUpError, Refusal
from kipctl.conform.cluster.control import Waiting
from kipctl.protocol.error_codes import ErrorCode

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
ONE_EACH = {**ONE_RECORD_EACH, **IDEMPOTENT, "num_records": 8}


def test_a_duplicate_that_the_broker_has_forgotten_is_success() -> None:
    def script(produced: Attempt) -> Refusal:
        if len(cluster.produced) == 1:
            cluster.append(produced)
            raise HungUpError
        return Refusal(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)

    cluster = SimulatedCluster(brokers=1, script=script)
    ran = run_fake(cluster, **IDEMPOTENT)
    assert ran.outcome.acknowledged == cluster.records == 1


def refusing_the_second(error: int) -> SimulatedCluster:
    """The first batch goes alone; others are sent behind the second."""

    def refuse(produced: Attempt) -> Waiting:
        yield from cluster.another_request(produced)
        return Refusal(error)

    cluster = SimulatedCluster(brokers=1, script=at_batch(2, refuse))
    return cluster


def test_batches_behind_one_that_failed_for_now_are_out_of_order_and_sent_again() -> None:
    cluster = refusing_the_second(ErrorCode.NOT_ENOUGH_REPLICAS)
    ran = run_fake(cluster, **ONE_EACH)
    assert_all_in_the_log_once_and_in_order(cluster, ran)
    errors = Counter(row["error"] for row in ran.redirects)
    assert errors[ErrorCode.NOT_ENOUGH_REPLICAS] == 1
    assert errors[ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] >= 1
    assert {producer_epoch(p) for p in cluster.produced} == {0}


def test_when_a_batch_is_given_up_those_behind_it_go_on_in_a_new_epoch() -> None:
    """KIP-360: its sequence is a gap, which the broker would never let pass."""
    cluster = refusing_the_second(ErrorCode.MESSAGE_TOO_LARGE)
    ran = run_fake(cluster, **ONE_EACH)
    assert ran.outcome.errors == {"MESSAGE_TOO_LARGE": 1}
    assert ran.outcome.acknowledged == cluster.records == 7
    in_log = [batch.header[-2:] for batch in cluster.log((TOPIC, 0)).batches]
    assert in_log == [(0, 0), *((1, sequence) for sequence in range(6))]


def test_what_may_be_in_the_log_is_not_sent_under_another_sequence() -> None:
    """Two batches are appended, and said to be not replicated; then the first one is given up."""

    def script(produced: Attempt) -> Waiting:
        if len(cluster.produced) in (2, 3):  # the first goes alone
            cluster.append(produced)
            if len(cluster.produced) == 2:
                yield from cluster.another_request(produced)
            return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        if (producer_epoch(produced), produced.sequence) == (0, 1):
            return Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return None

    cluster = SimulatedCluster(brokers=1, script=script)
    ran = run_fake(cluster, **ONE_EACH)
    assert ran.outcome.errors == {"TOPIC_AUTHORIZATION_FAILED": 1}
    assert ran.outcome.acknowledged == 7
    assert cluster.records == 8  # the one that was given up is there, none twice


@pytest.mark.parametrize(
    "error", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID]
)
def test_a_broker_that_lost_the_producers_state_gets_a_new_epoch(error: ErrorCode) -> None:
    """The next batch in turn is out of order for it, and can never be otherwise."""

    def script(produced: Attempt) -> Refusal | None:
        return Refusal(error) if producer_epoch(produced) == 0 and produced.sequence >= 3 else None

    cluster = SimulatedCluster(brokers=1, script=script)
    ran = run_fake(cluster, **ONE_EACH)
    assert ran.outcome.acknowledged == cluster.records == 8
    in_log = [batch.header[-2:] for batch in cluster.log((TOPIC, 0)).batches]
    assert in_log == [*((0, n) for n in range(3)), *((1, n) for n in range(5))]


@pytest.mark.parametrize(("first_kept", "appended"), [(0, False), (3, False), (3, True)])
def test_a_new_leader_gets_no_later_batch_first_while_the_old_leader_is_slow(
    first_kept: int, appended: bool
) -> None:
    """Batch number `first_kept` of partition 0 is kept for a while by its old leader, broker 1.

    Meanwhile partition 1, on broker 2, makes the client ask for Metadata, and so it learns that
    broker 2 leads both. The next batches go there, and no more of them than let the new leader,
    which does not know the producer, know the old leader's batches again.
    """

    def script(produced: Attempt) -> Waiting:
        if produced.partition == 0 and produced.broker == 1:
            if cluster.log((TOPIC, 0)).end < first_kept:
                return None
            cluster.elect(0, to=2)
            offset = cluster.append(produced)[1] if appended else -1
            yield from cluster.pause(150_000)
            return Refusal(NOT_LEADER, offset=offset)
        if cluster.leaders[TOPIC, 0].id == 2 and cluster.leaders[TOPIC, 1].epoch == 5:
            cluster.elect(1, to=2)
            return Refusal(NOT_LEADER)
        return None

    cluster = SimulatedCluster(partitions=2, script=script)
    at_rate = {"num_records": 80, "throughput": 400}
    ran = run_fake(cluster, discovery=REFRESH, **(ONE_EACH | at_rate))
    assert_all_in_the_log_once_and_in_order(cluster, ran)
    assert {producer_epoch(p) for p in cluster.produced} == {0}
