"""Brokers at an IPv6 address, on every way there; where a machine has none, at an IPv4 address.

How such addresses are written and read is in tables that need no network: `test_cluster` (servers),
`test_clusters` (maps), `test_tap_spec` (listeners).
"""

from collections.abc import Callable

import pytest
from scripted_broker import Asked, ScriptedBroker, a_loopback

from kipctl.cluster.connection_steps import connection_steps
from kipctl.protocol.address import Address, host_port
from kipctl.protocol.api_versions import ApiVersionsRequest
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataResponse, MetadataResponseBroker
from kipctl.tap.process import running_tap
from kipctl.tap.spec import TapSpec
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access, parse_address, parse_bootstrap_servers, parse_map
from kipctl.transport.loop_connection import LoopConnection
from kipctl.transport.request import Cluster
from kipctl.transport.sockets import WRITE, SystemSockets

HOST = a_loopback()


def one_broker(port: Callable[[], int]) -> Callable[[Asked], Response | None]:
    """A cluster of one, which makes itself known at that address."""

    def answers(asked: Asked) -> Response | None:
        if isinstance(asked.request, ApiVersionsRequest):
            return None
        brokers = (MetadataResponseBroker(1, HOST, port()),)
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1)

    return answers


def test_every_address_that_is_written_is_read_again() -> None:
    for host in ("::1", "fd00::2", "2001:db8::9092", "127.0.0.1", "kafka.example"):
        written = host_port(host, 9092)
        assert parse_address(written) == Address(host, 9092)
        assert parse_bootstrap_servers(f"{written},{written}") == [Address(host, 9092)] * 2
        assert parse_map([f"{written}={written}"]) == {written: Address(host, 9092)}


def test_a_cluster_is_asked_where_its_metadata_says() -> None:
    with ScriptedBroker(one_broker(lambda: broker.port), host=HOST) as broker:
        with Cluster(broker.address) as cluster:
            assert cluster.metadata(()).cluster_id == "c"
            assert cluster.broker(1).address == Address(HOST, broker.port)
            assert cluster.broker(1).api_versions
        assert {step.name: step.is_good for step in connection_steps(Access(broker.address))} == {
            "name": True,
            "TCP": True,
            "versions": True,
        }


def test_a_name_is_reached_at_an_address_by_its_map() -> None:
    with ScriptedBroker(one_broker(lambda: broker.port), host=HOST) as broker:
        address_map = parse_map([f"kafka1:9092={broker.address}"])
        with Cluster(Access("kafka1:9092", address_map=address_map)) as cluster:
            (node,) = cluster.nodes.values()
            assert (node.host, node.port) == (HOST, broker.port)


def test_a_loop_connects_there() -> None:
    sockets = SystemSockets(now_us, Access(""))
    with ScriptedBroker(host=HOST) as broker:
        connection = sockets.connect(HOST, broker.port, number=1)
        assert isinstance(connection, LoopConnection)  # a number is not looked up
        while not any(event & WRITE for _, event in sockets.poll(60)):
            pass
        connection.establish()
        assert connection.connected
        connection.close()
    sockets.close()


@pytest.mark.parametrize("advertise", ["", f"[{HOST}]" if ":" in HOST else HOST])
def test_a_tap_listens_there_and_tells_its_clients(advertise: str) -> None:
    with ScriptedBroker(one_broker(lambda: broker.port), host=HOST) as broker:
        spec = TapSpec(
            access=Access(broker.address), listen=host_port(HOST, 0), advertise=advertise
        )
        with running_tap(spec, None) as tap, Cluster(tap.bootstrap_server) as cluster:
            assert parse_address(tap.bootstrap_server).host == HOST
            assert spec.advertised_address(tap.bootstrap_server) == tap.bootstrap_server
            (node,) = cluster.nodes.values()
            assert tap.show().ports == {broker.address: node.port}
            assert node.host == HOST
            assert cluster.broker(1).api_versions
