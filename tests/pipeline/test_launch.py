"""The command of Spark's JVM, as its launcher makes it."""

import os
from pathlib import Path

import pyspark
import pytest
from one_process import JVM_OPTIONS

from kipctl.errors import UsageError
from kipctl.pipeline import warm
from kipctl.pipeline.launch import (
    java_program,
    launch,
    require_one_version,
    spark_home,
    spark_version,
)
from kipctl.pipeline.place import Place
from kipctl.pipeline.start import started

pytestmark = pytest.mark.spark


_JAVA = """#!/bin/sh
case "$*" in
*org.apache.spark.launcher.Main*) exec "$OWN_JAVA" "$@" ;;
esac
printf '%s\\0' "$@" > "$WORDS"
"""
"""Answers the launcher as Java does; of Spark's JVM it only says how it would be started."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark configuration and a Java of their own."""
    monkeypatch.setenv("OWN_JAVA", str(java_program(os.environ).resolve()))
    monkeypatch.setenv("WORDS", str(tmp_path / "words"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    (tmp_path / "conf").mkdir()
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_JAVA)
    java.chmod(0o755)
    return tmp_path


def command_of(home: Path, conf: dict[str, str], *options: str) -> list[str]:
    """The words of the JVM that is started."""
    launched = launch(conf, home / "log", options)
    assert launched.gateway() is None  # it has ended
    launched.end()
    return (home / "words").read_text().split("\0")


def test_settings_that_its_words_are_made_of_are_among_them_and_no_others(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dof.user=1")
    conf = {"spark.driver.memory": "300m", "spark.master": "local[1]"}
    command = command_of(home, conf, "-Dof.kipctl=1")
    assert "-Xmx300m" in command
    assert not [word for word in command if "spark.master" in word]  # settings may be secret
    assert command.index("-Dof.kipctl=1") < command.index("-Dof.user=1")  # whose comes last counts
    defaults = home / "conf" / "spark-defaults.conf"
    defaults.write_text("spark.driver.extraJavaOptions -Dof.defaults=1\n")
    assert "-Dof.defaults=1" in command_of(home, conf)


def test_a_users_script_of_variables_is_run(home: Path) -> None:
    (home / "conf" / "spark-env.sh").write_text("SPARK_DRIVER_MEMORY=222m\n")
    command = command_of(home, {"spark.master": "local[1]"}, "-Dof.kipctl=1")
    assert "-Xmx222m" in command
    assert "-Dof.kipctl=1" in command


def test_a_spark_of_another_version_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = spark_version(spark_home({}))
    assert version == ".".join(pyspark.__version__.split(".")[:3])
    own = home / "spark"
    (own / "jars").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(own))
    require_one_version(os.environ)  # there is nothing to tell it by
    core = own / "jars" / f"spark-core_2.13-{version}-vendor-1.jar"
    core.touch()
    require_one_version(os.environ)
    core.rename(core.with_name("spark-core_2.12-3.5.1.jar"))
    for begin in (lambda: started({}, []), lambda: warm.start(Place(), 600)):
        with pytest.raises(UsageError, match=rf"is Spark 3\.5\.1; kipctl's PySpark is {version}"):
            begin()


def test_a_spark_of_the_users_own_is_started(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = home / "spark"
    own.mkdir()
    for name in ("jars", "bin"):
        (own / name).symlink_to(spark_home({}) / name)
    monkeypatch.setenv("SPARK_HOME", str(own))
    monkeypatch.setenv("JAVA_HOME", str(Path(os.environ["OWN_JAVA"]).parents[1]))
    launched = launch({"spark.master": "local[1]"}, home / "log", JVM_OPTIONS.split())
    try:
        assert launched.gateway(), (home / "log").read_text()
        words = Path(f"/proc/{launched.process.pid}/cmdline").read_text().split("\0")
        assert any(f"{own}/jars/*" in word for word in words)
    finally:
        launched.end_in_order(60)
