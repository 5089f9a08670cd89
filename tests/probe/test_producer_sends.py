"""How records go out when nothing goes wrong: batches, requests, acks, and how a run ends."""

import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fake_broker import VERSIONS, FakeCluster, HangUp, Produced, Reply, Silence
from fake_run import (
    IDEMPOTENT,
    ONE_RECORD_EACH,
    Ran,
    assert_all_in_the_log_once_and_in_order,
    run_fake,
)

from kipctl.errors import KipctlError, RefusedError, UsageError
from kipctl.measure.running_probe import running_probe
from kipctl.probe.produce import payloads, run
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceSpec
from kipctl.protocol.api import ApiKey
from kipctl.protocol.compression import Compression
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access

FOUR_RECORDS = 61 + 4 * 17
"""batch.size for 4 records of 10 bytes."""


def batch_sizes(cluster: FakeCluster) -> list[int]:
    return [len(produced.batch.records) for produced in cluster.produced]


@pytest.mark.parametrize("partitioner", ["sticky", "round-robin"])
@pytest.mark.parametrize("throughput", [5000, -1])
def test_every_record_arrives_once_at_the_leader_of_its_partition(
    tmp_path: Path, partitioner: str, throughput: float
) -> None:
    with FakeCluster(brokers=3, partitions=7) as cluster:
        ran = run_fake(
            cluster,
            tmp_path,
            num_records=500,
            throughput=throughput,
            partitioner=partitioner,
            batch_size=FOUR_RECORDS,
        )
        assert ran.outcome.acknowledged == cluster.records_in_log() == 500
        assert ran.outcome.failed == 0
        assert not ran.outcome.stopped
        assert ran.redirects == []
        assert {p.broker for p in cluster.produced} == {1, 2, 3}
        assert {len(value) for p in cluster.produced for value in p.values} == {10}
        by_partition = Counter(
            {p: sum(len(x.batch.records) for x in log) for p, log in cluster.log.items()}
        )
        rows = Counter[int]()
        for row in ran.batches:
            rows[row["partition"]] += row["records"]
        assert rows == by_partition
        assert sum(row["bytes"] for row in ran.batches) == 5000
        if partitioner == "round-robin":
            assert max(rows.values()) - min(rows.values()) <= 1


@pytest.mark.parametrize("compression", [c.name.lower() for c in Compression])
def test_records_are_readable_in_every_compression(tmp_path: Path, compression: str) -> None:
    with FakeCluster(brokers=1, partitions=2) as cluster:
        run_fake(cluster, tmp_path, num_records=90, throughput=-1, compression_type=compression)
        assert {p.batch.compression.name.lower() for p in cluster.produced} == {compression}
        letters = b"".join(value for p in cluster.produced for value in p.values)
        assert len(letters) == 900
        assert letters.isupper()


