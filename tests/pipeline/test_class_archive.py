"""Spark's classes as an archive: whose it is, how it is recorded, and what of others is kept.

That a JVM of Spark's records and maps it is in test_session.py.
"""

import os
from pathlib import Path

import pytest

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
    one = class_archive(a_java(tmp_path / "one"))
    again = class_archive(a_java(tmp_path / "one"))
    other = class_archive(a_java(tmp_path / "other"))
    assert one is not None
    assert other is not None
    assert one == again
    assert one.path.parent == other.path.parent == tmp_path / "cache" / "kipctl" / "spark"
    assert one != other
    os.utime(tmp_path / "one" / "bin" / "java", (1, 1))  # another version in the same place
    assert class_archive(a_java(tmp_path / "one")) != one


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
