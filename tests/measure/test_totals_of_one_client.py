"""What is counted of a producer, or of a consumer, alone while it works."""

from rows import rows_of
from test_delivery import INTERVAL_NS, START_US, batch, read

from kipctl.measure.live_totals import CONSUMER, DATASETS, PRODUCER, ConsumerTotals, ProducerTotals
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import Decision

REFUSED = {
    "attempt": 1,
    "error": int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "from_epoch": 3,
    "to_epoch": 4,
    "to_broker": 2,
    "decision": Decision.FOLLOWED,
    "metadata_us": 300,
}


def given(client, **rows):
    return {(client, name): rows_of(name, *rows.get(name, [])) for name in DATASETS[client]}


def test_a_producers_records_failures_leaders_and_moves_that_are_not_over() -> None:
    written = ProducerTotals(START_US, INTERVAL_NS, warmup_records=2)
    timed_out = int(ErrorCode.REQUEST_TIMED_OUT)
    batches = [batch(0, 0, 2, 10, broker=1), batch(1, 2, 3, 0, broker=2)]
    batches += [batch(0, 5, 4, -1, error=timed_out, broker=1)]
    written.add(given(PRODUCER, batches=batches, redirects=[REFUSED]), START_US + 1)
    written.add(given(PRODUCER), START_US + 2)
    met = written.clients[PRODUCER]
    assert (met.waits.distribution.total, met.waits_so_far.quantile(1)) == (0, 300)
    assert (written.settled, written.failed) == (9, {"REQUEST_TIMED_OUT": 4})
    assert written.leading == {1: 1, 2: 1}
    assert written.acknowledged.latency.distribution.total == 3


def test_the_newest_times_are_of_the_last_rows_in_the_warm_up_too() -> None:
    written = ProducerTotals(START_US, INTERVAL_NS, warmup_records=100)
    written.add(given(PRODUCER, batches=[batch(0, 0, 2, 10)]), START_US + 1)
    records, times = written.newest
    assert (records, times.total) == (2, 2)
    written.add(given(PRODUCER), START_US + 2)
    assert written.newest[0] == 0


def test_a_consumers_records_brokers_and_fetches() -> None:
    consumed = ConsumerTotals()
    fetch = {"api_key": ApiKey.FETCH, "sent_us": 1000, "received_us": 1700}
    metadata = {"api_key": ApiKey.METADATA, "sent_us": 1000, "received_us": 9000}
    reads = [read(0, 10, 2, at_ms=1), read(1, 0, 0, at_ms=2), read(2, 0, 5, at_ms=3)]
    consumed.add(given(CONSUMER, reads=reads, rpcs=[fetch, metadata]), START_US + 1)
    records, took = consumed.newest
    assert (records, took.total, took.quantile(1)) == (7, 1, 700)
    assert (consumed.settled, consumed.leading.total()) == (7, 2)
    assert consumed.clients[CONSUMER].metadata.total() == 1
