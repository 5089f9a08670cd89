"""Whether a controller was away: by its listener, or by what it fetches. With real sockets."""

import errno
import socket
from collections.abc import Iterator

import pytest

from kipctl.errors import RefusedError, UnreachableError
from kipctl.guard.exporters import Exporters
from kipctl.protocol.address import Address
from kipctl.roll.node_watch import SILENT_S, ControllerWatch
from kipctl.roll.process_identity import ProcessMark
from kipctl.roll.quorum import Quorum, Voter
from kipctl.transport.request import Cluster

HERE = "127.0.0.1"


class Told:
    """What the active controller tells of 102, one answer after the other."""

    def __init__(self) -> None:
        self.silent_ms: int | None = 0
        self.active = 101
        self.refuses = False

    def __call__(self, cluster: Cluster) -> Quorum:
        if self.refuses:
            raise RefusedError("No leader.")
        return Quorum(self.active, 4, (Voter(101, silent_ms=0), Voter(102, "", 0, self.silent_ms)))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()
    monkeypatch.setattr("kipctl.roll.node_watch.ask_quorum", told)
    return told


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server((HERE, 0)) as server:
        yield server


def watcher(place: Address | None) -> ControllerWatch:
    return ControllerWatch(Cluster(f"{HERE}:9"), Exporters(), place)


def test_a_listener_that_refuses_connections_was_away(told: Told, listener: socket.socket) -> None:
    place = Address(HERE, listener.getsockname()[1])
    watched = watcher(place)
    assert (watched.is_up(102), watched.was_away) == (True, False)
    watched.forget()
    assert (watched.is_up(102), watched.was_away) == (True, False)
    listener.close()
    assert (watched.is_up(102), watched.was_away) == (False, True)
    with socket.create_server((HERE, place.port)):
        assert (watched.is_up(102), watched.was_away) == (True, True)


@pytest.mark.parametrize("lost", [TimeoutError(), OSError(errno.ENETUNREACH, "Unreachable")])
def test_one_that_hangs_or_cannot_be_reached_from_here_was_not_away(
    lost: OSError, told: Told, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watcher(Address(HERE, listener.getsockname()[1]))
    assert watched.is_up(102)

    def hangs(*arguments: object) -> socket.socket:
        raise lost

    monkeypatch.setattr(socket, "create_connection", hangs)
    assert (watched.is_up(102), watched.was_away) == (False, False)


@pytest.mark.parametrize("is_told", [True, False])
def test_where_nobody_here_can_connect_it_counts_what_it_fetches(
    told: Told, listener: socket.socket, is_told: bool
) -> None:
    place = Address(HERE, listener.getsockname()[1])
    listener.close()
    watched = watcher(place if is_told else None)
    assert (watched.is_up(102), watched.was_away) == (True, False)
    told.silent_ms = int(SILENT_S * 1000)
    assert (watched.is_up(102), watched.was_away) == (True, False)
    told.silent_ms += 1
    assert (watched.is_up(102), watched.was_away) == (False, True)
    told.silent_ms = 10
    assert (watched.is_up(102), watched.was_away) == (True, True)


def test_a_new_active_controller_that_has_not_heard_of_it_yet_is_no_proof(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("kipctl.roll.node_watch.time.monotonic", lambda: now)
    watched = watcher(None)
    told.silent_ms = None
    assert (watched.is_up(102), watched.was_away) == (False, False)
    now += SILENT_S
    assert (watched.is_up(102), watched.was_away) == (False, False)
    now += 0.1
    assert (watched.is_up(102), watched.was_away) == (False, True)


def test_its_mark_is_the_epoch_that_it_leads_in(told: Told) -> None:
    watched = watcher(None)
    assert watched.mark(101) == ProcessMark(led_epoch=4)
    assert watched.mark(102) == ProcessMark()
    told.refuses = True
    with pytest.raises(UnreachableError):
        watched.mark(101)
    assert (watched.is_up(102), watched.was_away) == (False, False)
