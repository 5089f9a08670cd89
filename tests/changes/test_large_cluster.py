"""20 simulated brokers and 600 partitions: what commands do to them, ask of them, and say."""

from collections.abc import Iterator

import pytest
from in_process import Terminal
from many_brokers import MOST_RECORDS, ManyBrokers, many_brokers, uneven
from passing_clock import PassingClock

PARTITIONS, BROKERS, BATCH = 600, 20, 150
MOST_LINES = 100
PACED = f"--batch {BATCH} --between 0s --yes"


@pytest.fixture
def large(clock: PassingClock) -> Iterator[ManyBrokers]:
    held, sizes = uneven(PARTITIONS, BROKERS)
    large = ManyBrokers(held, tuple(range(1, BROKERS + 1)), sizes=sizes, clock=clock.monotonic)
    with many_brokers(large):
        yield large


def batches(asked: list[int], size: int = BATCH) -> None:
    """As many requests as there have to be, none of them larger than a batch."""
    assert len(asked) == -(-sum(asked) // size)
    assert max(asked) <= size


def test_a_plan_that_copies_nothing_asks_nobody_for_sizes(large: ManyBrokers) -> None:
    ran = large.kipctl("reassign", "--balance", "leaders", "--dry-run")
    assert ran.status == 0, ran.err
    assert large.counts["DescribeLogDirs"] == 0
    assert large.altered == []
    assert len(ran.err.splitlines()) < MOST_LINES  # a pipe gets every row
    assert large.kipctl("reassign", "--drain", "1", "--dry-run").status == 0
    assert large.counts["DescribeLogDirs"] == BROKERS


def test_a_balance_of_leaders_goes_in_batches_and_says_little(large: ManyBrokers) -> None:
    before = large.replicas()
    ran = large.kipctl("reassign", "--balance", "leaders", PACED)
    assert ran.status == 0, ran.err
    preferred = [replicas[0] for replicas in large.replicas().values()]
    counted = [preferred.count(broker) for broker in large.brokers]
    assert max(counted) - min(counted) <= 1
    assert all(set(now) == set(before[partition]) for partition, now in large.replicas().items())
    batches([len(alter) for alter in large.altered])
    assert len(large.elected) == len(large.altered)
    assert len(ran.err.splitlines()) < MOST_LINES  # a pipe gets every row


def test_a_drain_with_a_throttle_and_its_way_back(large: ManyBrokers) -> None:
    before, led = large.replicas(), large.leaders()
    ran = large.kipctl("reassign", "--drain", "1", "--throttle", "50MB/s", PACED, "-o", "json")
    assert ran.status == 0, ran.err
    assert not any(1 in replicas for replicas in large.replicas().values())
    assert not any(large.configs.values())
    copied = ran.document["copied"]
    drained = [partition for partition, replicas in before.items() if 1 in replicas]
    assert copied["expected_bytes"] == copied["copied_bytes"] == sum(map(large.sizes.get, drained))
    batches([len(alter) for alter in large.altered])
    # A throttle is read, set, read again and put back at each broker, and of all topics together.
    assert large.counts["IncrementalAlterConfigs"] == 2 * (BROKERS + 1)
    assert large.largest["IncrementalAlterConfigs"] <= MOST_RECORDS
    assert len(ran.err.splitlines()) < MOST_LINES
    ran = large.kipctl("undo", PACED)
    assert ran.status == 0, ran.err
    assert large.replicas() == before
    changed = {partition for alter in large.altered for partition in alter}
    assert {
        partition: large.leaders()[partition] for partition in before if partition not in changed
    } == {partition: led[partition] for partition in before if partition not in changed}


def test_elections_go_in_batches_and_say_little(large: ManyBrokers) -> None:
    ran = large.kipctl("elect", "preferred", "--all", PACED)
    assert ran.status == 0, ran.err
    assert all(held.leader == held.replicas[0] for held in large.partitions.values())
    batches(list(map(len, large.elected)))
    assert sum(map(len, large.elected)) == len([n for n in range(PARTITIONS) if n % 3 == 0])
    assert len(ran.err.splitlines()) < MOST_LINES  # a pipe gets every row


def test_a_terminal_gets_a_few_rows_and_a_pipe_every_one(large: ManyBrokers) -> None:
    terminal = Terminal()
    words = "reassign --balance leaders --dry-run"
    assert large.kipctl(words, stdout=terminal).status == 0
    assert len(terminal.getvalue().splitlines()) < MOST_LINES
    assert len(large.kipctl(words).out.splitlines()) > MOST_LINES
