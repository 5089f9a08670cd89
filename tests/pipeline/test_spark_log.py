"""Why a JVM did not start, by what it wrote."""

from pathlib import Path

import pytest

from kipctl.pipeline.spark_log import why_not_begun

_NOT_CREATED = """
Error: Could not create the Java Virtual Machine.
Error: A fatal exception has occurred. Program will exit.
"""
_NOT_READY = "Error occurred during initialization of VM\n"


@pytest.mark.parametrize(
    ("wrote", "told"),
    [
        (f"Invalid maximum heap size: -Xmxlots{_NOT_CREATED}", "options: Invalid maximum heap"),
        (f"Unrecognized VM option 'Nope'{_NOT_CREATED}", "options: Unrecognized VM option 'Nope'"),
        (f"{_NOT_READY}Too small maximum heap\n", "options: Too small maximum heap"),
        (f"Unrecognized option: --add-modules=a{_NOT_CREATED}", "Java 17 or newer"),
        ("java: command not found\n", "Java 17 or newer"),
        ('Exception in thread "main" a.B: no such class\n', "did not start: no such class"),
        ("HADOOP_CONF_DIR must be set\n", "no Hadoop configuration"),
    ],
)
def test_the_reason_is_told(tmp_path: Path, wrote: str, told: str) -> None:
    log = tmp_path / "spark.log"
    log.write_text(f"WARNING: Using incubator modules\n{wrote}")
    error = why_not_begun(log)
    assert told in error.what
    assert len(str(error).splitlines()) <= 3
