"""Why a cluster gave no executor, by what the driver logged."""

import re
from pathlib import Path

import pytest

from kipctl.pipeline.executors import why_no_executor

_ASKED = "INFO StandaloneAppClient$ClientEndpoint: Connecting to master spark://a:1...\n"
_TAKEN_IN = "INFO StandaloneSchedulerBackend: Connected to Spark cluster with app ID app-1-0000\n"
_ENDED = "INFO StandaloneSchedulerBackend: Executor app-1-0000/0 removed: Command exited with 1\n"
_NO_SPARK = (
    "WARN StandaloneAppClient$ClientEndpoint: Could not connect to a:1: "
    "java.lang.IllegalArgumentException: Too large frame: 5211883372140375593\n"
)


@pytest.mark.parametrize(
    ("logged", "reason"),
    [
        ("", None),
        ("ERROR SparkContext: Error initializing SparkContext.\n", None),
        (_ASKED + _TAKEN_IN, None),
        (_ASKED, r"^spark://a:1 does not answer as the master of a Spark [\d.]+\.$"),
        (_ASKED + _NO_SPARK, r"of a Spark [\d.]+: Too large frame: 5211883372140375593\.$"),
        (_ASKED + _TAKEN_IN + _ENDED, r"started executors, and they ended: Command exited with 1"),
        (_ASKED + _TAKEN_IN + _ENDED + "Registered executor\n", None),
    ],
)
def test_a_reason_is_what_the_log_of_the_session_says(
    tmp_path: Path, logged: str, reason: str | None
) -> None:
    log = tmp_path / "spark.log"
    before = _ASKED + _NO_SPARK
    log.write_text(before + logged)
    error = why_no_executor("spark://a:1", log, len(before))
    assert re.search(reason, error.what) if reason and error else error is reason
