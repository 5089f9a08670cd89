"""Where tests keep what they write, labs of their own for those that need one, and Spark."""

import gc
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from campaigns import IS_SOAK, SEED
from hypothesis import HealthCheck, settings
from kerberos_here import HEADER
from lab_state import SESSION

from kipctl.lab import ports
from kipctl.lab.cluster import Lab, take_down
from kipctl.lab.properties import LabSpec

if TYPE_CHECKING:
    from one_process import OneProcess
    from pyspark.sql import SparkSession
    from spark_cluster import SparkCluster

    from kipctl.lab.jars import KafkaJars
    from kipctl.report.tables import Report

pytest_plugins = ["scheduling", "shared_labs"]

# Nothing of what thousands of tests are made of is garbage: looking is a fifth of their collection.
gc.disable()

INVENTED = {"", "experiment", "runs", "wide", "x"}
"""Commands of reports that tests make up."""

MakeLab = Callable[..., Lab]
ReportOfTest = Generator[None, pytest.TestReport, pytest.TestReport]
_homes = itertools.count(1)

# How long an example takes says nothing on a busy machine.
settings.register_profile("kipctl", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kipctl")

# Processes know nothing of one another's labs, and a port is free until its broker listens: each
# takes ports of its own.
_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8
ports.RANGE = range(20_000 + 1_500 * _PROCESS, 21_500 + 1_500 * _PROCESS)

FAST = "not kafka and not spark"

_TOLD_OF_LOG = 20_000
"""Characters of Spark's log."""

# Started in the background, the session may have been told to ignore Ctrl-C or a hang-up, and would
# hand that on to the commands whose way to end is tested.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Its input ends when the test session does, however that ends: then no lab of it may be left, even
# if kipctl's own files are gone by then.
GUARD = """
import sys
from kipctl.lab.cluster import labs
sys.stdin.read()
for lab in labs():
    lab.down()
"""


@pytest.fixture(autouse=True, scope="session")
def documents_as_declared() -> Iterator[None]:
    """What is printed as JSON in this process is what `kipctl.documents` declares."""
    from kipctl.report import formats

    printed = formats.enveloped

    def declared(report: "Report") -> dict[str, object]:
        from json_documents import require_declared

        document = printed(report)
        if report.command not in INVENTED:
            require_declared(document)
        return document

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "enveloped", declared)
        yield


def pytest_report_header() -> list[str]:
    seed = f"KIPCTL_SEED={SEED} of the campaigns{', as many as soak has' if IS_SOAK else ''}"
    return [seed, HEADER]


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file none of whose tests will run is not even imported."""
    if config.option.markexpr != FAST or collection_path.suffix != ".py":
        return None
    marked = re.search(
        r"^pytestmark = .*\bmark\.(kafka|spark)\b", collection_path.read_text(), re.MULTILINE
    )
    return True if marked else None


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Labs, journals and locks of tests are kept apart from the user's own."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        patch.setenv("KIPCTL_LOCK_FOLDER", str(tmp_path_factory.mktemp("locks")))
        patch.delenv("KIPCTL_BOOTSTRAP_SERVER", raising=False)
        if os.environ.get("KIPCTL_LAGGING_METADATA"):
            from lagging_metadata import switch_on

            switch_on(patch)
        yield folder


@pytest.fixture(autouse=True)
def alone(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """A test that needs no cluster and no Spark reaches neither the network nor the user's files.

    What it, or a process of it, would keep between runs goes to a home of its own; only loopback
    answers.
    """
    if any(request.node.get_closest_marker(name) for name in ("kafka", "spark")):
        yield
        return
    from loopback_only import NOWHERE, loopback_only

    home = tmp_path_factory.getbasetemp() / "homes" / str(next(_homes))
    with pytest.MonkeyPatch.context() as patch, loopback_only():
        patch.setenv("HOME", str(home))
        # A lab of the session may run by now, or not.
        patch.setenv("XDG_STATE_HOME", str(home / ".local" / "state"))
        patch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
        for name, value in NOWHERE.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def fetched_kafka() -> Callable[[str], "KafkaJars"]:
    """A release of Kafka, fetched into the user's own cache by the first who asks for it."""
    from kipctl.lab.jars import fetched_jars
    from kipctl.lab.java import find_java

    return lambda version: fetched_jars(version, find_java(), lambda text: None)


@pytest.fixture(scope="session")
def guard(state_home: Path) -> Iterator[None]:
    environment = os.environ | {"XDG_STATE_HOME": str(state_home)}
    with subprocess.Popen(
        [sys.executable, "-c", GUARD],
        stdin=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    ):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> ReportOfTest:
    """A failure of a test on Spark is told with what Spark wrote last."""
    from kipctl.pipeline.launch import log_path

    report = yield
    if report.failed and item.get_closest_marker("spark") and log_path().exists():
        last = log_path().read_text(encoding="utf-8", errors="replace")[-_TOLD_OF_LOG:]
        report.sections.append(("the end of Spark's log", last))
    return report


@pytest.fixture
def make_lab(guard: None) -> Iterator[MakeLab]:
    """Make a lab for this test alone; arguments are those of LabSpec. Taken down afterwards.

    Its brokers compile plainly, as they live for seconds, and are not missed for some.
    """
    names: list[str] = []
    numbers = itertools.count(1)

    def make(**spec: Any) -> Lab:
        names.append(spec.setdefault("name", f"test-{next(numbers)}"))
        spec.setdefault("c1_only", True)
        spec["config"] = (SESSION, *spec.get("config", ()))
        return Lab.up(LabSpec(**spec), lambda text: None)

    yield make
    for name in names:
        take_down(name)


@pytest.fixture(scope="session")
def cluster_of_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkCluster"]:
    """A Spark standalone master with two workers of one core each; a test that kills some starts
    as many."""
    from spark_cluster import spark_cluster

    with spark_cluster(tmp_path_factory.mktemp("spark-cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def spark_master(cluster_of_spark: "SparkCluster") -> str:
    """Its URL."""
    return cluster_of_spark.master


@pytest.fixture(scope="session")
def kipctl_again(
    state_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["OneProcess"]:
    """Runs command after command in one process, for those that need Spark."""
    from one_process import one_process

    with one_process(tmp_path_factory.mktemp("one-process")) as process:
        yield process


@pytest.fixture(scope="session")
def spark(state_home: Path) -> Iterator["SparkSession"]:
    """One local Spark session for all tests that need a DataFrame."""
    from kipctl.pipeline.interrupts import interrupts_as_usual
    from kipctl.pipeline.session import spark_session

    with spark_session("local[2]", is_light=True) as session, interrupts_as_usual():
        yield session
