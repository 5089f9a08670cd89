"""Kafka's consumer properties that kipctl's consumer cannot follow: refused by name, with why."""

import pytest

from kipctl.errors import UsageError
from kipctl.probe.consume.config import parse_properties
from kipctl.protocol.api import LARGEST_FETCH


@pytest.mark.parametrize("size", ["200000000", str(LARGEST_FETCH - (16 << 20))])
def test_an_answer_to_a_fetch_fits_a_frame(size: str) -> None:
    assert parse_properties({"fetch.max.bytes": size}).fetch_max_bytes == int(size)


@pytest.mark.parametrize("size", [str(LARGEST_FETCH - (16 << 20) + 1), "2147483647", "2147483648"])
def test_one_that_does_not_fit_a_frame_is_not_asked_for(size: str) -> None:
    with pytest.raises(UsageError, match=rf"fetch\.max\.bytes='{size}' .* at most"):
        parse_properties({"fetch.max.bytes": size})


def test_fetch_max_bytes_bounds_what_is_asked_for_of_one_partition() -> None:
    """`ReplicaManager.readFromLog` gives a partition what is left of it: any value does no harm."""
    config = parse_properties({"max.partition.fetch.bytes": "2147483647"})
    assert config.max_partition_fetch_bytes == 2**31 - 1


@pytest.mark.parametrize(
    ("name", "done", "not_done"),
    [
        ("client.dns.lookup", "use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        ("metadata.recovery.strategy", "REBOOTSTRAP", "none"),
    ],
)
def test_what_there_is_no_choice_of_is_accepted_if_it_is_done(
    name: str, done: str, not_done: str
) -> None:
    assert parse_properties({name: done}) == parse_properties({})
    with pytest.raises(UsageError, match=f"{name}={not_done} says .* does not do"):
        parse_properties({name: not_done})
