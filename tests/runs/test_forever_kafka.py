"""`kipctl perf e2e --forever` beside leaders that others move, on real brokers."""

import io
import json
import os
import shlex
import signal
import subprocess
import sys
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
from prometheus_client.parser import text_string_to_metric_families

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cluster.topics import delete_topics, topics_named
from kipctl.lab.cluster import Lab
from kipctl.protocol.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ResourceType,
)
from kipctl.runs.e2e import TOPIC_OF_DAYS
from kipctl.trace.store import ROWS_FOLDER, Run
from kipctl.trace.stored_runs import read_stored_run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

DEADLINE_S = 240.0
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def kipctl(lab: Lab, words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    environment = Environment(
        stdin=io.StringIO(),
        stdout=out,
        stderr=err,
        variables=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server},
    )
    status = run(shlex.split(words), environment)
    return status, out.getvalue(), err.getvalue()


@dataclass
class Canary:
    """A run that lasts until it is ended."""

    process: subprocess.Popen[str]
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
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.2)

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
        return sum(value for (of, _), value in self.scrape().items() if of == name)


@contextmanager
def canary(lab: Lab, folder: Path) -> Iterator[Canary]:
    process = subprocess.Popen(
        shlex.split(
            f"{sys.executable} -m kipctl perf e2e --forever --keep 10s --metrics 0 "
            f"--throughput 200 --record-size 100 --partitions 6 --record {folder} --output json"
        ),
        env=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    found = Canary(process)
    reading = threading.Thread(target=found.read, daemon=True)
    reading.start()
    try:
        found.await_that(lambda: bool(found.url))
        found.await_that(lambda: found.value("kipctl_records_delivered_total") > 0)
        yield found
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        reading.join()
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stderr.close()


def never_falls(name: str) -> bool:
    """Whether a sample of that name must never fall."""
    return name.endswith(("_total", "_bucket", "_count", "_sum"))


def test_it_counts_while_others_move_leaders_and_ends_with_its_result(
    lab: Lab, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with Cluster(lab.bootstrap_server) as cluster, canary(lab, folder) as watching:
        (topic,) = topics_named(cluster, "kipctl-perf-.*")
        configs = DescribeConfigsResource(ResourceType.TOPIC, topic, tuple(TOPIC_OF_DAYS))
        (told,) = cluster.any_broker().request(DescribeConfigsRequest((configs,))).results
        assert {config.name: config.value for config in told.configs} == TOPIC_OF_DAYS
        before = watching.scrape()

        def moved() -> bool:
            status, _, err = kipctl(lab, f"reassign --rotate --topic {topic} --yes")
            assert status == 0, err
            return watching.value("kipctl_move_wait_seconds_count", client="producer") > 0

        watching.await_that(moved)
        after = watching.scrape()
        assert [
            name for name, value in before.items() if never_falls(name[0]) and after[name] < value
        ] == []
        for name in ("records_due", "records_acknowledged", "records_consumed"):
            of = f"kipctl_{name}_total", ()
            assert after[of] > before[of]
        assert after["kipctl_redirected_total", (("client", "producer"),)] > 0
        assert after["kipctl_records_lost_total", ()] == 0
        assert after["kipctl_up", ()] == 1
        # A partition counts from its first acknowledged batch on.
        watching.await_that(lambda: watching.sum("kipctl_leading_partitions") == 6)
        # What is older than --keep goes.
        first = folder / ROWS_FOLDER / "1" / "batches.i64"
        watching.await_that(lambda: not first.exists())

        watching.process.send_signal(signal.SIGTERM)
        assert watching.process.stdout
        document = json.loads(watching.process.stdout.read())
        assert watching.process.wait() == 0, watching.said
        assert "Traceback" not in watching.said
        await_no_own_topics(cluster)
    records = document["records"]
    assert records["acknowledged"] == records["delivered"] == records["sent"] > 0
    assert (records["failed"], records["missing"], records["twice"]) == (0, 0, 0)
    whole = document["whole_run"]
    assert whole["producer"]["moves"]["met"] > 0
    assert 0 < whole["kept_from_seconds"] < whole["seconds"]

    assert read_stored_run(folder).flaw == ""
    kept = Run(folder).read("batches")
    assert 0 < pc.sum(kept["records"]).as_py() < records["acknowledged"]
    assert Run(folder).description["summary"]["records"] == records
    status, out, err = kipctl(lab, f"runs show {folder}")
    assert status == 0, err
    assert "the end of a longer run: from " in out


def test_what_is_kept_of_one_that_was_killed_becomes_a_run(lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with Cluster(lab.bootstrap_server) as cluster, canary(lab, folder) as watching:
        topics = list(topics_named(cluster, "kipctl-perf-.*"))
        first = folder / ROWS_FOLDER / "1" / "batches.i64"
        watching.await_that(lambda: not first.exists())
        watching.process.kill()
        watching.process.wait()
        deadline = time.monotonic() + DEADLINE_S
        while True:
            # Its clients end by themselves when they see that.
            status, out, err = kipctl(lab, f"runs repair {folder} --output json")
            if "still being written" not in err:
                break
            assert time.monotonic() < deadline
            time.sleep(0.2)
        delete_topics(lab.bootstrap_server, topics)
        await_no_own_topics(cluster)
    assert status == 0, err
    records = json.loads(out)["records"]
    # What came of the first batches that are kept may have come in what is gone.
    assert records["missing"] in (0, None)
    assert records["acknowledged"] == pc.sum(Run(folder).read("batches")["records"]).as_py() > 0
    status, out, err = kipctl(lab, f"runs show {folder}")
    assert status == 0, err
    assert "the end of a longer run: from " in out
