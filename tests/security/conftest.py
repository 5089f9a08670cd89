"""kipctl as an admin of the secured lab, watched for passwords that it tells."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kerberos_here import MISSING
from on_secured import Program, Way, files_with, passwords, processes_watched, topic_of

from kipctl.lab.cluster import Lab

collect_ignore = ["test_kerberos_kafka.py"] if MISSING else []


@pytest.fixture
def admin(secured_lab: Lab) -> Way:
    return Way(secured_lab, secured_lab.client_files["admin-scram-sha-512"])


@pytest.fixture
def topic(secured_lab: Lab) -> Iterator[str]:
    with topic_of(secured_lab, "main-ways", 4) as name:
        yield name


@pytest.fixture
def kipctl(secured_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    """It tells no password: not while it runs, and not in anything that is left of it."""
    secrets = passwords(secured_lab)
    program = Program(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", program.environment["TMPDIR"])
    with processes_watched(secrets) as telling:
        yield program
    assert telling == set()
    assert files_with(secrets, tmp_path) == []
