"""Workers on Spark log in over TLS, and Spark tells nobody a password."""

import json

import pytest
from on_secured import Program, Way

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.usefixtures("secured_lab")]
RECORDS = 600


def test_two_workers_on_spark_send_one_run(kipctl: Program, admin: Way, topic: str) -> None:
    load = ("--num-records", str(RECORDS), "--throughput", "300", "--record-size", "100")
    run = ("--workers", "2", "--record", str(kipctl.folder / "run"), "-o", "json")
    said = json.loads(kipctl("perf", "produce", *load, "--topic", topic, *run, *admin.options))
    assert said["records"]["acknowledged"] == RECORDS
    assert (kipctl.folder / "state" / "kipctl" / "spark.log").exists()
