"""What the options of `kipctl tap` mean."""

import pytest

from kipctl.errors import UsageError
from kipctl.tap.spec import (
    TapSpec,
    TlsFiles,
    api_name,
    is_loopback,
    parse_caps,
    parse_delays,
    parse_rate,
)
from kipctl.transport.access import Access, parse_address


def test_caps_and_delays_are_by_api():
    assert parse_caps("Produce=9,Fetch=15") == ((0, 9), (1, 15))
    assert parse_caps(" metadata = 12 ") == ((3, 12),)
    assert parse_delays("Metadata=300ms,FindCoordinator=1.5s") == ((3, 300_000), (10, 1_500_000))


@pytest.mark.parametrize(
    ("text", "per_s"), [("2/s", 2.0), ("30/min", 0.5), ("30/m", 0.5), ("36/h", 0.01)]
)
def test_rates(text, per_s):
    assert parse_rate(text) == pytest.approx(per_s)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        ("broker.example:0", ("broker.example", 0)),
    ],
)
def test_addresses(text, address):
    assert parse_address(text, least_port=0) == address


@pytest.mark.parametrize(
    "parse",
    [
        lambda: parse_caps("Produce"),
        lambda: parse_caps("Produce=x"),
        lambda: parse_caps("Produce=-1"),
        lambda: parse_caps("Produce=99999"),
        lambda: parse_caps("Produkt=9"),
        lambda: parse_caps(""),
        lambda: parse_delays("Metadata=300"),
        lambda: parse_delays("Metadata=1 day"),
        lambda: parse_delays("Metadata=-1s"),
        lambda: parse_rate("2"),
        lambda: parse_rate("0/s"),
        lambda: parse_address("9092"),
        lambda: parse_address(":9092"),
        lambda: parse_address("host:99999"),
        lambda: parse_address("host:port"),
        lambda: TlsFiles(certificate="/nowhere.pem").for_clients(),
    ],
)
def test_what_cannot_be_understood_is_wrong_usage(parse):
    with pytest.raises(UsageError) as refused:
        parse()
    assert len(str(refused.value).splitlines()) <= 3


@pytest.mark.parametrize(
    ("listen", "advertise", "told"),
    [
        ("127.0.0.1:0", "", None),
        ("0.0.0.0:0", "tap.example", ("tap.example", 0)),
        ("0.0.0.0:9192", "[::1]", ("::1", 0)),
        ("0.0.0.0:9192", "tap.example:19192", ("tap.example", 10_000)),
        ("0.0.0.0:9192", "[fd00::1]:9092", ("fd00::1", -100)),
    ],
)
def test_what_clients_are_told(listen, advertise, told):
    assert TapSpec(access=Access("b:1"), listen=listen, advertise=advertise).advertised == told


@pytest.mark.parametrize(
    ("listen", "advertise", "listens", "told"),
    [
        ("127.0.0.1:0", "", "127.0.0.1:4711", "127.0.0.1:4711"),
        ("127.0.0.1:0", "kafka.example", "127.0.0.1:4711", "kafka.example:4711"),
        ("127.0.0.1:9192", "kafka.example:29192", "127.0.0.1:9192", "kafka.example:29192"),
        ("[::1]:9192", "", "[::1]:9192", "[::1]:9192"),
        ("127.0.0.1:9192", "[fd00::2]:29192", "127.0.0.1:9192", "[fd00::2]:29192"),
        ("127.0.0.1:9192", "[fd00::2]", "127.0.0.1:9192", "[fd00::2]:9192"),
        # Each client is told the address that it came to.
        ("127.0.0.1:9192", "0.0.0.0", "127.0.0.1:9192", "127.0.0.1:9192"),
    ],
)
def test_the_address_that_clients_are_to_be_given(listen, advertise, listens, told):
    spec = TapSpec(access=Access("b:1"), listen=listen, advertise=advertise)
    assert spec.advertised_address(listens) == told


@pytest.mark.parametrize(("listen", "advertise"), [("h:0", "a:1"), ("h:1", "a:x"), ("h:1", "a:")])
def test_ports_that_cannot_be_told_are_wrong_usage(listen, advertise):
    with pytest.raises(UsageError):
        _ = TapSpec(access=Access("b:1"), listen=listen, advertise=advertise).advertised


@pytest.mark.parametrize(
    ("host", "inside"),
    [
        ("127.0.0.1", True),
        ("127.3.2.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("broker.example", False),
    ],
)
def test_what_only_this_machine_reaches(host, inside):
    assert is_loopback(host) is inside


def test_names_of_apis():
    assert api_name(0) == "Produce"
    assert api_name(55) == "DescribeQuorum"
    assert api_name(999) == "API 999"


def test_a_tap_is_plain_and_on_loopback_unless_told_otherwise():
    spec = TapSpec(access=Access("b:9092"))
    assert spec.listen_address == ("127.0.0.1", 0)
    assert spec.tls.for_clients() is None
