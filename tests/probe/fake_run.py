"""The probe on a fake cluster: run as users of the library run it, its trace read back."""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fake_kafka import TOPIC, Script, SimulatedCluster
from rows import read_back
from world import SimulatedConnection

from kipctl.conform.cluster import Attempt, Cluster, Refusal
from kipctl.conform.cluster.control import Waiting
from kipctl.measure.probe_results import ProbeResult
from kipctl.measure.producer_summary import measured_produce, summarize_produce
from kipctl.probe import run as run_module
from kipctl.probe.consume import run as consume
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce import run as produce
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.protocol.api import ApiKey
from kipctl.security.settings import Security
from kipctl.trace.codes import PHASES, MetadataCause
from kipctl.transport import request
from kipctl.transport.access import UNSECURED, Access

KIP951, REFRESH, BASELINE = LeaderDiscovery
NEVER_MS = 100_000_000
"""As a backoff: who waits for it does not come back before its batch is given up."""

IDEMPOTENT: dict[str, Any] = {"acks": -1, "enable_idempotence": True}
ONE_RECORD_EACH: dict[str, Any] = {"throughput": -1, "batch_size": 0}
"""All records at once, each in a batch and a request of its own."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Ran:
    """A finished run: what it came to, and every row that it wrote."""

    outcome: ProduceOutcome
    batches: list[Row]
    rpcs: list[Row]
    redirects: list[Row]
    summary: dict[str, Any]

    def calls(self, api: ApiKey) -> list[Row]:
        """The requests of this kind that the producer sent, the bootstrap's left out."""
        return [
            row
            for row in self.rpcs
            if row["api_key"] == api and row["cause"] != MetadataCause.START
        ]


def at_batch(number: int, act: Callable[[Attempt], object]) -> Script:
    """What is done when so many batches have come to brokers; the cluster answers the others."""
    came = itertools.count(1)

    def script(attempt: Attempt) -> Refusal | Waiting | None:
        answer = act(attempt) if next(came) == number else None
        return answer if isinstance(answer, Refusal | Generator) else None

    return script


def raising(trouble: Exception) -> Callable[[object], None]:
    """For scripts."""

    def act(_: object) -> None:
        raise trouble

    return act


@contextmanager
def meeting(cluster: Cluster) -> Iterator[None]:
    """Runs of kipctl meet the cluster: one that is simulated stands where the network does, and its
    world's clock where the machine's does.
    """
    if not isinstance(cluster, SimulatedCluster):  # it is on loopback
        yield
        return
    sockets, state = cluster.sockets(), random.getstate()
    random.seed(0)  # what the client leaves to chance
    with cluster.world.rules_time(), pytest.MonkeyPatch.context() as patch:
        for module in (produce, consume):
            patch.setattr(module, "SystemSockets", lambda clock, access: cluster.sockets())
        patch.setattr(
            request,
            "BlockingConnection",
            lambda broker, access, deadline: SimulatedConnection(sockets, *broker, deadline),
        )
        patch.setattr(run_module, "without_pauses", nullcontext)
        yield
    random.setstate(state)


def run_fake(
    cluster: Cluster,
    num_records: int = 1,
    throughput: float = 2000,
    record_size: int = 10,
    discovery: LeaderDiscovery = KIP951,
    should_stop: Callable[[], bool] = lambda: False,
    security: Security = UNSECURED,
    **config: Any,
) -> Ran:
    """Produce to the fake cluster; without further settings acks=1, round robin and no wait."""
    defaults = {
        "acks": 1,
        "enable_idempotence": False,
        "partitioner": "round-robin",
        "batch_size": 1000,
        "retry_backoff_ms": 20,
        "reconnect_backoff_ms": 5,
    }
    spec = ProduceSpec(
        Access(cluster.bootstrap_server, security),
        TOPIC,
        num_records,
        throughput,
        record_size,
        discovery=discovery,
        config=ProducerConfig(**(defaults | config)),
    )
    with TemporaryDirectory() as directory, meeting(cluster):
        outcome = spec.run(Path(directory), lambda schedule: None, should_stop)
        return read_ran(outcome, Path(directory))


def read_ran(outcome: ProduceOutcome, directory: Path) -> Ran:
    """What a run wrote into the directory, after a look at what holds of every run."""
    rows = {name: read_back(directory, name) for name in ("batches", "rpcs", "redirects")}
    ran = Ran(
        outcome,
        **rows,
        summary=summarize_produce(
            measured_produce(outcome, [ProbeResult(outcome, directory)]), [], None
        ),
    )
    _is_consistent(ran)
    return ran


def _is_consistent(ran: Ran) -> None:
    """What holds of every run, whatever happens to it."""
    seqs = Counter(
        row["first_seq"] + k * row["seq_stride"]
        for row in ran.batches
        for k in range(row["records"])
    )
    assert seqs == Counter(range(ran.outcome.generated))
    settled = defaultdict(int)
    for row in ran.batches:
        settled[row["error"] == 0] += row["records"]
        assert (row["sent_us"] == 0) == (row["attempts"] == 0)
        assert row["intended_us"] <= (row["sent_us"] or row["acked_us"]) <= row["acked_us"]
    assert settled[True] == ran.outcome.acknowledged
    assert settled[False] == ran.outcome.failed == sum(ran.outcome.errors.values())
    by_batch: dict[int, list[Row]] = defaultdict(list)
    for row in ran.redirects:
        by_batch[row["first_seq"]].append(row)
    for batch in ran.batches:
        rows = by_batch.pop(batch["first_seq"], [])
        spent = [row[f"{phase}_us"] for row in rows for phase in PHASES]
        if rows:
            assert sum(spent) == batch["acked_us"] - batch["intended_us"]
            assert min(spent) >= 0
            assert [row["attempt"] for row in rows] == list(range(1, len(rows) + 1))
        given_up_with_its_last_attempt = bool(rows) and rows[-1]["to_broker"] == -1
        assert batch["attempts"] in (0, len(rows) + (not given_up_with_its_last_attempt))
    assert not by_batch


def assert_all_in_the_log_once_and_in_order(cluster: Cluster, ran: Ran) -> None:
    assert ran.outcome.failed == 0
    assert ran.outcome.acknowledged == ran.outcome.generated == cluster.records
    for log in cluster.logs.values():
        expected = 0
        for batch in log.batches:
            assert batch.header.sequence == expected
            expected += batch.header.records
