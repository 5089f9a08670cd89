"""What cannot be a host's name, given or announced by a broker, is a declared error."""

import time
from contextlib import closing

import pytest

from kipctl.errors import UsageError
from kipctl.protocol.address import Address
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access, parse_address, parse_bootstrap_servers
from kipctl.transport.blocking_connection import BlockingConnection
from kipctl.transport.loop_connection import ConnectionLostError
from kipctl.transport.sockets import SystemSockets

PATIENT_S = 60.0
NO_HOSTS = ["a..b", ".a", "\udcff", "a" * 64, "a\0b", ""]


@pytest.mark.parametrize("host", NO_HOSTS)
def test_an_address_of_it_is_wrong_usage(host: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        parse_address(f"{host}:1")
    with pytest.raises(UsageError, match="is no address"):
        parse_bootstrap_servers(f"a:1,{host}:1")


@pytest.mark.parametrize("host", ["a", "a.", "a_b.example", "größe.example", "fe80::1%lo"])
def test_what_can_be_one_is_taken(host: str) -> None:
    assert parse_address(str(Address(host, 1))) == Address(host, 1)


@pytest.mark.parametrize("host", NO_HOSTS)
def test_a_broker_that_announces_it_is_not_connected_to(host: str) -> None:
    with pytest.raises(OSError, match="that is no name of a host"):
        BlockingConnection(Address(host, 1), Access("a:1"), time.monotonic() + PATIENT_S)


@pytest.mark.timeout(PATIENT_S)
@pytest.mark.parametrize("host", NO_HOSTS)
def test_an_event_loop_hears_of_it_too(host: str) -> None:
    with closing(SystemSockets(now_us, Access(""))) as sockets:

        def connect() -> None:
            while sockets.connect(host, 1, 1) is None:
                sockets.poll(1)

        with pytest.raises(ConnectionLostError, match="that is no name of a host"):
            connect()
