"""kipctl's own producer as a client under test, as Java's and librdkafka are."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kipctl import __version__
from kipctl.load.clients.client import Produced, ProducerLoad
from kipctl.load.start import OnThisMachine, Probe
from kipctl.measure.producer_summary import measured_produce
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce.config import parse_properties
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.transport.access import Access


class RunningOwnProducer:
    """See RunningClient. Its rows can be followed."""

    def __init__(self, probe: Probe[ProduceOutcome]) -> None:
        self._probe = probe
        self.start_us = probe.schedule.start_us
        self.is_done_by, self.stop, self.new_rows = probe.is_done_by, probe.stop, probe.new_rows

    def outcome(self) -> Produced:
        """Wait until it is done. Its latencies are of records after the warm-up."""
        outcome = self._probe.outcome()
        return Produced(
            software="kipctl",
            version=__version__,
            records=outcome.acknowledged,
            failed=outcome.failed,
            seconds=(outcome.end_us - outcome.start_us) / 1e6,
            latency_ms=measured_produce(outcome, self._probe.results).steady.latency.as_ms(),
            cpu_s=outcome.cpu_s,
            error=outcome.failure or next(iter(outcome.errors), ""),
            stopped=outcome.stopped,
        )


@dataclass(frozen=True, slots=True)
class OwnClient:
    """By this way to new leaders; what is random in it is of the seed."""

    discovery: LeaderDiscovery
    seed: int = 0

    @contextmanager
    def producer(self, load: ProducerLoad, access: Access) -> Iterator[RunningOwnProducer]:
        """A producer that has started. Raises KipctlError when it does not start."""
        spec = ProduceSpec(
            access,
            load.topic,
            num_records=load.num_records,
            throughput=load.throughput,
            record_size=load.record_size,
            warmup_records=load.warmup_records,
            discovery=self.discovery,
            config=parse_properties(load.properties),
            seed=self.seed,
        )
        with OnThisMachine()(spec) as probe:
            yield RunningOwnProducer(probe)
