"""What Spark says of itself goes to its log, and errors are told in our words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

_FAILING = """
from kipctl.errors import PipelineError
from kipctl.pipeline.session import spark_session
try:
    with spark_session("local[1]") as spark:
        spark.sql("select id + 9223372036854775807 from range(2)").collect()
except PipelineError as failed:
    print(failed.what)
"""


def test_a_failed_query_is_no_line_of_pysparks_on_stderr(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _FAILING],
        capture_output=True,
        text=True,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
        check=True,
    )
    assert ran.stdout.startswith("Spark failed: overflow")
    assert ran.stderr == ""
    assert "SQLQueryContextLogger" in (tmp_path / "kipctl" / "spark.log").read_text()
