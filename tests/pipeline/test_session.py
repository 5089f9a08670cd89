"""What Spark says of itself goes to its log, and errors are told in our words."""

import json
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

_SECRETS = """
import json, sys
from contextlib import suppress
from pathlib import Path
from kipctl.pipeline.place import Place
from kipctl.pipeline.session import spark_session
conf = {"spark.hadoop.of.option": sys.stdin.read()}
with spark_session(Place("local[1]", conf)) as spark:
    words = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            words += path.read_bytes()
    conf = dict(spark.sparkContext.getConf().getAll())
    read = [conf[name] for name in ("spark.hadoop.of.file", "spark.hadoop.of.option")]
    print(json.dumps({
        "read": read,
        "master": conf["spark.master"],
        "option": spark.sparkContext._jvm.System.getProperty("of.defaults"),
        "in sight": [text for text in read if text.encode() in words],
        "files": [str(path) for path in Path(sys.argv[1]).glob("kipctl-*/settings")],
    }))
"""


@pytest.mark.parametrize("by_script", [False, True])
def test_settings_are_told_by_files_and_stay_as_they_are(tmp_path: Path, by_script: bool) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        "spark.master spark://127.0.0.1:1\nspark.hadoop.of.file hidden-in-file\n"
        "spark.driver.extraJavaOptions -Dof.defaults=1\n"
    )
    if by_script:
        (conf / "spark-env.sh").touch()
    given = "a\\b c:=#! d\n\té"
    own = {"XDG_STATE_HOME": tmp_path, "SPARK_CONF_DIR": conf, "TMPDIR": tmp_path}
    ran = subprocess.run(
        [sys.executable, "-c", _SECRETS, str(tmp_path)],
        input=given,
        capture_output=True,
        text=True,
        env=os.environ | {name: str(path) for name, path in own.items()},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == {
        "read": ["hidden-in-file", given],
        "master": "local[1]",
        "option": "1",
        "in sight": [],
        "files": [],
    }


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
