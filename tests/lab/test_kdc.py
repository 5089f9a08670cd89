"""A lab's KDC is the process that the lab has started, whoever else listens at its port."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kipctl import process
from kipctl.errors import RefusedError
from kipctl.lab.kdc import Kdc
from kipctl.lab.properties import HOST
from kipctl.lab.security import KERBEROS_FOLDER

PATIENT_S = 60.0


@pytest.fixture
def kdc(tmp_path: Path) -> Iterator[Kdc]:
    """At a port where another program listens; without a database it ends at once."""
    with socket.create_server((HOST, 0)) as other:
        kdc = Kdc(tmp_path, other.getsockname()[1])
        yield kdc
        kdc.kill()


def test_a_port_where_another_program_listens_is_refused(kdc: Kdc) -> None:
    with pytest.raises(RefusedError, match=f"Another program listens at {HOST}:{kdc.port}"):
        kdc.start()
    assert not kdc.is_running


def test_one_that_has_ended_does_not_answer(
    kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other program came while it started."""

    def answers(kdc: Kdc) -> bool:
        begun = process.read_record(tmp_path / KERBEROS_FOLDER / "process")
        return begun is not None and process.wait_until(lambda: not kdc.is_running, PATIENT_S)

    monkeypatch.setattr(Kdc, "_answers", answers)
    with pytest.raises(RefusedError, match=f"The lab's KDC does not answer at {HOST}:{kdc.port}"):
        kdc.start()
