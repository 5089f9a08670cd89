"""What this machine refuses is told before Spark is started, by the path."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kipctl.errors import UsageError
from kipctl.pipeline.inputs import is_little
from kipctl.pipeline.place import Place
from kipctl.pipeline.preflight import check_followed, check_logs, check_runs, check_save
from kipctl.trace.stored_runs import path_of

TOO_LONG = "x" * 300
"""Refused for everybody; what is closed to others is not closed to root."""


@pytest.mark.parametrize("check", [check_runs, check_logs, lambda paths: check_save(paths[0])])
def test_a_path_that_is_refused(check: Callable[[Any], None], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{TOO_LONG} cannot be looked at: File name too long"):
        check([str(tmp_path / TOO_LONG)])


def test_a_name_that_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="File name too long"):
        path_of(TOO_LONG, {"KIPCTL_RUNS": str(tmp_path)})


def test_a_log_that_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "a.log"
    log.touch()
    check_logs([str(log)])
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UsageError, match=r"a\.log cannot be read: permission denied"):
        check_logs([str(log)])


@pytest.mark.parametrize(
    ("name", "why"), [("_b2.log", "rename it"), (".b.log", "rename it"), ("b.log.xz", "unpack it")]
)
def test_a_log_of_a_name_that_spark_does_not_read(name: str, why: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(UsageError, match=f"{name} cannot be read: .*{why}"):
        check_logs([str(tmp_path / name)])
    check_logs([str(tmp_path)])  # what else it holds


def test_what_cannot_be_looked_at_is_not_little(tmp_path: Path) -> None:
    (tmp_path / "a.log").touch()
    assert is_little([str(tmp_path)])
    assert not is_little([str(tmp_path), str(tmp_path / TOO_LONG)])


@pytest.mark.parametrize(
    ("path", "master", "why"),
    [
        ("logs", "spark://127.0.0.1:7077", "executors elsewhere"),
        ("s3a://bucket/logs", "local[*]", "names none"),
        ("s3a://bucket/*", "local[*]", "names none"),
        ("{a,b}.log", "local[*]", "names none"),
        ("packed", "local[2]", "is a pack"),
    ],
)
def test_what_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, master: str, why: str
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "_pack.1.json").touch()
    named = path if "://" in path else str(tmp_path / path)
    with pytest.raises(UsageError, match=why):
        check_followed([str(tmp_path / "logs"), named], Place(master))
    logs = str(tmp_path / "logs")
    with pytest.raises(UsageError, match="--scratch"):
        check_followed([logs], Place(scratch="file:/shared"))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(UsageError, match="names none"):
        check_followed(["not-here.log"], Place())
    check_followed([logs, f"file://{logs}", str(tmp_path / "*.log"), f"file:{tmp_path}/*"], Place())
