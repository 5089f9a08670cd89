"""Idempotence: whatever happens, every record is in the log once and in order."""

import random
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from fake_broker import FakeCluster, HangUp, Produced, Reply
from fake_run import (
    IDEMPOTENT,
    ONE_RECORD_EACH,
    REFRESH,
    Ran,
    assert_all_in_the_log_once_and_in_order,
    run_fake,
)

from kipctl.probe.leadership import Leader, LeaderDiscovery
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode


def test_a_duplicate_that_the_broker_has_forgotten_is_success(tmp_path: Path) -> None:
    with FakeCluster(brokers=1) as cluster:

        def script(produced: Produced) -> Reply | None:
            if len(cluster.produced) == 1:
                cluster.append(produced)
                raise HangUp
            return Reply(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)

        cluster.script = script
        ran = run_fake(cluster, tmp_path, **IDEMPOTENT)
        assert ran.outcome.acknowledged == cluster.records_in_log() == 1


def test_batches_behind_one_that_failed_for_now_are_out_of_order_and_sent_again(
    tmp_path: Path,
) -> None:
    with FakeCluster(brokers=1) as cluster:

        def script(produced: Produced) -> Reply | None:
            if len(cluster.produced) == 2:  # the first goes alone
                cluster.await_another_request(produced)
                return Reply(ErrorCode.NOT_ENOUGH_REPLICAS)
            return None

        cluster.script = script
        ran = run_fake(cluster, tmp_path, num_records=8, **ONE_RECORD_EACH, **IDEMPOTENT)
        assert_all_in_the_log_once_and_in_order(cluster, ran)
        errors = Counter(row["error"] for row in ran.redirects)
        assert errors[ErrorCode.NOT_ENOUGH_REPLICAS] == 1
        assert errors[ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] >= 1
        assert {p.epoch for p in cluster.produced} == {0}


def test_when_a_batch_is_given_up_those_behind_it_go_on_in_a_new_epoch(tmp_path: Path) -> None:
    """KIP-360: its sequence is a gap, which the broker would never let pass."""
    with FakeCluster(brokers=1) as cluster:

        def script(produced: Produced) -> Reply | None:
            if len(cluster.produced) == 2:  # the first goes alone
                cluster.await_another_request(produced)
                return Reply(ErrorCode.MESSAGE_TOO_LARGE)
            return None

        cluster.script = script
        ran = run_fake(cluster, tmp_path, num_records=8, **ONE_RECORD_EACH, **IDEMPOTENT)
        assert ran.outcome.errors == {"MESSAGE_TOO_LARGE": 1}
        assert ran.outcome.acknowledged == cluster.records_in_log() == 7
        in_log = [(p.epoch, p.sequence) for p in cluster.log[0]]
        assert in_log == [(0, 0), *((1, sequence) for sequence in range(6))]


