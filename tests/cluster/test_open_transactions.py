"""Whether an open transaction will be ended, from what logs and coordinators say."""

import pytest

from kipctl.cluster.open_transactions import (
    CoordinatedTransaction,
    Coordinators,
    Ending,
    abort_command,
    open_transactions,
    still_open,
    without_record,
)
from kipctl.cluster.snapshot import PartitionId
from kipctl.protocol.transactions import ProducerState

HERE, THERE = PartitionId("orders", 0), PartitionId("orders", 1)


def known(state: str, *partitions: PartitionId, producer: int = 1000) -> Coordinators:
    entry = CoordinatedTransaction("app", producer, state, 5_000, 60_000, frozenset(partitions))
    return Coordinators({producer: entry})


def producer(id: int = 1000, start: int = 10) -> ProducerState:
    return ProducerState(id, 3, last_timestamp=4_000, current_txn_start_offset=start)


@pytest.mark.parametrize(
    ("coordinators", "ending", "since"),
    [
        (known("Ongoing", HERE, THERE), Ending.COMES, 5_000),
        (known("PrepareCommit", HERE), Ending.COMES, 5_000),
        # Its marker was written here once, and is lost: it waits for that of others only.
        (known("PrepareCommit", THERE), Ending.NEVER, 5_000),
        (known("CompleteCommit"), Ending.NEVER, 5_000),
        # The id has another producer by now, or was forgotten after seven days.
        (known("Ongoing", HERE, producer=1001), Ending.NEVER, 4_000),
        (Coordinators(), Ending.NEVER, 4_000),
        (Coordinators(incomplete="Broker 1 did not answer."), Ending.NOT_KNOWN, 4_000),
    ],
)
def test_who_ends_it(coordinators: Coordinators, ending: Ending, since: int) -> None:
    (transaction,) = open_transactions({HERE: (producer(),)}, coordinators)
    assert (transaction.ending, transaction.since_ms) == (ending, since)
    assert transaction.is_hanging is (ending is Ending.NEVER)


def test_transactions_of_which_a_log_has_no_record_are_those_under_way_on_the_partition() -> None:
    coordinators = known("Ongoing", HERE, THERE)
    transactions = open_transactions({HERE: (producer(),)}, coordinators)
    (lost,) = without_record([HERE, THERE], transactions, coordinators)
    assert (lost.id, lost.start_offset, lost.is_hanging) == (THERE, None, False)
    assert without_record([HERE], transactions, coordinators) == ()


def test_what_ended_between_two_looks_does_not_hang() -> None:
    begun = {HERE: (producer(1), producer(2)), THERE: (producer(3),)}
    assert still_open(begun, {HERE: (producer(2), producer(1, start=40))}) == {
        HERE: (producer(2),),
        THERE: (),
    }


def test_the_command_that_aborts_one_names_the_cluster() -> None:
    (transaction,) = open_transactions({HERE: (producer(),)}, Coordinators())
    assert abort_command("a:9092,b:9092", transaction, is_secured=False) == (
        "kafka-transactions.sh --bootstrap-server a:9092,b:9092 abort --topic orders --partition 0"
        " --start-offset 10"
    )
