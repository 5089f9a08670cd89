"""`kipctl perf e2e --forever` beside leaders that others move, on real brokers."""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pyarrow.compute as pc
import pytest
from no_own_topics import await_no_own_topics
from one_process import Kipctl
from processes import Process, has_ended, started
from prometheus_client.parser import text_string_to_metric_families

from kipctl.cluster.topics import await_topic, delete_topics, topics_named
from kipctl.lab.cluster import Lab
from kipctl.load.e2e import TOPIC_OF_DAYS
from kipctl.protocol.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ResourceType,
)
from kipctl.trace.store import ROWS_FOLDER, Run
from kipctl.trace.stored_runs import read_stored_run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

DEADLINE_S = 240.0
PARTITIONS = 3
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@dataclass
class Canary:
    """A run that lasts until it is ended."""

    process: Process
    folder: Path
    topic: str = ""
    lines: list[str] = field(default_factory=list)
    url: str = ""

    def read(self) -> None:
        """Keep what it says, until it ends."""
        assert self.process.stderr
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith("Metrics: "):
                self.url = line.split()[1]

    @property
    def said(self) -> str:
        return "".join(self.lines)

    def await_that(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not is_so():
            assert not has_ended(self.process, within_s=0.2), self.said
            assert time.monotonic() < deadline, self.said

    def await_rows_gone(self) -> None:
        """What is older than --keep goes."""
        first = self.folder / ROWS_FOLDER / "1" / "batches.i64"
        self.await_that(lambda: not first.exists())

    def scrape(self) -> Samples:
        families = text_string_to_metric_families(httpx.get(self.url, timeout=60).text)
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        return self.scrape().get((name, tuple(sorted(labels.items()))), 0.0)

    def sum(self, name: str) -> float:
        return sum(value for (metric, _), value in self.scrape().items() if metric == name)


@contextmanager
def canary(lab: Lab, cluster: Cluster, folder: Path) -> Iterator[Canary]:
    others = set(topics_named(cluster, "kipctl-perf-.*"))
    words = (
        "perf e2e --forever --keep 10s --metrics 0 --throughput 100 --record-size 100 "
        f"--partitions {PARTITIONS} --record {folder} --output json"
    )
    with started(lab, words) as process:
        running = Canary(process, folder)
        reading = threading.Thread(target=running.read, daemon=True)
        reading.start()
        try:
            running.await_that(lambda: bool(running.url))
            running.await_that(lambda: running.value("kipctl_records_delivered_total") > 0)
            running.topic = own_topic(running, cluster, others)
            await_topic(cluster, running.topic, PARTITIONS)  # whichever broker is asked knows it
            yield running
        finally:
            process.kill()
            reading.join()


def own_topic(canary: Canary, cluster: Cluster, others: set[str]) -> str:
    """Once the broker that is asked shows it: it may hear of it after the first records."""
    topics = set[str]()

    def is_shown() -> bool:
        topics.update(set(topics_named(cluster, "kipctl-perf-.*")) - others)
        return bool(topics)

    canary.await_that(is_shown)
    (topic,) = topics
    return topic


def never_falls(name: str) -> bool:
    """Whether a sample of that name must never fall."""
    return name.endswith(("_total", "_bucket", "_count", "_sum"))


def test_it_counts_while_others_move_leaders_and_what_is_kept_is_a_run_however_it_ends(
    lab: Lab, cluster: Cluster, kipctl: Kipctl, tmp_path: Path
) -> None:
    """Two of them: one ends in good order, with its result; one is killed."""
    with (
        canary(lab, cluster, tmp_path / "ended") as watching,
        canary(lab, cluster, tmp_path / "killed") as killed,
    ):
        configs = DescribeConfigsResource(ResourceType.TOPIC, watching.topic, tuple(TOPIC_OF_DAYS))
        (told,) = cluster.any_broker().request(DescribeConfigsRequest((configs,))).results
        assert {config.name: config.value for config in told.configs} == TOPIC_OF_DAYS
        before = watching.scrape()

        def moved() -> bool:
            ran = kipctl(f"reassign --rotate --topic {watching.topic} --yes")
            assert ran.status == 0, ran.err
            return watching.value("kipctl_move_wait_seconds_count", client="producer") > 0

        watching.await_that(moved)
        after = watching.scrape()
        assert [
            name for name, value in before.items() if never_falls(name[0]) and after[name] < value
        ] == []
        for name in ("records_due", "records_acknowledged", "records_consumed"):
            metric = f"kipctl_{name}_total", ()
            assert after[metric] > before[metric]
        assert after["kipctl_redirected_total", (("client", "producer"),)] > 0
        assert after["kipctl_records_lost_total", ()] == 0
        assert after["kipctl_up", ()] == 1
        # A partition counts from its first acknowledged batch on.
        watching.await_that(lambda: watching.sum("kipctl_leading_partitions") == PARTITIONS)
        watching.await_rows_gone()
        watching.process.send_signal(signal.SIGTERM)
        killed.await_rows_gone()
        killed.process.kill()
        assert watching.process.stdout
        document = json.loads(watching.process.stdout.read())
        assert watching.process.wait() == 0, watching.said
        assert "Traceback" not in watching.said

    records = document["records"]
    assert records["acknowledged"] == records["delivered"] == records["sent"] > 0
    assert (records["failed"], records["missing"], records["twice"]) == (0, 0, 0)
    whole = document["whole_run"]
    assert whole["producer"]["redirects"]["moves"]["met"] > 0
    assert 0 < whole["kept_from_seconds"] < whole["seconds"]
    run = Run(watching.folder)
    assert read_stored_run(run.folder).flaw == ""
    assert 0 < pc.sum(run.read("batches")["records"]).as_py() < records["acknowledged"]
    assert run.description["summary"]["records"] == records

    # The clients of the one that was killed end by themselves when they see that.
    deadline = time.monotonic() + DEADLINE_S
    while True:
        repaired = kipctl(f"runs repair {killed.folder} --output json")
        if "still being written" not in repaired.err:
            break
        assert time.monotonic() < deadline
    delete_topics(lab.bootstrap_server, [killed.topic])
    await_no_own_topics(cluster)
    assert repaired.status == 0, repaired.err
    records = repaired.document["records"]
    # What came of the first batches that are kept may have come in what is gone.
    assert records["missing"] in (0, None)
    kept = Run(killed.folder).read("batches")["records"]
    assert records["acknowledged"] == pc.sum(kept).as_py() > 0

    for folder in (watching.folder, killed.folder):
        shown = kipctl(f"runs show {folder}")
        assert shown.status == 0, shown.err
        assert "the end of a longer run: from " in shown.out
