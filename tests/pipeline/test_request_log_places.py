"""Which cluster and which broker a file and an address are, by table."""

from dataclasses import replace

import pytest

from kipctl.errors import UsageError
from kipctl.pipeline.request_log.files import Timezones, parse_timezones
from kipctl.pipeline.request_log.places import (
    Node,
    Place,
    Seen,
    nodes_of,
    parse_broker_at,
    places_of,
    unknown,
)

ONE = Node(1, "b1.example", 9092, "rack-1")
TWO = Node(2, "b2.example", 9092, "rack-2")
THREE = Node(3, "b3.example", 9093, None)
FLEET = {"c": frozenset({ONE, TWO, THREE})}


def brokers(places: list[Place]) -> dict[str, int | None]:
    return {place.address: place.broker for place in places}


def test_a_broker_by_the_address_or_the_port_that_metadata_names() -> None:
    seen = [
        Seen("a", "b2.example:9092", 1, FLEET),
        Seen("b", "10.0.0.1:9092", 1),  # Metadata has a host's name, and the port is two brokers'
        Seen("c", "10.0.0.3:9093", 1),  # likewise, but one broker alone has the port
    ]
    places = places_of(seen)
    expected = {"b2.example:9092": 2, "10.0.0.1:9092": None, "10.0.0.3:9093": 3}
    assert brokers(places) == expected
    assert [place.rack for place in places] == ["rack-2", None, None]
    assert {place.cluster for place in places} == {"c"}
    assert unknown(seen, places) == [seen[1]]
    assert nodes_of(seen) == FLEET


def test_a_broker_by_where_its_follower_came_from() -> None:
    """Where all use one port, and names are no addresses."""
    seen = [
        Seen("a", "10.0.0.1:9092", 1, FLEET, frozenset({(2, "10.0.0.2"), (3, "10.0.0.3")})),
        Seen("b", "10.0.0.2:9092", 1, FLEET, frozenset({(1, "10.0.0.1"), (3, "10.0.0.3")})),
    ]
    assert brokers(places_of(seen)) == {"10.0.0.1:9092": 1, "10.0.0.2:9092": 2}
    # All on one host: it tells nothing.
    here = [
        replace(entry, followers=frozenset({(1, "10.0.0.1"), (2, "10.0.0.1"), (3, "10.0.0.1")}))
        for entry in seen
    ]
    assert brokers(places_of(here)) == {"10.0.0.1:9092": None, "10.0.0.2:9092": None}


@pytest.mark.parametrize(
    ("votes", "broker"),
    [({2: 3}, 2), ({1: 4, 2: 5}, 2), ({1: 5, 2: 5}, None), ({1: 3, 2: 4, 3: 3}, None), ({}, None)],
)
def test_a_broker_by_most_of_the_partitions_that_it_accepted(
    votes: dict[int, int], broker: int | None
) -> None:
    seen = [Seen("a", "10.0.0.1:9092", 1, FLEET)]
    places = places_of(seen, votes={("c", "10.0.0.1:9092"): votes})
    assert brokers(places) == {"10.0.0.1:9092": broker}


def test_a_broker_that_is_named() -> None:
    seen = [Seen("a", "10.0.0.1:9092", 1, FLEET), Seen("b", "b2.example:9092", 1)]
    named = parse_broker_at(["10.0.0.1=1", "b2.example:9092=3"])
    assert brokers(places_of(seen, named)) == {"10.0.0.1:9092": 1, "b2.example:9092": 3}
    for wrong in ("10.0.0.1", "10.0.0.1=", "=1", "10.0.0.1=one", "10.0.0.1=99999999999"):
        with pytest.raises(UsageError, match="names no broker"):
            parse_broker_at([wrong])


def test_a_log_belongs_to_one_broker() -> None:
    seen = [
        Seen("a", "b2.example:9092", 1, FLEET),
        Seen("a", "10.0.0.2:9094", 1),  # another listener, where clients were served
        Seen("a", "10.0.0.2:9095", 0),  # a controller, in the same process
        Seen("of all", "b1.example:9092", 1),
        Seen("of all", "b2.example:9092", 1),
        Seen("of all", "10.0.0.1:9094", 1),
    ]
    assert [place.broker for place in places_of(seen)] == [2, 2, None, 1, 2, None]


def test_clusters_are_told_apart_by_file_and_by_address() -> None:
    other = {"d": frozenset({Node(1, "b1.example", 9092)})}
    seen = [
        Seen("a", "b1.example:9092", 1, FLEET),
        Seen("b", "b1.example:9092", 1, other),  # another network has the same names
        Seen("b", "b1.example:9094", 1),
        Seen("c", "b1.example:9092", 1),  # of which of the two, nothing tells
        Seen("d", "b1.example:9094", 1, other),
        Seen("e", "b1.example:9094", 1),
    ]
    assert [place.cluster for place in places_of(seen)] == ["c", "d", "d", None, "d", "d"]
    assert places_of(seen)[3].broker is None
    assert [place.cluster for place in places_of(seen[:1] + seen[3:4])] == ["c", "c"]


def test_zones_by_path() -> None:
    assert parse_timezones([]) == Timezones()
    zones = parse_timezones(["Europe/Berlin", "logs/eu=a=Asia/Tokyo", "b=UTC"])
    assert zones == Timezones("Europe/Berlin", (("logs/eu=a", "Asia/Tokyo"), ("b", "UTC")))
    for wrong in ("Europe/Nowhere", "logs=", "", "/etc/passwd", "../UTC"):
        with pytest.raises(UsageError, match="no such zone"):
            parse_timezones([wrong])
