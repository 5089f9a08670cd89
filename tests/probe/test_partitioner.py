"""Which partition gets which records: each record once, in the pattern of Kafka's partitioners."""

import random
from collections import Counter

import pytest

from kipctl.probe.produce.partitioner import Partitioner, Run, partitioner


def expand(runs: list[Run]) -> dict[int, int]:
    """The partition of each sequence number; fails when one is given twice."""
    assigned: dict[int, int] = {}
    for position, first, stride, count in runs:
        for seq in range(first, first + stride * count, stride):
            assert seq not in assigned
            assigned[seq] = position
    return assigned


def make(name: str, partitions: int, per_batch: int = 16, seed: int = 1) -> Partitioner:
    return partitioner(name, partitions, per_batch, random.Random(seed))


@pytest.mark.parametrize("name", ["sticky", "round-robin"])
@pytest.mark.parametrize("partitions", [1, 2, 7, 100])
def test_every_record_is_assigned_exactly_once_in_windows_of_any_size(
    name: str, partitions: int
) -> None:
    choose = random.Random(partitions)
    chosen = make(name, partitions)
    first = 0
    for _ in range(200):
        end = first + choose.choice([0, 1, 2, 15, 16, 17, 99, 250])
        assigned = expand(chosen.runs(first, end))
        assert sorted(assigned) == list(range(first, end))
        assert set(assigned.values()) <= set(range(partitions))
        first = end


def test_round_robin_gives_record_n_to_partition_n_modulo_partitions() -> None:
    chosen = make("round-robin", 3)
    chosen.load([9, 0, 0], [False, True, True])  # it does not look
    assigned = expand([*chosen.runs(0, 4), *chosen.runs(4, 5), *chosen.runs(5, 23)])
    assert assigned == {seq: seq % 3 for seq in range(23)}


def test_round_robin_makes_one_run_per_partition_however_many_records() -> None:
    assert make("round-robin", 4).runs(10, 1_000_010) == [
        (2, 10, 4, 250_000),
        (3, 11, 4, 250_000),
        (0, 12, 4, 250_000),
        (1, 13, 4, 250_000),
    ]


def test_sticky_fills_a_batch_before_it_picks_anew_also_across_calls() -> None:
    chosen = make("sticky", 50, per_batch=16)
    assigned = expand([run for end in range(5, 1605, 5) for run in chosen.runs(end - 5, end)])
    for batch in range(100):
        assert len({assigned[seq] for seq in range(16 * batch, 16 * batch + 16)}) == 1


def picks(chosen: Partitioner, batches: int) -> Counter[int]:
    """How often each partition is picked, from the next batch on."""
    chosen.runs(0, 1)  # what was picked before
    return Counter(position for position, _, _, _ in chosen.runs(0, batches))


def test_sticky_picks_all_partitions_alike() -> None:
    counts = picks(make("sticky", 10, per_batch=1), 20_000)
    assert set(counts) == set(range(10))
    assert all(1700 < count < 2300 for count in counts.values())


def test_sticky_leaves_out_partitions_without_a_leader() -> None:
    chosen = make("sticky", 5, per_batch=1)
    chosen.load([0, 0, 0, 0, 0], [False, True, False, True, False])
    assert set(picks(chosen, 2000)) == {1, 3}
    chosen.load([0, 0, 0, 0, 0], [True] * 5)
    assert set(picks(chosen, 2000)) == set(range(5))


def test_sticky_picks_a_partition_less_often_the_more_wait_for_it() -> None:
    chosen = make("sticky", 3, per_batch=1)
    chosen.load([9, 0, 5], [True] * 3)  # weights 1, 10, 5
    counts = picks(chosen, 32_000)
    assert 1600 < counts[0] < 2400
    assert 19_000 < counts[1] < 21_000
    assert 9_200 < counts[2] < 10_800


def test_sticky_goes_on_when_no_partition_has_a_leader() -> None:
    chosen = make("sticky", 3, per_batch=1)
    chosen.load([0, 0, 0], [True, False, False])
    chosen.load([4, 4, 4], [False] * 3)
    assert set(picks(chosen, 100)) == {0}
