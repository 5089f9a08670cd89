"""What is said of a consumer's rack: only what is so, by table and by the cluster's answers."""

from types import MappingProxyType

import pytest

from kipctl.cluster.snapshot import Broker, Snapshot
from kipctl.load.consume import rack_warning, warn_of_rack
from kipctl.protocol.api import ApiKey
from kipctl.protocol.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kipctl.protocol.metadata import MetadataResponseBroker

RACKS = {1: "a", 2: "b", 3: "c", 4: "c"}


@pytest.mark.parametrize(
    ("rack", "racks", "alive", "warning"),
    [
        ("c", RACKS, (1, 2, 4), ""),
        (
            "c",
            RACKS,
            (1, 2),
            "Warning: rack 'c' has no broker that is alive (brokers 3, 4), so leaders are read"
            " until one is back.",
        ),
        (
            "d",
            RACKS,
            (1, 2),
            "Warning: no broker is in rack 'd', so leaders are read. Racks of this cluster:"
            " a, b, c.",
        ),
        (
            "d",
            {1: None, 2: None},
            (1, 2),
            "Warning: no broker is in rack 'd', so leaders are read. None has a rack.",
        ),
    ],
)
def test_what_is_said_of_a_rack(
    rack: str, racks: dict[int, str | None], alive: tuple[int, ...], warning: str
) -> None:
    assert rack_warning(rack, racks, alive) == warning


class RackThreeIsFenced:
    """A cluster whose Metadata lists broker 1, and DescribeCluster the fenced broker 3 too."""

    api_versions = MappingProxyType({ApiKey.DESCRIBE_CLUSTER: (0, 2)})
    nodes = MappingProxyType({1: MetadataResponseBroker(1, "h", 9092, "rack-1")})

    def any_broker(self) -> "RackThreeIsFenced":
        return self

    def request(
        self, request: DescribeClusterRequest, version: int | None = None
    ) -> DescribeClusterResponse:
        alive = DescribeClusterBroker(1, "h", 9092, "rack-1")
        fenced = DescribeClusterBroker(3, "", -1, "rack-3", is_fenced=True)
        return DescribeClusterResponse(
            brokers=(alive, fenced) if request.include_fenced_brokers else (alive,)
        )


def test_a_rack_whose_broker_is_fenced_is_known() -> None:
    before = Snapshot("cluster", (Broker(1, "h", 9092, "rack-1"),), ())
    said: list[str] = []
    for rack in ("", "rack-1", "rack-3"):
        warn_of_rack(rack, RackThreeIsFenced(), before, said.append)
    assert said == [
        "Warning: rack 'rack-3' has no broker that is alive (broker 3), so leaders are read until"
        " one is back."
    ]