@pytest.mark.parametrize("throughput", [20_000, -1])
def test_a_batch_is_cut_to_a_size_that_is_compressed_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, throughput: float
) -> None:
    monkeypatch.setattr(payloads, "_COMPRESSED_BYTES", 0)
    with FakeCluster(brokers=1, partitions=2) as cluster:
        ran = run_fake(
            cluster,
            tmp_path,
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


def test_a_record_carries_the_wall_clock_of_its_intended_time_also_when_it_is_sent_again(
    tmp_path: Path,
) -> None:
    with FakeCluster(brokers=2) as cluster:

        def script(produced: Produced) -> Reply | None:
            if len(cluster.produced) == 1:
                cluster.move(0, 2)
            return None

        cluster.script = script
        ran = run_fake(cluster, tmp_path, num_records=1)
        first, again = (p.batch.header.base_timestamp_ms for p in cluster.produced)
        assert first == again
        assert abs(first - ran.outcome.wall_start_us / 1000) <= 1.5
        assert first <= time.time_ns() // 1_000_000


def test_lingering_batches_go_out_when_they_are_full(tmp_path: Path) -> None:
    with FakeCluster(brokers=1) as cluster:
        run_fake(cluster, tmp_path, num_records=12, linger_ms=80_000, batch_size=FOUR_RECORDS)
        assert batch_sizes(cluster) == [4, 4, 4]


def test_a_batch_that_does_not_fill_goes_out_after_linger_ms(tmp_path: Path) -> None:
    with FakeCluster(brokers=1) as cluster:
        ran = run_fake(cluster, tmp_path, num_records=6, linger_ms=30, batch_size=FOUR_RECORDS)
        assert batch_sizes(cluster) == [4, 2]
        assert ran.batches[1]["sent_us"] - ran.batches[1]["intended_us"] >= 30_000


def test_a_request_holds_a_batch_of_each_partition_up_to_max_request_size(tmp_path: Path) -> None:
    with FakeCluster(brokers=1, partitions=10) as cluster:
        everything: dict[str, Any] = {"num_records": 40, "throughput": -1, "record_size": 100}
        ran = run_fake(cluster, tmp_path, **everything, batch_size=0)
        assert len(ran.calls(ApiKey.PRODUCE)) == 4
    with FakeCluster(brokers=1, partitions=10) as cluster:
        folder = tmp_path / "limited"
        folder.mkdir()
        ran = run_fake(cluster, folder, **everything, max_request_size=250, batch_size=0)
        assert len(ran.calls(ApiKey.PRODUCE)) == 20  # two of 109 bytes in each
        assert ran.outcome.acknowledged == 40


def test_a_batch_that_did_not_fit_a_request_goes_on_to_grow_and_is_whole(tmp_path: Path) -> None:
    """The broker answers slowly at first, so that batches fill while they wait their turn."""
    ticks = threading.Semaphore(0)
    with FakeCluster(brokers=1, partitions=4) as cluster:

        def script(produced: Produced) -> Reply | None:
            if len(cluster.produced) <= 4:
                assert ticks.acquire(timeout=60)
            return None

        cluster.script = script
        ran = run_fake(
            cluster,
            tmp_path,
            num_records=200,
            throughput=1000,
            record_size=100,
            max_request_size=300,
            max_in_flight_requests_per_connection=1,
            should_stop=lambda: bool(ticks.release()),
        )
        assert ran.outcome.acknowledged == cluster.records_in_log() == 200
        assert max(batch_sizes(cluster)) > 3


@pytest.mark.parametrize("window", [1, 2, 5])
def test_no_more_requests_are_in_flight_than_the_window_has_room_for(
    tmp_path: Path, window: int
) -> None:
    with FakeCluster(brokers=1) as cluster:

        def script(produced: Produced) -> Reply | None:
            if window > 1 and len(cluster.produced) == 1:
                cluster.await_another_request(produced)
            return None

        cluster.script = script
        ran = run_fake(
            cluster,
            tmp_path,
            num_records=30,
            throughput=-1,
            batch_size=0,
            max_in_flight_requests_per_connection=window,
        )
        behind = [row["queued_behind"] for row in ran.calls(ApiKey.PRODUCE)]
        assert max(behind) <= window - 1
        assert (max(behind) > 0) == (window > 1)
        assert ran.outcome.acknowledged == 30


def test_acks_0_waits_for_nothing(tmp_path: Path) -> None:
    arrived = threading.Semaphore(0)
    with FakeCluster(brokers=2, partitions=3) as cluster:

        def script(produced: Produced) -> Reply:
            reply = cluster.append(produced)
            arrived.release()
            return reply

        cluster.script = script
        ran = run_fake(cluster, tmp_path, num_records=100, acks=0)
        assert ran.outcome.acknowledged == 100
        for _ in ran.batches:
            assert arrived.acquire(timeout=60)
        assert cluster.records_in_log() == 100
        assert {row["base_offset"] for row in ran.batches} == {-1}
        requests = ran.calls(ApiKey.PRODUCE)
        assert requests
        assert {(r["received_us"], r["response_bytes"], r["error"]) for r in requests} == {
            (0, 0, 0)
        }


# With acks=0 no answer tells that a request has arrived: it is done when it is written.

LARGE = 8_000_000
"""No socket of `little_room` takes a record of so many bytes at once."""


def little_room(cluster: FakeCluster) -> None:
    """Brokers whose sockets take little that is not read."""
    for broker in cluster.brokers.values():
        broker._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)


