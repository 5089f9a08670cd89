"""Clients with a fault of their own through a tap that runs: it names the fault, while they are at
it."""

import socket
from collections.abc import Callable

import pytest
from raw_peers import ALL_METADATA, EXCHANGE, Asked, RawBroker, RawClient, tapped
from tap_messages import metadata

from kipctl.process import wait_until
from kipctl.protocol.api import ApiKey
from kipctl.protocol.metadata import MetadataResponse

TIMEOUT_S = 120
_TOLD = MetadataResponse(error_code=129)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def keeps_trying_a_broker_that_is_gone(client: RawClient) -> Callable[[], None]:
    """Metadata names broker 2, at a port where nobody listens."""
    shown = client.ask(ALL_METADATA, 12)
    (gone,) = (broker for broker in shown.brokers if broker.node_id == 2)

    def once_more() -> None:
        with RawClient(f"{gone.host}:{gone.port}") as lost:
            lost.send(*EXCHANGE[0])
            assert lost.is_closed()

    return once_more


def keeps_its_connection_when_told_to_begin_again(client: RawClient) -> Callable[[], None]:
    assert client.ask(ALL_METADATA, 13) == _TOLD
    return lambda: client.exchange() and None


@pytest.mark.parametrize(
    ("plays", "finding"),
    [
        (keeps_trying_a_broker_that_is_gone, "dead-leader-retried"),
        (keeps_its_connection_when_told_to_begin_again, "rebootstrap-ignored"),
    ],
)
def test_a_fault_is_named_while_the_client_is_at_it(plays, finding) -> None:
    def script(asked: Asked, _: socket.socket) -> bytes | None:
        if asked.api_key != ApiKey.METADATA:
            return None
        if asked.version == 13:
            return asked.answer(_TOLD)
        return asked.answer(metadata((2, 5), ports={1: broker.port, 2: gone}))

    broker, gone = RawBroker(script), closed_port()
    with broker, tapped(broker) as tap, RawClient(tap.bootstrap_server) as client:
        client.exchange()
        once_more = plays(client)

        def is_found() -> bool:
            once_more()
            return finding in {sign.finding for sign in tap.show().signs}

        assert wait_until(is_found, TIMEOUT_S)
