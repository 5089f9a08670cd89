"""Secrets of a command line, its URLs and its --exec: shown nowhere, and kept only to go on."""

import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Commands
from on_lab import Ran
from on_secured import files_with
from reassigning import Reassigning, reassigning

from kipctl.changes.journal.entry import Origin
from kipctl.cluster.snapshot import PartitionId
from kipctl.roll.record import unfinished_roll

PASSWORD, TOKEN = "Sup3rS3cret", "t0k3n.of.a.h34der"
SECRETS = {PASSWORD.encode(), TOKEN.encode()}
URL = f"http://prom:{PASSWORD}@127.0.0.1:9/metrics"
EXEC = shlex.quote(f"false -H 'Authorization: Bearer {TOKEN}' --password {PASSWORD}")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reassigning]:
    with reassigning({PartitionId("t", 0): (1, 2, 3)}) as (cluster, _):
        cluster.brokers = (1, 2, 3)
        monkeypatch.setenv("XDG_STATE_HOME", str(cluster.state))
        yield cluster


def told(cluster: Commands, line: str, typed: str | None = None) -> Ran:
    """A command, which tells no secret."""
    ran = cluster.kipctl(line, status=(0, *range(2, 9)), typed=typed)
    assert not [secret for secret in SECRETS if secret.decode() in ran.out + ran.err], ran
    return ran


def modes(folder: Path) -> set[str]:
    return {
        oct(stat.S_IMODE(path.lstat().st_mode)) + ("/" if path.is_dir() else "")
        for path in folder.rglob("*")
    }


def test_a_change_tells_no_secret_and_writes_none_down(cluster: Reassigning) -> None:
    options = f"--guard 'offline > 100' --metrics-url {URL} --yes"
    told(cluster, f"reassign --rotate --all-topics {options}")
    assert cluster.entries(), "nothing was written down"
    for looks in ("-o json", "-o wide", "-o csv"):
        told(cluster, f"changes list {looks}")
    assert files_with(SECRETS, cluster.state) == []
    assert modes(cluster.state / "kipctl") == {"0o600", "0o700/"}


def test_a_roll_keeps_its_command_only_as_long_as_it_may_go_on(cluster: Reassigning) -> None:
    begin = f"roll --exec {EXEC} --metrics-url {URL} --timeout 3 -o json"
    assert "(false -H 'Authorization: [hidden]' --password '[hidden]')" in told(cluster, begin).err
    told(cluster, f"{begin} --yes")
    record = unfinished_roll(cluster.kept)
    assert record is not None
    assert record.how.command[-1] == PASSWORD
    assert record.how.guard.urls == (URL,)
    assert files_with(SECRETS, cluster.state) == [record.path]
    with cluster.kept.locked(record.origin):
        assert "roll --exec 'false [hidden]'" in told(cluster, "roll --resume --yes").err
    for line in ("roll --resume --yes -o json", "", "changes list", "roll --abandon -o json"):
        told(cluster, line)
    assert unfinished_roll(cluster.kept) is None
    assert files_with(SECRETS, cluster.state) == []
    assert modes(cluster.state / "kipctl") == {"0o600", "0o700/"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"inspect brokers --metrics-url {URL}", "http://***@127.0.0.1:9/metrics cannot be"),
        (f"inspect brokers --metrics-url http://prom:{PASSWORD}/x@h", "'http://***@h' is no URL"),
        (f"inspect brokers --metrics-url {URL.replace('9', '0')}", ":0/metrics' is no URL"),
        (f"clusters show https://a:{PASSWORD}@h", "https://***@h"),
        (f"roll --exec {EXEC} --resume", "There is no roll"),
        (f"roll --exec 'TOKEN={TOKEN} false'", "TOKEN=[hidden] is no program"),
        (f"""roll --exec "false 'Bearer {TOKEN}" """, "No closing quotation"),
        (f"""roll --exec "false 'Bearer {TOKEN} {{'" """, "'Bearer [hidden] {'"),
    ],
)
def test_no_error_shows_a_secret(line: str, said: str, cluster: Reassigning) -> None:
    assert said in told(cluster, line).err


def test_what_was_written_down_before_is_not_shown_either() -> None:
    command = ["roll", "--exec", f"curl -u a:{PASSWORD} x", "--metrics-url", URL]
    origin = Origin.read({"command": command, "user": "u", "host": "h"})
    assert str(origin) == (
        "kipctl roll --exec 'curl [hidden]' --metrics-url 'http://***@127.0.0.1:9/metrics', by u@h"
    )
    assert origin == Origin.read({"command": origin.command, "user": "u", "host": "h"})