def write_large(cluster: FakeCluster, directory: Path, **given: Any) -> Ran:
    """Two records, a request each, without an answer; the second finds the first in its way."""
    little_room(cluster)
    with pytest.MonkeyPatch.context() as patch:  # random letters would take seconds
        patch.setattr(payloads, "_VARIANTS", 1)
        patch.setattr(run, "random_values", lambda size, *_: [bytes(size)])
        return run_fake(
            cluster,
            directory,
            num_records=2,
            record_size=LARGE,
            **ONE_RECORD_EACH,
            acks=0,
            **given,
        )


def test_acks_0_is_acknowledged_when_it_is_written(tmp_path: Path) -> None:
    ticks, arrived = threading.Semaphore(0), threading.Semaphore(0)
    reads_on_us = []
    with FakeCluster(brokers=1) as cluster:

        def script(produced: Produced) -> Reply:
            if not reads_on_us:
                for _ in range(4):
                    assert ticks.acquire(timeout=60)
                reads_on_us.append(now_us())
            reply = cluster.append(produced)
            arrived.release()
            return reply

        cluster.script = script
        ran = write_large(cluster, tmp_path, should_stop=lambda: bool(ticks.release()))
        for _ in range(2):
            assert arrived.acquire(timeout=60)
        assert cluster.records_in_log() == ran.outcome.acknowledged == 2
        written_us = [row["acked_us"] for row in ran.batches]
        assert written_us[0] < reads_on_us[0] < written_us[1]
        assert len(ran.calls(ApiKey.PRODUCE)) == 2
        assert ran.redirects == []


@pytest.mark.parametrize("is_cut", [True, False])
def test_acks_0_what_is_lost_before_it_is_written_is_sent_again(
    tmp_path: Path, is_cut: bool
) -> None:
    """Either the broker hangs up, or it reads nothing for longer than request.timeout.ms."""
    second = threading.Event()
    ticks = threading.Semaphore(0)

    def script(produced: Produced) -> Reply | None:
        if len(cluster.produced) > 1:
            second.set()
        elif is_cut:
            for _ in range(2):
                assert ticks.acquire(timeout=60)
            raise HangUp
        else:
            assert second.wait(timeout=60)
        return None

    with FakeCluster(brokers=1, script=script) as cluster:
        ran = write_large(
            cluster,
            tmp_path,
            should_stop=lambda: bool(ticks.release()),
            request_timeout_ms=120_000 if is_cut else 300,
        )
        assert second.wait(timeout=60)
        assert ran.outcome.acknowledged == 2
        assert [row["attempts"] for row in ran.batches] == [1, 2]
        (failed,) = ran.redirects
        assert failed["error"] == ErrorCode.NETWORK_EXCEPTION
        errors = [row["error"] for row in ran.calls(ApiKey.PRODUCE)]
        assert errors == [0, ErrorCode.NETWORK_EXCEPTION, 0]


def test_acks_0_without_retries_what_is_lost_before_it_is_written_has_failed(
    tmp_path: Path,
) -> None:
    ticks = threading.Semaphore(0)

    def script(produced: Produced) -> Reply | None:
        for _ in range(2):
            assert ticks.acquire(timeout=60)
        raise HangUp

    with FakeCluster(brokers=1, script=script) as cluster:
        ran = write_large(cluster, tmp_path, should_stop=lambda: bool(ticks.release()), retries=0)
        assert ran.outcome.acknowledged == 1
        assert ran.outcome.errors == {"NETWORK_EXCEPTION": 1}


