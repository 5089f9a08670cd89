"""Workers on Spark log in over TLS, and Spark tells nobody a password."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from on_secured import Program, Way
from spark_cluster import CONFIGURATION, spark_cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.usefixtures("secured_lab")]
RECORDS = 600
DEFAULTS = """
spark.authenticate true
spark.authenticate.secret known-to-this-cluster
spark.network.crypto.enabled true
"""


@pytest.fixture
def secret_spark(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A master whose processes know each other by a secret, and encrypt; kipctl knows it too."""
    folder: Path = tmp_path_factory.mktemp("secret-spark")
    configuration = folder / CONFIGURATION
    configuration.mkdir()
    (configuration / "spark-defaults.conf").write_text(DEFAULTS)
    with spark_cluster(folder) as cluster:
        monkeypatch.setenv("SPARK_CONF_DIR", str(configuration))
        yield cluster.master


def test_two_workers_on_a_cluster_that_encrypts_send_one_run(
    kipctl: Program, admin: Way, topic: str, secret_spark: str
) -> None:
    """With Spark's own processes beside kipctl's: of `local[*]` there are fewer."""
    load = ("--num-records", str(RECORDS), "--throughput", "300", "--record-size", "100")
    workers = ("--workers", "2", "--start-timeout", "5m", "--master", secret_spark)
    run = (*workers, "--record", str(kipctl.folder / "run"), "-o", "json")
    said = json.loads(kipctl("perf", "produce", *load, "--topic", topic, *run, *admin.options))
    assert (kipctl.folder / "state" / "kipctl" / "spark.log").exists()
    assert said["records"]["acknowledged"] == RECORDS
