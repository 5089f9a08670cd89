"""One run sent by several workers: together they send what one would, each record at its time."""

import random
from itertools import chain, pairwise

import pytest

from kipctl.probe.produce.partitioner import partitioner
from kipctl.probe.schedule import WHOLE, Schedule, Share

START_US = 5_000_000
RATES = [3, 999, 3000, 33_333.3, 123_456, 300_000, 3_000_000]  # 3000: every 333,333 ns


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("total", [0, 1, 2, 6, 7, 100])
def test_shares_are_apart_and_together_all(workers: int, total: int) -> None:
    shares = [Share(worker, workers) for worker in range(workers)]
    numbers = [[share.number(k) for k in range(share.count(total))] for share in shares]
    assert sorted(chain.from_iterable(numbers)) == list(range(total))


@pytest.mark.parametrize("workers", [2, 3, 7])
@pytest.mark.parametrize("rate", RATES)
def test_a_worker_sends_its_records_when_one_alone_would_have_sent_them(
    rate: float, workers: int
) -> None:
    alone = Schedule(START_US, 10**9, rate)
    choose = random.Random(f"{rate} {workers}")
    for worker in range(workers):
        shared = Schedule(START_US, 10**9, rate, Share(worker, workers))
        for own in (0, 1, 2, 999, *(choose.randrange(10**7) for _ in range(100))):
            seq = worker + own * workers
            due_us = START_US + seq * alone.interval_ns // 1000
            assert shared.next_due_us(own) == alone.intended_us(seq) == due_us
            assert shared.due(due_us) >= own + 1
            assert shared.due(due_us - 1) <= own


@pytest.mark.parametrize(
    ("worker", "due"),
    # Records 0..6, intended 0, 333, 666, 999, 1333, 1666, 1999 us after the start.
    [
        (0, {-1: 0, 0: 1, 998: 1, 999: 2, 1332: 2, 1999: 3, 10**9: 3}),
        (1, {0: 0, 332: 0, 333: 1, 1332: 1, 1333: 2, 1999: 2, 10**9: 2}),
        (2, {0: 0, 665: 0, 666: 1, 1665: 1, 1666: 2, 1999: 2, 10**9: 2}),
    ],
)
def test_what_is_due_of_three_workers_at_an_odd_interval(worker: int, due: dict[int, int]) -> None:
    shared = Schedule(START_US, 7, 3000, Share(worker, 3))
    assert shared.own_records == due[10**9]
    assert {after: shared.due(START_US + after) for after in due} == due


def test_the_workers_records_that_are_due_add_up_to_all_that_are_due() -> None:
    alone = Schedule(START_US, 500, 3000)
    shared = [Schedule(START_US, 500, 3000, Share(worker, 3)) for worker in range(3)]
    for now_us in range(START_US - 1, START_US + 200_000, 71):
        assert sum(schedule.due(now_us) for schedule in shared) == alone.due(now_us)


def numbers(runs: list[tuple[int, int, int, int]]) -> dict[int, list[int]]:
    """The record numbers that each partition gets."""
    dealt: dict[int, list[int]] = {}
    for partition, first, stride, count in runs:
        dealt.setdefault(partition, []).extend(range(first, first + stride * count, stride))
    return dealt


@pytest.mark.parametrize("name", ["sticky", "round-robin"])
@pytest.mark.parametrize("workers", [2, 3])
def test_partitions_and_records_are_dealt_to_the_worker_whose_they_are(
    name: str, workers: int
) -> None:
    partitions, total = 8, 1000
    everything: list[int] = []
    for worker in range(workers):
        share = Share(worker, workers)
        shared = partitioner(name, partitions, 16, random.Random(worker), share)
        cuts = [*range(0, share.count(total), 37), share.count(total)]
        dealt = numbers([run for first, end in pairwise(cuts) for run in shared.runs(first, end)])
        assert set(dealt) == set(range(worker, partitions, workers))
        for records in dealt.values():
            assert records == sorted(records)
            assert {seq % workers for seq in records} == {worker}
            everything += records
    assert sorted(everything) == list(range(total))


def test_round_robin_of_a_worker_goes_round_its_own_partitions() -> None:
    shared = partitioner("round-robin", 5, 16, random.Random(0), Share(1, 2))
    assert shared.runs(0, 5) == [(1, 1, 4, 3), (3, 3, 4, 2)]


def test_a_worker_avoids_those_of_its_partitions_that_have_no_leader() -> None:
    shared = partitioner("sticky", 6, 1, random.Random(0), Share(1, 2))  # 1, 3, 5
    shared.load([0, 0, 0, 0, 0, 0], [True, False, True, False, True, True])
    shared.runs(0, 1)  # picked before it was told
    assert set(numbers(shared.runs(1, 50))) == {5}


def test_who_is_alone_deals_out_everything_as_it_always_did() -> None:
    alone = partitioner("round-robin", 3, 16, random.Random(0), WHOLE)
    assert alone.runs(0, 7) == [(0, 0, 3, 3), (1, 1, 3, 2), (2, 2, 3, 2)]