def test_acks_0_what_is_not_written_by_delivery_timeout_has_failed(tmp_path: Path) -> None:
    over = threading.Event()

    def script(produced: Produced) -> Reply | None:
        assert over.wait(timeout=60)
        return None

    with FakeCluster(brokers=1, script=script) as cluster:
        ran = write_large(
            cluster,
            tmp_path,
            request_timeout_ms=200,
            delivery_timeout_ms=200,
            socket_connection_setup_timeout_ms=60_000,
        )
        over.set()
        assert ran.outcome.acknowledged == 1
        assert ran.outcome.failed == 1


def test_unthrottled_no_more_is_handed_over_than_buffer_memory_holds(tmp_path: Path) -> None:
    ticks = threading.Semaphore(0)
    with FakeCluster(brokers=1) as cluster:

        def script(produced: Produced) -> Reply | None:
            if len(cluster.produced) == 1:
                assert ticks.acquire(timeout=60)
            return None

        cluster.script = script
        ran = run_fake(
            cluster,
            tmp_path,
            num_records=40,
            throughput=-1,
            batch_size=0,
            buffer_memory=10 * 17,
            should_stop=lambda: bool(ticks.release()),
        )
        first_answer = min(row["acked_us"] for row in ran.batches)
        handed_over = [row for row in ran.batches if row["intended_us"] < first_answer]
        assert len(handed_over) == 10
        assert ran.outcome.acknowledged == 40


def test_a_run_that_is_stopped_settles_what_is_under_way(tmp_path: Path) -> None:
    ticks = iter([False, True])
    with FakeCluster(brokers=2, partitions=2) as cluster:
        ran = run_fake(
            cluster,
            tmp_path,
            num_records=10**6,
            throughput=1000,
            should_stop=lambda: next(ticks, True),
        )
        assert ran.outcome.stopped
        assert 0 < ran.outcome.generated < 10**6
        assert ran.outcome.acknowledged == ran.outcome.generated == cluster.records_in_log()


# --- what cannot begin ---


