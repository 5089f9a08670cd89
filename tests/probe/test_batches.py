"""A partition's queue: how records become batches, and which may go out in which order."""

import random
from uuid import UUID

import pytest

from kipctl.errors import RefusedError
from kipctl.probe.backoff import Attempts
from kipctl.probe.produce.batches import NO_WINDOW, Batch, Partition
from kipctl.probe.produce.payloads import Variant, variants
from kipctl.protocol.compression import Compression
from kipctl.protocol.produce_frames import Topic


def variant_of(records: int) -> Variant:
    """A payload of at most so many records."""
    return variants([b"x" * 100], 61 + 109 * records, Compression.NONE, random.Random(1))[0]


FOUR = variant_of(4)


def make_partition(ordered: bool = False, window: int = 5, started: bool = True) -> Partition:
    """A partition of which, unless said otherwise, a batch was acknowledged before."""
    partition = Partition(Topic("t", UUID(int=1)), 0, 0, ordered, window)
    partition.started = started
    return partition


def append(partition: Partition, first: int, count: int, stride: int = 1) -> None:
    partition.append(first, stride, count, lambda seq: 1000 + seq, lambda: FOUR)


def shape(partition: Partition) -> list[tuple[int, int]]:
    """(first sequence number, records) of what is in the queue."""
    return [(batch.first_seq, batch.records) for batch in partition.queue]


def send(partition: Partition, now_us: int = 5000) -> Batch:
    """Let the next batch go out, as the producer does."""
    assert partition.may_send()
    batch = partition.next_batch()
    if batch.attempts is None:
        batch.attempts = Attempts()
        batch.sent_us = now_us
    batch.attempts.sent(epoch=1)
    return batch


# --- appending ---


@pytest.mark.parametrize(
    ("appends", "expected"),
    [
        ([(0, 3, 1)], [(0, 3)]),
        ([(0, 2, 1), (2, 1, 1)], [(0, 3)]),
        ([(0, 4, 1), (4, 1, 1)], [(0, 4), (4, 1)]),
        ([(0, 11, 1)], [(0, 4), (4, 4), (8, 3)]),
        ([(0, 3, 1), (3, 3, 1)], [(0, 4), (4, 2)]),
        # A gap, or another stride, begins a new batch: its records must follow by arithmetic.
        ([(0, 2, 1), (3, 1, 1)], [(0, 2), (3, 1)]),
        ([(5, 2, 10), (25, 1, 10)], [(5, 3)]),
        ([(5, 2, 10), (26, 1, 10)], [(5, 2), (26, 1)]),
        ([(0, 2, 1), (2, 2, 7)], [(0, 2), (2, 2)]),
    ],
)
def test_records_join_the_last_batch_while_they_follow_it_and_it_has_room(
    appends: list[tuple[int, int, int]], expected: list[tuple[int, int]]
) -> None:
    partition = make_partition()
    for first, count, stride in appends:
        append(partition, first, count, stride)
    assert shape(partition) == expected
    for batch in partition.queue:
        assert batch.intended_us == 1000 + batch.first_seq
        assert batch.is_full == (batch.records == 4)


def test_random_appends_lose_no_record() -> None:
    choose = random.Random(4)
    partition = make_partition()
    expected: list[int] = []
    seq = 0
    for _ in range(500):
        count, stride = choose.randint(1, 9), choose.choice([1, 1, 1, 3])
        append(partition, seq, count, stride)
        expected += [seq + k * stride for k in range(count)]
        seq += count * stride + choose.choice([0, 0, 5])
    queued = [b.first_seq + k * b.stride for b in partition.queue for k in range(b.records)]
    assert queued == expected
    assert all(1 <= batch.records <= 4 for batch in partition.queue)


def test_a_batch_that_was_sent_takes_no_more_records() -> None:
    partition = make_partition()
    append(partition, 0, 2)
    batch = send(partition)
    append(partition, 2, 1)
    partition.requeue(batch)
    append(partition, 3, 1)
    assert shape(partition) == [(0, 2), (2, 2)]
    send(partition)
    send(partition)
    partition.requeue(batch)
    append(partition, 4, 1)
    assert shape(partition) == [(0, 2), (4, 1)]


# --- order ---


def test_without_idempotence_any_batch_may_go_at_any_time() -> None:
    partition = make_partition()
    append(partition, 0, 12)
    first, second = send(partition), send(partition)
    partition.requeue(second)
    assert send(partition) is second
    partition.requeue(first)
    assert send(partition) is first
    assert [batch.sequence for batch in (first, second)] == [-1, -1]


