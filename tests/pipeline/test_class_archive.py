"""Spark's classes as an archive: whose it is, how it is recorded, and what of others is kept.

That a JVM of Spark's records and maps it is in test_session.py.
"""

import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from kipctl.pipeline import jvm
from kipctl.pipeline.class_archive import ClassArchive, class_archive


def a_java(home: Path) -> dict[str, str]:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    if not java.exists():
        java.touch()
    return {"JAVA_HOME": str(home), "XDG_CACHE_HOME": str(home.parent / "cache")}


def a_jvm(path: Path) -> None:
    """One that writes an archive."""
    path.write_text("classes\n")


def test_each_java_has_its_own(tmp_path: Path) -> None:
    first = class_archive(a_java(tmp_path / "one"))
    again = class_archive(a_java(tmp_path / "one"))
    other = class_archive(a_java(tmp_path / "other"))
    assert first is not None
    assert other is not None
    assert first == again
    assert first.path.parent == other.path.parent == tmp_path / "cache" / "kipctl" / "spark"
    assert first != other
    os.utime(tmp_path / "one" / "bin" / "java", (1, 1))  # another version in the same place
    assert class_archive(a_java(tmp_path / "one")) != first


def test_where_there_can_be_none(tmp_path: Path) -> None:
    assert class_archive({"JAVA_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}) is None
    spaced = a_java(tmp_path / "java") | {"XDG_CACHE_HOME": str(tmp_path / "a b")}
    assert class_archive(spaced) is None
    (tmp_path / "file").touch()
    blocked = a_java(tmp_path / "java") | {"XDG_CACHE_HOME": str(tmp_path / "file")}
    assert class_archive(blocked) is None
    with pytest.MonkeyPatch.context() as patch:  # root may write everywhere
        patch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
        assert class_archive(a_java(tmp_path / "java")) is None


def test_a_cache_that_fails_does_not_fail_the_session(tmp_path: Path) -> None:
    gone = ClassArchive(tmp_path / "gone" / "x.jsa")
    assert "-XX:+RecordDynamicDumpInfo" in gone.options()
    gone.keep(a_jvm)
    assert gone.is_missing


def test_a_jvm_records_maps_or_does_without(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "x.jsa")
    assert archive.is_missing
    assert "-XX:+RecordDynamicDumpInfo" in archive.options()
    archive.keep(a_jvm)
    assert not archive.is_missing
    assert archive.path.read_text() == "classes\n"
    assert f"-XX:SharedArchiveFile={archive.path}" in archive.options()

    none = ClassArchive(tmp_path / "y.jsa")
    none.keep(lambda path: None)  # a Java that writes none
    assert not none.is_missing
    assert none.options() == []
    assert {path.name for path in tmp_path.iterdir()} == {"x.jsa", "y.jsa"}


def test_a_jvm_that_ends_while_it_writes_leaves_nothing(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "x.jsa")

    def ends(path: Path) -> None:
        a_jvm(path)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        archive.keep(ends)
    assert archive.is_missing
    assert not list(tmp_path.iterdir())


def test_the_three_used_last_are_kept(tmp_path: Path) -> None:
    for age, name in enumerate(("newest", "newer", "older", "oldest")):
        (tmp_path / f"{name}.jsa").touch()
        os.utime(tmp_path / f"{name}.jsa", (1000 - age, 1000 - age))
    own = ClassArchive(tmp_path / "own.jsa")
    own.keep(a_jvm)
    kept = {path.stem for path in tmp_path.iterdir()}
    assert kept == {"own", "newest", "newer"}


def test_what_a_session_that_was_killed_has_left_is_removed(tmp_path: Path) -> None:
    for name, mtime in (("tmp-killed", 1000), ("tmp-of-another", None)):
        (tmp_path / name).mkdir()
        a_jvm(tmp_path / name / "x.jsa")
        os.utime(tmp_path / name, mtime and (mtime, mtime))
    ClassArchive(tmp_path / "x.jsa").keep(a_jvm)
    assert {path.name for path in tmp_path.iterdir()} == {"x.jsa", "tmp-of-another"}


def test_another_session_may_make_room_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "gone.jsa").symlink_to(tmp_path / "nowhere")  # listed, and not to be looked at
    archive = ClassArchive(tmp_path / "x.jsa")
    archive.keep(a_jvm)
    assert not archive.is_missing


def test_a_jvm_that_is_interrupted_as_it_writes_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hears of no signal before all is written."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    for owner, name in (
        *((SparkContext, name) for name in ("_active_spark_context", "_gateway", "_jvm")),
        (SparkSession, "_instantiatedSession"),
    ):
        monkeypatch.setattr(owner, name, None)
    monkeypatch.setattr(jvm, "_write_classes", interrupted)
    monkeypatch.setattr(jvm, "_END_TIMEOUT_S", 0.1)
    deaf = ["sh", "-c", "trap '' TERM; echo; read ends"]
    with subprocess.Popen(deaf, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        SparkContext._gateway = SimpleNamespace(proc=process)
        with pytest.raises(KeyboardInterrupt):
            jvm.keep(ClassArchive(tmp_path / "x.jsa"))
        assert process.returncode == -signal.SIGKILL
    assert not list(tmp_path.iterdir())