@pytest.mark.parametrize(
    ("error", "raised", "what"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UsageError, "Topic 't' does not exist"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, RefusedError, "TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_a_topic_that_cannot_be_written_is_refused(
    tmp_path: Path, error: int, raised: type[KipctlError], what: str
) -> None:
    with FakeCluster(brokers=1) as cluster:
        cluster.topic_error = error
        with pytest.raises(raised, match=what):
            run_fake(cluster, tmp_path)


def test_a_broker_too_old_to_speak_with_is_named(tmp_path: Path) -> None:
    with FakeCluster(brokers=1, versions=VERSIONS | {0: (0, 2)}) as cluster:
        port = cluster.brokers[1].port
        with pytest.raises(RefusedError, match="speaks ProduceRequest 0 to 2, kipctl 3 to 13") as e:
            run_fake(cluster, tmp_path)
        assert f"Broker 1 at 127.0.0.1:{port}" in e.value.what


def test_a_producer_id_is_asked_for_again_while_the_cluster_starts_up(tmp_path: Path) -> None:
    with FakeCluster(brokers=1) as cluster:
        cluster.producer_id_errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
        ran = run_fake(cluster, tmp_path, acks=-1, enable_idempotence=True)
        assert ran.outcome.acknowledged == 1
        cluster.producer_id_errors = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        with pytest.raises(KipctlError, match="No producer id") as refused:
            run_fake(cluster, tmp_path, acks=-1, enable_idempotence=True)
        assert "enable.idempotence=false" in refused.value.next_step


# --- in a process of its own ---


def spec_for(cluster: FakeCluster, num_records: int) -> ProduceSpec:
    config = ProducerConfig(acks=1, enable_idempotence=False)
    return ProduceSpec(Access(cluster.bootstrap_server), "t", num_records, 1000, 10, config=config)


def test_a_probe_in_its_own_process_tells_of_batches_while_it_runs_and_its_outcome(
    tmp_path: Path,
) -> None:
    with (
        FakeCluster(brokers=2, partitions=2) as cluster,
        running_probe(spec_for(cluster, 300), tmp_path) as probe,
    ):
        assert probe.schedule.num_records == 300
        outcome = probe.outcome()
        assert outcome.start_us == probe.schedule.start_us
        assert outcome.acknowledged == cluster.records_in_log() == 300
        rows = probe.new_rows("batches")
        assert len(rows) == len(cluster.produced)
        assert len(probe.new_rows("batches")) == 0
    assert multiprocessing.active_children() == []


def test_a_probe_is_stopped_from_outside(tmp_path: Path) -> None:
    with (
        FakeCluster(brokers=1) as cluster,
        running_probe(spec_for(cluster, 10**6), tmp_path) as probe,
    ):
        assert not probe.is_done_by(probe.schedule.start_us)
        probe.stop()
        outcome = probe.outcome()
        assert outcome.stopped
        assert outcome.acknowledged == outcome.generated == cluster.records_in_log()


def test_what_keeps_a_probe_from_beginning_is_raised_here(tmp_path: Path) -> None:
    with FakeCluster(brokers=1) as cluster:
        cluster.topic_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with (
            pytest.raises(UsageError, match="does not exist"),
            running_probe(spec_for(cluster, 1), tmp_path),
        ):
            pass
    assert multiprocessing.active_children() == []


def test_a_probe_that_is_killed_came_to_what_it_had_settled(tmp_path: Path) -> None:
    with (
        FakeCluster(brokers=1) as cluster,
        running_probe(spec_for(cluster, 10**6), tmp_path) as probe,
    ):
        (child,) = multiprocessing.active_children()
        while not len(probe.new_rows("batches")):
            assert not probe.is_done_by(now_us() + 10_000)
        child.kill()
        outcome = probe.outcome()
        assert "ended early (exit code -9)" in outcome.failure
        assert 0 < outcome.acknowledged == outcome.generated <= cluster.records_in_log()
        assert outcome.start_us == probe.schedule.start_us
        assert probe.results[0].outcome is outcome


def test_a_probe_that_is_given_up_does_not_wait_for_what_is_under_way(tmp_path: Path) -> None:
    silent_from_now_on = threading.Event()

    def script(produced: Produced) -> Reply | None:
        if silent_from_now_on.is_set():
            raise Silence
        return None

    with (
        FakeCluster(brokers=1, script=script) as cluster,
        running_probe(spec_for(cluster, 10**6), tmp_path) as probe,
    ):
        while not len(probe.new_rows("batches")):
            assert not probe.is_done_by(now_us() + 10_000)
        silent_from_now_on.set()
        probe.stop()
        outcome = probe.give_up()
        assert (outcome.stopped, outcome.failure) == (True, "")
        assert outcome.acknowledged > 0
    assert multiprocessing.active_children() == []


ON_A_FULL_DISK = """
import resource, sys
from pathlib import Path
from fake_broker import FakeCluster
from kipctl.runs.start import OnThisMachine
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceSpec
from kipctl.transport.access import Access

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    config = ProducerConfig(acks=1, enable_idempotence=False)
    with FakeCluster(brokers=1) as cluster:
        spec = ProduceSpec(Access(cluster.bootstrap_server), "t", 10**6, 2000, 10, config=config)
        with OnThisMachine(Path(sys.argv[1]))(spec) as probe:
            outcome = probe.outcome()
            print(outcome.failure)
            print(0 < outcome.acknowledged <= cluster.records_in_log())
"""


def test_of_a_run_on_a_disk_that_is_full_there_is_what_it_had_room_for(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(ON_A_FULL_DISK)
    ran = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ran.stdout.splitlines() == [
        "What it measured could not be written: File too large.",
        "True",
    ], ran.stderr