def test_one_request_in_flight_means_one_batch_at_a_time() -> None:
    partition = make_partition(window=1)
    append(partition, 0, 8)
    batch = send(partition)
    assert not partition.may_send()
    partition.settle(batch, failed=False)
    assert send(partition).first_seq == 4


def test_sequences_count_records_and_stay_with_their_batch() -> None:
    partition = make_partition(ordered=True)
    append(partition, 0, 4)
    append(partition, 10, 3)
    append(partition, 20, 4)
    batches = [send(partition) for _ in range(3)]
    assert [batch.sequence for batch in batches] == [0, 4, 7]
    for batch in reversed(batches):
        partition.requeue(batch)
    assert [batch.first_seq for batch in partition.queue] == [0, 10, 20]
    assert send(partition).sequence == 0


def test_sequences_wrap_after_the_largest_int32() -> None:
    partition = make_partition(ordered=True)
    partition.next_sequence = (1 << 31) - 4
    append(partition, 0, 8)
    assert [send(partition).sequence for _ in range(2)] == [(1 << 31) - 4, 0]


def test_with_idempotence_a_retry_waits_for_all_before_it_and_new_batches_wait_for_the_retry() -> (
    None
):
    partition = make_partition(ordered=True)
    append(partition, 0, 16)
    a, b, c = send(partition), send(partition), send(partition)
    partition.requeue(c)
    partition.requeue(b)
    assert [batch.first_seq for batch in partition.queue] == [4, 8, 12]
    assert not partition.may_send()  # `a` may still come back
    partition.requeue(a)
    assert send(partition) is a  # the lowest may go at once
    assert not partition.may_send()
    partition.settle(a, failed=False)
    assert send(partition) is b
    assert not partition.may_send()
    partition.settle(b, failed=False)
    assert send(partition) is c
    # A batch never sent before does not have to wait behind it.
    assert send(partition).first_seq == 12


def test_with_idempotence_the_lowest_batch_may_be_tried_again_before_the_rest_came_back() -> None:
    partition = make_partition(ordered=True)
    append(partition, 0, 8)
    a, b = send(partition), send(partition)
    partition.requeue(a)
    assert send(partition) is a
    assert partition.outstanding == [a, b]


def test_an_idempotent_producer_that_the_partition_does_not_know_sends_its_first_batch_alone() -> (
    None
):
    partition = make_partition(ordered=True, started=False)
    append(partition, 0, 12)
    first = send(partition)
    assert not partition.may_send()
    partition.requeue(first)
    assert send(partition) is first
    assert not partition.may_send()
    partition.settle(first, failed=False)
    send(partition)
    send(partition)


def test_given_up_is_not_known() -> None:
    partition = make_partition(ordered=True, started=False)
    append(partition, 0, 12)
    partition.settle(send(partition), failed=True)
    send(partition)
    assert not partition.may_send()


def test_no_batch_goes_further_ahead_of_one_under_way_than_brokers_know_repeated_ones() -> None:
    """The first may be on its way to an old leader, the rest acknowledged by the new one."""
    partition = make_partition(ordered=True, window=5)
    append(partition, 0, 32)
    batches = [send(partition) for _ in range(5)]
    assert not partition.may_send()
    for batch in batches[1:]:
        partition.settle(batch, failed=False)
        assert not partition.may_send()
    partition.requeue(batches[0])
    assert send(partition) is batches[0]
    assert not partition.may_send()
    partition.settle(batches[0], failed=False)
    assert send(partition).first_seq == 20


def test_without_idempotence_there_is_no_such_limit() -> None:
    partition = make_partition(window=NO_WINDOW)
    append(partition, 0, 80)
    assert len([send(partition) for _ in range(20)]) == 20


def test_lowest_is_the_batch_before_which_nothing_is_to_be_settled() -> None:
    partition = make_partition(ordered=True)
    append(partition, 0, 12)
    a, b, c = send(partition), send(partition), send(partition)
    assert [partition.is_first_in_sequence(batch) for batch in (a, b, c)] == [True, False, False]
    partition.requeue(a)
    assert not partition.is_first_in_sequence(b)
    partition.settle(a, failed=False)
    assert partition.is_first_in_sequence(b)


# --- giving up ---


