"""Where brokers are reached that are behind tunnels, and what a map of them is to be."""

import pytest

from kipctl.errors import UsageError
from kipctl.protocol.address import Address
from kipctl.transport.access import Access, parse_address, parse_map
from kipctl.transport.address_map import suggested_map


def addresses(*texts: str) -> list[Address]:
    return [parse_address(text) for text in texts]


@pytest.mark.parametrize(
    ("maps", "broker", "place"),
    [
        (["kafka1:9092=127.0.0.1:1"], "kafka1:9092", "127.0.0.1:1"),
        (["kafka1:9092=127.0.0.1:1"], "kafka2:9092", "kafka2:9092"),
        (["*.demo.svc:9193=127.0.0.1:1"], "kafka-0.demo.svc:9193", "127.0.0.1:1"),
        (["*.demo.svc:9193=127.0.0.1:1"], "kafka-0.demo.svc:9194", "kafka-0.demo.svc:9194"),
        (["*.demo.svc:*=127.0.0.1:*"], "kafka-0.demo.svc:9194", "127.0.0.1:9194"),
        (["*.demo.svc:91*=[::1]:*"], "kafka-0.demo.svc:9194", "[::1]:9194"),
        (["*.demo.svc:91*=[::1]:*"], "kafka-0.demo.svc:9094", "kafka-0.demo.svc:9094"),
        (["*:*=127.0.0.1:*"], "[2001:db8::1]:9194", "127.0.0.1:9194"),
        # A dot is a dot, and what is named beats what fits.
        (["*.demo.svc:1=h:1"], "xdemo.svc:1", "xdemo.svc:1"),
        (["*:*=h:1", "b:2=h:2"], "b:2", "h:2"),
        (["a*:1=h:1", "*:1=h:2"], "ab:1", "h:1"),
    ],
)
def test_a_broker_is_reached_where_its_entry_or_the_first_that_fits_says(
    maps: list[str], broker: str, place: str
) -> None:
    access = Access("boot:1", address_map=parse_map(maps))
    assert str(access.mapped(parse_address(broker))) == place


@pytest.mark.parametrize("pair", ["*=h:1", "a:**x=h:1", "a:1=*", "a:1=*:1x", "a:*9=h:", "*:1"])
def test_what_is_no_pattern_is_refused(pair: str) -> None:
    with pytest.raises(UsageError):
        parse_map([pair])


@pytest.mark.parametrize(
    ("maps", "useless"),
    [
        ([], ()),
        (["k1.svc:1=h:1", "k2.svc:1=h:2"], ()),
        (["k1.svc:1=h:1", "k3.svc:1=h:2"], ()),  # a broker that is down
        (["k8.svc:1=h:1", "k9.svc:1=h:2"], ("k8.svc:1", "k9.svc:1")),
        (["k1.svc:1=h:1", "*.cluster.local:1=h:2"], ("*.cluster.local:1",)),
        (["boot:1=h:1", "*.svc:*=h:2"], ()),
    ],
)
def test_what_fits_no_broker_that_the_cluster_lists_is_known(
    maps: list[str], useless: tuple[str, ...]
) -> None:
    access = Access("boot:1", address_map=parse_map(maps))
    assert access.useless_maps == ()
    access.brokers.update(enumerate(addresses("k1.svc:1", "k2.svc:1")))
    assert access.useless_maps == useless


@pytest.mark.parametrize(
    ("brokers", "suggested"),
    [
        (("k0.demo.svc:9193", "k1.demo.svc:9194"), ("*.demo.svc:*=127.0.0.1:*",)),
        (("gate:9193", "gate:9194"), ("gate:*=127.0.0.1:*",)),
        (("a:1", "b:2"), ("*:*=127.0.0.1:*",)),
        (("a:1",), ("a:*=127.0.0.1:*",)),
        (
            ("k0.svc:9092", "k1.svc:9092"),
            ("k0.svc:9092=127.0.0.1:PORT", "k1.svc:9092=127.0.0.1:PORT"),
        ),
    ],
)
def test_a_map_is_suggested_that_can_be_typed_where_ports_tell_brokers_apart(
    brokers: tuple[str, ...], suggested: tuple[str, ...]
) -> None:
    at = addresses(*brokers)
    assert suggested_map(at, Address("127.0.0.1", 9192)) == suggested
    if "PORT" not in suggested[0]:
        access = Access("127.0.0.1:9192", address_map=parse_map(list(suggested)))
        assert [*map(access.mapped, at)] == [Address("127.0.0.1", b.port) for b in at]
