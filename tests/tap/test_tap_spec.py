"""What the options of `kipctl tap` mean."""

from functools import partial

import pytest

from kipctl.errors import UsageError
from kipctl.protocol.address import is_loopback
from kipctl.tap.spec import TapSpec, TlsFiles, api_name, parse_caps, parse_delays, parse_rate
from kipctl.transport.access import Access, parse_address

_parse_listen = partial(parse_address, least_port=0)


@pytest.mark.parametrize(
    ("parse", "text", "parsed"),
    [
        (parse_caps, "Produce=9,Fetch=15", ((0, 9), (1, 15))),
        (parse_caps, " metadata = 12 ", ((3, 12),)),
        # Clients are told no ids of topics then, which newer versions ask by.
        (parse_caps, "Metadata=9", ((3, 9), (0, 12), (1, 12))),
        (parse_caps, "Produce=9,Fetch=99,Metadata=8", ((0, 9), (1, 12), (3, 8))),
        (parse_delays, "Metadata=300ms,FindCoordinator=1.5s", ((3, 300_000), (10, 1_500_000))),
        (parse_rate, "2/s", 2.0),
        (parse_rate, "30/min", 0.5),
        (parse_rate, "30/m", 0.5),
        (parse_rate, "36/h", pytest.approx(0.01)),
        (_parse_listen, "127.0.0.1:9092", ("127.0.0.1", 9092)),
        (_parse_listen, "[::1]:9092", ("::1", 9092)),
        (_parse_listen, "broker.example:0", ("broker.example", 0)),
    ],
)
def test_what_options_mean(parse, text, parsed):
    assert parse(text) == parsed


@pytest.mark.parametrize(
    ("parse", "texts"),
    [
        (parse_caps, ["Produce", "Produce=x", "Produce=-1", "Produce=99999", "Produkt=9", ""]),
        (parse_delays, ["Metadata=300", "Metadata=1 day", "Metadata=-1s"]),
        (parse_rate, ["2", "0/s"]),
        (parse_address, ["9092", ":9092", "host:99999", "host:port"]),
        (lambda file: TlsFiles(certificate=file).for_clients(), ["/nowhere.pem"]),
    ],
)
def test_what_cannot_be_understood_is_wrong_usage(parse, texts):
    for text in texts:
        with pytest.raises(UsageError) as refused:
            parse(text)
        assert len(str(refused.value).splitlines()) <= 3


def spec(listen, advertise):
    return TapSpec(access=Access("b:1"), listen=listen, advertise=advertise)


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
    assert spec(listen, advertise).advertised == told


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
    assert spec(listen, advertise).advertised_address(listens) == told


@pytest.mark.parametrize(("listen", "advertise"), [("h:0", "a:1"), ("h:1", "a:x"), ("h:1", "a:")])
def test_ports_that_cannot_be_told_are_wrong_usage(listen, advertise):
    with pytest.raises(UsageError):
        _ = spec(listen, advertise).advertised


def test_what_only_this_machine_reaches():
    inside = ["127.0.0.1", "127.3.2.1", "::1", "localhost", "LOCALHOST."]
    inside += ["127.1", "2130706433", "::ffff:127.0.0.1"]
    outside = ["0.0.0.0", "10.0.0.1", "::ffff:10.0.0.1", "128.1", "", "\udcff", "a..b", "\0"]
    outside += ["127.0.0.1 broker.invalid", "localhost.invalid", "127.1.invalid"]
    assert [host for host in (*inside, *outside) if is_loopback(host)] == inside


def test_names_of_apis():
    assert api_name(0) == "Produce"
    assert api_name(55) == "DescribeQuorum"
    assert api_name(999) == "API 999"


def test_a_tap_is_plain_and_on_loopback_unless_told_otherwise():
    plain = TapSpec(access=Access("b:9092"))
    assert plain.listen_address == ("127.0.0.1", 0)
    assert plain.tls.for_clients() is None
