"""What tests without a cluster cannot reach: other machines, and the user's own files."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from loopback_only import AnotherMachineError

from kipctl.lab.ivy import cache_folder

ELSEWHERE = ("192.0.2.1", 9)
"""An address that belongs to nobody (RFC 5737)."""


def test_another_machine_is_refused_before_it_is_asked() -> None:
    with socket.socket() as refused, pytest.raises(AnotherMachineError):
        refused.connect(ELSEWHERE)
    with pytest.raises(AnotherMachineError):
        socket.getaddrinfo("example.org", 80)


def test_loopback_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1])).close()


def test_processes_ask_a_proxy_that_is_not_there() -> None:
    asking = "import urllib.request as r; r.urlopen('http://192.0.2.1/', timeout=60)"
    ran = subprocess.run([sys.executable, "-c", asking], capture_output=True, text=True)
    assert "Connection refused" in ran.stderr


def test_the_cache_is_empty_and_the_tests_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert Path(os.environ["HOME"]).is_relative_to(tmp_path_factory.getbasetemp())
    assert cache_folder().is_relative_to(Path.home())
    assert not cache_folder().exists()
