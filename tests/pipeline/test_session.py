"""Sessions of one process, one after the other: their JVMs, their settings, how they fail.

What Spark says of itself goes to its log, and errors are told in our words.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark

_SESSIONS = """
import json, os, signal, sys
from contextlib import suppress
from pathlib import Path
from pyspark import SparkContext
from kipctl.errors import PipelineError
from kipctl.pipeline.place import Place
from kipctl.pipeline.session import spark_session
folder, place = Path(sys.argv[1]), Place("local[1]", {"spark.hadoop.of.option": sys.stdin.read()})
told, seen, failed = [], [], []
own = "-".join(("its", "own"))  # as it is not in this process's own command

def look(spark):
    words = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            words += path.read_bytes()
    conf = dict(spark.sparkContext.getConf().getAll())
    names = ("spark.hadoop.of.file", "spark.hadoop.of.option", "spark.hadoop.of.session")
    read = [conf.get(name) for name in names]
    jvm = Path(f"/proc/{SparkContext._gateway.proc.pid}")
    maps = (jvm / "maps").read_text().splitlines()
    seen.append({
        "read": read,
        "master": conf["spark.master"],
        "option": spark.sparkContext._jvm.System.getProperty("of.defaults"),
        "in sight": [text for text in read if text and text.encode() in words],
        "files": [str(path) for path in folder.glob("kipctl-*/settings")],
        "archives": sorted({line.split()[-1] for line in maps if "/kipctl/spark/" in line}),
        "is light": b"-XX:TieredStopAtLevel=1" in (jvm / "cmdline").read_bytes().split(b"\\0"),
    })

def session(then, is_light=True, **settings):
    try:
        with spark_session(place, told.append, settings, is_light=is_light) as spark:
            look(spark)
            then(spark)
    except PipelineError as error:
        failed.append(str(error))

def fail(spark):
    spark.sql("select id + 9223372036854775807 from range(2)").collect()

def be_killed(spark):
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
    spark.range(10).count()

session(lambda spark: spark.range(3).count())
session(fail, is_light=False, **{"spark.hadoop.of.session": own})
logged = (folder / "kipctl" / "spark.log").read_text()
session(be_killed, is_light=False)
os.environ["SPARK_CONF_DIR"] = str(folder / "conf")
session(lambda spark: None, **{"spark.hadoop.of.file": own})
session(be_killed)
(folder / "conf" / "spark-env.sh").touch()
session(be_killed)
print(json.dumps([seen, failed, told, logged]))
"""


@dataclass(frozen=True, slots=True)
class Sessions:
    """What was seen in each of six sessions, what four of them failed with, what was told, and
    what Spark logged of a query that failed.

    The first has a JVM of its own, the next two have one, and are not light. So have the next two,
    with spark-defaults.conf; the last is started by Spark's own script, which reads spark-env.sh.
    Those that begin a JVM for two have a setting that the other has not.
    """

    folder: Path
    seen: list[dict[str, Any]]
    failed: list[str]
    told: list[str]
    logged: str
    stderr: str


HIDDEN = "a\\b c:=#! d\n\té"


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Sessions:
    folder = tmp_path_factory.mktemp("sessions")
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(
        "spark.master spark://127.0.0.1:1\nspark.hadoop.of.file hidden-in-file\n"
        "spark.driver.extraJavaOptions -Dof.defaults=1\n"
    )
    homes = dict.fromkeys(("XDG_STATE_HOME", "XDG_CACHE_HOME", "TMPDIR"), str(folder))
    ran = subprocess.run(
        [sys.executable, "-c", _SESSIONS, str(folder)],
        input=HIDDEN,
        capture_output=True,
        text=True,
        env=os.environ | homes,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return Sessions(folder, *json.loads(ran.stdout.splitlines()[-1]), ran.stderr)


def test_the_first_session_records_what_the_second_maps(sessions: Sessions) -> None:
    (archive,) = (sessions.folder / "kipctl" / "spark").glob("*.jsa")
    assert archive.stat().st_size > 10_000_000
    assert [seen["archives"] for seen in sessions.seen[:2]] == [[], [str(archive)]]
    assert [seen["is light"] for seen in sessions.seen] == [True, False, False, *[True] * 3]
    assert sum("Keeping Spark's classes" in text for text in sessions.told) == 1


def test_settings_are_told_by_files_and_stay_as_they_are(sessions: Sessions) -> None:
    for number, seen in enumerate(sessions.seen):
        has_file = number > 2
        of_file = "its-own" if number == 3 else "hidden-in-file"
        expected = {
            "read": [of_file if has_file else None, HIDDEN, "its-own" if number == 1 else None],
            "master": "local[1]",
            "option": "1" if has_file else None,
            "in sight": [],
            "files": [],
        }
        assert {name: seen[name] for name in expected} == expected, number


def test_a_failed_query_is_no_line_of_pysparks_on_stderr(sessions: Sessions) -> None:
    assert sessions.failed[0].startswith("Spark failed: overflow")
    assert sessions.stderr == ""
    assert "SQLQueryContextLogger" in sessions.logged


def test_a_jvm_that_was_killed(sessions: Sessions) -> None:
    assert len(sessions.failed) == 4
    for text in sessions.failed[1:]:
        assert text.startswith("Spark's JVM has ended")
        assert len(text.splitlines()) == 3