def test_what_may_be_in_the_log_is_not_sent_under_another_sequence(tmp_path: Path) -> None:
    """Two batches are appended, and said to be not replicated; then the first one is given up."""
    with FakeCluster(brokers=1) as cluster:

        def script(produced: Produced) -> Reply | None:
            if len(cluster.produced) in (2, 3):  # the first goes alone
                cluster.append(produced)
                if len(cluster.produced) == 2:
                    cluster.await_another_request(produced)
                return Reply(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            if (produced.epoch, produced.sequence) == (0, 1):
                return Reply(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return None

        cluster.script = script
        ran = run_fake(cluster, tmp_path, num_records=8, **ONE_RECORD_EACH, **IDEMPOTENT)
        assert ran.outcome.errors == {"TOPIC_AUTHORIZATION_FAILED": 1}
        assert ran.outcome.acknowledged == 7
        assert cluster.records_in_log() == 8  # the one that was given up is there, none twice


@pytest.mark.parametrize(
    "error", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID]
)
def test_a_broker_that_lost_the_producers_state_gets_a_new_epoch(
    tmp_path: Path, error: ErrorCode
) -> None:
    """The next batch in turn is out of order for it, and can never be otherwise."""
    with FakeCluster(brokers=1) as cluster:

        def script(produced: Produced) -> Reply | None:
            if produced.epoch == 0 and produced.sequence >= 3:
                return Reply(error)
            return None

        cluster.script = script
        ran = run_fake(cluster, tmp_path, num_records=8, **ONE_RECORD_EACH, **IDEMPOTENT)
        assert ran.outcome.acknowledged == cluster.records_in_log() == 8
        in_log = [(p.epoch, p.sequence) for p in cluster.log[0]]
        assert in_log == [*((0, n) for n in range(3)), *((1, n) for n in range(5))]


def moves_while_the_old_leader_is_slow(
    cluster: FakeCluster, tmp_path: Path, first_kept: int, appended: bool
) -> Ran:
    """Batch number `first_kept` of partition 0 is kept for a while by its old leader, broker 1.

    Meanwhile partition 1, on broker 2, makes the client ask for Metadata, and so it learns that
    broker 2 leads both. The next batches go there.
    """
    ticks = threading.Semaphore(0)
    kept = threading.Event()

    def script(produced: Produced) -> Reply | None:
        if produced.partition == 0 and produced.broker == 1:
            if len(cluster.log[0]) < first_kept:
                return None
            cluster.leaders[0] = Leader(2, 6)
            offset = cluster.append(produced).base_offset if appended else -1
            kept.set()
            for _ in range(3):
                assert ticks.acquire(timeout=60)
            return Reply(ErrorCode.NOT_LEADER_OR_FOLLOWER, offset)
        if kept.is_set() and cluster.leaders[1].epoch == 5:
            cluster.move(1, 2)
            return Reply(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return None

    cluster.script = script
    return run_fake(
        cluster,
        tmp_path,
        num_records=80,
        throughput=400,
        discovery=REFRESH,
        batch_size=0,
        should_stop=lambda: bool(ticks.release()),
        **IDEMPOTENT,
    )


def test_a_new_leader_that_does_not_know_the_producer_gets_no_later_batch_first(
    tmp_path: Path,
) -> None:
    with FakeCluster(brokers=2, partitions=2) as cluster:
        ran = moves_while_the_old_leader_is_slow(cluster, tmp_path, first_kept=0, appended=False)
        assert_all_in_the_log_once_and_in_order(cluster, ran)
        assert {p.epoch for p in cluster.produced} == {0}


@pytest.mark.parametrize("appended", [False, True])
def test_a_new_leader_gets_no_more_batches_than_let_it_know_the_old_leaders_again(
    tmp_path: Path, appended: bool
) -> None:
    with FakeCluster(brokers=2, partitions=2) as cluster:
        ran = moves_while_the_old_leader_is_slow(cluster, tmp_path, 3, appended)
        assert_all_in_the_log_once_and_in_order(cluster, ran)
        assert {p.epoch for p in cluster.produced} == {0}


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_every_record_is_in_the_log_once_and_in_order(
    tmp_path: Path, seed: int
) -> None:
    """Leaders move, connections break, appends fail after they were made, answers get lost."""
    choose = random.Random(seed)
    with FakeCluster(brokers=3, partitions=4) as cluster:
        lock = threading.Lock()

        def script(produced: Produced) -> Reply | None:
            with lock:
                trouble = choose.random() if len(cluster.produced) < 250 else 1
                to, partition = choose.randint(1, 3), produced.partition
            leads = cluster.leaders[partition].id == produced.broker
            if trouble < 0.03:
                cluster.move(partition, to)
                return None
            if trouble < 0.06 and leads:
                offset = cluster.append(produced).base_offset
                if offset < 0:
                    return None
                cluster.move(partition, to)
                return Reply(ErrorCode.NOT_LEADER_OR_FOLLOWER, offset)
            if trouble < 0.09:
                raise HangUp
            if trouble < 0.12 and leads:
                cluster.append(produced)
                raise HangUp
            if trouble < 0.14:
                return Reply(ErrorCode.NOT_LEADER_OR_FOLLOWER, hint=Leader(to, 3))
            if trouble < 0.16:
                return Reply(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            if trouble < 0.18:
                return Reply(ErrorCode.NOT_LEADER_OR_FOLLOWER, hint=Leader(-1, 900))
            return None

        cluster.script = script
        ran = run_fake(
            cluster,
            tmp_path,
            num_records=400,
            throughput=4000,
            discovery=choose.choice(list(LeaderDiscovery)),
            batch_size=choose.choice([0, 200, 16384]),
            compression_type=choose.choice(["none", "lz4"]),
            retry_backoff_ms=3,
            retry_backoff_max_ms=20,
            **IDEMPOTENT,
        )
        assert_all_in_the_log_once_and_in_order(cluster, ran)
        assert {p.epoch for p in cluster.produced} == {0}
        assert all(
            later["sent_us"] >= earlier["sent_us"]
            for earlier, later in pairwise(ran.calls(ApiKey.METADATA))
        )
