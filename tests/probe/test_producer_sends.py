"""How records go out when nothing goes wrong: batches, requests, acks, and how a run ends."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from fake_kafka import VERSIONS, SimulatedCluster, batch_of, values
from fake_run import (
    IDEMPOTENT,
    ONE_RECORD_EACH,
    Ran,
    assert_all_in_the_log_once_and_in_order,
    at_batch,
    run_fake,
)

from kipctl.conform.cluster import Attempt, HungUpError
from kipctl.conform.cluster.control import Waiting
from kipctl.errors import KipctlError, RefusedError, UsageError
from kipctl.probe.produce import payloads
from kipctl.protocol.api import ApiKey
from kipctl.protocol.compression import Compression
from kipctl.protocol.error_codes import ErrorCode

FOUR_RECORDS = 61 + 4 * 17
"""batch.size for 4 records of 10 bytes."""


def batch_sizes(cluster: SimulatedCluster) -> list[int]:
    return [len(batch_of(produced).records) for produced in cluster.produced]


@pytest.mark.parametrize("partitioner", ["sticky", "round-robin"])
@pytest.mark.parametrize("throughput", [5000, -1])
def test_every_record_arrives_once_at_the_leader_of_its_partition(
    partitioner: str, throughput: float
) -> None:
    cluster = SimulatedCluster(brokers=3, partitions=7)
    ran = run_fake(
        cluster,
        num_records=500,
        throughput=throughput,
        partitioner=partitioner,
        batch_size=FOUR_RECORDS,
    )
    assert ran.outcome.acknowledged == cluster.records == 500
    assert ran.outcome.failed == 0
    assert not ran.outcome.stopped
    assert ran.redirects == []
    assert {p.broker for p in cluster.produced} == {1, 2, 3}
    assert {len(value) for p in cluster.produced for value in values(p)} == {10}
    by_partition = Counter({index: log.end for (_, index), log in cluster.logs.items()})
    rows = Counter[int]()
    for row in ran.batches:
        rows[row["partition"]] += row["records"]
    assert rows == by_partition
    assert sum(row["bytes"] for row in ran.batches) == 5000
    if partitioner == "round-robin":
        assert max(rows.values()) - min(rows.values()) <= 1


@pytest.mark.parametrize("compression", [c.name.lower() for c in Compression])
def test_records_are_readable_in_every_compression(compression: str) -> None:
    cluster = SimulatedCluster(brokers=1, partitions=2)
    run_fake(cluster, num_records=90, throughput=-1, compression_type=compression)
    assert {batch_of(p).compression.name.lower() for p in cluster.produced} == {compression}
    letters = b"".join(value for p in cluster.produced for value in values(p))
    assert len(letters) == 900
    assert letters.isupper()


@pytest.mark.parametrize("throughput", [20_000, -1])
def test_a_batch_is_cut_to_a_size_that_is_compressed_already(
    monkeypatch: pytest.MonkeyPatch, throughput: float
) -> None:
    monkeypatch.setattr(payloads, "_COMPRESSED_BYTES", 0)
    cluster = SimulatedCluster(brokers=1, partitions=2)
    ran = run_fake(
        cluster,
        num_records=1009,
        throughput=throughput,
        compression_type="lz4",
        batch_size=61 + 17 * 20,
        linger_ms=1,
        **IDEMPOTENT,
    )
    assert_all_in_the_log_once_and_in_order(cluster, ran)
    assert set(batch_sizes(cluster)) <= {1, 2, 4, 8, 16, 20}
    assert len(set(batch_sizes(cluster))) > 1
    interval_us = ran.outcome.interval_ns / 1000
    for batch in ran.batches if throughput > 0 else ():
        due_us = ran.outcome.start_us + batch["first_seq"] * interval_us
        assert abs(batch["intended_us"] - due_us) <= 1


def test_a_record_carries_the_wall_clock_of_its_intended_time_also_when_it_is_sent_again() -> None:
    cluster = SimulatedCluster(script=at_batch(1, lambda _: cluster.elect(0, 2)))
    ran = run_fake(cluster, num_records=1)
    first, again = (batch_of(p).header.base_timestamp_ms for p in cluster.produced)
    assert first == again == ran.outcome.wall_start_us // 1000


@pytest.mark.parametrize(
    ("records", "linger_ms", "sizes"), [(12, 80_000, [4, 4, 4]), (6, 30, [4, 2])]
)
def test_a_lingering_batch_goes_out_when_it_is_full_or_after_linger_ms(
    records: int, linger_ms: int, sizes: list[int]
) -> None:
    cluster = SimulatedCluster(brokers=1)
    ran = run_fake(cluster, num_records=records, linger_ms=linger_ms, batch_size=FOUR_RECORDS)
    assert batch_sizes(cluster) == sizes
    for batch in ran.batches:
        waited_us = batch["sent_us"] - batch["intended_us"]
        assert waited_us < 2_000 if batch["records"] == 4 else 30_000 <= waited_us < 31_000


@pytest.mark.parametrize(("max_request_size", "requests"), [(1_048_576, 4), (250, 20)])
def test_a_request_holds_a_batch_of_each_partition_up_to_max_request_size(
    max_request_size: int, requests: int
) -> None:
    """A batch has 109 bytes here."""
    cluster = SimulatedCluster(brokers=1, partitions=10)
    ran = run_fake(
        cluster,
        num_records=40,
        record_size=100,
        max_request_size=max_request_size,
        **ONE_RECORD_EACH,
    )
    assert len(ran.calls(ApiKey.PRODUCE)) == requests
    assert ran.outcome.acknowledged == 40


def test_a_batch_that_did_not_fit_a_request_goes_on_to_grow_and_is_whole() -> None:
    """The broker answers slowly at first, so that batches fill while they wait their turn."""

    def script(produced: Attempt) -> Waiting:
        if len(cluster.produced) <= 4:
            yield from cluster.pause(50_000)

    cluster = SimulatedCluster(brokers=1, partitions=4, script=script)
    ran = run_fake(
        cluster,
        num_records=200,
        throughput=1000,
        record_size=100,
        max_request_size=300,
        max_in_flight_requests_per_connection=1,
    )
    assert ran.outcome.acknowledged == cluster.records == 200
    assert max(batch_sizes(cluster)) > 3


@pytest.mark.parametrize("window", [1, 2, 5])
def test_no_more_requests_are_in_flight_than_the_window_has_room_for(window: int) -> None:
    cluster = SimulatedCluster(brokers=1)
    ran = run_fake(
        cluster, num_records=30, max_in_flight_requests_per_connection=window, **ONE_RECORD_EACH
    )
    behind = [row["queued_behind"] for row in ran.calls(ApiKey.PRODUCE)]
    assert max(behind) == window - 1
    assert ran.outcome.acknowledged == 30


def test_unthrottled_no_more_is_handed_over_than_buffer_memory_holds() -> None:
    cluster = SimulatedCluster(script=at_batch(1, lambda _: cluster.pause(50_000)))
    ran = run_fake(cluster, num_records=40, buffer_memory=10 * 17, **ONE_RECORD_EACH)
    first_answer = min(row["acked_us"] for row in ran.batches)
    handed_over = [row for row in ran.batches if row["intended_us"] < first_answer]
    assert len(handed_over) == 10
    assert ran.outcome.acknowledged == 40


def test_a_run_that_is_stopped_settles_what_is_under_way() -> None:
    ticks = iter([False, True])
    cluster = SimulatedCluster(partitions=2)
    ran = run_fake(
        cluster, num_records=10**6, throughput=1000, should_stop=lambda: next(ticks, True)
    )
    assert ran.outcome.stopped
    assert 0 < ran.outcome.generated < 10**6
    assert ran.outcome.acknowledged == ran.outcome.generated == cluster.records


# --- with acks=0 no answer tells that a request has arrived: it is done when it is written ---


def test_acks_0_waits_for_nothing() -> None:
    cluster = SimulatedCluster(partitions=3)
    ran = run_fake(cluster, num_records=100, acks=0)
    assert ran.outcome.acknowledged == 100
    cluster.world.sleep(1)
    assert cluster.records == 100
    assert {row["base_offset"] for row in ran.batches} == {-1}
    requests = ran.calls(ApiKey.PRODUCE)
    assert requests
    assert {(r["received_us"], r["response_bytes"], r["error"]) for r in requests} == {(0, 0, 0)}


def write_large(act: Callable[[Attempt], object], **given: Any) -> tuple[SimulatedCluster, Ran]:
    """Two records, a request each, of which the second finds the first in its way: the socket takes
    no whole one. `act` is what is done when the first has arrived.
    """
    cluster = SimulatedCluster(brokers=1, script=at_batch(1, act))
    cluster.room = 1000
    ran = run_fake(cluster, num_records=2, record_size=5000, acks=0, **ONE_RECORD_EACH, **given)
    return cluster, ran


def slowly(trouble: Exception | None = None) -> Callable[[Attempt], Waiting]:
    """For scripts: the broker reads on after 0.2 s, if there is no trouble then."""

    def act(_: object) -> Waiting:
        for _ in range(200):  # it looks again every millisecond
            yield
        if trouble:
            raise trouble

    return act


def test_acks_0_is_acknowledged_when_it_is_written() -> None:
    cluster, ran = write_large(slowly())
    cluster.world.sleep(1)
    assert cluster.records == ran.outcome.acknowledged == 2
    written_us = [row["acked_us"] for row in ran.batches]
    assert written_us[0] < ran.outcome.start_us + 200_000 < written_us[1]
    assert len(ran.calls(ApiKey.PRODUCE)) == 2
    assert ran.redirects == []


@pytest.mark.parametrize(
    ("act", "request_timeout_ms"),
    [
        pytest.param(slowly(HungUpError()), 120_000, id="the broker hangs up"),
        pytest.param(slowly(), 100, id="it reads nothing for longer than request.timeout.ms"),
    ],
)
def test_acks_0_what_is_lost_before_it_is_written_is_sent_again(
    act: Callable[[Attempt], object], request_timeout_ms: int
) -> None:
    _, ran = write_large(act, request_timeout_ms=request_timeout_ms)
    assert ran.outcome.acknowledged == 2
    assert [row["attempts"] for row in ran.batches] == [1, 2]
    (failed,) = ran.redirects
    assert failed["error"] == ErrorCode.NETWORK_EXCEPTION
    errors = [row["error"] for row in ran.calls(ApiKey.PRODUCE)]
    assert errors == [0, ErrorCode.NETWORK_EXCEPTION, 0]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"retries": 0}, "NETWORK_EXCEPTION"),
        ({"request_timeout_ms": 100, "delivery_timeout_ms": 100}, "REQUEST_TIMED_OUT"),
    ],
)
def test_acks_0_what_is_not_written_and_not_sent_again_has_failed(
    given: dict[str, Any], error: str
) -> None:
    _, ran = write_large(slowly(HungUpError()), **given)
    assert ran.outcome.acknowledged == 1
    assert ran.outcome.errors == {error: 1}


# --- what cannot begin ---


@pytest.mark.parametrize(
    ("error", "raised", "what"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UsageError, "Topic 't' does not exist"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, RefusedError, "TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_a_topic_that_cannot_be_written_is_refused(
    error: int, raised: type[KipctlError], what: str
) -> None:
    cluster = SimulatedCluster(brokers=1)
    cluster.topic_error = error
    with pytest.raises(raised, match=what):
        run_fake(cluster)


def test_a_broker_too_old_to_speak_with_is_named() -> None:
    cluster = SimulatedCluster(brokers=1, versions=VERSIONS | {0: (0, 2)})
    with pytest.raises(RefusedError, match="speaks ProduceRequest 0 to 2, kipctl 3 to 13") as e:
        run_fake(cluster)
    assert f"Broker 1 at {cluster.bootstrap_server}" in e.value.what


def test_a_producer_id_is_asked_for_again_while_the_cluster_starts_up() -> None:
    cluster = SimulatedCluster(brokers=1)
    cluster.producer_id_errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
    ran = run_fake(cluster, **IDEMPOTENT)
    assert not cluster.producer_id_errors
    assert ran.outcome.acknowledged == 1
    cluster.producer_id_errors = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    with pytest.raises(KipctlError, match="No producer id") as refused:
        run_fake(cluster, **IDEMPOTENT)
    assert "enable.idempotence=false" in refused.value.next_step


def test_a_topic_whose_id_nobody_tells_is_produced_to_by_its_name() -> None:
    """Metadata before 10 has no ids, Produce from 13 on nothing else."""
    cluster = SimulatedCluster(versions=VERSIONS | {3: (0, 9)})
    ran = run_fake(cluster, 2)
    assert {produced.version for produced in cluster.produced} == {12}
    assert ran.outcome.acknowledged == 2