def test_after_a_batch_is_refused_the_rest_comes_home_and_starts_a_new_epoch() -> None:
    partition = make_partition(ordered=True)
    partition.producer_epoch = 3
    append(partition, 0, 16)
    a, b, c = send(partition), send(partition), send(partition)
    partition.settle(a, failed=True, refused=True)
    assert not partition.may_send()
    partition.requeue(c)
    assert not partition.may_send()
    partition.settle(b, failed=False)
    # KIP-360: a new epoch begins at sequence 0.
    assert send(partition) is c
    assert (c.producer_epoch, c.sequence) == (4, 0)
    assert (send(partition).sequence, partition.producer_epoch) == (4, 4)


def test_behind_a_batch_that_may_be_in_the_log_what_was_sent_keeps_its_sequence() -> None:
    partition = make_partition(ordered=True)
    append(partition, 0, 16)
    a, b, c = send(partition), send(partition), send(partition)
    partition.requeue(c)
    partition.requeue(b)
    partition.settle(a, failed=True)
    for number, again in enumerate((b, c), 1):
        assert send(partition) is again
        assert (again.producer_epoch, again.sequence) == (0, 4 * number)
        # What is new waits until those are settled, and begins a new epoch.
        assert not partition.may_send()
        partition.settle(again, failed=False)
    d = send(partition)
    assert (d.producer_epoch, d.sequence) == (1, 0)


def test_a_producer_whose_epochs_are_used_up_says_so() -> None:
    partition = make_partition(ordered=True)
    partition.producer_epoch = 32767
    append(partition, 0, 8)
    partition.settle(send(partition), failed=True)
    with pytest.raises(RefusedError, match="no epoch left"):
        send(partition)


def test_what_was_sent_before_a_refused_batch_keeps_its_sequence_as_it_may_be_in_the_log() -> None:
    partition = make_partition(ordered=True)
    append(partition, 0, 12)
    a, b = send(partition), send(partition)
    partition.requeue(a)  # appended, and told otherwise
    partition.settle(b, failed=True, refused=True)
    assert send(partition) is a
    assert (a.sequence, a.producer_epoch) == (0, 0)
    assert not partition.may_send()
    partition.settle(a, failed=False)
    c = send(partition)
    assert (c.first_seq, c.sequence, c.producer_epoch) == (8, 0, 1)


def test_a_batch_given_up_before_it_had_a_sequence_leaves_no_gap() -> None:
    partition = make_partition(ordered=True)
    append(partition, 0, 8)
    partition.settle(partition.queue[0], failed=True)
    batch = send(partition)
    assert (batch.first_seq, batch.sequence, batch.producer_epoch) == (4, 0, 0)


def test_a_batch_in_the_queue_can_be_settled() -> None:
    partition = make_partition()
    append(partition, 0, 12)
    first = send(partition)
    partition.requeue(first)
    partition.settle(first, failed=True)
    assert shape(partition) == [(4, 4), (8, 4)]
    assert partition.outstanding == []


def test_random_histories_settle_every_batch_once_and_in_sequence_order() -> None:
    """Whatever fails in whatever order, the log of the partition is gapless within an epoch."""
    for seed in range(200):
        choose = random.Random(seed)
        partition = make_partition(ordered=True)
        append(partition, 0, 4 * choose.randint(1, 12))
        wanted = {batch.first_seq for batch in partition.queue}
        expected: dict[int, int] = {}  # producer epoch -> next sequence at the leader
        settled: list[int] = []
        while partition.queue or partition.outstanding:
            if partition.queue and partition.may_send() and len(partition.outstanding) < 5:
                send(partition)
                if choose.random() < 0.5:
                    continue
            batch = choose.choice(partition.outstanding)
            in_order = batch.sequence == expected.setdefault(batch.producer_epoch, 0)
            if in_order and choose.random() < 0.6:
                expected[batch.producer_epoch] += batch.records
                partition.settle(batch, failed=False)
                settled.append(batch.first_seq)
            elif in_order and partition.is_first_in_sequence(batch) and choose.random() < 0.05:
                refused = choose.random() < 0.5
                if not refused and choose.random() < 0.5:  # in the log, and nobody was told
                    expected[batch.producer_epoch] += batch.records
                partition.settle(batch, failed=True, refused=refused)
                settled.append(batch.first_seq)
            else:
                if not in_order and partition.is_first_in_sequence(batch):
                    partition.renumber_from = min(partition.renumber_from, batch.number)
                partition.requeue(batch)
        assert sorted(settled) == sorted(wanted)
        assert settled == sorted(settled)
