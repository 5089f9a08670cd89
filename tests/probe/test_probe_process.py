"""The probe in a process of its own, on loopback: what is known of it, however it ends."""

import multiprocessing
import resource
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from strict_loopback import StrictLoopback

from kipctl.conform.cluster import Cluster, Drop, Exchange
from kipctl.errors import UsageError
from kipctl.load.start import OnThisMachine
from kipctl.measure.running_probe import RunningProbe, running_probe
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.protocol.api import ApiKey
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access

UNTIL_STOPPED = 10**6


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []


def spec_for(cluster: Cluster, num_records: int) -> ProduceSpec:
    config = ProducerConfig(acks=1, enable_idempotence=False)
    return ProduceSpec(Access(cluster.bootstrap_server), "t", num_records, 1000, 10, config=config)


def await_batches(probe: RunningProbe[ProduceOutcome]) -> None:
    while not len(probe.new_rows("batches")):
        assert not probe.is_done_by(now_us() + 10_000)


def test_it_tells_of_batches_while_it_runs_and_of_its_outcome(tmp_path: Path) -> None:
    with (
        StrictLoopback(Cluster({"t": 2}, brokers=2)) as cluster,
        running_probe(spec_for(cluster, 300), tmp_path) as probe,
    ):
        assert probe.schedule.num_records == 300
        outcome = probe.outcome()
        assert outcome.start_us == probe.schedule.start_us
        assert outcome.acknowledged == cluster.records == 300
        rows = probe.new_rows("batches")
        assert len(rows) == sum(len(call.tried) for call in cluster.exchanges)
        assert len(probe.new_rows("batches")) == 0


def test_it_is_stopped_from_outside(tmp_path: Path) -> None:
    with (
        StrictLoopback(Cluster({"t": 1}, brokers=1)) as cluster,
        running_probe(spec_for(cluster, UNTIL_STOPPED), tmp_path) as probe,
    ):
        assert not probe.is_done_by(probe.schedule.start_us)
        probe.stop()
        outcome = probe.outcome()
        assert outcome.stopped
        assert outcome.acknowledged == outcome.generated == cluster.records


def test_what_keeps_it_from_beginning_is_raised_here(tmp_path: Path) -> None:
    with (
        StrictLoopback(Cluster({"another": 1}, brokers=1)) as cluster,
        pytest.raises(UsageError, match="does not exist"),
        running_probe(spec_for(cluster, 1), tmp_path),
    ):
        pass


def test_one_that_is_killed_came_to_what_it_had_settled(tmp_path: Path) -> None:
    with (
        StrictLoopback(Cluster({"t": 1}, brokers=1)) as cluster,
        running_probe(spec_for(cluster, UNTIL_STOPPED), tmp_path) as probe,
    ):
        (child,) = multiprocessing.active_children()
        await_batches(probe)
        child.kill()
        outcome = probe.outcome()
        assert "ended early (exit code -9)" in outcome.failure
        assert 0 < outcome.acknowledged == outcome.generated <= cluster.records
        assert outcome.start_us == probe.schedule.start_us
        assert probe.results[0].outcome is outcome


def test_one_that_is_given_up_does_not_wait_for_what_is_under_way(tmp_path: Path) -> None:
    is_silent = threading.Event()

    def control(call: Exchange) -> Drop | None:
        return Drop() if is_silent.is_set() and call.api == ApiKey.PRODUCE else None

    with (
        StrictLoopback(Cluster({"t": 1}, brokers=1)) as cluster,
        running_probe(spec_for(cluster, UNTIL_STOPPED), tmp_path) as probe,
    ):
        cluster.control = control
        await_batches(probe)
        is_silent.set()
        probe.stop()
        outcome = probe.give_up()
        assert (outcome.stopped, outcome.failure) == (True, "")
        assert outcome.acknowledged > 0


@contextmanager
def full_disk(after: int) -> Iterator[None]:
    """No process that is started here can write files of more bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (after, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_of_a_run_on_a_disk_that_is_full_there_is_what_it_had_room_for(tmp_path: Path) -> None:
    with StrictLoopback(Cluster({"t": 1}, brokers=1)) as cluster, ExitStack() as stack:
        with full_disk(after=20_000):
            probe = stack.enter_context(OnThisMachine(tmp_path)(spec_for(cluster, UNTIL_STOPPED)))
        outcome = probe.outcome()
        assert outcome.failure == "What it measured could not be written: File too large."
        assert 0 < outcome.acknowledged <= cluster.records
