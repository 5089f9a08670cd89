"""SIGTERM and SIGHUP end every command as Ctrl-C does, also while a broker keeps it waiting."""

import signal
import socket
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        ("reassign --rotate --all-topics --yes", signal.SIGHUP),
        ("inspect brokers", signal.SIGTERM),
        ("request-log on --all-brokers --for 1h --yes", signal.SIGHUP),
        ("perf produce --num-records 9 --throughput 5 --record-size 9", signal.SIGTERM),
        ("experiment metadata --quick", signal.SIGHUP),
    ],
)
def test_a_signal_ends_it_while_it_waits(command: str, sent: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        address = f"127.0.0.1:{hangs.getsockname()[1]}"
        with subprocess.Popen(
            [sys.executable, "-m", "kipctl", *command.split(), "--bootstrap-server", address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as kipctl:
            connection, _ = hangs.accept()
            with connection:
                kipctl.send_signal(sent)
                out, err = kipctl.communicate()
    assert (kipctl.returncode, out) == (128 + sent, "")
    assert err.endswith("\nkipctl: interrupted.\n")
    assert "Traceback" not in err
