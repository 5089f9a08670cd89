"""A client that calls itself otherwise with each request must not fill the tap's memory."""

from pathlib import Path

from kipctl.protocol.api import encode_request
from kipctl.protocol.metadata import MetadataRequest
from kipctl.tap.addresses import Addresses
from kipctl.tap.exchange import Exchange
from kipctl.tap.observer import Observer
from kipctl.tap.spec import TapSpec
from kipctl.transport.access import Access

MOST = 10_000


def test_beyond_ten_thousand_clients_the_rest_is_counted_as_one(tmp_path: Path) -> None:
    spec = TapSpec(access=Access("127.0.0.1:1"))
    observer = Observer(spec, tmp_path, Addresses(lambda address: 19092), 0)
    exchange = Exchange(observer, 1, ("h1", 9092), "127.0.0.1", 0)
    for number in range(MOST + 500):
        exchange.request(encode_request(MetadataRequest(), 12, number, f"client-{number}"), 1000)
    exchange.request(encode_request(MetadataRequest(), 12, 0, "client-0"), 1000)
    counted = {one.identity.client_id: one.counts.requests[3] for one in observer.clients.values()}
    assert len(counted) == len(observer.recorder.names["client"]) == MOST + 1
    assert counted["(other clients)"] == 500
    assert counted["client-0"] == 2  # whoever was known before stays so
    assert sum(counted.values()) == MOST + 501
    observer.close()
